"""A large cluster for the benches: the stand-in API server on the load's CPU, kubedns on its own CPU, and kubedns's own figures."""

import os
import random
import re
import time
import urllib.request

import machine
import questions
from results import DIRECTORY, say
from servers import Kubedns

from apiserver import ApiProcess

REQUIRED = ("services", "endpointslices", "namespaces")


class Cluster:
    """A context manager. `api` is the stand-in and `people` the population. start() starts a kubedns that watches the stand-in."""

    def __init__(self, people, name="cluster"):
        self.people, self.kubedns = people, None
        self.directory = os.path.join(DIRECTORY, name)
        self.api = ApiProcess(prefix=machine.pinned(machine.cpus()[1]))

    def __enter__(self):
        begun = time.monotonic()
        self.load()
        say(f"the stand-in holds {self.people.services:,} Services, {self.people.all_slices:,} slices, "
            f"{self.people.namespaces:,} namespaces after {time.monotonic() - begun:.1f} s")  # fmt: skip
        return self

    def load(self):
        """Loads the population in its state before any change."""
        self.api.load(**vars(self.people))
        self.api.fill(questions.externals())

    def __exit__(self, *_):
        self.stop()
        self.api.close()

    def stop(self):
        if self.kubedns:
            self.kubedns.stop()
            self.kubedns = None

    def start(self, *flags):
        """
        Starts kubedns with these flags. Returns kubedns and the costs of its first sync: wall and CPU seconds until ready, bytes received, and
        the memory a second later.
        """
        self.stop()
        os.makedirs(self.directory, exist_ok=True)
        config = self.api.kubeconfig(os.path.join(self.directory, "kubeconfig"))
        k = self.kubedns = Kubedns(self.directory, [f"--kubecfg-file={config}"], *flags)
        k.answers = lambda: True  # so that start() waits for no answer
        begun = time.monotonic()
        k.start()
        self.until(self.ready, 120, "readiness")
        wall, cpu = time.monotonic() - begun, k.spent()
        time.sleep(1)
        return k, {"wall_s": wall, "cpu_s": cpu.seconds, "user_share": cpu.user_share,
                   "received_bytes": self.metric("kubedns_api_received_bytes_total"),
                   **machine.memory_kb(k.process.pid)}  # fmt: skip

    def http(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.kubedns.healthz}{path}", timeout=10) as r:
                return r.read().decode()
        except OSError:
            return ""

    def ready(self):
        return self.http("/readiness").startswith("ok")

    def metric(self, name):
        """The sum of all series of this name."""
        return sum(float(v) for v in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", self.http("/metrics"), re.M))

    def until(self, condition, timeout, what):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline or self.kubedns.process.poll() is not None:
                with open(self.kubedns.path("log"), encoding="utf-8", errors="replace") as f:
                    raise RuntimeError(f"{what}: not reached within {timeout} s, or kubedns ended\n{f.read()[-3000:]}")
            time.sleep(0.01)

    def relist(self):
        """
        Tells every watch that its version is too old, which causes a full relist of all three kinds. Returns the memory before, the peak
        during it, the memory after it, and the CPU time.
        """
        k, pid = self.kubedns, self.kubedns.process.pid
        before, cpu = machine.memory_kb(pid), k.spent()
        machine.reset_peak(pid)
        since, synced = len(self.api.requests()), self.log_lines("synced,")
        for resource in REQUIRED:
            self.api.inject_error(resource, 410, "Expired")
        self.until(lambda: self.log_lines("synced,") >= synced + len(REQUIRED), 120, "the relist")
        time.sleep(0.5)
        after = machine.memory_kb(pid)
        return {"before_kb": before["VmRSS"], "peak_kb": after["VmHWM"], "after_kb": after["VmRSS"], "ratio": after["VmHWM"] / before["VmRSS"],
                "cpu_s": (k.spent() - cpu).seconds, "requests": len(self.api.requests()) - since}  # fmt: skip

    def log_lines(self, text):
        with open(self.kubedns.path("log"), encoding="utf-8", errors="replace") as f:
            return sum(text in line for line in f)


FOLLOWED = 50  # changes per second; with more changes the asker itself is late


def follow_lines(people, rate, seconds, seed, added):
    """
    Returns the effects of the stand-in's churn that an asker can see, in order: [(n, "NAME A there|gone")]. At high rates this is only a
    sample. The seed determines the churn's choices (tests/apiserver/server.py). `added` remembers between churns which slices have an added
    endpoint.
    """
    chooser, slices, lines = random.Random(seed), people.slice_numbers(True), []
    chosen = [chooser.choice(slices) for _ in range(int(rate * seconds))]
    step = max(1, rate // FOLLOWED)
    for n, s in enumerate(chosen):
        i, _ = people.owner(s)
        if s in added:
            name, what = added.pop(s), "gone"
        else:
            name, what = f"{people.service(i)}-x{n}.{people.service(i)}.{people.namespace(i)}.svc.cluster.local", "there"
            added[s] = name
        if n % step == 0:
            lines.append((n, f"{name} A {what}"))
    names = {}
    for _, line in lines:
        names[line.split()[0]] = names.get(line.split()[0], 0) + 1
    # Leaves out changes that are reverted within two seconds, because a late asker would miss them. Also leaves out names that more than
    # one slice has.
    return [(n, line) for n, line in lines if left_alone(chosen, n, 2 * rate) and names[line.split()[0]] <= 2]


def left_alone(chosen, n, within):
    """True if none of the next `within` changes affects the slice of change n."""
    return chosen[n] not in chosen[n + 1 : n + 1 + within]
