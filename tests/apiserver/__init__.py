"""A stand-in Kubernetes API server for tests. README.md beside this file says how to use it."""

from .harness import ApiProcess, ApiServer

__all__ = ["ApiProcess", "ApiServer"]
