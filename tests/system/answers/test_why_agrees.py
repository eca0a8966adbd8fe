"""
An explanation agrees with the answer: rcode, records, the server that a query is sent to, and the reason, in each topology. The names,
objects, flags and ConfigMaps are random.
"""

import os
import random
from collections import Counter

import dns.rcode
import dns.rdatatype
import pytest
from cluster_player import one_seed_after_another
from why_world import POD, TOPOLOGIES, TYPES, Said, WhyWorld, ede, names_of, sent_to

NAMES = 150


def records_of(reply):
    """The records that kubedns has written, without those of the upstream server and of the stub server."""
    out = {(str(r.name).lower(), r.ttl, dns.rdatatype.to_text(r.rdtype), rd.to_text().lower()) for r in reply.answer for rd in r}
    return {record for record in out if not sent_to(reply) or record[2] == "CNAME"}


def timeless(records):
    """Another server's records limit the TTL of kubedns's own."""
    return {(owner, type_, data) for owner, _, type_, data in records}


def differences(name, replies, said):
    """Compares the replies to a name with its explanation. Yields (kind, detail)."""
    first, sent = replies["A"], {sent_to(r) for r in replies.values()} - {None}
    rcode = dns.rcode.to_text(first.rcode())
    if said.maybe and (sent or rcode == "NXDOMAIN"):
        said.sent, said.rcodes = sent, {rcode}
    if sent and not sent & said.sent:
        yield f"sent to {'+'.join(sorted(sent))}, not said", said.sent
    if not sent and said.sent:
        yield f"said to be sent to {'+'.join(sorted(said.sent))}", rcode
    if not sent and rcode != "NOERROR" and rcode not in said.rcodes:
        yield f"{rcode} not said", said.rcodes
    if rcode == "NOERROR" and not sent and said.rcodes & {"NXDOMAIN", "REFUSED", "SERVFAIL"}:
        yield f"{'+'.join(sorted(said.rcodes))} said", rcode
    mine, shown = set().union(*map(records_of, replies.values())), said.records
    if sent and "But clients do not get this answer" in said.text:
        shown = set()  # the explanation shows kubedns's own records, and says that another server answers
    if sent and not mine and "no effect" in said.text:
        yield "said that the stub domain has no effect", sent
    if said.maybe:  # each candidate is said, but not which one answers
        mine, shown = {r[3] for r in mine if r[2] == "CNAME" and r[0].startswith(name)}, said.records | {line.split()[0] for line in said.text.splitlines()}
        mine, shown = mine - shown, set()
    elif sent:
        mine, shown = timeless(mine), timeless(shown)
    if not said.more and any(record not in shown for record in mine if "SOA" not in record):
        yield "records not said", sorted(mine - shown)[:3]
    if shown - mine:
        yield "records said", sorted(shown - mine)[:3]
    for type_ in ("A", "AAAA"):
        for text in ede(replies[type_]):
            if text not in said.text:
                yield f"reason of {type_} not said", text


def compare(world, names):
    """[(kind, name, detail, text)] of the names whose explanation disagrees."""
    out = []
    for name in names:
        said = Said(world.why(name + "."))
        replies = {type_: world.ask(name, type_) for type_ in TYPES}
        out += [(kind, name, detail, said.text) for kind, detail in differences(name, replies, said)]
    return out


def compare_tenants(world, names):
    """With --visibility, the explanation says which pods see a name. The pod that asks is in namespace a."""
    out = []
    for name in names:
        text = world.why(name + ".")
        seen = [line.replace(",", " ").split() for line in text.splitlines() if line.startswith("  seen by ")]
        if not seen or world.ask(name, "A").rcode() != dns.rcode.NOERROR:
            continue
        said, sees = "every" in seen[0] or "a" in seen[0], world.ask(name, "A", POD).rcode() == dns.rcode.NOERROR
        if said != sees:
            out.append((f"the pod sees it: {sees}", name, said, text))
    return out


def run(tmp_path, topology, seed, count):
    draw = random.Random(f"names {topology} {seed}")
    directory = tmp_path / f"{topology}-{seed}"
    directory.mkdir()
    with WhyWorld(directory, topology, seed) as world:
        names = names_of(draw, count)
        found = compare(world, names)
        if "--visibility=labels" in world.flags and topology != "classic":
            found += compare_tenants(world, names)
        return found, len(names), world.described()


def walk(tmp_path, topology, seeds, count):
    """Compares the names of some clusters. Returns the number of differences of each kind, and a report."""
    kinds, report, asked = Counter(), [], 0
    for seed in seeds:
        found, names, described = run(tmp_path, topology, seed, count)
        asked += names
        kinds.update(kind for kind, *_ in found)
        if found:
            shown = {kind: (name, detail, text) for kind, name, detail, text in reversed(found)}  # the first of each kind
            report += [f"seed {seed}, {described}", *(f"--- {kind}: {name}: {detail}\n{text}" for kind, (name, detail, text) in shown.items())]
    print(f"{topology}: seeds {seeds}: {asked} names, {len(TYPES)} types each: {sum(kinds.values())} differences {dict(kinds)}")
    return kinds, "\n".join(report)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_explanations_agree_with_the_answers(tmp_path, topology):
    """SEED in the environment is another seed, NAMES another number of names."""
    seeds = [int(os.environ["SEED"])] if "SEED" in os.environ else [1, 2]
    kinds, report = walk(tmp_path, topology, seeds, int(os.environ.get("NAMES", NAMES)))
    assert not kinds, f"{dict(kinds)}\n{report}"


@pytest.mark.soak
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_explanations_agree_with_the_answers_for_long(tmp_path, topology):
    def one(path, seed):
        kinds, report = walk(path, topology, [seed], 1000)
        assert not kinds, report
        return 1000 * len(TYPES)

    one_seed_after_another(one, tmp_path, 600)
