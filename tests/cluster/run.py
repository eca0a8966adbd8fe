"""Functions for every module here: run commands and read their output."""

import json
import os
import subprocess


class Failed(Exception):
    """A failed command, with its output."""


def run(*args, input=None, check=True, timeout=120, env=None):
    """Runs a command. Returns its output as text or raises Failed."""
    p = subprocess.run([str(a) for a in args], input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=timeout, env={**os.environ, **env} if env else None)
    if check and p.returncode != 0:
        raise Failed(f"{' '.join(map(str, args))}: exit {p.returncode}\n{p.stdout[-2000:]}{p.stderr[-4000:]}")
    return p.stdout


def docker(*args, **kwargs):
    return run("docker", *args, **kwargs)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
