"""build/bench/results.json as Markdown with charts: build/bench/report.md. Every goal is named with what was measured beside it."""

import argparse
import os

import charts
from results import DIRECTORY, load, summary

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
    report.add(f"{m['cpu']}, {m['cpus']} CPUs, {m['memory_mb']:,} MB, Linux {m['kernel']}, load average before {m['load_before']:.1f}; commit "
               f"{section['commit']}, {section['made']}.", "")  # fmt: skip


def speed_goals(report, runs, kinds):
    for kind in kinds:
        us, knot, bare = (over(runs, "per_cpu_second", server=s, kind=kind, proto="udp") for s in ("kubedns", "knot", "reflector"))
        if us and knot and bare:
            wanted = min(1.2 * knot["median"], 0.9 * bare["median"])
            report.goal(f"{kind}: at least 1.2 times knot or 0.9 times the reflector, whichever is less", us["median"] >= wanted,
                        f"{us['median'] / knot['median']:.2f} times knot, {us['median'] / bare['median']:.2f} times the reflector")  # fmt: skip
    user = [r["user_ns"] for r in runs if r["server"] == "kubedns" and r["proto"] == "udp" and r["kind"] in ("mix", "cluster_a", "nxdomain")]
    if user:
        report.goal("user-space time of a query at most 300 ns", summary(user)["median"] <= 300, f"{span(summary(user))} ns by the tick")
    us, knot = (over(runs, "per_cpu_second", server=s, kind="mix", proto="tcp") for s in ("kubedns", "knot"))
    if us and knot:
        report.goal("TCP, persistent and pipelined: at least knot", us["median"] >= knot["median"], f"{us['median'] / knot['median']:.2f} times knot")
    nx, others = (summary([r["per_cpu_second"] for r in runs if r["server"] == "kubedns" and r["proto"] == "udp" and (r["kind"] == "nxdomain") == is_nx])
                  for is_nx in (True, False))  # fmt: skip
    if nx and others:
        report.add(f"* NXDOMAIN: {span(nx)} a CPU second; all other kinds {span(others)}")
    report.add("")


def speed_section(report, s):
    runs = s["runs"]
    report.add("## Queries per CPU second", "")
    header(report, s)
    report.add(f"{s['services']:,} Services. The server on one CPU, dnsperf on another; the server's own CPU time from /proc. Median [least to most] of the "
               "repeats. The reflector answers without reading: what sockets allow.", "")  # fmt: skip
    for proto in ("udp", "tcp"):
        kinds = list(dict.fromkeys(r["kind"] for r in runs if r["proto"] == proto))
        names = order({r["server"] for r in runs if r["proto"] == proto})
        if not kinds:
            continue
        values = {n: {k: over(runs, "per_cpu_second", server=n, kind=k, proto=proto) for k in kinds} for n in names}
        file = f"speed-{proto}.svg"
        charts.bars(os.path.join(DIRECTORY, file), f"Answers per CPU second over {proto.upper()}, higher is better", "answers per second of the server's CPU time",
                    kinds, names, values)  # fmt: skip
        report.add(f"![answers per CPU second over {proto}]({file})", "")
        report.table(("questions", *names), [(k, *(span(values[n][k]) for n in names)) for k in kinds])
        cost = [(k, *(f"{over(runs, 'user_ns', server=n, kind=k, proto=proto)['median']:.0f} + {over(runs, 'system_ns', server=n, kind=k, proto=proto)['median']:.0f}"
                      if values[n][k] else "-" for n in names)) for k in kinds]  # fmt: skip
        report.add("User + system nanoseconds a query:", "")
        report.table(("questions", *names), cost)
    speed_goals(report, runs, [k for k in ("mix", "cluster_a", "cluster_aaaa", "nxdomain") if any(r["kind"] == k for r in runs)])
    for name, mistakes in s["wrong"].items():
        for kind, texts in mistakes.items():
            report.add(f"* Not measured: {name} with {kind}: {len(texts)} of 200 answers are not what they must be, such as `{texts[0]}`")
    latency_section(report, s["latency"])
    if s["workers"]:
        workers_section(report, s["workers"])
    report.add("", "Commands:", "", "```", *(f"{n}: {d['version']}: {d['command']}" for n, d in s["servers"].items()), runs[0]["command"], "```", "")


def latency_section(report, runs):
    if not runs:
        return
    names, points = order({r["server"] for r in runs}), ("p50", "p99", "p99.9")
    values = {p: {n: summary([r["latency_us"][p] for r in runs if r["server"] == n]) for n in names} for p in points}
    charts.bars(os.path.join(DIRECTORY, "latency.svg"), "Latency at half of each server's own maximum rate, lower is better", "microseconds", names, points, values)
    report.add("", "### Latency at half of the maximum", "", "![latency](latency.svg)", "")
    rows = [(n, f"{summary([r['rate'] for r in runs if r['server'] == n])['median']:,.0f}", *(span(values[p][n]) for p in points),
             sum(r["lost"] for r in runs if r["server"] == n)) for n in names]  # fmt: skip
    report.table(("server", "rate a second", *(f"{p}, us" for p in points), "lost"), rows)


def workers_section(report, w):
    field = "per_cpu_second" if not w["own_cpus"] else "answered"
    one, two = (over(w["runs"], field, workers=n) for n in (1, 2))
    ratio = two["median"] / one["median"]
    if w["own_cpus"]:
        report.goal("two workers: at least 1.8 times one", ratio >= 1.8, f"{ratio:.2f} times the rate")
    else:
        report.goal("two workers: at least 1.8 times one", None, "too few CPUs for two workers and the load; the CPU seconds of a query with two workers "
                    f"are {1 / ratio:.2f} times those with one, at most 1.11 allowed")  # fmt: skip


def scale_section(report, s):
    report.add("## The large cluster", "")
    header(report, s)
    full = next((x for x in s["sizes"] if x["factor"] == 1), None)
    if full:
        full_section(report, s, full)
    if len(s["sizes"]) > 1:
        growth_section(report, s["sizes"])
    if not s.get("huge"):
        return
    one, many = s["huge"]
    costs = [summary([c["cpu_us"] for c in h["change"]]) for h in (one, many)]
    report.add("", "### A huge headless Service", "")
    report.goal(f"one slice of {many['slices']} costs what one slice alone costs", costs[1]["median"] <= 1.2 * costs[0]["median"],
                f"{span(costs[1])} us of CPU a change with {many['endpoints']:,} endpoints, {span(costs[0])} us with {one['endpoints']}")  # fmt: skip
    report.add("")


def full_section(report, s, full):
    sync, relist = full["sync"], full["relist"]
    rss, ratio, cpu = summary([x["VmRSS"] for x in sync]), summary([x["ratio"] for x in relist]), summary([x["cpu_s"] for x in sync])
    report.add(f"{full['services']:,} Services, {full['endpoints']:,} endpoints in {full['slices']:,} slices, {full['services']:,} namespaces; "
               f"{sync[0]['received_bytes'] / 1e6:.0f} MB received in a sync.", "")  # fmt: skip
    report.goal("resident at most 32 MB", rss["max"] <= 32_000_000 / 1024, f"{span(rss, 1, 1 / 1024)} MiB; anonymous {span(over(sync, 'RssAnon'), 1, 1 / 1024)}, "
                f"files {span(over(sync, 'RssFile'), 1, 1 / 1024)}")  # fmt: skip
    report.goal("peak of a full relist at most 1.1 times", ratio["max"] <= 1.1, f"{span(ratio, 3)} times; {span(over(relist, 'cpu_s'), 2)} s of CPU")
    report.goal("first sync at most 1.5 s of CPU", cpu["max"] <= 1.5, f"{span(cpu, 2)} s; {span(over(sync, 'wall_s'), 2)} s until ready")
    for c in full["changes"]:
        e, bound = c["event_to_answer_ms"], {10: 5, 1000: 50}.get(c["rate"])
        if bound:
            report.goal(f"event to answer p99 at most {bound} ms at {c['rate']} changes a second", e["p99"] <= bound and c["seen"] == c["followed"],
                        f"{e['p99']:.2f} ms of {c['seen']} followed")  # fmt: skip
    report.add("", f"Changes under {s['load']:,} queries a second{', server, stand-in and asker at real-time priority' if s.get('realtime') else ''}:", "")
    alone = full["load_alone"]
    rows = [("none", "-", "-", "-", "-", f"{alone['queries']['latency_us']['p50']:.0f}", f"{alone['queries']['latency_us']['p99']:.0f}", alone["queries"]["lost"])]
    for c in full["changes"]:
        e, q = c["event_to_answer_ms"], c["queries"]
        rows.append((c["rate"], f"{e['p50']:.2f}", f"{e['p99']:.2f}", f"{e['max']:.2f}", f"{c['seen']} of {c['followed']}", f"{q['latency_us']['p50']:.0f}",
                     f"{q['latency_us']['p99']:.0f}", q["lost"]))  # fmt: skip
    report.table(("changes a second", "event to answer p50, ms", "p99", "max", "followed", "queries p50, us", "p99", "lost"), rows)


def growth_section(report, sizes):
    def points(value):
        return [(x["services"], value(x)) for x in sizes]

    def median(field, key):
        return lambda x: summary([y[key] for y in x[field]])["median"]

    base = min(sizes, key=lambda x: x["services"])
    floor = median("sync", "RssAnon")(base)
    memory = [(n, kb / 1024) for n, kb in points(lambda x: median("sync", "RssAnon")(x))]
    # What the smallest cluster takes is the program's own; the slope is of what comes on top of it.
    above = [(n, (kb - floor) / 1024) for n, kb in points(lambda x: median("sync", "RssAnon")(x)) if kb > floor]
    charts.growth(os.path.join(DIRECTORY, "growth-memory.svg"), "Memory over the size of the cluster", "Services (1.5 slices, 15 endpoints, a namespace each)",
                  "MiB", {"anonymous": memory, "above the smallest": above})  # fmt: skip
    charts.growth(os.path.join(DIRECTORY, "growth-cpu.svg"), "CPU of a sync and a relist over the size", "Services", "seconds of CPU",
                  {"first sync": points(median("sync", "cpu_s")), "relist": points(median("relist", "cpu_s"))})  # fmt: skip
    charts.growth(os.path.join(DIRECTORY, "growth-cost.svg"), "CPU of one query and one change over the size", "Services", "microseconds of CPU",
                  {"query": [(n, ns / 1000) for n, ns in points(median("query", "cpu_ns"))], "change": points(median("change", "cpu_us"))})  # fmt: skip
    report.add("### Growth", "", *(f"![{n}](growth-{n}.svg)" for n in ("memory", "cpu", "cost")), "")
    rows = [(f"{x['services']:,}", f"{median('sync', 'VmRSS')(x) / 1024:.1f}", f"{median('sync', 'RssAnon')(x) / 1024:.1f}", f"{median('sync', 'cpu_s')(x):.2f}",
             f"{median('query', 'cpu_ns')(x):.0f}", f"{median('query', 'user_ns')(x):.0f}", f"{median('change', 'cpu_us')(x):.0f}") for x in sizes]  # fmt: skip
    report.table(("Services", "RSS, MiB", "anonymous, MiB", "sync, s of CPU", "query, ns", "of that user", "change, us"), rows)
    for what, field, key in (("query", "query", "cpu_ns"), ("change", "change", "cpu_us")):
        values = [median(field, key)(x) for x in sizes]
        report.goal(f"CPU of one {what} the same at all sizes, within 20 %", max(values) <= 1.2 * min(values), f"{min(values):,.0f} to {max(values):,.0f}")
    report.add("")


def instructions_section(report, s):
    report.add("## Instructions", "")
    header(report, s)
    report.add("User space, callgrind; a query that comes alone.", "")
    report.table(("what", "now", "kept", ""), [(k, f"{v:,}", f"{s['kept'].get(k, 0):,}", f"{v / s['kept'][k] - 1:+.1%}" if s["kept"].get(k) else "new")
                                              for k, v in s["figures"].items()])  # fmt: skip


def pod_section(report, s):
    report.add("## Classic and front", "")
    header(report, s)
    report.table(("topology", "questions", "answers per CPU second", "p50, us", "p99, us"),
                 [(r["topology"], r["kind"], span(r["per_cpu_second"]), f"{r['latency_us']['p50']:.0f}", f"{r['latency_us']['p99']:.0f}") for r in s["rows"]])  # fmt: skip
    for goal in s["goals"]:
        report.goal(goal["what"], goal["holds"], goal["figures"])
    report.add("")


SECTIONS = {"speed": speed_section, "scale": scale_section, "pod": pod_section, "instructions": instructions_section}


def main(argv):
    argparse.ArgumentParser(prog="make bench-report", description=__doc__).parse_args(argv)
    results, report = load(), Report()
    report.add("# Benches", "", "Made by `make bench-report` of `results.json` beside this file. Ratios are of one run on one machine; absolute figures are this machine's.", "")
    for name, make in SECTIONS.items():
        if name in results:
            make(report, results[name])
    for name in results:
        if name not in SECTIONS and "report" in results[name]:
            report.add(f"## {name.capitalize()}", "", *results[name]["report"], "")
    path = os.path.join(DIRECTORY, "report.md")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(report.lines) + "\n")
    print(path)
    return 0
