"""The memory of an idle pod, as the kernel counts it. A page that n processes share counts as 1/n page for each of them."""

import pathlib

GOAL_PSS_MB = 20
KUBE_DNS_RSS_MB = 125  # memory of kube-dns's three idle containers in the same cluster


def memory(pid):
    """Values of one process in kilobytes, by name."""
    rows = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    rows += [r for r in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if r.startswith(("VmRSS", "RssAnon", "RssFile"))]
    return {r.split(":")[0]: int(r.split()[1]) for r in rows}


def test_idle_pod(suite, report):
    """The pod is new and has read the cluster. It gets no queries except from its own probes."""
    suite.ensure("replace-kube-dns", 1)
    suite.plane.kubectl("-n", "kube-system", "delete", "pod", "-l", "k8s-app=kube-dns", "--wait=true")
    pod = suite.await_rollout("kube-dns")[0]
    total = {}
    for c in pod.containers:
        for pid, name in c.processes().items():
            m = memory(pid)
            report(f"memory of {name}", "", "PSS {:.1f} MB, RSS {:.1f} (anonymous {:.1f}, files {:.1f})".format(
                *(m[k] / 1024 for k in ("Pss", "VmRSS", "RssAnon", "RssFile"))))
            for k, v in m.items():
                total[k] = total.get(k, 0) + v / 1024
    report("idle pod, three containers", f"PSS <= {GOAL_PSS_MB} MB (kube-dns: {KUBE_DNS_RSS_MB} MB RSS)",
           f"PSS {total['Pss']:.1f} MB, RSS {total['VmRSS']:.1f} MB")
    assert total["Pss"] <= GOAL_PSS_MB
