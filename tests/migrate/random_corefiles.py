"""
Writes random Corefiles, each with the queries that aim at its directives, for tests/migrate/corpus.py.

    random_corefiles.py [--seed N] [--count N] FOLDER        then: corpus.py FOLDER

The grammar has the plugins that kubedns-migrate translates, in about the frequency of real files. Each file is a ConfigMap, because some files
have zone files. NAME.json has [[name, type, first line, last line, plugin]]: the directive of these lines decides the name in CoreDNS.
"""

import argparse
import ipaddress
import json
import pathlib
import random

import yaml

ZONES = ["corp.example", "a.corp.example", "lab.example", "deep.lab.example", "apps.test", "internal", "10.in-addr.arpa", "168.192.in-addr.arpa"]
TYPES = ("A", "AAAA", "TXT")
NAMES = 20
INSIDE = ["web.shop.svc.cluster.local", "db.shop.svc.cluster.local", "kubernetes.default.svc.cluster.local", "ext.shop.svc.cluster.local"]


class Writer:
    """The lines of a Corefile, with the queries of each directive."""

    def __init__(self, rng):
        self.rng, self.lines, self.files, self.aims = rng, [], {}, []

    def directive(self, indent, plugin, head, body, names, zone=None):
        """Adds a directive. `names` are names or (name, type). More names below `zone` follow, up to NAMES names."""
        first = len(self.lines) + 1
        self.lines += [f"{indent}{head}{' {' if body else ''}"] + ([f"{indent}    {b}" for b in body] + [f"{indent}}}"] if body else [])
        questions = dict.fromkeys(q if isinstance(q, tuple) else (q, t) for q in names for t in ([q[1]] if isinstance(q, tuple) else TYPES))
        while zone and len({name for name, _ in questions}) < NAMES:
            questions.setdefault((below(self.rng, zone), "A"))
        self.aims += [[name.lower().rstrip("."), rdtype, first, len(self.lines), plugin] for name, rdtype in questions]


def below(rng, zone):
    """A name in the zone, or anywhere if the zone is the root."""
    label = rng.choice(["www", "db", "api", "x", "a.b", "nx", "alias", "deep", "mail"])
    return f"{label}{rng.randrange(9)}.{zone if zone != '.' else rng.choice(['outside.example', 'corp.example', 'lab.example', 'other.test', 'internal'])}"


def names_below(rng, zone, count):
    return [below(rng, zone) for _ in range(count)]


def reverse_name(zone, n):
    """A reverse name with four numbers. dnsmasq takes a name with more numbers for that of another address."""
    return f"{n}.{'1.' * (4 - zone.count('.'))}{zone}"


def forward(w, zone, servers):
    rng = w.rng
    to = rng.choice(servers)
    body, excepted = [], []
    if rng.random() < 0.2:
        excepted.append(below(rng, zone).split(".", 1)[1] if zone == "." else f"x.{zone}")
        body.append(f"except {excepted[0]}")
    if rng.random() < 0.2:
        body.append(rng.choice(["max_concurrent 1000", "policy sequential", "prefer_udp", "max_fails 3", "health_check 5s", "expire 10s"]))
    source = "." if rng.random() < 0.85 else below(rng, zone).split(".", 1)[1]
    if zone.endswith("arpa"):
        w.directive("    ", "forward", f"forward {source} {to}", body, [*((reverse_name(zone, n), "PTR") for n in range(NAMES - 2)), (f"1.x.{zone}", "PTR"), (f"x.{zone}", "PTR")])
        return
    names = [*names_below(rng, zone, 6), f"x.{zone}".rstrip("."), *names_below(rng, source, 2), *(n for e in excepted for n in (e, f"www1.{e}", f"nx2.{e}"))]
    w.directive("    ", "forward", f"forward {source} {to}", body, names, zone)


def hosts(w, zone):
    rng = w.rng
    lines, names = [], []
    for n in range(rng.randint(1, 3)):
        own = [below(rng, zone if rng.random() < 0.8 else ".") for _ in range(rng.randint(1, 2))]
        address = f"10.5.{rng.randrange(200)}.{n + 1}" if rng.random() < 0.8 else f"fd00:5::{n + 1}"
        lines.append(f"{address} {' '.join(own)}")
        names += own + [f"www.{o}" for o in own[:1]]
        names.append((ipaddress.ip_address(address).reverse_pointer, "PTR"))
    options = [line for line, chance in ((f"ttl {rng.choice((60, 30, 5))}", 0.3), ("fallthrough", 0.97 if zone == "." else 0.8), ("no_reverse", 0.1), ("reload 0", 0.1)) if rng.random() < chance]
    w.directive("    ", "hosts", "hosts", lines + options, names, zone)


def rewrite(w, zone):
    rng = w.rng
    mode = rng.choice(["", "", "stop ", "continue "])
    target = rng.choice(INSIDE) if rng.random() < 0.7 else below(rng, ".")
    kind = rng.choices(["exact", "suffix", "regex", "default", "prefix", "substring", "ttl", "type"], [6, 5, 4, 2, 1, 1, 1, 1])[0]
    name = below(rng, zone if rng.random() < 0.85 else ".")
    base = name.split(".", 1)[1]
    if kind in ("exact", "default"):
        w.directive("    ", "rewrite", f"rewrite {mode}name {'exact ' if kind == 'exact' else ''}{name} {target}", [], [name, f"www.{name}", (name, "SRV")], zone)
    elif kind == "suffix":
        dot, tail = rng.choice(["", "."]), rng.choice(["", " answer auto"])
        suffix = f"s{rng.randrange(9)}.{base}"
        w.directive("    ", "rewrite", f"rewrite {mode}name suffix {dot}{suffix} {dot}shop.svc.cluster.local{tail}", [],
                    [f"{n}.{suffix}" for n in ("web", "db", "nx", "nohost", "db-0.db", "ext")] + [suffix, f"x{suffix}", (f"web.{suffix}", "SRV"), (f"_pg._tcp.db.{suffix}", "SRV")], zone)  # fmt: skip
    elif kind == "regex":
        suffix = f"r{rng.randrange(9)}.{base}"
        escaped = suffix.replace(".", "\\.")
        first = rng.choice(["(.*)", "(.*)", "(.+)", "(.*?)", "([a-z]+)", "([a-z0-9-]*)", "([^.]+)", "(\\w+)", "(web|db)"])
        pattern, to = rng.choices([(f"{first}\\.{escaped}", "{1}.shop"), (f"^{first}\\.{escaped}\\.?$", "{1}.shop"), (f"{first}\\.{escaped}$", "{1}.shop"), (f"^{first}\\.{escaped}\\.$", "{1}.shop"),
                                   (f"{first}\\.{escaped}\\.", "{1}.shop"), (f"{first}[.]{escaped}[.]$", "{1}.shop"), (f"([a-z]+)\\.([a-z]+)\\.{escaped}", "{2}.shop"),
                                   (f"web\\.{escaped}|^db\\.{escaped}\\.$", "web.shop")], [6, 3, 2, 3, 1, 1, 1, 1])[0]  # fmt: skip
        w.directive("    ", "rewrite", f"rewrite {mode}name regex {pattern} {to}.svc.cluster.local", [], [f"{n}.{suffix}" for n in ("web", "db", "nx", "a.web", "ext")] + [suffix, f"web.x{suffix}", f"web.{suffix}.org", (f"web.{suffix}", "SRV")], zone)
    elif kind == "ttl":
        w.directive("    ", "rewrite", f"rewrite ttl exact {name} 30", [], [name], zone)
    elif kind == "type":
        w.directive("    ", "rewrite", "rewrite type ANY HINFO", [], [*((n, "ANY") for n in names_below(rng, zone, 4)), (f"web.{zone}".rstrip("."), "HINFO")], zone)
    else:
        w.directive("    ", "rewrite", f"rewrite {mode}name {kind} {name[:3]} zz", [], [name, *(f"{x}{name[:3].strip('.')}.{www}{base}" for x in ("", "x") for www in ("", "www."))], zone)


def template(w, zone):
    rng = w.rng
    outer = below(rng, zone).split(".", 1)[1]
    own = f"t{rng.randrange(9)}.{outer}" if rng.random() < 0.9 else outer
    kind = rng.choices(["zone", "match", "below", "nxdomain", "aaaa", "computed"], [4, 2, 3, 2, 2, 1])[0]
    names = [own, f"www.{own}", f"a.b.{own}", f"x{own}", f"www.{own}.org", *names_below(rng, zone, 3)]
    escaped = own.replace(".", "\\.")
    answer = f'answer "{{{{ .Name }}}} {rng.choice(("60 IN", "60 IN", "60 IN", "2 IN", "IN"))} A 192.168.2.1"'
    through = [] if zone != "." and rng.random() < 0.15 else ["fallthrough"]  # without it, CoreDNS answers no other name of the block
    if kind == "zone":
        w.directive("    ", "template", f"template IN {rng.choice(('A', 'A', 'A', 'A', 'A', 'ANY'))} {own}", [answer], names, zone)
    elif kind in ("match", "below"):
        match = f"^{escaped}\\.$" if kind == "match" else rng.choice([f".*\\.{escaped}", f"^(.*\\.)?{escaped}\\.$"])
        if rng.random() < 0.15:
            match = match.removesuffix("\\.$") + "$"  # matches no name in CoreDNS
        w.directive("    ", "template", "template IN A", [f'match "{match}"', answer, *through], names, zone)
    elif kind == "nxdomain":
        w.directive("    ", "template", f"template ANY ANY {own}", ["rcode NXDOMAIN"], names, zone)
    elif kind == "aaaa":
        w.directive("    ", "template", "template IN AAAA .", ["rcode NOERROR"], [*((n, "AAAA") for n in (*names, *names_below(rng, zone, NAMES))), ("dual.shop.svc.cluster.local", "AAAA")])
    else:
        w.directive("    ", "template", f"template IN A {own}", ['match "^ip-(?P<a>[0-9]*)-1"', 'answer "{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}"', "fallthrough"], [*names, f"ip-7-1.{own}"], zone)


def zone_file(w, zone):
    rng = w.rng
    outer = below(rng, zone).split(".", 1)[1]
    own = f"z{rng.randrange(9)}.{outer}" if rng.random() < 0.9 else outer
    key, outer = f"db.{own}", own.split(".", 1)[-1]
    owner = rng.choices(["@", f"{outer}."], [4, 1])[0]
    w.files[key] = "\n".join([f"{owner} 3600 IN SOA ns.{own}. host.{own}. 1 3600 600 86400 60", f"{own}. 3600 IN NS ns.{own}.", f"ns.{own}. IN A 10.8.0.1", "www IN A 10.8.0.2",
                              "*.wild IN A 10.8.0.3", "alias2 IN CNAME www", *([f"www.{outer}. IN A 10.8.0.4"] if rng.random() < 0.3 else [])]) + "\n"  # fmt: skip
    w.directive("    ", "file", f"file /etc/coredns/{key} {own}", [], [own, *(f"{n}.{own}" for n in ("www", "nx1", "ns", "q.wild", "alias2")), f"www.{outer}", f"z.{outer}"], zone)


def kubernetes(w, zone, questions):
    rng = w.rng
    options = [o for o, chance in (("pods insecure", 0.6), ("pods verified", 0.1), ("ttl 30", 0.6), ("ttl 7", 0.1), ("ttl 2", 0.1), ("endpoint_pod_names", 0.15), ("noendpoints", 0.05),
                                   ("ignore empty_service", 0.1), ("namespaces shop", 0.1)) if rng.random() < chance]  # fmt: skip
    reverse = rng.choices(["in-addr.arpa ip6.arpa", "", "10.in-addr.arpa", "in-addr.arpa", "10.96.0.0/16 10.1.0.0/16"], [6, 1, 1, 1, 1])[0]
    if reverse.endswith("arpa") and rng.random() < 0.75:
        options.append(f"fallthrough {reverse}")
    elif rng.random() < 0.1:
        options.append("fallthrough")
    w.directive("    ", "kubernetes", f"kubernetes {zone} {reverse}".rstrip(), options, questions)


def cache(w, zone):
    """The answers of other directives show what it does: it limits their TTLs."""
    body = w.rng.choice([[], [], [], ["success 5000 20"], ["serve_stale"], ["denial 1000 10"]])
    w.directive("    ", "cache", w.rng.choice(["cache 30", "cache 30", "cache", "cache 10", f"cache 30 {zone}"]), body, [(reverse_name(zone, 1), "PTR")] if zone.endswith("arpa") else [(f"mail{n}.{'outside.example' if zone == '.' else zone}", "A") for n in range(2)])


def answer_any(w, zone):
    w.directive("    ", "any", "any", [], [(n, "ANY") for n in [*names_below(w.rng, zone, 2), *(INSIDE[:2] if zone == "." else ())]])


def local(w, zone):
    w.directive("    ", "local", "local", [], [("localhost", "A"), ("localhost", "AAAA"), ("localhost.other.test", "A"), ("1.0.0.127.in-addr.arpa", "PTR")])


def block(w, zone, questions, servers, plain):
    rng = w.rng
    port = rng.choice(["", ":53"]) if plain or rng.random() < 0.93 else ":5353"
    w.lines.append(f"{zone}{port} {{")
    aims = len(w.aims)
    foreign = False
    if not plain and rng.random() < 0.04:
        network = rng.choice(["127.0.0.0/8", "10.9.0.0/24"])  # with and without the client of the test
        foreign = network.startswith("10.")
        w.lines += ["    view inside {", f"        expr incidr(client_ip(), '{network}')", "    }"]
    w.lines += [f"    {p}" for p in ("errors", "loadbalance", "bufsize 1232") if rng.random() < 0.4]
    for make, chance in ((cache, 0.5), (answer_any, 0.15), (local, 0.1 if plain else 0)):
        if rng.random() < chance:
            make(w, zone)
    parts = []
    if zone == ".":
        parts += [lambda: kubernetes(w, "cluster.local", questions)] * (rng.random() < 0.95)
    elif rng.random() < 0.08 and not zone.endswith("arpa"):
        parts.append(lambda: kubernetes(w, "cluster.local", [q for q in questions if q[1] != "PTR"]))
    if not zone.endswith("arpa"):
        for make, chance in ((hosts, 0.4), (rewrite, 0.5), (rewrite, 0.25), (template, 0.35), (template, 0.1), (zone_file, 0.25)):
            if rng.random() < chance:
                parts.append(lambda make=make: make(w, zone))
    parts += [lambda: forward(w, zone, servers)] * (rng.random() < 0.9) + [lambda: forward(w, zone, servers)] * (rng.random() < 0.1)
    rng.shuffle(parts)
    for part in parts:
        part()
    w.lines.append("}")
    if not plain:  # in a zone's block, kubernetes answers only names that a rewrite has made, with its own TTL
        rewritten = [a for a in w.aims[aims:] if a[4] == "rewrite"]
        for first, last in {(a[2], a[3]) for a in w.aims[aims:] if a[4] == "kubernetes"}:
            w.aims += [[a[0], a[1], first, last, "kubernetes"] for a in rewritten]
    if foreign or port == ":5353":
        del w.aims[aims:]  # the client of the test never reaches this block


def corefile(rng, questions):
    w = Writer(rng)
    zones = [".", *rng.sample(ZONES, rng.choices(range(5), [3, 4, 3, 2, 1])[0])]
    if rng.random() < 0.05:
        zones.append(rng.choice(zones))
    rng.shuffle(zones)
    for n, zone in enumerate(zones):
        servers = [f"10.0.{n}.1", f"10.0.{n}.1 10.0.{n}.2", f"10.0.{n}.1:5353"] + ["/etc/resolv.conf"] * (4 if zone == "." else 1)
        block(w, zone, questions, servers, zone == ".")
    return "\n".join(w.lines) + "\n", w.files, w.aims


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    p.add_argument("--count", type=int, default=10)
    p.add_argument("folder", type=pathlib.Path)
    a = p.parse_args()
    from corpus import cluster_questions  # it needs more packages than this program

    print(f"seed {a.seed}")
    a.folder.mkdir(parents=True, exist_ok=True)
    for n in range(a.count):
        text, files, aims = corefile(random.Random(f"{a.seed}/{n}"), [*cluster_questions("cluster.local"), (ipaddress.ip_address("192.168.0.2").reverse_pointer, "PTR")])
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns", "namespace": "kube-system"}, "data": {"Corefile": text, **files}}
        (a.folder / f"{a.seed}-{n}.yaml").write_text(yaml.safe_dump(config))
        (a.folder / f"{a.seed}-{n}.json").write_text(json.dumps(aims))


if __name__ == "__main__":
    main()
