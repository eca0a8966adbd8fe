"""How kubedns finds the API server and authenticates: with each form of a kubeconfig, inside a pod, and with credentials that change while it runs."""

import http.server
import json
import os
import socket
import threading

import pytest
from api_world import NXDOMAIN, ApiServer, ask_until, service
from kubedns_process import Kubedns
from netns import needs_ipv6

NAME = "web.default.svc.cluster.local"


def works(kubedns, api, ip="10.96.0.10"):
    """True if kubedns is synced and sees a change."""
    api.put(service("web", ip))
    ask_until(kubedns.port, NAME, "A", {ip}, 10)
    return True


def run(tmp_path, config, *args, **options):
    return Kubedns(f"--kubecfg-file={config}", *args, directory=str(tmp_path), **options)


@pytest.fixture
def api():
    with ApiServer() as server:
        yield server


@pytest.mark.parametrize("inline", [True, False], ids=["data", "paths"])
@pytest.mark.parametrize("user", ["token", "token-file", "certificate"])
def test_each_kind_of_user(api, tmp_path, user, inline):
    with run(tmp_path, api.kubeconfig(tmp_path / "config", user=user, inline=inline)) as kubedns:
        assert works(kubedns, api)
    assert {r["user"] for r in api.requests()} == {"system:serviceaccount:kube-system:kube-dns"}
    assert {r["http"] for r in api.requests()} == {"2"}, "the server offers it, so kubedns uses it"


def test_tls_server_name_is_what_is_verified(api, tmp_path):
    api.new_certificate(names=["kubernetes.example"])
    config = api.kubeconfig(tmp_path / "config", cluster={"tls-server-name": "kubernetes.example"})
    with run(tmp_path, config) as kubedns:
        assert works(kubedns, api)


def test_insecure_skip_tls_verify_works_and_warns(api, tmp_path):
    path = tmp_path / "config"
    api.kubeconfig(path, cluster={"insecure-skip-tls-verify": True})
    config = json.loads(path.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    path.write_text(json.dumps(config))
    api.new_certificate("other")
    with run(tmp_path, path) as kubedns:
        assert works(kubedns, api)
        assert "not verified" in kubedns.log()


def test_plain_http_works_and_warns_of_the_token(tmp_path):
    with ApiServer(tls=False) as api, run(tmp_path, api.kubeconfig(tmp_path / "config")) as kubedns:
        assert works(kubedns, api)
        assert "unencrypted" in kubedns.log()


def test_the_master_url_as_kubectl_proxy_offers_it(tmp_path):
    with ApiServer(tls=False) as api:
        env = {"PROXY_PORT": str(api.address()["port"])}
        with Kubedns("--kube-master-url=http://127.0.0.1:${PROXY_PORT}/", env=env, directory=str(tmp_path)) as kubedns:
            assert works(kubedns, api)
            assert "unencrypted" not in kubedns.log(), "kubedns must send no token"


def test_the_master_url_overrides_the_server(api, tmp_path):
    config = api.kubeconfig(tmp_path / "config", server="https://127.0.0.1:1")
    with run(tmp_path, config, f"--kube-master-url={api.url()}") as kubedns:
        assert works(kubedns, api)


def test_an_ipv6_server_in_a_pod(tmp_path):
    needs_ipv6()
    account = tmp_path / "account"
    account.mkdir()
    with ApiServer(host="::1") as api:
        api.service_account(account)
        with Kubedns(env=api.environment({}), serviceaccount=account, directory=str(tmp_path)) as kubedns:
            assert works(kubedns, api)
            assert "https://[::1]:" in kubedns.log()


class Proxy:
    """An HTTP proxy that accepts CONNECT, opens the connection and remembers the requests."""

    def __init__(self):
        self.seen, proxy = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_CONNECT(self):
                proxy.seen.append((self.path, dict(self.headers)))
                host, _, port = self.path.rpartition(":")
                far = socket.create_connection((host, int(port)))
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=pump, args=(far, self.connection), daemon=True)
                back.start()
                pump(self.connection, far)

            def log_message(self, *_):
                pass

        def pump(a, b):
            try:
                while data := a.recv(65536):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_proxy_url_is_used_and_sees_no_token(api, tmp_path):
    with Proxy() as proxy:
        config = api.kubeconfig(tmp_path / "config", cluster={"proxy-url": proxy.url})
        with run(tmp_path, config) as kubedns:
            assert works(kubedns, api)
        assert proxy.seen
        assert api.address()["token"] not in str(proxy.seen)


def test_proxies_of_the_environment_are_ignored_in_a_pod(api, tmp_path):
    account = tmp_path / "account"
    account.mkdir()
    api.service_account(account)
    with Proxy() as proxy:
        env = api.environment({}) | {"HTTPS_PROXY": proxy.url, "https_proxy": proxy.url, "ALL_PROXY": proxy.url}
        with Kubedns(env=env, serviceaccount=account, directory=str(tmp_path)) as kubedns:
            assert works(kubedns, api)
        assert proxy.seen == []


def test_a_new_authority_counts_at_the_next_connection(api, tmp_path):
    """
    The server gets a certificate from another CA, and ca.crt is replaced the way the kubelet does it. kubedns uses the new CA without a
    restart and without a wait of five minutes.
    """
    config = api.kubeconfig(tmp_path / "config", inline=False)
    ca = json.loads((tmp_path / "config").read_text())["clusters"][0]["cluster"]["certificate-authority"]
    with run(tmp_path, config) as kubedns:
        works(kubedns, api)
        before = open(ca, encoding="ascii").read()
        other = api.new_certificate("other")
        api.restart()
        kubedns.wait(lambda: "not signed by the CA" in kubedns.log())
        assert kubedns.ask(NAME) == {"10.96.0.10"}, "kubedns keeps its data"
        api.replace(ca, before + open(other, encoding="ascii").read())
        assert works(kubedns, api, "10.96.0.11")


def test_a_goaway_after_a_401_does_not_mean_that_the_server_stops(api, tmp_path):
    """kube-apiserver sends a GOAWAY with each 401. A bug: the log said that the server is stopping."""
    with run(tmp_path, api.kubeconfig(tmp_path / "config")) as kubedns:
        assert works(kubedns, api)
        refused = api.fault(resource="services", status=401)
        api.end_watches("services")
        kubedns.wait(lambda: "not authenticated (401)" in kubedns.log())
        api.goaway()
        kubedns.wait(lambda: "(HTTP/2 GOAWAY) after a 401" in kubedns.log())
        assert "stopping" not in kubedns.log()
        api.clear(refused)
        assert works(kubedns, api, "10.96.0.11")


def test_no_token_no_request(api, tmp_path):
    """kubedns sends no request without credentials."""
    config = api.kubeconfig(tmp_path / "config", user="token-file")
    token = str(tmp_path / "config") + ".token"
    text = open(token, encoding="ascii").read()
    os.unlink(token)
    with run(tmp_path, config) as kubedns:
        kubedns.wait(lambda: "waiting for the token" in kubedns.http("/readiness")[1])
        assert kubedns.ask(NAME) == "SERVFAIL" and api.count() == 0
        api.replace(token, text)
        assert works(kubedns, api)
        assert kubedns.ask("x." + NAME) == NXDOMAIN
