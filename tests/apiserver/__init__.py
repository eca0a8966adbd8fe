"""A stand-in Kubernetes API server for tests. The README.md of this directory describes its use."""

from .harness import ApiProcess, ApiServer

__all__ = ["ApiProcess", "ApiServer"]
