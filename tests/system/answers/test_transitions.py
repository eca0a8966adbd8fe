"""What must hold during and after a change. One kubedns runs while the test edits its manifests. Each transition has a name."""

import time

import pytest
from dnsnet import Upstream, answered
from objects import namespace, service
from world import Z, ask, dual, external, one_of_everything, slice_of, start, texts, write

NAME = f"s.default.svc.{Z}"


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    with Upstream(lambda request, _tcp: answered(request)) as up, start(tmp_path_factory.mktemp("transitions"), [namespace("default")], "--reverse-all-endpoints",
                                 "--reverse-cidrs=10.0.0.0/8,fd00::/8", f"--nameservers={up.address}") as k:  # fmt: skip
        k.wait_ready()
        yield k


def becomes(kubedns, items, name, type_, want):
    """Writes the objects and waits until the answer is `want` (a sorted list of texts, or an rcode)."""
    write(kubedns.objects, [namespace("default"), *items])
    deadline = time.monotonic() + 5
    while (got := answer(kubedns, name, type_)) != want:
        assert time.monotonic() < deadline, f"{name} {type_}: {got}, not {want}"
        time.sleep(0.002)


def answer(kubedns, name, type_="A"):
    reply = ask(kubedns, name, type_, use_edns=0)
    return "NXDOMAIN" if reply.rcode() == 3 else "REFUSED" if reply.rcode() == 5 else texts(reply.answer)


def ptr(address):
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


KINDS = {
    "cluster_ip": ([dual("s", "10.96.1.1", "fd00::1"), slice_of("s", [("10.5.0.1", "h", True)])], "A", ["10.96.1.1"]),
    "headless": ([service("s", "None"), slice_of("s", [("10.5.0.2", None, True)])], "A", ["10.5.0.2"]),
    "external_name": ([external("s", "elsewhere.example")], "CNAME", ["elsewhere.example."]),
}
LEFT_BY = {
    "cluster_ip": [("AAAA", NAME), ("PTR", ptr("10.96.1.1")), ("A", f"h.{NAME}"), ("PTR", ptr("10.5.0.1"))],
    "headless": [("PTR", ptr("10.5.0.2")), ("A", f"10-5-0-2.{NAME}"), ("SRV", f"_http._tcp.{NAME}")],
    "external_name": [("CNAME", NAME)],
}


@pytest.mark.parametrize(("before", "after"), [(b, a) for b in KINDS for a in KINDS if b != a])
def test_changing_the_type_of_a_service_removes_all_old_records(kubedns, before, after):
    for kind in (before, after):
        items, type_, want = KINDS[kind]
        becomes(kubedns, items, NAME, type_, want)
    for type_, name in LEFT_BY[before]:
        got = answer(kubedns, name, type_)
        new = [v for t, v in (KINDS[after][1:],) if t == type_ and name == NAME]
        if type_ == "SRV" and after == "cluster_ip":
            assert got == [f"0 100 80 {NAME}."]
        elif type_ == "AAAA" and after == "external_name" or type_ == "A" and name == NAME:
            assert "fd00::1" not in got
        else:
            assert got in ([], "NXDOMAIN", "REFUSED", *new), f"{name} {type_} is left over from {before}: {got}"


def test_a_renamed_port_leaves_no_srv(kubedns):
    becomes(kubedns, [service("s", "10.96.1.2", ports=(("old", 1),))], f"_old._tcp.{NAME}", "SRV", [f"0 100 1 {NAME}."])
    becomes(kubedns, [service("s", "10.96.1.2", ports=(("new", 1),))], f"_new._tcp.{NAME}", "SRV", [f"0 100 1 {NAME}."])
    assert answer(kubedns, f"_old._tcp.{NAME}", "SRV") == "NXDOMAIN"


def test_dual_to_single_stack_takes_the_second_address_its_ptr_and_its_glue(kubedns):
    reverse = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa"
    becomes(kubedns, [dual("s", "10.96.1.3", "fd00::1")], NAME, "AAAA", ["fd00::1"])
    assert answer(kubedns, reverse, "PTR") == [f"{NAME}."]
    becomes(kubedns, [service("s", "10.96.1.3")], NAME, "AAAA", [])
    assert answer(kubedns, reverse, "PTR") in ("NXDOMAIN", "REFUSED")
    assert texts(ask(kubedns, f"_http._tcp.{NAME}", "SRV").additional) == ["10.96.1.3"]


def test_ready_not_ready_ready(kubedns):
    for ready, want in ((True, ["10.5.1.1"]), (False, "NXDOMAIN"), (True, ["10.5.1.1"])):
        becomes(kubedns, [service("s", "None"), slice_of("s", [("10.5.1.1", None, ready)])], NAME, "A", want)


def test_an_address_that_moves_between_slices_is_never_missing_and_never_doubled(kubedns):
    fixed = slice_of("s", [("10.5.2.9", None, True)], suffix="fixed")
    left = [slice_of("s", [("10.5.2.1", None, True)], suffix="a"), slice_of("s", [], suffix="b"), fixed]
    both = [slice_of("s", [("10.5.2.1", None, True)], suffix="a"), slice_of("s", [("10.5.2.1", None, True)], suffix="b"), fixed]
    right = [slice_of("s", [], suffix="a"), slice_of("s", [("10.5.2.1", None, True)], suffix="b"), fixed]
    becomes(kubedns, [service("s", "None"), *left], NAME, "A", ["10.5.2.1", "10.5.2.9"])
    for _ in range(5):
        for state in (both, right, both, left):
            write(kubedns.objects, [namespace("default"), service("s", "None"), *state])
            deadline = time.monotonic() + 0.05
            while time.monotonic() < deadline:
                assert answer(kubedns, NAME) == ["10.5.2.1", "10.5.2.9"]


def test_slices_before_the_service_and_after_it(kubedns):
    parts = [slice_of("s", [("10.5.3.1", None, True)])]
    becomes(kubedns, [], NAME, "A", "NXDOMAIN")
    write(kubedns.objects, parts, name="slices.json")
    time.sleep(0.05)
    assert answer(kubedns, NAME) == "NXDOMAIN", "slices without a Service have no names"
    becomes(kubedns, [service("s", "None")], NAME, "A", ["10.5.3.1"])
    (kubedns.objects / "slices.json").unlink()
    becomes(kubedns, [service("s", "None")], NAME, "A", "NXDOMAIN")
    write(kubedns.objects, parts, name="slices.json")
    becomes(kubedns, [service("s", "None")], NAME, "A", ["10.5.3.1"])
    (kubedns.objects / "slices.json").unlink()


def test_a_deleted_service_is_gone_while_its_slices_remain(kubedns):
    parts = [slice_of("s", [("10.5.4.1", "h", True)])]
    becomes(kubedns, [service("s", "None"), *parts], NAME, "A", ["10.5.4.1"])
    becomes(kubedns, parts, NAME, "A", "NXDOMAIN")
    assert answer(kubedns, f"h.{NAME}") == "NXDOMAIN"
    assert answer(kubedns, ptr("10.5.4.1"), "PTR") in ("NXDOMAIN", "REFUSED")


def test_a_slice_whose_service_label_changes_moves_with_it(kubedns):
    other = f"t.default.svc.{Z}"
    services = [service("s", "None"), service("t", "None")]
    moved = slice_of("t", [("10.5.5.1", None, True)])
    moved["metadata"]["name"] = "s-s1"
    becomes(kubedns, [*services, slice_of("s", [("10.5.5.1", None, True)])], NAME, "A", ["10.5.5.1"])
    becomes(kubedns, [*services, moved], other, "A", ["10.5.5.1"])
    assert answer(kubedns, NAME) == "NXDOMAIN"
    assert answer(kubedns, ptr("10.5.5.1"), "PTR") == [f"10-5-5-1.{other}."]


def test_the_hostname_of_an_endpoint_changes(kubedns):
    for host in ("one", "two"):
        becomes(kubedns, [service("s", "None"), slice_of("s", [("10.5.6.1", host, True)])], f"{host}.{NAME}", "A", ["10.5.6.1"])
    assert answer(kubedns, f"one.{NAME}") == "NXDOMAIN"
    assert answer(kubedns, ptr("10.5.6.1"), "PTR") == [f"two.{NAME}."]


def test_two_services_share_an_address_and_one_goes(kubedns):
    shared = [service("s", "None"), slice_of("s", [("10.5.7.1", "h", True)])]
    other = [service("t", "None"), slice_of("t", [("10.5.7.1", "h", True)])]
    becomes(kubedns, [*shared, *other], ptr("10.5.7.1"), "PTR", [f"h.{NAME}.", f"h.t.default.svc.{Z}."])
    becomes(kubedns, shared, ptr("10.5.7.1"), "PTR", [f"h.{NAME}."])


def test_a_service_made_again_under_its_name_is_the_new_one(kubedns):
    becomes(kubedns, [service("s", "10.96.1.7")], NAME, "A", ["10.96.1.7"])
    again = service("s", "10.96.1.8")
    again["metadata"]["uid"] = "another"
    becomes(kubedns, [again], NAME, "A", ["10.96.1.8"])
    assert answer(kubedns, ptr("10.96.1.7"), "PTR") in ("NXDOMAIN", "REFUSED")


def test_everything_goes_and_the_memory_of_it_too(kubedns):
    becomes(kubedns, one_of_everything()[2:], f"web.default.svc.{Z}", "A", ["10.96.0.10"])
    becomes(kubedns, [], f"web.default.svc.{Z}", "A", "NXDOMAIN")
    kubedns.wait(lambda: kubedns.metric("kubedns_objects", kind="service") == 0)
    assert kubedns.metric("kubedns_objects", kind="endpointslice") == 0
