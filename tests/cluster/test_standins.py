"""Tests of the stand-ins. A mistake in them could hide a mistake in the manifests. They need no container and no API server."""

import pytest

import podspec


def spec(**container):
    return {"containers": [{"name": "c", "image": "i", **container}], "securityContext": {"runAsUser": 65534, "runAsGroup": 65534}}


@pytest.mark.parametrize("text, expanded", [
    ("--domain=$(D).", "--domain=cluster.local."), ("$(UNKNOWN)", "$(UNKNOWN)"), ("$$(D)", "$(D)"), ("$D", "$D"),
])
def test_variables_in_arguments(text, expanded):
    assert podspec.expand(text, {"D": "cluster.local"}) == expanded


def test_a_variable_uses_those_before_it():
    env = podspec.environment({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]}, {}, {})
    assert env == {"A": "1", "B": "12"}


@pytest.mark.parametrize("wrong", [
    {"spec": {"hostNetwork": True}}, {"container": {"stdin": True}}, {"container": {"securityContext": {"privileged": True}}},
    {"container": {"livenessProbe": {"exec": {"command": ["x"]}}}},
])
def test_what_is_not_understood_is_refused(wrong):
    pod = spec(**wrong.get("container", {}))
    pod.update(wrong.get("spec", {}))
    with pytest.raises(podspec.Unsupported):
        podspec.check(pod)


def test_unsafe_sysctls_are_refused_as_the_kubelet_does():
    pod = spec()
    pod["securityContext"]["sysctls"] = [{"name": "net.core.somaxconn", "value": "1"}]
    with pytest.raises(podspec.Unsupported):
        podspec.check(pod)


def test_port_53_is_privileged_unless_the_pod_says_otherwise():
    assert podspec.pause_args(spec()) == ["--sysctl", "net.ipv4.ip_unprivileged_port_start=1024"]


def test_run_as_non_root_refuses_an_image_that_runs_as_root():
    pod = {"containers": [], "securityContext": {"runAsNonRoot": True}}
    with pytest.raises(podspec.Unsupported):
        podspec.security(pod, {"name": "c"}, "")
    podspec.security(pod, {"name": "c"}, "65534:65534")


def test_security_context_becomes_the_engine_s_words():
    pod = spec(securityContext={"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
    pod["securityContext"].update(fsGroup=65534, seccompProfile={"type": "RuntimeDefault"})
    assert podspec.security(pod, pod["containers"][0], "") == [
        "--user", "65534:65534", "--group-add", 65534, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]


def test_a_pod_without_a_seccomp_profile_runs_without_one():
    assert "seccomp=unconfined" in podspec.security(spec(), spec()["containers"][0], "")


def test_cluster_first_has_the_search_list():
    assert podspec.resolv_conf({}, "ns", "", "10.96.0.10", "cluster.local") == (
        "nameserver 10.96.0.10\nsearch ns.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n")
