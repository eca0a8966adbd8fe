"""This machine: its description, the CPUs for the benches, and the CPU time of a process so far."""

import contextlib
import os
import platform
import re
import subprocess


def stolen():
    """Returns (all, stolen): the ticks of the CPUs so far, and the ticks that the host took."""
    with open("/proc/stat", encoding="utf-8") as f:
        ticks = [int(n) for n in f.readline().split()[1:9]]
    return sum(ticks), ticks[7]


BEGUN = stolen()


def cpus():
    """Returns (the server's CPU, the load's CPU, ...). These differ if the machine has at least two CPUs. Otherwise the results say that they do not."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed if len(allowed) > 1 else allowed * 2


def pinned(cpu, realtime=False):
    """The prefix that makes a command run on this CPU (or list of CPUs). With `realtime` it has priority over all other work of the machine."""
    return ["taskset", "-c", str(cpu), *(["chrt", "-r", "5"] if realtime else [])]


@contextlib.contextmanager
def realtime(on, *pids):
    """Gives all threads of these processes priority over all other work of the machine."""
    for pid in pids if on else ():
        subprocess.run(["chrt", "-a", "-r", "-p", "5", str(pid)], check=True)
    try:
        yield
    finally:
        for pid in pids if on else ():
            subprocess.run(["chrt", "-a", "-o", "-p", "0", str(pid)], check=False)


def describe():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    with open("/proc/meminfo", encoding="utf-8") as f:
        memory_mb = int(re.search(r"MemTotal:\s*(\d+)", f.read()).group(1)) // 1024
    all_, away = (now - then for now, then in zip(stolen(), BEGUN))
    return {"cpu": model.group(1) if model else platform.machine(), "cpus": len(os.sched_getaffinity(0)),
            "memory_mb": memory_mb, "kernel": platform.release(), "load": os.getloadavg()[0], "stolen": away / max(1, all_),
            "network": "of its own" if os.environ.get("BENCH_NETWORK") == "entered" else "the machine's"}  # fmt: skip


def version(*command):
    """The first line with a number in a program's output about its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    return next((line.strip() for line in (done.stdout + done.stderr).splitlines() if re.search(r"\d", line)), None)


def family(pid):
    """Returns the IDs of the process and all its descendants."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as f:
                    parents[int(entry)] = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


class Cpu:
    """The CPU time of a process and its descendants so far. `later - earlier` is the CPU time between two moments."""

    def __init__(self, user, system, total_ns):
        self.user, self.system, self.total_ns = user, system, total_ns

    @classmethod
    def of(cls, pid):
        user = system = total = 0
        for one in family(pid):
            try:
                with open(f"/proc/{one}/stat", encoding="utf-8") as f:
                    fields = f.read().rpartition(")")[2].split()
                # This file has a thread's total time in nanoseconds. The kernel splits it into user and system time only in ticks.
                for task in os.listdir(f"/proc/{one}/task"):
                    with open(f"/proc/{one}/task/{task}/schedstat", encoding="utf-8") as f:
                        total += int(f.read().split()[0])
            except OSError:
                continue
            user += int(fields[11])
            system += int(fields[12])
        return cls(user, system, total)

    def __sub__(self, earlier):
        return Cpu(self.user - earlier.user, self.system - earlier.system, self.total_ns - earlier.total_ns)

    @property
    def seconds(self):
        return self.total_ns / 1e9

    @property
    def user_share(self):
        """The share of user time according to the ticks. With a second or more of CPU time, it is accurate to a few percent."""
        ticks = self.user + self.system
        return self.user / ticks if ticks else 0.0


def memory_kb(pid):
    """VmRSS, VmHWM, RssAnon, RssFile of one process."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return {k: int(v) for k, v in re.findall(r"(VmRSS|VmHWM|RssAnon|RssFile):\s*(\d+)", f.read())}


def reset_peak(pid):
    """Resets VmHWM."""
    with open(f"/proc/{pid}/clear_refs", "w", encoding="utf-8") as f:
        f.write("5")
