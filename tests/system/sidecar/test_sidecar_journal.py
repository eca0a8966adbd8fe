"""The history of changes, kept in a file. A restarted sidecar continues the history, whatever the file contains."""

import json
import os
import re
import subprocess
import time

import pytest

from sidecar_world import NAME, PROGRAM, FakeDns, Sidecar, until


@pytest.fixture
def dns():
    with FakeDns() as server:
        yield server


@pytest.fixture
def sidecar(tmp_path, dns):
    """Starts sidecars that use the same journal."""
    made = []

    def start(*args, journal=tmp_path / "journal"):
        made.append(Sidecar(f"--journal={journal}", f"--probe=dns,{dns.server},{NAME},1,A", f"--dnsmasq-port={dns.port}", "--outside-name=", *args))
        return made[-1]

    yield start
    for one in made:
        one.__exit__()


def told(sidecar):
    """The events, oldest first."""
    return [event["what"] for event in reversed(sidecar.status()["events"])]


def test_the_journal_keeps_changes_across_a_restart(sidecar, dns):
    first = sidecar()
    until(lambda: first.probe("dns")["state"] == "ok")
    dns.stop()
    until(lambda: "probe dns: connection refused" in told(first))
    before = told(first)
    assert before[0] == "the sidecar started"
    first.process.kill()
    first.process.wait()

    second = sidecar()
    until(lambda: second.probe("dns")["state"] == "connection_refused")
    until(lambda: "the sidecar restarted" in told(second))
    # The probe failed before and after the restart, so there is no new event.
    assert told(second) == [*before, "the sidecar restarted"]
    dns.start()
    until(lambda: told(second)[-1] == "probe dns: answered again")
    assert second.status()["journalKept"] is True
    at = [event["time"] for event in second.status()["events"]]
    assert at == sorted(at, reverse=True)


@pytest.mark.parametrize("content, said", [
    (b"\xff\x00garbage", "not a JSON object"), (b"[]", "not a JSON object"), (b"", "not a JSON object"), (b"x" * 300000, "not a journal of the sidecar"),
], ids=["garbage", "another JSON", "empty", "too large"])  # fmt: skip
def test_a_file_that_is_no_journal_is_written_anew(sidecar, tmp_path, content, said):
    (tmp_path / "journal").write_bytes(content)
    one = sidecar()
    until(lambda: said in one.said())
    until(lambda: told(one)[:1] == ["the sidecar started"])
    until(lambda: json.loads((tmp_path / "journal").read_text())["events"][0]["what"] == "the sidecar started")


def test_what_stands_in_the_file_is_bounded_text(sidecar, tmp_path):
    """test_sidecar_drawing tests that the browser shows such strings as text."""
    (tmp_path / "journal").write_text(json.dumps({"events": [{"at": time.time() - 60, "level": "down", "what": "<script>alert(1)</script>" + "x" * 5000}]}))
    one = sidecar()
    until(lambda: any(what.startswith("<script>alert(1)</script>x") for what in told(one)))
    assert max(map(len, told(one))) < 200


def test_a_directory_that_cannot_be_written_is_said_once(sidecar, tmp_path, dns):
    """The sidecar still probes DNS."""
    one = sidecar(journal=tmp_path / "nowhere" / "journal")
    until(lambda: one.probe("dns")["state"] == "ok")
    until(lambda: "nowhere/journal: No such file or directory; changes are lost when the sidecar exits" in one.said())
    dns.stop()
    until(lambda: "probe dns: connection refused" in told(one))
    assert one.said().count("are lost when the sidecar exits") == 1


def test_check_says_where_the_journal_is(tmp_path):
    def check(path):
        return subprocess.run([PROGRAM, "--check", f"--journal={path}"], capture_output=True, text=True, check=False)

    assert f"journal: {tmp_path}/journal\n" in check(tmp_path / "journal").stdout
    assert re.search(r"journal: \S+/nowhere/journal cannot be written: directory \S+/nowhere: No such file", check(tmp_path / "nowhere/journal").stdout)
    wrong = check("journal")
    assert wrong.returncode == 2 and "--journal \"journal\": a file's name that begins with '/'" in wrong.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="strace of the sidecar needs the right to trace it")
def test_without_the_flag_nothing_is_written(tmp_path, dns):
    trace = tmp_path / "trace"
    with Sidecar(f"--probe=dns,{dns.server},{NAME},1,A", "--outside-name=", "--sandbox=off", wrap=["strace", "-f", "-o", trace, "-e", "trace=openat,rename,renameat2"]) as one:
        until(lambda: one.probe("dns")["state"] == "ok")
        subprocess.run(["pkill", "-P", str(one.process.pid)], check=False)
        one.process.wait(10)
    assert "O_CREAT" not in trace.read_text() and "rename" not in trace.read_text()
