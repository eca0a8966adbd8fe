"""Runs kubedns with a faster monotonic clock, so that a test sees minutes of its time within seconds. See hurry.c."""

import os
import re
import subprocess
import tempfile
import threading

from kubedns_process import PROGRAM

_library = None
# A second thread must wait until the library is complete. If it is missing, the loader starts the program with the normal clock.
_building = threading.Lock()


def library():
    global _library
    with _building:
        if _library is None:
            path = os.path.join(tempfile.mkdtemp(prefix="hurry-"), "hurry.so")
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hurry.c")
            subprocess.run([os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wno-unused-result", "-shared", "-fPIC", "-o", path, source], check=True)
            _library = path
        return _library


def hurry(factor):
    """The environment of a process whose clock runs `factor` times as fast."""
    # A sanitizer's library must come first. The loader loads this library after it.
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    sanitizers = re.findall(r"=> (\S*lib[at]san\S*)", needed)
    return {"LD_PRELOAD": ":".join([*sanitizers, library()]), "HURRY": str(factor)}
