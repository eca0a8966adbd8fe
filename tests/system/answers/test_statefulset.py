"""
A StatefulSet whose members start one after the other. Each member queries for its predecessor in a loop, and finds it after its ready event,
with queries to kubedns and through dnsmasq in the classic topology.
"""

import random
import threading
import time

import dns.exception
import dns.query
import pytest
from apiserver import ApiServer
from dnsnet import Upstream, query
from kubedns_process import Kubedns
from objects import endpoint_slice, namespace, service
from test_relay import Dnsmasq

MEMBERS = 4
LOOP_S = 0.1  # time between two queries; few programs wait less


def slice_of(count, ready):
    """The slice of members 0 to count - 1. `ready` applies to the last of them."""
    made = endpoint_slice("db", [f"10.3.0.{i + 1}" for i in range(count)], hostnames=[f"db-{i}" for i in range(count)])
    made["endpoints"][-1]["conditions"] = {"ready": ready}
    return made


def look(port, name, found):
    """Queries until the member has an address, for at most a minute. Then sets `found`."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            reply = dns.query.udp(query(name), "127.0.0.1", port=port, timeout=2)
        except dns.exception.Timeout:
            continue
        if reply.answer:
            found.set()
            return
        time.sleep(LOOP_S)


def starts(api, port):
    """Starts the members. Each successor must find its predecessor."""
    for i in range(MEMBERS - 1):
        api.put(slice_of(i + 1, False))
        found = threading.Event()
        successor = threading.Thread(target=look, args=(port, f"db-{i}.db.default.svc.cluster.local", found))
        successor.start()
        time.sleep(0.2 + random.uniform(0, 2 * LOOP_S))  # a random delay, so that the event and the loop of queries are not synchronous
        assert not found.is_set()
        api.put(slice_of(i + 1, True))
        successor.join()
        assert found.is_set()


@pytest.mark.parametrize("through", ["kubedns", "dnsmasq"])
@pytest.mark.parametrize("negative_ttl", [0, 3600])
def test_a_member_finds_the_one_before_it(tmp_path, through, negative_ttl):
    """
    A negative TTL of an hour stands for any cache between client and kubedns. The successor finds the member within a minute nevertheless.
    """
    with ApiServer() as api, Upstream() as u:
        api.fill([namespace("default"), service("db", "None")])
        config = api.kubeconfig(tmp_path / "kubeconfig")
        with Kubedns(f"--kubecfg-file={config}", f"--negative-ttl={negative_ttl}", directory=str(tmp_path)) as k:
            k.wait_ready()
            if through == "kubedns":
                starts(api, k.port)
            else:
                with Dnsmasq(u, args=("--cache-size=1000", "--dns-forward-max=6000", f"--server=/cluster.local/127.0.0.1#{k.port}")) as d:
                    starts(api, d.port)
