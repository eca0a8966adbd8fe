"""
Compares random clusters with the model of dns.md, at the start and after each of many changes. The queries cover every name that should
exist, its parents, its children, similar names and reverse names. They use every type, over UDP with and without EDNS and over TCP. A
failure reports the seed and the smallest set of objects that reproduces it.
"""

import json
import random
from dataclasses import replace

import pytest
from cluster_player import FENCE, Fresh, Player, one_seed_after_another, put_together, smaller, taken_apart
from dns_model import NOERROR, Model, Options, reverse
from random_cluster import ADDRESSES4, ADDRESSES6, CLUSTER4, CLUSTER6, NAMESPACES, Generator

TYPES = ["A", "AAAA", "SRV", "TXT", "CNAME", "PTR", "NS", "SOA", "MX", "HTTPS", "ANY"]
UDP_PAYLOAD = 1232
CHANGES = 20


def options_of(generator):
    """Random flags for this cluster. With these flags, kubedns has a name for every object that the Player waits for."""
    options = Options(**generator.options())
    return replace(options, namespaces=(*options.namespaces, FENCE)) if options.namespaces else options


def names_to_ask(model, draw):
    """Every name of the model, and names that are similar to it, above it or below it. Some of these should not exist."""
    names = set(model.names()) | {reverse(a) for a in ADDRESSES4 + ADDRESSES6 + CLUSTER4 + CLUSTER6}
    pods = [a.replace(".", "-") for a in ADDRESSES4[:4]] + ["2001-db8--1", "2001-db8--0", "x", "10-1-0"]
    names |= {f"{p}.{ns}.pod.{model.zone}" for p in pods for ns in [*NAMESPACES, "extra", "nowhere"]}
    out = set(names)
    for name in names:
        first, _, rest = name.partition(".")
        out |= {rest} | {f"{child}.{name}" for child in draw.sample(["x", "_tcp", "_http._tcp", "10-1-0-1", "h0", "a"], 1)}
        out.add(draw.choice([f"{first}x.{rest}", f"{first[:-1]}.{rest}", f"x{first}.{rest}", f"{first}.x.{rest}"]))
    return sorted(n for n in out if n and ".." not in n and not n.startswith(".") and all(len(label) < 64 for label in n.split(".")))


def questions(model, seed, share=1.0):
    """The (name, type) pairs to query. `share` is the fraction of the rarer types that is used."""
    draw = random.Random(seed)
    for name in names_to_ask(model, draw):
        types = ["A", draw.choice(["AAAA", "SRV"])] + [t for t in TYPES if draw.random() < 0.25 * share]
        if name.endswith(".arpa"):
            types.append("PTR")
        if name.startswith("_") or share == 1.0:
            types.append("SRV")
        if draw.random() < 0.1:
            name = "".join(draw.choice([c, c.upper()]) for c in name)
        for type_ in dict.fromkeys(types):
            if name.lower() in model.zones and type_ == "NS":
                continue  # dns.md gives such a zone an SOA and does not mention an NS
            yield name, type_


def wrong(reply, name, expected, transport):
    """The difference between the reply and the expectation as text, or None if they agree."""
    if reply.rcode != expected.rcode:
        return f"rcode {reply.rcode}, not {expected.rcode}"
    if reply.aa != expected.aa:
        return f"AA {reply.aa}, not {expected.aa}"
    if reply.opt != (transport == "edns"):
        return "an OPT where none was asked for, or none where one was"
    limit = {"udp": 512, "edns": UDP_PAYLOAD, "tcp": 65535}[transport]
    if expected.any:
        return None if [r[:2] + r[3:] for r in reply.answer] == [(name.lower(), "HINFO", "RFC8482")] else f"ANY: {reply.answer}"
    soa = frozenset(r[:3] for r in reply.authority)
    if soa != (frozenset() if expected.soa is None else {(expected.soa, "SOA", expected.soa_ttl)}):
        return f"authority {sorted(reply.authority)}, not the SOA of {expected.soa} for {expected.soa_ttl} s"
    answer = frozenset(r if r[1] != "SOA" else (*r[:3], "soa") for r in reply.answer)
    if len(answer) != len(reply.answer):
        return f"records twice: {sorted(reply.answer)}"
    if reply.tc:
        return None if transport != "tcp" and answer <= expected.answer else f"TC: {sorted(answer - expected.answer)}"
    if answer != expected.answer:
        return f"without {sorted(expected.answer - answer)}, with {sorted(answer - expected.answer)}"
    if expected.answer and name not in reply.owners:
        return f"owner spelled {sorted(reply.owners)}"
    additional = frozenset(reply.additional)
    if not additional <= expected.glue or transport == "tcp" and additional != expected.glue:
        return f"additional without {sorted(expected.glue - additional)}, with {sorted(additional - expected.glue)}"
    return None if reply.length <= limit else f"{reply.length} bytes over {transport}"


def check(bulk, model, asked):
    """The differences [(name, type, transport, difference)] for these questions over each transport."""
    out, expected = [], {}
    for name, type_ in asked:
        expected[name, type_] = model.expect(name, type_)
    over_tcp = bulk.ask_tcp(asked)
    lengths = {}
    for (name, type_), reply in zip(asked, over_tcp):
        lengths[name, type_] = reply.length
        if what := wrong(reply, name, expected[name, type_], "tcp"):
            out.append((name, type_, "tcp", what))
    for transport, edns, some in (("udp", None, asked[::2]), ("edns", UDP_PAYLOAD, asked[1::2])):
        for (name, type_), reply in zip(some, bulk.ask_udp(some, edns)):
            what = wrong(reply, name, expected[name, type_], transport)
            cut = lengths[name, type_] + (11 if edns else 0) > (edns or 512)
            if not what and reply.tc != cut and expected[name, type_].rcode == NOERROR:
                what = f"TC {reply.tc}; over TCP the reply has {lengths[name, type_]} bytes"
            if what:
                out.append((name, type_, transport, what))
    return out


def smallest(tmp_path, options, objects, difference):
    """The smallest set of objects that shows this difference in a kubedns that starts with them. None if a fresh kubedns does not show it."""
    name, type_, *_ = difference

    def fails(parts):
        left = [obj for _, obj in put_together(parts)]
        with Fresh(tmp_path, options, left) as fresh:
            return bool(check(fresh.bulk, Model(left, options), [(name, type_), (name, type_)]))

    parts = taken_apart([("object", obj) for obj in objects])
    return [obj for _, obj in put_together(smaller(parts, fails))] if fails(parts) else None


def explained(tmp_path, seed, step, options, objects, differences):
    """The report of a failure."""
    first = differences[0]
    least = smallest(tmp_path, options, objects, first)
    lines = [f"seed {seed}, after change {step}: {len(differences)} differences from the model; flags: {' '.join(options.arguments())}"]
    lines += [f"  {n} {t} over {over}: {what}" for n, t, over, what in differences[:8]]
    if least is None:
        lines += ["a process that begins with these objects does not show the first: it is the history's", *map(json.dumps, objects)]
    else:
        lines += [f"the smallest objects that show the first ({first[0]} {first[1]}):", *map(json.dumps, least)]
    return "\n".join(lines)


def walk(tmp_path, seed, changes=CHANGES):
    """Tests the cluster of this seed and its changes. Returns the number of questions. The first difference raises AssertionError with a report."""
    generator = Generator(seed)
    options = options_of(generator)
    with Player(tmp_path, options, initial=generator.cluster.values()) as player:
        for step in range(changes + 1):
            if step:
                for key, obj in generator.change():
                    player.do(("put", obj) if obj else ("delete", key))
                player.fence()
            objects = list(player.objects.values())
            model = Model(objects, options)
            asked = list(questions(model, f"{seed} {step}", 1.0 if step == 0 else 0.3))
            differences = check(player.bulk, model, asked)
            assert not differences, explained(tmp_path, seed, step, options, objects, differences)
        return player.bulk.asked


def test_answers_are_the_models(tmp_path):
    one_seed_after_another(walk, tmp_path, count=2)


@pytest.mark.soak
def test_answers_are_the_models_for_hours(tmp_path):
    one_seed_after_another(walk, tmp_path, 1800)
