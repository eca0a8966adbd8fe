"""kubedns with one pod on every node. It requests only the objects that a node needs, and still answers all cluster names."""

import pytest
from api_world import NXDOMAIN, World, endpoint_slice, name
from objects import config_map

POPULATION = {"namespaces": 50, "services": 1000, "slices": 1500}
HEADLESS = {"service.kubernetes.io/headless": ""}
LABELLED = endpoint_slice("db", ["10.201.0.1", "10.201.0.2"], "own", hostnames=["db-0", "db-1"], labels=HEADLESS)
PLAIN = endpoint_slice("kept", ["10.201.7.1"], "own")


def before(api):
    api.put(LABELLED)
    api.put(PLAIN)


def selectors(world):
    return {r["params"].get("labelSelector") for r in world.api.requests() if r["resource"] == "endpointslices"}


def test_endpoints_of_services_with_a_cluster_address_are_not_asked_for(tmp_path):
    received = {}
    for args in ([], ["--node-role"]):
        with World(tmp_path, *args, population=POPULATION, before=before) as world:
            world.watching()
            received[bool(args)] = world.kubedns.metric("kubedns_api_received_bytes_total")
            if not args:
                continue
            assert selectors(world) == {"service.kubernetes.io/headless"}
            assert world.kubedns.metric("kubedns_objects", kind="endpointslice") == 151  # 150 slices of the population and one of this test
            for question, wanted in (((name("kept"), "A"), {"10.200.0.1"}), ((name("db"), "A"), {"10.201.0.1", "10.201.0.2"}),
                                     ((f"db-1.{name('db')}", "A"), {"10.201.0.2"})):  # fmt: skip
                world.until(question, wanted)
            assert world.kubedns.ask(f"10-201-7-1.{name('kept')}") == NXDOMAIN, "kubedns-node(7), --node-role"
            # A change arrives as it does without the node role.
            world.api.put(endpoint_slice("db", ["10.201.0.9"], "own", "new", ["db-9"], labels=HEADLESS))
            world.until((f"db-9.{name('db')}", "A"), {"10.201.0.9"})
    print(f"bytes of the first sync: {received}")
    assert received[True] < 0.5 * received[False]


@pytest.mark.parametrize("flag", ["--ignore-empty-service", "--reverse-all-endpoints", "--federations=fed=fed.example"])
def test_what_needs_all_endpoints_gets_them(tmp_path, flag):
    with World(tmp_path, "--node-role", flag, before=before) as world:
        world.watching()
        assert selectors(world) == {None}
        world.until((f"10-201-7-1.{name('kept')}", "A"), {"10.201.7.1"})


def test_a_selector_of_ones_own_is_kept(tmp_path):
    with World(tmp_path, "--node-role", "--endpointslice-selector=x!=y", before=before) as world:
        world.watching()
        assert selectors(world) == {"x!=y"}


def test_federations_that_come_later_bring_all_endpoints(tmp_path):
    with World(tmp_path, "--node-role", "--config-map=kube-dns", before=before) as world:
        world.watching("endpointslices", "configmaps")
        assert selectors(world) == {"service.kubernetes.io/headless"}
        world.api.put(config_map("kube-dns", {"federations": "fed=fed.example"}))
        # The local Service has an endpoint, so the federation's name leads to it.
        world.until(("kept.own.fed.svc.cluster.local", "A"), {f"{name('kept')}.", "10.200.0.1"})
        assert selectors(world) == {"service.kubernetes.io/headless", None}
        world.api.put(endpoint_slice("kept", ["10.201.7.2"], "own", "new"))
        world.until((f"10-201-7-2.{name('kept')}", "A"), {"10.201.7.2"})
