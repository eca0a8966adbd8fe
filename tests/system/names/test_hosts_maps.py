"""Names from ConfigMaps labelled kubedns/hosts=true in the namespaces of --hosts-namespaces, read from the API (front topology)."""

import subprocess

import dns.rcode
from api_world import World
from asking import ask_until
from dnsnet import Upstream, query, udp
from kubedns_process import PROGRAM
from objects import namespace

OUTSIDE = {"192.0.2.1"}


def config_map(name, hosts, ns="shop", label="true", created="2026-11-22T10:00:00Z"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"hosts": hosts},
            "metadata": {"name": name, "namespace": ns, "labels": {"kubedns/hosts": label}, "creationTimestamp": created}}  # fmt: skip


def test_names_come_change_and_go_with_the_configmaps(tmp_path):
    def before(api):
        api.fill([namespace("shop"), namespace("team"), namespace("other"), config_map("a", "10.0.0.1 a.example a2.example\n"),
                  config_map("unlabelled", "10.0.0.2 b.example\n", label="no"), config_map("elsewhere", "10.0.0.3 c.example\n", ns="other")])  # fmt: skip

    with Upstream() as up, World(tmp_path, "--hosts-namespaces=shop,team", f"--resolver={up.address}", before=before) as world:
        k, api = world.kubedns, world.api
        ask_until(k.port, "a.example", "A", {"10.0.0.1"})
        ask_until(k.port, "a2.example", "A", {"10.0.0.1"})
        assert udp(k, query("a.example", "AAAA")).rcode() == dns.rcode.NOERROR
        assert k.ask("b.example") == OUTSIDE and k.ask("c.example") == OUTSIDE and k.ask("x.a.example") == OUTSIDE
        assert "a.example. is in the key hosts of ConfigMap shop/a.\n" in k.http("/explain?name=a.example")[1]
        # The newer ConfigMap gets only the names that the older ConfigMap does not have. After the older ConfigMap is deleted, the newer
        # one gets all of its names.
        api.put(config_map("b", "10.0.0.9 a.example b.example\n", ns="team", created="2026-11-22T10:00:01Z"))
        ask_until(k.port, "b.example", "A", {"10.0.0.9"})
        assert k.ask("a.example") == {"10.0.0.1"}
        k.wait(lambda: "ConfigMap team/b: hosts: a.example. is in the key hosts of ConfigMap shop/a; ignored" in k.log())
        assert k.metric("kubedns_hosts_names", state="left_out") == 1 and k.metric("kubedns_hosts_names", state="in_force") == 3
        # kubedns rejects only the invalid ConfigMap. The message contains its name.
        api.put(config_map("a", "10.0.0.1 a.example\n10.0.0 x.example\n"))
        k.wait(lambda: k.metric("kubedns_hosts_configmaps_refused") == 1)
        assert 'ConfigMap shop/a: hosts: line 2: "10.0.0": not an address' in k.log() and k.ask("a2.example") == {"10.0.0.1"}
        api.put(config_map("a", "10.0.0.1 kept.own.svc.cluster.local a3.example\n"))
        k.wait(lambda: '"kept.own.svc.cluster.local.": is in the cluster domain' in k.log())
        assert k.ask("kept.own.svc.cluster.local") == {"10.200.0.1"} and k.ask("a.example") == {"10.0.0.1"} and k.ask("a3.example") == OUTSIDE
        # If a ConfigMap uses a Service's address, the PTR of the address still leads to the Service.
        api.put(config_map("a", "10.200.0.1 a4.example\n"))
        ask_until(k.port, "a4.example", "A", {"10.200.0.1"})
        assert k.ask("1.0.200.10.in-addr.arpa", "PTR") == {"kept.own.svc.cluster.local."}
        ask_until(k.port, "a.example", "A", {"10.0.0.9"})
        api.delete("configmaps", "shop", "a")
        ask_until(k.port, "a4.example", "A", OUTSIDE)
        api.put(config_map("b", "10.0.0.9 b.example\n", ns="team", label="false", created="2026-11-22T10:00:01Z"))  # the label is removed
        ask_until(k.port, "b.example", "A", OUTSIDE)
        assert k.metric("kubedns_hosts_configmaps") == 0 and k.metric("kubedns_api_synced", resource="configmaps/shop") == 1


def test_the_operators_keys_come_before_them(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "records").write_text("corp.example SOA a b 1 1 1 1 1\n*.wild.example A 10.0.0.6\n")
    (conf / "hosts").write_text("10.0.0.5 mine.example\n")

    def before(api):
        api.fill([namespace("shop"), config_map("a", "10.0.0.1 mine.example x.corp.example own.example\n"),
                  config_map("b", "10.0.0.1 x.wild.example\n")])  # fmt: skip

    with Upstream() as up, World(tmp_path, "--hosts-namespaces=shop", f"--config-dir={conf}", f"--resolver={up.address}", before=before) as world:
        k = world.kubedns
        ask_until(k.port, "own.example", "A", {"10.0.0.1"})
        assert k.ask("mine.example") == {"10.0.0.5"} and udp(k, query("x.corp.example")).rcode() == dns.rcode.NXDOMAIN
        k.wait(lambda: "ConfigMap shop/b: hosts: x.wild.example. is in a zone of the ConfigMap's key records, or below a wildcard there; ignored" in k.log())
        assert k.ask("x.wild.example") == {"10.0.0.6"}
        (conf / "records").unlink()
        ask_until(k.port, "x.corp.example", "A", {"10.0.0.1"})


def test_a_team_cannot_take_names_from_another(tmp_path):
    """A team edits an old ConfigMap and fills many old ConfigMaps. It cannot get names of a stub domain or of another team's domain."""
    conf = tmp_path / "conf"
    conf.mkdir()
    old = "2020-01-01T00:00:00Z"

    def before(api):
        api.fill([namespace("team-a"), namespace("team-b"), config_map("a", "10.0.0.1 printer.office.example\n10.0.0.2 git.office.example\n", ns="team-a"),
                  config_map("b", "10.0.0.9 b.example\n", ns="team-b", created=old)])  # fmt: skip

    with Upstream() as up, Upstream() as stub:
        (conf / "stubDomains").write_text('{"corp.example": ["%s"]}' % stub.address)
        flags = ("--hosts-namespaces=team-b,team-a:office.example", f"--config-dir={conf}", f"--resolver={up.address}")
        with World(tmp_path, *flags, before=before) as world:
            k, api = world.kubedns, world.api
            ask_until(k.port, "printer.office.example", "A", {"10.0.0.1"})
            ask_until(k.port, "b.example", "A", {"10.0.0.9"})
            api.put(config_map("b", "10.6.6.6 b.example git.office.example\n10.6.6.6 x.corp.example\n", ns="team-b", created=old))
            for i in range(60):
                hosts = "".join(f"10.6.6.{n // 200} n{i}-{n}.example\n" for n in range(1000))
                api.put(config_map(f"b{i}", hosts, ns="team-b", created=old))
            ask_until(k.port, "b.example", "A", {"10.6.6.6"})
            ask_until(k.port, "n1-999.example", "A", {"10.6.6.4"})
            k.wait(lambda: k.metric("kubedns_hosts_configmaps_crowded_total") >= 11)
            k.wait(lambda: k.metric("kubedns_hosts_names", state="left_out") >= 45000)
            assert k.ask("git.office.example") == {"10.0.0.2"} and k.ask("printer.office.example") == {"10.0.0.1"}
            assert k.ask("x.corp.example") == OUTSIDE  # this address comes from the stub domain's server
            # If several names are left out, the message shows the first in canonical order. It is the same in every process.
            assert ("ConfigMap team-b/b: hosts: x.corp.example. is in a stub domain, and --hosts-namespaces allows this namespace none; "
                    "ignored, and 1 more\n") in k.log()  # fmt: skip
            api.put(config_map("b", "10.6.6.6 b.example git.office.example\n", ns="team-b", created=old))
            k.wait(lambda: "ConfigMap team-b/b: hosts: git.office.example. is in the key hosts of ConfigMap team-a/a; ignored\n" in k.log())
            # The same for team-a: it may only have names in its own domain.
            api.put(config_map("a2", "10.6.6.6 b.example\n", ns="team-a", created=old))
            k.wait(lambda: k.metric("kubedns_hosts_configmaps_refused") == 1)
            assert '"b.example.": is not in a domain that --hosts-namespaces allows for namespace team-a' in k.log()
            assert k.ask("b.example") == {"10.6.6.6"}


def test_what_gives_no_names_is_said(tmp_path):
    def before(api):
        wrong_key = config_map("key", "")
        wrong_key["data"] = {"host": "10.0.0.1 a.example\n"}
        api.fill([namespace("shop"), wrong_key, config_map("set", "10.0.0.1 a.clusterset.local\n"), config_map("ext", "10.0.0.1 a.ext.example\n")])

    flags = ("--hosts-namespaces=shop", "--resolver=127.0.0.1:9", "--clusterset-domain=clusterset.local", "--external-zones=ext.example")
    with World(tmp_path, *flags, before=before) as world:
        k = world.kubedns
        k.wait(lambda: k.metric("kubedns_hosts_configmaps_refused") == 2)
        said = k.log()
        assert said.count("ConfigMap shop/key: has no key hosts, so no names are read from it\n") == 1
        assert '"a.clusterset.local.": is in --clusterset-domain, whose names' in said and '"a.ext.example.": is in one of --external-zones, whose names' in said


def test_a_namespace_that_exists_nowhere_is_said_once(tmp_path):
    """A namespace without a Service counts as existing, because namespaces for ConfigMaps often have no Service."""
    told = '--hosts-namespaces: "dns-nams": there is no such Namespace, so no ConfigMap can be read from it; did you mean "dns-names"?'
    with World(tmp_path, "--hosts-namespaces=dns-names,dns-nams", "--resolver=127.0.0.1:9", before=lambda api: api.fill([namespace("dns-names")])) as world:
        k, api = world.kubedns, world.api
        k.wait_ready()
        assert k.metric("kubedns_namespaces_missing") == 1 and told in k.http("/readiness")[1]
        before = k.metric("kubedns_objects", kind="namespace")
        api.put(namespace("other"))
        k.wait(lambda: k.metric("kubedns_objects", kind="namespace") >= before + 1)
        api.put(namespace("dns-nams"))
        k.wait(lambda: k.metric("kubedns_namespaces_missing") == 0)
        assert k.log().count(told) == 1 and k.log().count("--hosts-namespaces: ") == 2 and '"dns-nams": exists now' in k.log()
        assert k.http("/readiness")[1] == "ok\n"


def test_without_the_right_to_list_namespaces_none_is_missing(tmp_path):
    def before(api):
        api.fill([namespace("dns-names")])
        api.forbid("namespaces")

    with World(tmp_path, "--hosts-namespaces=dns-names", "--resolver=127.0.0.1:9", before=before) as world:
        world.kubedns.wait_ready()
        assert world.kubedns.metric("kubedns_namespaces_missing") == 0 and "--hosts-namespaces: " not in world.kubedns.log()


def test_where_it_cannot_work_it_is_refused(tmp_path):
    for args, why in ((["--hosts-namespaces=shop", "--dns-port=10053"], "use the front topology (--resolver), or --dns-port=53"),
                      (["--hosts-namespaces=shop", f"--objects-dir={tmp_path}"], "without an API server"),
                      (["--hosts-namespaces=Shop", "--dns-port=53"], "not the name of a namespace"),
                      (["--hosts-namespaces=a,a", "--dns-port=53"], "is given twice"),
                      (["--hosts-namespaces=a:x.example,a", "--dns-port=53"], "is given twice"),
                      (["--hosts-namespaces=a:", "--dns-port=53"], "':' must be followed by the domain"),
                      (["--hosts-namespaces=a:x.example:.", "--dns-port=53"], "':' must be followed by the domain"),
                      (["--hosts-namespaces=a,b,c,d,e,f,g,h,i", "--dns-port=53"], "more than 8 namespaces")):  # fmt: skip
        done = subprocess.run([PROGRAM, "--check", *args], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and "--hosts-namespaces: \"" in done.stderr and why in done.stderr, done.stderr
