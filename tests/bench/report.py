"""Turns build/bench/results.json into Markdown with charts: build/bench/report.md. The report shows every goal with the measured value beside it."""

import argparse
import os

import charts
from results import DIRECTORY, load, summary, text_of

ORDER = ("kubedns", "knot", "nsd", "dnsmasq", "reflector")


class Report:
    def __init__(self):
        self.lines = []

    def add(self, *lines):
        self.lines += lines

    def table(self, header, rows):
        self.add("| " + " | ".join(header) + " |", "|" + "---|" * len(header))
        self.lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
        self.add("")

    def goal(self, what, holds, figures):
        word = "not measured" if holds is None else "holds" if holds else "**missed**"
        self.add(f"* {what}: {word} ({figures})")


def span(s, digits=0, scale=1.0):
    """Median [min to max]."""
    if s is None:
        return "-"
    return f"{s['median'] * scale:,.{digits}f} [{s['min'] * scale:,.{digits}f} to {s['max'] * scale:,.{digits}f}]"


def over(runs, field, **match):
    return summary([r[field] for r in runs if all(r.get(k) == v for k, v in match.items())])


def order(names):
    return sorted(names, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))


def header(report, section):
    m = section["machine"]
    report.add(f"{m['cpu']}, {m['cpus']} CPUs, {m['memory_mb']:,} MB, Linux {m['kernel']}, load average at the end {m['load']:.1f}, {m['stolen']:.0%} of the CPUs' "
               f"time taken by the host, network namespace {m['network']}; commit {section['commit']}, {section['made']}: `{section['bench']}`", "")  # fmt: skip


def commands(report, servers, *others):
    report.add("Commands:", "", "```", *(f"{n}: {d['version'] or 'part of this repository'}: {d['command']}" for n, d in servers.items()), *others, "```", "")


def beside(runs, peer, **match):
    """Returns the ratios of kubedns to a peer. Both values of a ratio are from the same round, so a slow minute of the machine affects both."""
    rate = {(r["server"], r["repeat"]): r["per_cpu_second"] for r in runs if all(r[k] == v for k, v in match.items())}
    return summary([ours / rate[peer, n] for (server, n), ours in rate.items() if server == "kubedns" and (peer, n) in rate])


def cost(runs, **match):
    """Returns user and system nanoseconds per answer over all repeats. For a single run the kernel's ticks are too coarse."""
    chosen = [r for r in runs if all(r[k] == v for k, v in match.items())]
    answered = sum(r["answered"] for r in chosen)
    return [sum(r[field] * r["answered"] for r in chosen) / answered for field in ("user_ns", "system_ns")] if answered else None


def speed_goals(report, runs, kinds):
    for kind in kinds:
        knot, bare = (beside(runs, peer, kind=kind, load="flood") for peer in ("knot", "reflector"))
        if knot and bare:
            report.goal(f"{kind}: at least 1.2 times knot, or at least 0.9 times the reflector", knot["median"] >= 1.2 or bare["median"] >= 0.9,
                        f"{span(knot, 2)} times knot, {span(bare, 2)} times the reflector")  # fmt: skip
    user = {k: c[0] for k in kinds if (c := cost(runs, server="kubedns", kind=k, load="flood"))}
    if user:
        report.goal("user-space time of a query at most 300 ns", max(user.values()) <= 300, ", ".join(f"{k} {v:.0f}" for k, v in user.items()))
    knot = beside(runs, "knot", kind="mix", proto="tcp")
    if knot:
        report.goal("TCP, persistent and pipelined: at least as many queries as knot", knot["median"] >= 1, f"{span(knot, 2)} times knot")
    nx, others = (summary([r["per_cpu_second"] for r in runs if r["server"] == "kubedns" and r["load"] == "flood" and (r["kind"] == "nxdomain") == is_nx])
                  for is_nx in (True, False))  # fmt: skip
    if nx and others:
        report.add(f"* NXDOMAIN: {span(nx)} queries per CPU second; all other kinds {span(others)}")
    report.add("")


def speed_section(report, s):
    runs = s["runs"]
    report.add("## Queries per CPU second", "")
    header(report, s)
    report.add(f"{s['services']:,} Services. The server has one CPU, the load another. The server's CPU time is from /proc. Each figure is the median [minimum to maximum] of the "
               "repeats. Each ratio is from one round. The reflector answers without parsing, so it shows the limit of sockets. A flood (asker) keeps every server "
               "busy. dnsperf is slower than the fastest servers, which then sleep between small batches. `busy` is the part of the time that a server worked.", "")  # fmt: skip
    for proto, by in (("udp", "flood"), ("udp", "dnsperf"), ("tcp", "dnsperf")):
        match = {"proto": proto, "load": by}
        chosen = [r for r in runs if r["proto"] == proto and r["load"] == by]
        kinds, names = list(dict.fromkeys(r["kind"] for r in chosen)), order({r["server"] for r in chosen})
        if not kinds:
            continue
        values = {n: {k: over(runs, "per_cpu_second", server=n, kind=k, **match) for k in kinds} for n in names}
        file, title = f"speed-{proto}-{by}.svg", f"{proto.upper()}, {by}"
        charts.bars(os.path.join(DIRECTORY, file), f"Answers per CPU second ({title}), higher is better", "answers per second of the server's CPU time",
                    kinds, names, values)  # fmt: skip
        report.add(f"### {title}", "", f"![answers per CPU second, {title}]({file})", "")
        report.table(("queries", *names), [(k, *(span(values[n][k]) for n in names)) for k in kinds])
        busy = {(n, k): over(runs, "busy", server=n, kind=k, **match) for n in names for k in kinds}
        costs = {(n, k): cost(runs, server=n, kind=k, **match) for n in names for k in kinds}
        report.add("User + system nanoseconds per query; busy:", "")
        report.table(("queries", *names), [(k, *("{:.0f} + {:.0f}; {:.0%}".format(*costs[n, k], busy[n, k]["median"]) if costs[n, k] else "-" for n in names))
                                             for k in kinds])  # fmt: skip
        report.add("`" + chosen[0]["command"] + "`", "")
    speed_goals(report, runs, list(dict.fromkeys(r["kind"] for r in runs if r["load"] == "flood")))
    for name, mistakes in s["wrong"].items():
        for kind, texts in mistakes.items():
            report.add(f"* Not measured: {name} with {kind}: {len(texts)} of 200 answers are wrong, for example `{texts[0]}`")
    latency_section(report, s["latency"])
    if s["workers"]:
        workers_section(report, s["workers"])
    report.add("")
    commands(report, s["servers"], *(r["command"] for r in s["latency"][:1]))


def latency_section(report, runs):
    if not runs:
        return
    points, names = ("p50", "p99", "p99.9"), order({r["server"] for r in runs})
    rates = [(n, rate) for n in names for rate in sorted({r["rate"] for r in runs if r["server"] == n}, reverse=True)]
    values = {(n, rate): {p: summary([r["latency_us"][p] for r in runs if (r["server"], r["rate"]) == (n, rate)]) for p in points} for n, rate in rates}
    own = {n: next(r["rate"] for r in runs if r["server"] == n) for n in names}  # the first measurement
    charts.bars(os.path.join(DIRECTORY, "latency.svg"), "Latency at half of each server's own maximum rate, lower is better", "microseconds", names, points,
                {p: {n: values[n, own[n]][p] for n in names} for p in points})  # fmt: skip
    report.add("", "### Latency at half of the maximum", "", "Each server gets half of its own maximum rate of the flood's mix, and half of the slowest server's.", "",
               "![latency](latency.svg)", "")  # fmt: skip
    report.table(("server", "rate a second", *(f"{p}, us" for p in points), "lost"),
                 [(n, f"{rate:,}", *(span(values[n, rate][p]) for p in points), sum(r["lost"] for r in runs if (r["server"], r["rate"]) == (n, rate)))
                  for n, rate in rates])  # fmt: skip


def workers_section(report, w):
    field = "per_cpu_second" if not w["own_cpus"] else "answered"
    one, two = (over(w["runs"], field, workers=n) for n in (1, 2))
    ratio = two["median"] / one["median"]
    if w["own_cpus"]:
        report.goal("two workers: at least 1.8 times the rate of one", ratio >= 1.8, f"{ratio:.2f} times")
    else:
        report.goal("two workers: at least 1.8 times the rate of one", None, "there are too few CPUs for two workers and the load. The CPU time of a query with two workers "
                    f"is {1 / ratio:.2f} times that with one. At most 1.11 is allowed")  # fmt: skip


def scale_section(report, s):
    report.add("## The large cluster", "")
    header(report, s)
    full = next((x for x in s["sizes"] if x["factor"] == 1), None)
    if full:
        full_section(report, s, full)
    if len(s["sizes"]) > 1:
        growth_section(report, s["sizes"])
    if s.get("growth"):
        growth_of_one(report, s["growth"])
    if not s.get("huge"):
        return
    one, many = s["huge"]
    ratio = summary([b["cpu_us"] / a["cpu_us"] for a, b in zip(one["change"], many["change"])])
    report.add("", "### A huge headless Service", "")
    report.goal(f"a change in one of {many['slices']} slices costs at most 20 % more than with one slice", ratio["median"] <= 1.2,
                f"{span(ratio, 2)} times in the same round: {span(over(many['change'], 'cpu_us'))} us of CPU per change with {many['endpoints']:,} endpoints, "
                f"{span(over(one['change'], 'cpu_us'))} us with {one['endpoints']}")  # fmt: skip
    report.add("")


def full_section(report, s, full):
    sync, relist = full["sync"], full["relist"]
    rss, ratio, cpu = summary([x["VmRSS"] for x in sync]), summary([x["ratio"] for x in relist]), summary([x["cpu_s"] for x in sync])
    report.add(f"{full['services']:,} Services, {full['endpoints']:,} endpoints in {full['slices']:,} slices, {full['services']:,} namespaces; "
               f"{sync[0]['received_bytes'] / 1e6:.0f} MB received in a sync.", "")  # fmt: skip
    report.goal("resident memory at most 32 MB", rss["max"] <= 32_000_000 / 1024, f"{span(rss, 1, 1 / 1024)} MiB; anonymous {span(over(sync, 'RssAnon'), 1, 1 / 1024)}, "
                f"files {span(over(sync, 'RssFile'), 1, 1 / 1024)}")  # fmt: skip
    report.goal("peak memory of a full relist at most 1.1 times the memory before it", ratio["max"] <= 1.1, f"{span(ratio, 3)} times; {span(over(relist, 'cpu_s'), 2)} s of CPU")
    report.goal("first sync at most 1.5 s of CPU", cpu["max"] <= 1.5, f"{span(cpu, 2)} s; {span(over(sync, 'wall_s'), 2)} s until ready")
    lost = sum(r["queries"]["lost"] + r["queries"]["rcodes"].get("SERVFAIL", 0) + len(r["wrong"]) for r in relist)
    report.goal("no query lost, and no SERVFAIL or wrong answer, during relists with 10 changes a second", lost == 0, f"{lost} of {sum(r['queries']['sent'] for r in relist):,}")
    if "sync_paged" in full:
        paged, again = full["sync_paged"], full["relist_paged"]
        report.add(f"- With paged lists: {span(over(paged, 'cpu_s'), 2)} s of CPU, {span(over(paged, 'wall_s'), 2)} s until ready, {paged[0]['received_bytes'] / 1e6:.0f} MB, "
                   f"RSS {span(over(paged, 'VmRSS'), 1, 1 / 1024)} MiB, peak of a relist {span(over(again, 'ratio'), 3)} times.")  # fmt: skip
    for c in full["changes"]:
        e, calm, bound = c["event_to_answer_ms"], c["undisturbed_ms"], {10: 5, 1000: 50}.get(c["rate"])
        if bound:
            best = calm if calm and calm["count"] >= 100 else e  # a p99 of fewer changes is meaningless
            report.goal(f"event to answer p99 at most {bound} ms at {c['rate']} changes a second", best["p99"] <= bound and c["missed"] == 0,
                        f"{e['p99']:.2f} ms of {c['seen']}, {c['missed']} missed; without a wait for a CPU {text_of(calm)}")  # fmt: skip
    report.add("", f"Changes during {s['load']:,} queries a second{', with kubedns, API server and asker at real-time priority' if s.get('realtime') else ''}:", "")
    report.add("The CPU of the changes is the total without the CPU of the queries alone. `as queries a second` is this CPU divided by the CPU time of one query at "
               "full load.", "")  # fmt: skip
    query_us = summary([q["cpu_ns"] for q in full["query"]])["median"] / 1000
    alone = full["load_alone"]
    rows = []
    for c in [alone, *full["changes"]]:
        e, q = c.get("event_to_answer_ms"), c["queries"]
        more = c["cpu_s"] / c["seconds"] - alone["cpu_s"] / alone["seconds"]
        cost = (f"{more * 100:.1f}", f"{max(0, more) * 1e6 / query_us:,.0f}") if e else ("-", "-")
        times = (f"{e['p50']:.2f}", f"{e['p99']:.2f}", f"{e['max']:.2f}", text_of(c["undisturbed_ms"]), f"{c['seen']} of {c['followed']}") if e else ("-",) * 5
        rows.append((c["rate"] or "none", *times, *cost, *(f"{q['latency_us'][p]:.0f}" for p in ("p50", "p99", "p99.9")), q["lost"]))
    report.table(("changes a second", "event to answer p50, ms", "p99", "max", "without a wait for a CPU", "followed", "CPU of the changes, % of one", "as queries a second",
                  "queries p50, us", "p99", "p99.9", "lost"), rows)  # fmt: skip


def over_smallest(sizes, field, key):
    """Returns the ratio of each size's cost to the cost at the smallest size. Both costs are from the same round."""
    base = min(sizes, key=lambda x: x["services"])
    return {x["services"]: summary([y[key] / z[key] for y, z in zip(x[field], base[field])]) for x in sizes if x is not base}


def points(sizes, field, key, scale=1.0):
    """[(Services, median)]."""
    return [(x["services"], over(x[field], key)["median"] * scale) for x in sizes]


def growth_section(report, sizes):
    anonymous = points(sizes, "sync", "RssAnon", 1 / 1024)
    floor = min(mib for _, mib in anonymous)
    # At the smallest size, the memory is that of the program itself. The slope is fitted to the memory beyond that.
    above = [(n, mib - floor) for n, mib in anonymous if mib > floor]
    charts.growth(os.path.join(DIRECTORY, "growth-memory.svg"), "Memory over the size of the cluster", "Services, each with 1.5 slices, 15 endpoints and a namespace",
                  "MiB", {"anonymous": anonymous, "above the smallest": above})  # fmt: skip
    charts.growth(os.path.join(DIRECTORY, "growth-cpu.svg"), "CPU of a sync and a relist over the size of the cluster", "Services", "seconds of CPU",
                  {"first sync": points(sizes, "sync", "cpu_s"), "relist": points(sizes, "relist", "cpu_s")})  # fmt: skip
    report.add("### Growth", "", *(f"![{n}](growth-{n}.svg)" for n in ("memory", "cpu")), "")
    rows = [(f"{x['services']:,}", span(over(x["sync"], "VmRSS"), 1, 1 / 1024), span(over(x["sync"], "RssAnon"), 1, 1 / 1024), span(over(x["sync"], "cpu_s"), 2))
            for x in sizes]  # fmt: skip
    report.table(("Services", "RSS, MiB", "anonymous, MiB", "sync, s of CPU"), rows)


def growth_of_one(report, sizes):
    """The cost of one query and of one change, from alternating runs."""
    charts.growth(os.path.join(DIRECTORY, "growth-cost.svg"), "CPU of one query and one change over the size of the cluster", "Services", "microseconds of CPU",
                  {"query": points(sizes, "query", "cpu_ns", 0.001), "change": points(sizes, "change", "cpu_us")})  # fmt: skip
    report.add("![cost of one](growth-cost.svg)", "")
    rows = [(f"{x['services']:,}", span(over(x["query"], "cpu_ns")), span(over(x["query"], "user_ns")), span(over(x["query"], "cache_misses"), 1),
             span(over(x["change"], "cpu_us"))) for x in sizes]  # fmt: skip
    report.table(("Services", "query, ns", "user time of it", "cache misses of a query", "change, us"), rows)
    if not over(sizes[0]["query"], "cache_misses"):
        report.add("This machine has no counters of cache misses.", "")
    for what, field, key in (("query", "query", "cpu_ns"), ("change", "change", "cpu_us")):
        ratios = over_smallest(sizes, field, key)
        medians = [1.0, *(r["median"] for r in ratios.values())]
        report.goal(f"CPU of one {what} differs by at most 20 % between all sizes", max(medians) <= 1.2 * min(medians),
                    "relative to the smallest size in the same round: " + ", ".join(f"{n:,} Services {span(r, 2)}" for n, r in ratios.items()))  # fmt: skip
    report.add("")


def pod_section(report, s):
    runs, kinds = s["runs"], list(dict.fromkeys(r["kind"] for r in s["runs"]))
    names = list(dict.fromkeys(r["topology"] for r in runs))
    report.add("## Classic and front", "")
    header(report, s)
    report.add("Classic: dnsmasq in front of kubedns. Front: kubedns in front of dnsmasq. `outside` are external names, all of them in dnsmasq's cache. All processes of a "
               "topology share one CPU, and the flood comes from another. The CPU time is that of all these processes. Each figure is the median [minimum to "
               "maximum] of the repeats.", "")  # fmt: skip
    values = {n: {k: over(runs, "per_cpu_second", topology=n, kind=k) for k in kinds} for n in names}
    charts.bars(os.path.join(DIRECTORY, "pod.svg"), "Answers per CPU second of the whole pod, higher is better", "answers per second of CPU time of dnsmasq and kubedns",
                kinds, names, values)  # fmt: skip
    report.add("![answers per CPU second of the pod](pod.svg)", "")
    rows = []
    for kind in kinds:
        for name in names:
            these = [r for r in runs if (r["topology"], r["kind"]) == (name, kind)]
            if these:
                each = " + ".join(f"{server.removesuffix('-' + name)} {summary([r['each_ns'][server] for r in these])['median']:,.0f}" for server in these[0]["each_ns"])
                rows.append((kind, name, span(values[name][kind]), span(over(these, "rate")), f"{over(these, 'user_ns')['median']:,.0f}",
                             f"{over(these, 'system_ns')['median']:,.0f}", each, sum(r["lost"] for r in these)))  # fmt: skip
    report.table(("queries", "topology", "answers per CPU second", "a second", "user ns", "system ns", "ns of each program", "lost"), rows)
    rows = []
    for kind, name in dict.fromkeys((r["kind"], r["topology"]) for r in s["latency"]):
        these = [r for r in s["latency"] if (r["kind"], r["topology"]) == (kind, name)]
        times = {p: summary([r["latency_us"][p] for r in these]) for p in ("p50", "p99", "p99.9")}
        rows.append((kind, name, f"{these[0]['rate']:,}", *(span(t) for t in times.values()), sum(r["lost"] for r in these)))
    if rows:
        report.add("At half of each topology's maximum rate:", "")
        report.table(("queries", "topology", "rate a second", "p50, us", "p99, us", "p99.9, us", "lost"), rows)
    for goal in s["goals"]:
        report.goal(goal["what"], goal["holds"], goal["figures"])
    for kind, mistakes in s["wrong"].items():
        report.add(f"* front, {kind}: {len(mistakes)} of 200 answers are wrong, for example `{mistakes[0]}`")
    report.add("")
    commands(report, s["servers"], runs[0]["command"])


def change_section(report, s):
    runs, control = s["nanny"], s["kill_and_respawn"]
    report.add("## ConfigMap changes under load", "")
    header(report, s)
    rows = [(name, r["changes"], f"{r['questions']:,}", r["lost"], r["servfail"], r["refused"], r["wrong"], f"{r['confirm_ms']['median']:.1f}" if "confirm_ms" in r else "-",
             f"{r['confirm_ms']['worst']:.1f}" if "confirm_ms" in r else "-")
            for name, r in [*((f"nanny, {n + 1}", r) for n, r in enumerate(runs)), ("killed and restarted", control)]]  # fmt: skip
    report.table(("how", "changes", "queries", "lost", "SERVFAIL", "REFUSED", "wrong server", "swap to confirmed, ms, median", "worst"), rows)
    bad = sum(r["lost"] + r["servfail"] + r["refused"] + r["wrong"] for r in runs)
    report.goal("no query lost or refused, and none answered by a server that is not configured", bad == 0, f"{bad} in {len(runs)} runs")
    report.goal("the control loses queries; otherwise the bench would show nothing", control["lost"] > 0, f"{control['lost']:,} lost")
    report.add("")


SECTIONS = {"speed": speed_section, "scale": scale_section, "pod": pod_section, "change": change_section}


def main(argv):
    argparse.ArgumentParser(prog="make bench-report", description=__doc__).parse_args(argv)
    results, report = load(), Report()
    report.add("# Benches", "", "`make bench-report` makes this file from `results.json` in the same directory. Each ratio is from one run on one machine. Absolute figures hold for this machine only.", "")
    for name, make in SECTIONS.items():
        if name in results:
            make(report, results[name])
    path = os.path.join(DIRECTORY, "report.md")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(report.lines) + "\n")
    print(path)
    return 0
