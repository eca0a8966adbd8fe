"""
`make bench-scale BENCH_ARGS=--features`: the cost of each opt-in feature at 10,000 Services and 150,000 endpoints. For each feature, a
kubedns with its flags reads the cluster from the stand-in. The bench measures the CPU time of the first sync, the memory a second later,
the memory after 100,000 answers, and the CPU time of these answers. The runs alternate, because the speed of a shared host drifts. The
results are the medians, and the medians of the differences from the run without flags in the same round.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile

import machine
import questions
from cluster import Cluster
from load import asker
from results import DIRECTORY, save, say
from servers import Kubedns

ANSWERS, RATE = 100_000, 20_000
OWN = 1000  # number of names in the ConfigMap
ZONE = "apps.example.com"
NOBODY = "--resolver=127.0.0.1:9"
ASKS_OTHERS = ("--fallthrough", "--search-completion=inferred", NOBODY)  # this bench sends no queries to a kubedns with one of these flags


KEYS = {
    "hosts": [f"10.{n >> 8}.{n & 255}.1 own-{n}.example" for n in range(OWN)],
    "rewrites": [*(f"exact old-{n}.example web-{n:05d}.ns-{n:05d}.svc.cluster.local" for n in range(OWN // 2)),
                 *(f"regex (.+)\\.r{n}\\.example {{1}}.ns-{n:05d}.svc.cluster.local" for n in range(20))],
    "records": ["$ORIGIN lab.example.", "@ SOA ns hostmaster 1 1h 10m 1d 60", *(f"host-{n} A 10.{n >> 8}.{n & 255}.2" for n in range(OWN))],
}  # fmt: skip


def config(directory, key):
    """Writes a mounted ConfigMap with only this key. Returns kubedns's flag for it."""
    at = os.path.join(directory, key)
    os.makedirs(at)
    with open(os.path.join(at, key), "w", encoding="ascii") as f:
        f.writelines(line + "\n" for line in KEYS[key])
    return f"--config-dir={at}"


def balanced(people):
    """Gives each Service with a cluster address a load balancer and a host name. So each has two names in the external zone."""
    for i in range(people.services):
        if people.is_headless(i):
            continue
        made = people.make_service(i)
        made["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"] = f"{people.service(i)}.{ZONE}"
        made["spec"]["type"] = "LoadBalancer"
        made["status"] = {"loadBalancer": {"ingress": [{"ip": f"198.18.{i >> 8}.{i & 255}"}]}}
        yield made


def rows(directory):
    """[(objects, description, flags)]. The first row of each kind of objects has no flags."""
    pods = ("--client-pods=all",)
    return [
        ("plain", "nothing", ()),
        ("plain", "--recorder=off", ("--recorder=off",)),
        ("plain", "--namespace-labels", ("--namespace-labels=environment=production",)),
        ("plain", "--fallthrough", ("--fallthrough",)),
        ("plain", "--external-zones, no Service with a load balancer", (f"--external-zones={ZONE}",)),
        ("plain", "--transfer-to", ("--transfer-to=127.0.0.1",)),
        ("plain", "--answer-cache=1M", ("--answer-cache=1M",)),
        ("plain", "--search-completion=inferred", ("--search-completion=inferred",)),
        ("plain", "--zonal", ("--zonal", NOBODY)),
        ("plain", "--clusterset-domain, no ServiceImport", ("--clusterset-domain=clusterset.local",)),
        ("plain", f"hosts: {OWN:,} names", (config(directory, "hosts"),)),
        ("plain", f"rewrites: {OWN // 2} names, 20 patterns", (config(directory, "rewrites"),)),
        ("plain", f"records: {OWN:,} in a zone", (config(directory, "records"),)),
        ("balanced", "9,000 Services with a load balancer, nothing", ()),
        ("balanced", "the same, --external-zones: 18,000 names", (f"--external-zones={ZONE}",)),
        ("balanced", "the same with --transfer-to", (f"--external-zones={ZONE}", "--transfer-to=127.0.0.1")),
        ("pods", "150,000 pods, nothing", ()),
        ("pods", "--pods=verified", ("--pods=verified",)),
        ("pods", "--client-pods=all", pods),
        ("pods", "--client-pods=all --nearest, 5,000 nodes", (*pods, "--nearest", NOBODY)),
        ("pods", "--visibility=labels", (*pods, "--visibility=labels", NOBODY)),
    ]  # fmt: skip


def known(flags):
    """True if this kubedns knows all these flags."""
    text = subprocess.run([Kubedns.program, "--help=all"], capture_output=True, text=True, check=True).stdout
    return all(flag.partition("=")[0] in text.split() or f"{flag.partition('=')[0]}=" in text for flag in flags)


def measure(c, flags, path):
    k, sync = c.start(*flags)
    made = {"cpu_s": sync["cpu_s"], "rss_kb": sync["VmRSS"]}
    if set(flags) & set(ASKS_OTHERS):
        return made
    before = k.spent()
    got = asker(k.port, path, RATE, ANSWERS / RATE)
    return {**made, "asked_kb": machine.memory_kb(k.process.pid)["VmRSS"], "answered": got["answered"], "lost": got["lost"],
            "servfail": got["rcodes"].get("SERVFAIL", 0), "answer_ns": (k.spent() - before).total_ns / max(1, got["answered"])}  # fmt: skip


@contextlib.contextmanager
def cluster_with(kind, people):
    if kind == "pods":
        people = type(people)(**{**vars(people), "pods": True, "node_objects": True})
    with Cluster(people, f"features-{kind}") as c:
        if kind == "balanced":
            made = list(balanced(people))
            for at in range(0, len(made), 500):
                c.api.fill(made[at : at + 500])
        yield c


def turns(a, kind, wanted, people, path):
    out = [{"objects": kind, "what": what, "flags": list(flags), "runs": []} for _, what, flags in wanted]
    with cluster_with(kind, people) as c:
        for turn in range(a.repeats):
            for one in out:
                one["runs"].append(measure(c, one["flags"], path))
                r = one["runs"][-1]
                asked = f", after {r['answered']:,} answers {r['asked_kb'] / 1024:.1f}, {r['answer_ns']:.0f} ns each; lost {r['lost']}" if "lost" in r else ""
                say(f"{turn + 1}/{a.repeats} {one['what']}: sync {r['cpu_s']:.2f} s of CPU, {r['rss_kb'] / 1024:.1f} MiB{asked}")
    return out


def over(one, base, how, key):
    """Compares runs with the flags to runs without flags: the median over the rounds of their difference or ratio. None if no queries were sent."""
    pairs = [how(r[key], b[key]) for r, b in zip(one["runs"], base["runs"]) if key in r]
    return statistics.median(pairs) if pairs else None


def table(measured):
    """A Markdown table as in docs/measurements.md."""
    out = ["| | CPU of the sync | resident | after 100,000 answers | CPU of an answer |", "|---|---|---|---|---|"]
    for one in measured:
        base = next(m for m in measured if m["objects"] == one["objects"])
        if one is base:
            cpu, rss, asked, ns = (statistics.median(r[key] for r in one["runs"]) for key in ("cpu_s", "rss_kb", "asked_kb", "answer_ns"))
            out.append(f"| {one['what']} | {cpu:.2f} s | {rss / 1024:.1f} MB | {asked / 1024:.1f} MB | {ns / 1000:.1f} us |")
            continue
        cells = [over(one, base, lambda x, y: x / y, "cpu_s"), over(one, base, lambda x, y: (x - y) / 1024, "rss_kb"),
                 over(one, base, lambda x, y: (x - y) / 1024, "asked_kb"), over(one, base, lambda x, y: x / y, "answer_ns")]  # fmt: skip
        forms = ("{:.2f} x", "{:+.1f} MB", "{:+.1f} MB", "{:.2f} x")
        out.append(f"| {one['what']} | " + " | ".join(f.format(c) if c is not None else "" for f, c in zip(forms, cells)) + " |")
    return "\n".join(out)


def main(a, people):
    path = questions.write(people, "mix", os.path.join(DIRECTORY, "features.questions"), seed=a.seed)
    directory = tempfile.mkdtemp(prefix="features-")
    try:
        every = rows(directory)
        wanted = [row for row in every if known(row[2])]
        for row in every:
            if row not in wanted:
                say(f"{row[1]}: left out, because this kubedns does not have the flag")
        measured = []
        for kind in dict.fromkeys(kind for kind, _, _ in wanted):
            if not a.only or kind in a.only.split(","):
                measured += turns(a, kind, [row for row in wanted if row[0] == kind], people, path)
    finally:
        shutil.rmtree(directory)
    print(table(measured))
    save("features", {"services": people.services, "endpoints": people.slices * people.endpoints, "rows": measured})
    return 1 if any(r.get("servfail") for one in measured for r in one["runs"]) else 0
