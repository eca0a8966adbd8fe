"""Functions for every module here: run commands, and name the containers and networks of this run."""

import json
import os
import subprocess

PREFIX = f"dnst{os.getpid()}"
LABEL = "kube-dns-tests"  # the label's value is the process ID of the run that created the container or network


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


def in_netns(pid, *args, **kwargs):
    """Runs a command of the host in the network namespace of process `pid`."""
    return run("nsenter", "-t", pid, "-n", *args, **kwargs)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def remove_leftovers(everything_of=None):
    """Removes the containers and networks of runs that have ended, and all containers and networks of the run `everything_of`."""
    for kind, listing in (("container", ("ps", "-a")), ("network", ("network", "ls"))):
        rows = docker(*listing, "--filter", f"label={LABEL}", "--format", "{{.ID}} {{.Label \"" + LABEL + "\"}}")
        ids = [i for i, _, pid in (r.partition(" ") for r in rows.splitlines())
               if pid == str(everything_of) or not alive(pid)]
        if ids:
            docker(*(("rm", "-f", "-v") if kind == "container" else ("network", "rm")), *ids, check=False)
