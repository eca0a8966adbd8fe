"""
Clients that send queries continuously while something breaks, and the result of each query.

One client counts single queries without a retry. The other resolves names with getaddrinfo, as programs do. Its stub resolver retries.
"""

import math

from cluster import DNS_IP, DOMAIN

NAMES = [f"kubernetes.default.svc.{DOMAIN}=10.96.0.1", "www.example.com=192.0.2.80", f"nothing.clients.svc.{DOMAIN}=none"]
RATE = 60


class Load:
    """Both clients. end() returns the sum of their counts."""

    def __init__(self, suite, glibc, musl):
        self.askers = [suite.asker(glibc, "ask-ports", DNS_IP, RATE, *NAMES), suite.asker(musl, "resolve", 15, NAMES[0])]

    def end(self):
        (single, failures), (stub, stub_failures) = [a.stop() for a in self.askers]
        self.failures, self.stub_failures = failures, stub_failures
        self.asked, self.lost, self.wrong = single["asked"], single["lost"], single["wrong"]
        self.stub_bad = stub["lost"] + stub["wrong"]
        return self

    def __str__(self):
        return f"{self.lost} lost, {self.wrong} wrong of {self.asked}; programs failed: {self.stub_bad}"


def share(seconds, pods):
    """
    Returns an upper bound for the queries that one of these pods gets in this time. The Service chooses pods at random, so the bound is the
    mean plus four standard deviations.
    """
    mean = RATE * seconds / pods
    return math.ceil(mean + 4 * math.sqrt(mean))


def sent(failure):
    """Returns the time of day when the client sent the query with this bad answer."""
    return failure["at"] - failure["sent_ms_ago"] / 1e3


def none_lost(report, what, load):
    load.end()
    report(what, "0 lost, 0 wrong", load)
    assert load.asked > RATE and load.lost == load.wrong == load.stub_bad == 0, (load.failures[:5], load.stub_failures[:5])


def only_until(report, what, load, broke, left, pods=3):
    """
    Checks the times of the queries with a bad answer. All of them must be between the failure and the moment when the Service stopped
    sending queries to the broken pod. No later query may get a bad answer, even after the pod is back.
    """
    load.end()
    bound = share(left - broke, pods)
    report(what, f"bad: its share of {left - broke:.1f} s, <= {bound}; then none", load)
    bad = load.failures + load.stub_failures
    late = [f for f in bad if sent(f) > left]
    early = [f for f in bad if f["at"] < broke]
    assert load.asked > RATE and not late and not early, (broke, left, late[:5], early[:5])
    assert len(load.failures) <= bound, load.failures[:5]
