"""Clients that ask all the time while something breaks, and what became of every question.

One counts single queries without a retry; the other resolves as programs do, by getaddrinfo, whose stub asks again.
"""

import math

from cluster import DNS_IP, DOMAIN

NAMES = [f"kubernetes.default.svc.{DOMAIN}=10.96.0.1", "www.example.com=192.0.2.80", f"nothing.clients.svc.{DOMAIN}=none"]
RATE = 60


class Load:
    """Both askers; end() gives what they counted together."""

    def __init__(self, suite, glibc, musl):
        self.askers = [suite.asker(glibc, "ask", DNS_IP, RATE, *NAMES), suite.asker(musl, "resolve", 15, NAMES[0])]

    def end(self):
        (single, failures), (stub, stub_failures) = [a.stop() for a in self.askers]
        self.failures, self.stub_failures = failures, stub_failures
        self.asked, self.lost, self.wrong = single["asked"], single["lost"], single["wrong"]
        self.stub_bad = stub["lost"] + stub["wrong"]
        return self

    def __str__(self):
        return f"{self.lost} lost, {self.wrong} wrong of {self.asked}; programs failed: {self.stub_bad}"


def share(seconds, pods):
    """The most questions that one of these pods gets in so many seconds: Services choose by chance, so four deviations."""
    mean = RATE * seconds / pods
    return math.ceil(mean + 4 * math.sqrt(mean))


def sent(failure):
    """When the question was sent that had this bad answer: time of day."""
    return failure["at"] - failure["sent_ms_ago"] / 1e3


def none_lost(report, what, load):
    load.end()
    report(what, "0 lost, 0 wrong", load)
    assert load.asked > RATE and load.lost == load.wrong == load.stub_bad == 0, (load.failures[:5], load.stub_failures[:5])


def only_until(report, what, load, broke, left, pods=3):
    """Bad answers come from the broken pod alone, and only from the moment when it broke until the Service sent nobody there
    any more: no question that was sent after that had one, also not when the pod was back."""
    load.end()
    bound = share(left - broke, pods)
    report(what, f"bad: its share of {left - broke:.1f} s, <= {bound}; then none", load)
    bad = load.failures + load.stub_failures
    late = [f for f in bad if sent(f) > left]
    early = [f for f in bad if f["at"] < broke]
    assert load.asked > RATE and not late and not early, (broke, left, late[:5], early[:5])
    assert len(load.failures) <= bound, load.failures[:5]
