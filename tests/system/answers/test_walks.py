"""
Random changes while watches break, expire, are refused or deliver garbage, deletions are lost, and relists come late. At the end,
kubedns's answers, its /cache and its digest must equal those of a fresh process that starts with the same objects in another order.
A failure reports the seed, the smallest walk that reproduces it, and the objects at its end.
"""

import json
import random

import pytest
from cluster_player import Fresh, Player, one_seed_after_another, put_together, smaller, taken_apart
from dns_model import Model
from random_cluster import NAMESPACES, SERVICES, Generator
from test_model import names_to_ask, options_of
from waiting import wait_for

FAULTS = [  # only faults of requests, because a fault of an open watch could last until the comparison at the end of the walk
    {"status": 500}, {"status": 410}, {"status": 429, "headers": {"Retry-After": "1"}}, {"html": True}, {"garbage": 3000}, {"empty": True},
    {"cut_after": 0}, {"cut_after": 900}, {"cut_after": 900, "cut": "end"}, {"cut_after": 300, "cut": "fin"}, {"lifetime_s": 0.02},
    {"error": {"code": 410, "reason": "Expired", "message": "gone"}},
]  # fmt: skip
RESOURCES = ["services", "endpointslices", "namespaces", "pods"]
TYPES = ["A", "AAAA", "SRV", "PTR", "ANY"]


def call(method, *args, **keywords):
    return ("call", method, args, keywords)


WELL = [call("clear"), call("set_watchlist", True), call("start"), ("fence",)]


def trouble(draw):
    """The next fault. If it stops the API server, the server may stay down until WELL."""
    resource, how = draw.choice([*RESOURCES, None]), draw.choice(["rst", "fin", "close"])
    return draw.choice(
        [
            [call("fault", resource=resource, times=draw.randrange(1, 4), **draw.choice(FAULTS)), call("drop_connections", how)],
            [call("drop_connections", how)],
            [call("restart", how)],
            [call("stop", how)],
            [call("stop", how), call("compact")],
            [call("start")],
            [call("compact"), call("drop_connections", how)],
            [call("end_watches", resource)],
            [call("inject_error", draw.choice(RESOURCES))],
            [call("inject", draw.choice(RESOURCES), draw.choice(["\n", "garbage\n", '{"type":"ADDED","object":null}\n']))],
            [call("set_watchlist", draw.random() < 0.5)],
            [call("bookmark", draw.choice(RESOURCES))],
            [call("goaway")],
            [call("pause")],
            WELL,
        ]
    )


def walk_of(seed):
    """The walk of this seed: (options, flags, initial objects, actions)."""
    generator = Generator(seed)
    draw = random.Random(f"walk {seed}")
    options = options_of(generator)
    flags = [f for f in ("--wildcards", "--ignore-empty-service") if draw.random() < 0.5]
    initial, actions = list(generator.cluster.values()), []
    for _ in range(draw.randrange(10, 40)):
        for _ in range(draw.randrange(4)):
            actions += [("put", obj) if obj else ("delete", key) for key, obj in generator.change()]
        if draw.random() < 0.5:
            actions += trouble(draw)
    return options, flags, initial, actions


def questions(objects, options, flags, seed):
    model, draw = Model(objects, options), random.Random(seed)
    names = names_to_ask(model, draw) + [f"{s}.{ns}.svc.{options.zone}" for s in SERVICES for ns in [*NAMESPACES, "extra"]]  # deleted Services too
    if "--wildcards" in flags:
        z = f"svc.{options.zone}"
        names += [f"{first}*.{ns}.{z}" for ns in [*NAMESPACES, "*"] for first in ("", "h0.", "_http._tcp.", "*.", "_*._tcp.", "*._tcp.")]
        names += [f"{first}{s}.{ns}.{z}" for s in SERVICES for ns in [*NAMESPACES, "*"] for first in ("*.", "*._tcp.", "_http.*.", "*.*.")]
        names += [f"{s}.*.{z}" for s in SERVICES]
    return [(name, type_) for name in names for type_ in TYPES if (type_ == "PTR") == name.endswith(".arpa") or draw.random() < 0.1]


def substance(reply):
    """Everything in the reply except for the order of record sets and the serial of an SOA."""

    def records(section):
        out = [r[:3] if r[1] == "SOA" else r for r in section]
        return tuple(out if out and out[0][1] == "PTR" else sorted(out))

    return reply.rcode, reply.aa, reply.tc, records(reply.answer), records(reply.authority), records(reply.additional)


def shown(kubedns):
    """The JSON of /cache. If kubedns's clock runs faster, it drops a slow HTTP client within a fraction of a second. So this retries."""

    def page():
        status, text = kubedns.http("/cache")
        return text if status == 200 else None

    return json.loads(wait_for(page, 30, "/cache"))


def digest(kubedns):
    """The digest and the scope. The versions that follow are left out, because a directory of manifests has none."""
    return wait_for(lambda: kubedns.http("/digest")[1].splitlines()[:2], 30, "/digest")


def differing(player, fresh, asked):
    """The differences [(question, the walk's answer, the fresh process's answer)]."""
    out = []
    for question, ours, theirs in zip(asked, player.bulk.ask_tcp(asked), fresh.bulk.ask_tcp(asked)):
        if substance(ours) != substance(theirs):
            out.append((question, substance(ours), substance(theirs)))
    ours, theirs = shown(player.kubedns), shown(fresh.kubedns)
    if ours != theirs:
        out.append(("/cache", *difference_of(ours, theirs, "")))
    ours, theirs = digest(player.kubedns), digest(fresh.kubedns)
    if ours != theirs:
        out.append(("/digest", ours, theirs))
    return out


def difference_of(a, b, at):
    """The first place at which two documents differ, and the two values there."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            if a.get(key) != b.get(key):
                return difference_of(a.get(key), b.get(key), f"{at}/{key}")
    return f"{at}: {json.dumps(a)}", f"{at}: {json.dumps(b)}"


def play(tmp_path, seed, options, flags, initial, actions, only=None):
    """Runs the walk and compares. Returns (the differences, the number of questions, the objects at the end)."""
    with Player(tmp_path, options, flags=flags, faulty=True, initial=initial) as player:
        for action in [*actions, *WELL]:
            if action[:2] == ("call", "pause"):
                player.bulk.ask_udp([(options.zone, "SOA")])  # waits for one reply; meanwhile kubedns may read from its connections to the API server
            else:
                player.do(action)
        # The fresh process gets the objects in another order. If a smaller walk leaves one object out, the order of the other objects does
        # not change.
        objects = [player.objects[key] for key in sorted(player.objects, key=lambda key: random.Random(f"{seed} {key}").random())]
        asked = only or questions(objects, options, flags, seed)
        with Fresh(tmp_path, options, objects, flags) as fresh:
            return differing(player, fresh, asked), len(asked) * 2, objects


def smallest(tmp_path, seed, options, flags, initial, actions, question):
    """The smallest walk that shows this difference in at least one of three attempts, or None if the difference does not recur."""
    only = [question] if isinstance(question, tuple) else None

    def fails(parts):
        events = put_together(parts)
        first = [obj for kind, obj in events if kind == "initial"]
        rest = [("put", value) if kind == "put" else value for kind, value in events if kind != "initial"]
        return any(what == question for _ in range(3) for what, *_ in play(tmp_path, seed, options, flags, first, rest, only)[0])

    events = [("initial", obj) for obj in initial] + [("put", a[1]) if a[0] == "put" else ("other", a) for a in actions]
    parts = taken_apart(events)
    return put_together(smaller(parts, fails)) if fails(parts) else None


def run(tmp_path, seed):
    """Runs the walk of this seed and returns the number of questions. A difference raises AssertionError with a report."""
    options, flags, initial, actions = walk_of(seed)
    differences, asked, objects = play(tmp_path, seed, options, flags, initial, actions)
    if not differences:
        return asked
    lines = [f"seed {seed}: {len(differences)} differences; flags: {' '.join([*options.arguments(), *flags])}"]
    lines += [f"  {what}:\n    walked {ours}\n    fresh  {theirs}" for what, ours, theirs in differences[:6]]
    least = smallest(tmp_path, seed, options, flags, initial, actions, differences[0][0])
    if least is None:
        lines += ["the walk did not show the difference again; the objects at the end:", *map(json.dumps, objects)]
    else:
        lines += [f"the smallest walk that shows {differences[0][0]}:", *map(json.dumps, least)]
    raise AssertionError("\n".join(lines))


def test_a_walk_ends_where_a_fresh_process_begins(tmp_path):
    one_seed_after_another(run, tmp_path, count=10)


@pytest.mark.soak
def test_walks_end_where_a_fresh_process_begins_for_hours(tmp_path):
    one_seed_after_another(run, tmp_path, 1800)
