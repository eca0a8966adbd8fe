"""
Valid and invalid contents of the ConfigMap: the servers file that `nanny --check` prints, and the messages that reject a value. A running
nanny then gets all contents one after the other. After each of them its dnsmasq must answer.
"""

import os
import re
import subprocess

import pytest
from nanny_world import ENGINE, Server, World, constant
from waiting import wait_for

MIB = 1 << 20
TEN_THOUSAND = "{" + ",".join(f'"d{i:05}.test":["10.0.0.{i % 250 + 1}"]' for i in range(10000)) + "}"
LONG_LABEL, LONG_NAME = "a" * 64, ".".join(["a" * 49] * 6)

# key, content, the expected lines of the file (sorted by domain; None: not compared) or a part of the error message
STUBS = "stubDomains"
UPSTREAMS = "upstreamNameservers"
GOOD = [
    (STUBS, '{"acme.test":["10.0.0.1"]}', ["server=/acme.test/10.0.0.1#53"]),
    (STUBS, '{"acme.test":["10.0.0.1:5353"]}', ["server=/acme.test/10.0.0.1#5353"]),
    (STUBS, '{"acme.test":["fd00::1"]}', ["server=/acme.test/fd00::1#53"]),
    (STUBS, '{"acme.test":["[fd00::1]:5353"]}', ["server=/acme.test/fd00::1#5353"]),
    (STUBS, '{"acme.test":["[FD00:0:0::1]"]}', ["server=/acme.test/fd00::1#53"]),
    (STUBS, '{"a.test":["10.0.0.2","10.0.0.1"],"b.test":["10.0.0.3"]}',
     ["server=/a.test/10.0.0.2#53", "server=/a.test/10.0.0.1#53", "server=/b.test/10.0.0.3#53"]),
    (STUBS, '{"b.test":["10.0.0.3"],"a.test":["10.0.0.1"]}', ["server=/a.test/10.0.0.1#53", "server=/b.test/10.0.0.3#53"]),
    (STUBS, '{"ACME.Test.":["10.0.0.1"]}', ["server=/acme.test/10.0.0.1#53"]),
    (STUBS, '{"_msdcs.acme.test":["10.0.0.1"]}', ["server=/_msdcs.acme.test/10.0.0.1#53"]),
    (STUBS, '{"\\u0061cme.test":["10.0.0.1"]}', ["server=/acme.test/10.0.0.1#53"]),
    (STUBS, ' \n{"acme.test" :\t["10.0.0.1"] }\r\n', ["server=/acme.test/10.0.0.1#53"]),
    (STUBS, '{"acme.test":["10.0.0.1","10.0.0.1:53","10.0.0.1"]}', ["server=/acme.test/10.0.0.1#53"]),
    (STUBS, '{"10.in-addr.arpa":["10.0.0.1"]}', ["server=/10.in-addr.arpa/10.0.0.1#53"]),
    (STUBS, '{"other.cluster.local":["10.0.0.1"]}', ["server=/other.cluster.local/10.0.0.1#53"]),
    (STUBS, '{"xcluster.local":["10.0.0.1"],"local":["10.0.0.2"]}', ["server=/local/10.0.0.2#53", "server=/xcluster.local/10.0.0.1#53"]),
    (STUBS, "null", []),
    (STUBS, "{}", []),
    (STUBS, '{"acme.test":["ns.example.test"]}', ["# acme.test: ns.example.test port 53, resolved while running"]),
    (STUBS, '{"acme.test":["NS.example.test.:5353","10.0.0.1"]}',
     ["# acme.test: ns.example.test port 5353, resolved while running", "server=/acme.test/10.0.0.1#53"]),
    (STUBS, TEN_THOUSAND, None),
    (STUBS, '{"acme.test":["10.0.0.1"]' + " " * (MIB - 26) + "}", ["server=/acme.test/10.0.0.1#53"]),
    (UPSTREAMS, '["10.0.0.1"]', ["server=10.0.0.1#53"]),
    (UPSTREAMS, '["10.0.0.1:5353","[fd00::1]:54","fd00::2"]', ["server=10.0.0.1#5353", "server=fd00::1#54", "server=fd00::2#53"]),
    (UPSTREAMS, '["10.0.0.1","10.0.0.1:53"]', ["server=10.0.0.1#53"]),
    (UPSTREAMS, str([f"10.0.0.{i}" for i in range(1, 16)]).replace("'", '"'), [f"server=10.0.0.{i}#53" for i in range(1, 16)]),
    (UPSTREAMS, "null", []),
    (UPSTREAMS, "[]", []),
    (UPSTREAMS, "", []),
    (STUBS, "", []),
    (STUBS, " \n", []),
    ("unknownKey", "{{{", []),
]  # fmt: skip
BAD = [
    (UPSTREAMS, '["tls://10.0.0.1"]', "the server name is missing"),
    (STUBS, "{", "line 1, column 2"),
    (STUBS, '{"acme.test":["10.0.0.1"]', "unexpected end"),
    (STUBS, '{"acme.test":["10.0.0.1"]}}', "text after the end"),
    (STUBS, '{"a.test":["10.0.0.1"],}', "line 1, column 24"),
    (STUBS, "{'a.test':['10.0.0.1']}", "line 1"),
    (STUBS, '/* x */ {"a.test":["10.0.0.1"]}', "must be a JSON object"),
    (STUBS, "server=/a/10.0.0.1", "must be a JSON object"),
    (STUBS, "[]", "must be a JSON object"),
    (STUBS, '"acme.test"', "must be a JSON object"),
    (STUBS, "42", "must be a JSON object"),
    (STUBS, '{"acme.test":"10.0.0.1"}', "must be an array"),
    (STUBS, '{"acme.test":{"a":1}}', "must be an array"),
    (STUBS, '{"acme.test":[1]}', "not a string"),
    (STUBS, '{"acme.test":[["10.0.0.1"]]}', "not a string"),
    (STUBS, '{"acme.test":["10.0.0.1",null]}', "not a string"),
    (STUBS, '{"a.test":["10.0.0.1"],"a.test":["10.0.0.2"]}', "given twice"),
    (STUBS, '{"a.test":["10.0.0.1"],"A.test.":["10.0.0.2"]}', "given twice"),
    (STUBS, '{"acme.test":["010.1.1.1"]}', "010.1.1.1"),
    (STUBS, '{"acme.test":["1.2.3"]}', "1.2.3"),
    (STUBS, '{"acme.test":["256.1.1.1"]}', "256.1.1.1"),
    (STUBS, '{"acme.test":["10.0.0.1:0"]}', "port"),
    (STUBS, '{"acme.test":["10.0.0.1:65536"]}', "port"),
    (STUBS, '{"acme.test":["ns.test:0"]}', "port"),
    (STUBS, '{"acme.test":["[fd00::1]:65536"]}', "port"),
    (STUBS, '{"acme.test":["[fd00::1"]}', "fd00::1"),
    (STUBS, '{"acme.test":["fe80::1%eth0"]}', "fe80::1"),
    (STUBS, '{"acme.test":["10.0.0.1#53"]}', "10.0.0.1#53"),
    (STUBS, '{"acme.test":["10.0.0.1@eth0"]}', "10.0.0.1@eth0"),
    (STUBS, '{"acme.test":["/etc/passwd"]}', "/etc/passwd"),
    (STUBS, '{"acme.test":["10.0.0.1\\nserver=/x/10.0.0.2"]}', "\\x0aserver"),
    (STUBS, '{"acme.test":["10.0.0.1\\u0000"]}', "NUL"),
    (STUBS, '{"acme\\u0000.test":["10.0.0.1"]}', "NUL"),
    (STUBS, b'{"acme.test":["10.0.0.1"]}\0', "NUL byte"),
    (STUBS, '{"acme.test":["0.0.0.0"]}', "unspecified"),
    (STUBS, '{"acme.test":["224.0.0.1"]}', "multicast"),
    (STUBS, '{"acme.test":["::ffff:10.0.0.1"]}', "IPv4"),
    (STUBS, '{"acme.test":["127.0.0.53:SELF"]}', "forwarding loop"),
    (STUBS, '{"a/b":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"a#b":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"a b.test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"a\\nb":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"*.acme.test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{".acme.test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"a..test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"-a.test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"b\\u00fccher.test":["10.0.0.1"]}', "not a domain name"),
    (STUBS, '{"%s.test":["10.0.0.1"]}' % LONG_LABEL, "not a domain name"),
    (STUBS, '{"%s":["10.0.0.1"]}' % LONG_NAME, "longer than 253"),
    (STUBS, '{".":["10.0.0.1"]}', "the root"),
    (STUBS, '{"":["10.0.0.1"]}', "the root"),
    (STUBS, '{"cluster.local":["10.0.0.1"]}', "cluster domain"),
    (STUBS, '{"Cluster.Local.":["10.0.0.1"]}', "cluster domain"),
    (STUBS, '{"svc.cluster.local":["10.0.0.1"]}', "services"),
    (STUBS, '{"pod.cluster.local":["10.0.0.1"]}', "pods"),
    (STUBS, '{"fixed.test":["10.0.0.1"]}', "command line"),
    (STUBS, '{"acme.test":' + "[" * 100000 + "]" * 100000 + "}", "line 1"),
    (STUBS, b'{"acme\xff.test":["10.0.0.1"]}', "line 1"),
    (STUBS, "{" + ",".join(f'"d{i:05}.test":["10.0.0.1"]' for i in range(20001)) + "}", "20000"),
    (STUBS, '{"acme.test":[' + ",".join(f'"10.0.1.{i}"' for i in range(17)) + "]}", "more than 16"),
    (STUBS, " " * MIB + "{}", "larger than 1 MiB"),
    (UPSTREAMS, "{}", "must be a JSON array"),
    (UPSTREAMS, '"10.0.0.1"', 'write ["10.0.0.1"]'),
    (UPSTREAMS, '["dns.example.test"]', "dns.example.test"),
    (UPSTREAMS, '["010.1.1.1"]', "010.1.1.1"),
    (UPSTREAMS, '["10.0.0.1:0"]', "port"),
    (UPSTREAMS, '["10.0.0.1 "]', "10.0.0.1 "),
    (UPSTREAMS, '["127.0.0.1:SELF"]', "forwarding loop"),
    (UPSTREAMS, str([f"10.0.0.{i}" for i in range(1, 17)]).replace("'", '"'), "more than 15"),
]  # fmt: skip
if ENGINE == "dnsmasq":
    BAD[:0] = [
        (UPSTREAMS, '["tls://10.0.0.1#dns.example"]',
         '"tls://10.0.0.1:853#dns.example": dnsmasq cannot encrypt queries: run the nanny with --engine=unbound'),
        (STUBS, '{"acme.test":["tls://[fd00::1]#dns.example"]}',
         '"tls://[fd00::1]:853#dns.example": dnsmasq cannot encrypt queries: run the nanny with --engine=unbound'),
    ]  # fmt: skip
ARGS = ["-k", "--no-hosts", "--server=/fixed.test/127.0.0.1#9"]


def content(world, text):
    return text.replace("SELF", str(world.port)) if isinstance(text, str) else text


@pytest.fixture(scope="module")
def world():
    w = World()
    yield w
    w.close()


def test_the_table_is_long_enough():
    assert len(GOOD) + len(BAD) >= 60


def test_check_prints_the_file_of_each_good_content(world):
    for key, text, lines in GOOD:
        world.write(**{key: content(world, text)})
        code, printed, log = world.check(ARGS)
        assert code == 0, (text[:80], log)
        if lines is not None and ENGINE == "unbound":
            printed, lines = sorted(printed), sorted(lines)  # unbound's order is another one and has no meaning
        assert lines is None or printed == lines, text[:80]
        assert lines is not None or len(printed) == 10000


def may_ask_for_tls(text):
    return len(text) > MIB or re.search(r"tls:|//|[0-9][#@]", str(text))


def test_check_names_the_reason_of_each_bad_content(world):
    for key, text, reason in BAD:
        world.write(**{key: content(world, text)})
        code, printed, log = world.check(ARGS)
        closed = [line for line in printed if line.startswith("#") and "SERVFAIL" in line]
        # Of stubDomains, the good servers of an entry take effect.
        assert code == 2 and (printed == closed or key == STUBS) and (closed == [] or may_ask_for_tls(text) or key == STUBS), (text[:80], printed[:3])
        assert f"{key}: " in log and reason in log, (text[:80], log[:300])


def test_check_reports_every_error_and_prints_what_is_good(world):
    world.write(stubDomains='{"acme.test":["10.0.0.1"]}', upstreamNameservers='["10.0.0"]')
    code, printed, log = world.check(ARGS)
    assert code == 2 and printed == ["server=/acme.test/10.0.0.1#53"] and "upstreamNameservers" in log


def test_a_misspelt_key_is_named(world):
    world.write(stubDomians='{"acme.test":["10.0.0.1"]}')
    code, printed, log = world.check(ARGS)
    assert (code, printed) == (0, []) and "stubDomians: unknown key; did you mean stubDomains?" in log


def test_check_reports_a_missing_directory(world):
    done = subprocess.run([world.command()[0], "--check", f"-configDir={world.conf}/missing", "--", *ARGS], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and f"conf {world.conf}/missing: no such directory" in done.stderr, done.stderr
    without = subprocess.run([world.command()[0], "--check", "--", *ARGS], capture_output=True, text=True, timeout=20)
    assert without.returncode == 0, without.stderr  # the default directory may be missing


def test_a_key_that_is_a_directory(world):
    world.write()
    os.mkdir(os.path.join(world.conf, "..data", "stubDomains"))
    code, _, log = world.check(ARGS)
    assert code == 2 and "stubDomains: is a directory" in log


def test_dnsmasq_answers_whatever_is_written():
    upstream = Server(constant("10.9.0.1"))
    world = World()
    good = {STUBS: {"good.test": [str(upstream)]}, UPSTREAMS: [str(upstream)]}
    try:
        world.write(**good)
        world.start(args=ARGS)
        refused = 0
        for number, (key, text, reason) in enumerate(BAD):
            world.write(**good)  # ends the changes of a value that was refused in part
            before = world.wait_config(lambda c: c["confirmed"] and not c["refused"] and all(c["keys"][k]["inForce"] == good[k] for k in good))
            world.write(**{**good, key: content(world, text)})
            config = world.wait_config(lambda c, r=reason, k=key: c["keys"][k]["error"] and r in c["keys"][k]["error"])
            refused += 1
            (refusal,) = config["refused"]
            if not refusal["partly"]:
                assert config["keys"][key]["inForce"] == before["keys"][key]["inForce"], text[:80]
                assert config["generation"] == before["generation"]  # the nanny did not reload dnsmasq
            assert world.ask(f"b{number}.example.test") == "10.9.0.1", text[:80]
        assert world.metric('nanny_config_error{key="upstreamNameservers"}') == 1
        counted = sum(world.metric(f'nanny_config_errors_total{{key="{k}"}}') for k in (STUBS, UPSTREAMS))
        assert counted == refused
        ends = ("keeping previous", "the other entries are in force", "there is no earlier good value")
        assert sum(line.endswith(ends) for line in world.log().splitlines()) == refused  # each was logged once
        for number, (key, text, _) in enumerate(GOOD):
            if key == STUBS:
                world.write(**{**good, key: content(world, text)})
                world.wait_config(lambda c: not c["refused"])
                assert world.ask(f"g{number}.example.test") == "10.9.0.1", text[:80]
        world.write(**good)
        world.wait_config(lambda c: c["confirmed"] and c["keys"][STUBS]["inForce"] == good[STUBS])
        assert world.ask("last.example.test") == "10.9.0.1"
        assert world.config()["dnsmasq"]["deaths"] == 0
    finally:
        world.close()
        upstream.close()


def test_one_bad_key_does_not_stop_the_other():
    upstream, other = Server(constant("10.9.0.1")), Server(constant("10.9.0.2"))
    world = World()
    try:
        world.write(upstreamNameservers=[str(upstream)])
        world.start()
        world.write(upstreamNameservers="[", stubDomains={"acme.test": [str(other)]})
        wait_for(lambda: world.ask("x.acme.test") == "10.9.0.2")
        assert world.ask("x.example.test") == "10.9.0.1"
        status = world.get("/config")[1]
        assert '"key":"upstreamNameservers"' in status
        world.write(stubDomains={"acme.test": [str(other)]})  # the invalid key is deleted, so it has its default again: no servers
        wait_for(lambda: world.ask("y.example.test") == "REFUSED")
        assert world.ask("y.acme.test") == "10.9.0.2"
    finally:
        world.close()
        upstream.close()
        other.close()
