# needs modules: whoami
"""The example of a module in docs/contributing.md. tests/modules.sh adds it to a copy of the tree, and builds it without other modules."""

import subprocess

import dns.rcode
from dnsnet import query, udp, world
from kubedns_process import PROGRAM
from overlays import ROOT

WHOAMI = "whoami.cluster.local"


def test_the_client_gets_its_address_and_the_answer_is_counted(tmp_path):
    with world(tmp_path, "--whoami", "--threads=2") as k:
        k.wait_ready()
        (answer,) = udp(k, query(WHOAMI), source="127.0.0.3").answer
        assert [str(r) for r in answer] == ["127.0.0.3"] and answer.ttl == 0
        nodata = udp(k, query(WHOAMI, "AAAA"))
        assert nodata.rcode() == dns.rcode.NOERROR and not nodata.answer and nodata.authority
        assert udp(k, query("other.cluster.local")).rcode() == dns.rcode.NXDOMAIN
        assert k.metric("kubedns_whoami_total") == 2
        assert "The module whoami answers" in k.http(f"/explain?name={WHOAMI}")[1]


def test_without_the_flag_the_name_does_not_exist(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        assert udp(k, query(WHOAMI)).rcode() == dns.rcode.NXDOMAIN
        assert not any("whoami" in series for series in k.metrics())


def test_a_flag_of_a_module_that_is_not_in_the_build_is_refused_with_the_module():
    for folder in (path for path in (ROOT / "kubedns/modules").iterdir() if path.is_dir() and path.name != "whoami"):
        for flag in subprocess.run(["sh", ROOT / "kubedns/modules/table.sh", "--flags", folder], capture_output=True, text=True, check=True).stdout.split():
            done = subprocess.run([PROGRAM, f"--{flag}=x"], capture_output=True, text=True, timeout=30, check=False)
            assert done.returncode == 2 and f"--{flag}: not in this build, which is without the module {folder.name}\n" in done.stderr
            assert f"--{flag}" not in subprocess.run([PROGRAM, "--help=all"], capture_output=True, text=True, timeout=30, check=True).stdout
