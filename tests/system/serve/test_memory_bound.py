"""
--memory: one number for the whole pod. kubedns divides its part between the records of answers, TCP clients and queries in flight. dnsmasq
gets the other part.
"""

import pathlib
import re
import subprocess

import pytest
from kubedns_process import PROGRAM
from node_world import NANNY, NodeWorld

MI = 1 << 20


@pytest.mark.parametrize("size, mi", [("16Mi", 16), ("32Mi", 32), ("64M", 64), ("1G", 1024)])
def test_the_parts(tmp_path, size, mi):
    with NodeWorld(tmp_path) as world:
        world.start_pod("pod", f"--memory={size}", nanny=(f"-memory={size}",))
        world.until(lambda: world.pod_is_ready("pod"))
        text = world.node("curl", "-s", "http://127.0.0.1:10055/metrics").stdout
        parts = {part: int(value) for part, value in re.findall(r'^kubedns_memory_part_bytes\{part="(\w+)"\} (\d+)$', text, re.M)}
        (in_flight,) = map(int, re.findall(r"^kubedns_memory_in_flight (\d+)$", text, re.M))
        assert parts == {"recorder": min(2, mi // 16) * MI, "answer_cache": 0, "tcp": mi * MI // 8}
        assert in_flight == mi * MI // 24 // 2048
        (pid,) = subprocess.run(["pgrep", "-P", str(world.running["pod-nanny"].pid), "dnsmasq"], capture_output=True, text=True, check=True).stdout.split()
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        limits = dict(re.fullmatch(r"--(cache-size|dns-forward-max|max-tcp-connections)=(\d+)", a).groups() for a in argv if re.match("--(cache|dns-f|max-t)", a))
        assert int(limits["cache-size"]) == min(10000, mi * MI // 4 // 8 // 256)
        # kubedns never sends dnsmasq more queries at once than dnsmasq accepts.
        assert min(in_flight, 2048) * 17 / 16 <= int(limits["dns-forward-max"]) == min(8000, int(mi * MI / 4 / 10 / 1024))


def test_what_is_given_by_itself_stays(tmp_path):
    with NodeWorld(tmp_path) as world:
        world.start_pod("pod", "--memory=16Mi", "--recorder=4M", "--answer-cache=1M")
        world.until(lambda: world.pod_is_ready("pod"))
        text = world.node("curl", "-s", "http://127.0.0.1:10055/metrics").stdout
        assert f'part="recorder"}} {4 * MI}\n' in text and f'part="answer_cache"}} {MI}\n' in text


@pytest.mark.parametrize("program", [(PROGRAM, "--"), (NANNY, "-")])
@pytest.mark.parametrize("value", ["15M", "2G", "x", "-1", "32MB"])
def test_sizes_that_are_refused(program, value):
    done = subprocess.run([program[0], f"{program[1]}memory={value}", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "16M to 1G" in done.stderr and "usage:" in done.stderr
