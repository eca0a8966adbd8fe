"""
The admission policies of conf/kubernetes/policies in the real API server: which host names and which annotations of Namespaces it
rejects, and for which users.
"""

import json
import pathlib
import shutil

import pytest
from realapi import RealApi
from run import Failed
from test_api_external import GATEWAYS, GROUP, crd
from waiting import wait_for

CONF = pathlib.Path(__file__).parent.parent.parent / "conf/kubernetes"
KEY = "external-dns.alpha.kubernetes.io/hostname"
ZONE = "apps.example.com"
MAKER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: maker}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [get, create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: maker}
subjects: [{kind: User, name: maker}, {kind: User, name: manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules: [{apiGroups: [kubedns], resources: [namespaces], verbs: [manage]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects: [{kind: User, name: manager}]
"""
LISTS = "shop.apps.example.com, .x *.wild.apps.example.com\noffice.example"


def made(kind, name, ns, api="v1", annotations=None, labels=None, **rest):
    metadata = {"name": name, **({"namespace": ns} if ns else {}), "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}


def namespace(name, annotations=None, labels=None):
    return made("Namespace", name, None, annotations=annotations, labels=labels)


def service(hosts, ns="team-a", name="web", key=KEY):
    return made("Service", name, ns, annotations={key: hosts}, spec={"ports": [{"port": 80}]})


def ingress(host, ns="team-a", annotations=None):
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return made("Ingress", "web", ns, "networking.k8s.io/v1", annotations, spec={"rules": [rule, {"host": host, **rule}]})


def listeners(kind, host):
    return made(kind, "web", "team-a", f"{GROUP}/v1", spec={"listeners": [{"name": "any"}, {"name": "web", "hostname": host}]})


def route(kind, host):
    return made(kind, "web", "team-a", f"{GROUP}/v1", spec={"hostnames": [f"shop.{ZONE}", host]})


def hosts_map(text, ns="team-a", name="names", labels=None):
    return made("ConfigMap", name, ns, labels=labels or {"kubedns/hosts": "true"}, data={"hosts": text})


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    directory = tmp_path_factory.mktemp("policies")
    real = RealApi(directory / "real", controllers="serviceaccount,namespace")
    shutil.copytree(CONF / "policies", directory / "policies")
    names = directory / "policies/host-names.yaml"
    names.write_text(names.read_text().replace(f"zones: {ZONE}", f"zones: {ZONE}, in.{ZONE}"))
    try:
        real.apply(namespace("team-a", {"kubedns/host-names": LISTS}), namespace("team-b"), namespace("in"), MAKER)
        real.apply(service(f"old.{ZONE}", name="before"), hosts_map("10.0.0.1 old.example", name="before"))
        print(real.kubectl("apply", "-k", directory / "policies"))
        for refused in (service(f"nobody.{ZONE}", "team-b"), hosts_map("10.0.0.1 nobody.example", "team-b")):
            wait_for(lambda refused=refused: why(real, refused), 60, "the policies in force")
        wait_for(lambda: why(real, namespace("later", {"kubedns/sees": "*"}), "maker"), 60, "the policy of Namespaces in force")
        yield real
    finally:
        real.stop()


def why(api, thing, user=None):
    """The API server's reason for rejecting the object, or "" if it accepts it."""
    who = [f"--as={user}"] if user else []
    try:
        api.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", *who, "-f", "-", text=json.dumps(thing))
    except Failed as e:
        return str(e)
    return ""


def test_a_namespace_has_host_names_below_its_own_or_those_of_its_annotation(api):
    for good in (f"web.team-a.{ZONE}", f"a.b.team-a.{ZONE}", f"shop.{ZONE}", f"SHOP.{ZONE}.", f"x.shop.{ZONE}", f"*.wild.{ZONE}", "www.elsewhere.example",
                 f"x.team-a.in.{ZONE}", f"shop.{ZONE}, web.team-a.{ZONE}"):  # fmt: skip
        assert why(api, service(good)) == "" and why(api, service(good, key="coredns.io/hostname")) == "", good
        if "," not in good and good == good.lower() and not good.endswith("."):
            assert why(api, ingress(good)) == "", good
    for bad in (ZONE, f"*.{ZONE}", f"login.{ZONE}", f"*.team-a.{ZONE}", f"x.team-b.{ZONE}", f"team-a.{ZONE}", f"xshop.{ZONE}", f"wild.{ZONE}", f"*.shop.{ZONE}",
                f"in.{ZONE}", f"x.in.{ZONE}"):  # fmt: skip
        for thing in (service(bad), service(bad.upper() + "."), service(f"shop.{ZONE}\t{bad}"), service(bad, key="coredns.io/hostname"), ingress(bad),
                      ingress(f"shop.{ZONE}", annotations={KEY: bad})):  # fmt: skip
            assert f"host name {bad} is not for namespace team-a" in why(api, thing), thing
    # A namespace does not own a whole zone because its name equals the zone's first label.
    assert why(api, service(f"x.in.{ZONE}", "in")) and why(api, service(f"x.in.in.{ZONE}", "in")) == ""
    assert why(api, service(f"shop.{ZONE}", "kube-system")) == ""


def test_host_names_of_listeners_and_routes_are_those_of_their_namespace(api):
    api.apply(*(crd(kind, plural) for kind, plural in GATEWAYS.items()))
    api.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{plural}.{GROUP}" for plural in GATEWAYS.values()))
    for kind in GATEWAYS:
        make = listeners if kind in ("Gateway", "ListenerSet") else route
        for good in (f"web.team-a.{ZONE}", f"*.wild.{ZONE}", "www.elsewhere.example"):
            assert why(api, make(kind, good)) == "", (kind, good)
        for bad in (f"login.{ZONE}", f"*.{ZONE}", f"x.team-b.{ZONE}"):
            assert f"host name {bad} is not for namespace team-a" in why(api, make(kind, bad)), (kind, bad)


def test_existing_objects_can_still_be_changed_under_the_policies(api):
    changed = service(f"old.{ZONE}", name="before")
    changed["metadata"]["labels"] = {"a": "b"}
    assert why(api, changed) == ""
    assert f"host name new.{ZONE} is" in why(api, service(f"old.{ZONE},new.{ZONE}", name="before"))
    assert why(api, hosts_map("10.0.0.2 old.example", name="before")) == ""
    assert "host name new.example is" in why(api, hosts_map("10.0.0.2 old.example new.example", name="before"))


def test_names_of_hosts_configmaps_are_those_of_the_annotation(api):
    assert why(api, hosts_map("# printers\n10.0.0.1 p.office.example\tOffice.example. # x.example\n\n  2001:db8::1\tq.office.example\r\n")) == ""
    assert why(api, hosts_map("10.0.0.1 sts.amazonaws.com", labels={"other": "true"})) == ""
    for text, name in (("10.0.0.1 p.office.example sts.amazonaws.com", "sts.amazonaws.com"), ("10.0.0.1\tgit.example.", "git.example"),
                       (" 10.0.0.1   backoffice.example", "backoffice.example"), ("10.0.0.1 a.office.example\n10.0.0.1\tB.example", "b.example")):  # fmt: skip
        assert f"host name {name} is not for namespace team-a" in why(api, hosts_map(text)), text
    assert why(api, hosts_map("10.0.0.1 a.example", "team-b"))
    # A ConfigMap that gets the label later is checked like a new one.
    api.apply(hosts_map("10.0.0.1 sts.amazonaws.com", name="unlabelled", labels={"other": "true"}))
    assert "sts.amazonaws.com is not" in why(api, hosts_map("10.0.0.1 sts.amazonaws.com", name="unlabelled"))
    # kubedns reads a maximum number of names. The policy checks that many names within the API server's cost limit.
    assert why(api, hosts_map("".join(f"10.0.{n // 200}.1 n{n}.office.example\n" for n in range(1000)))) == ""


def test_users_who_create_namespaces_cannot_set_kubedns_annotations(api):
    for key in ("kubedns/sees", "kubedns/visible-to", "kubedns/host-names"):
        assert 'need the verb "manage"' in why(api, namespace("new", {key: "x"}), "maker")
        assert why(api, namespace("new", {key: "x"}), "manager") == "" and why(api, namespace("new", {key: "x"})) == ""
    assert 'need the verb "manage"' in why(api, namespace("new", labels={"kubedns/sees": "payments"}), "maker")
    assert why(api, namespace("new", {"other": "x"}, {"a": "b"}), "maker") == ""
    # An annotation of an existing Namespace: a user without the permission cannot add, change or remove it, but can change everything
    # else.
    assert 'need the verb "manage"' in why(api, namespace("team-a", {"kubedns/host-names": "example.com"}), "maker")
    assert 'need the verb "manage"' in why(api, namespace("team-b", {"kubedns/sees": "team-a"}), "maker")
    assert why(api, namespace("team-a", {"kubedns/host-names": LISTS, "other": "y"}), "maker") == ""
    assert 'need the verb "manage"' in why(api, namespace("team-a"), "maker")
