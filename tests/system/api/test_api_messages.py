"""
The operator's view when the API is unreachable: one line says what is wrong, where, and what to do. After a mistake of the user, kubedns
exits with 2 before it listens. After trouble that may pass, kubedns logs it, shows it in readiness, and retries.
"""

import base64
import http.server
import json
import re
import subprocess
import threading

import pytest
from api_world import ApiServer
from hurry import Clock
from kubedns_process import PROGRAM, Kubedns
from waiting import free_port


@pytest.fixture
def api():
    with ApiServer() as server:
        yield server


def refused_to_start(*args, env=None):
    """The last line of the log of a kubedns that must refuse to start."""
    command = [PROGRAM, "--dns-bind-address=127.0.0.1", f"--dns-port={free_port()}", f"--healthz-port={free_port()}", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, env={"PATH": "/usr/bin:/bin", **(env or {})}, check=False)
    print(done.stderr)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_no_api_configured():
    said = refused_to_start()
    assert "KUBERNETES_SERVICE_HOST" in said, "the message says where kubedns looked"
    assert "--kubecfg-file" in said and "--objects-dir" in said, "the message says what to do"


def test_a_kubeconfig_that_is_not_there(tmp_path):
    said = refused_to_start(f"--kubecfg-file={tmp_path}/nothing")
    assert f"{tmp_path}/nothing" in said and "No such file" in said


def edit(path, change):
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def no_context(config):
    config["current-context"] = "production"


def exec_plugin(config):
    config["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}


def no_certificate(config):
    config["clusters"][0]["cluster"]["certificate-authority-data"] = "AAAA"


def no_certificate_in_pem(config):
    text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("change", [no_certificate, no_certificate_in_pem])
def test_an_authority_that_is_no_certificate(api, tmp_path, change):
    """A bug: kubedns accepted such a CA, and then logged that the server's certificate was "not signed by" it."""
    path = tmp_path / "config"
    api.kubeconfig(path)
    edit(path, change)
    said = refused_to_start(f"--kubecfg-file={path}")
    assert f"kubeconfig {path}: certificate-authority-data: holds no certificate: give the base64 of a PEM file" in said


def one_line(kubedns, words):
    return kubedns.wait(lambda: next((line for line in kubedns.log().splitlines() if words in line), None), 8, lambda: f"a line with {words}")


def test_a_proxy_that_refuses_is_named_and_not_the_api_server(api, tmp_path):
    path, closed = tmp_path / "config", free_port()
    api.kubeconfig(path)
    edit(path, lambda config: config["clusters"][0]["cluster"].update({"proxy-url": f"http://joe:secret@127.0.0.1:{closed}"}))
    with Kubedns(f"--kubecfg-file={path}", directory=str(tmp_path)) as kubedns:
        line = one_line(kubedns, f"cannot connect to the proxy http://127.0.0.1:{closed} (proxy-url of the kubeconfig {path}): Connection refused")
        assert "is the API server running" not in line and "secret" not in kubedns.log() + kubedns.http("/readiness")[1]


def test_a_proxy_of_the_environment_is_named(api, tmp_path):
    path, closed = tmp_path / "config", free_port()
    api.kubeconfig(path)
    with Kubedns(f"--kubecfg-file={path}", directory=str(tmp_path), env={"https_proxy": f"http://127.0.0.1:{closed}"}) as kubedns:
        one_line(kubedns, f"requests go through the proxy http://127.0.0.1:{closed} (environment variable https_proxy) unless no_proxy has the server")


def test_a_proxy_that_lets_nothing_through(api, tmp_path):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_error(407)

        def log_message(self, *_):
            pass

    path = tmp_path / "config"
    api.kubeconfig(path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        edit(path, lambda config: config["clusters"][0]["cluster"].update({"proxy-url": f"http://127.0.0.1:{server.server_port}"}))
        with Kubedns(f"--kubecfg-file={path}", directory=str(tmp_path)) as kubedns:
            one_line(kubedns, f"the proxy http://127.0.0.1:{server.server_port} (proxy-url) refuses the connection to the API server (407)")
        server.shutdown()


def test_http_to_a_port_that_speaks_https(api, tmp_path):
    path = tmp_path / "config"
    api.kubeconfig(path)
    edit(path, lambda config: config["clusters"][0]["cluster"].update({"server": config["clusters"][0]["cluster"]["server"].replace("https:", "http:")}))
    with Kubedns(f"--kubecfg-file={path}", directory=str(tmp_path)) as kubedns:
        one_line(kubedns, f"if this port speaks https, write https:// in the server's URL (from kubeconfig {path})")


def test_http_to_a_go_server_that_speaks_https(tmp_path):
    """A Go server that expects HTTPS answers plain HTTP with its own error message."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"Client sent an HTTP request to an HTTPS server.\n"
            self.send_response(400)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Kubedns(f"--kube-master-url=http://127.0.0.1:{server.server_port}", directory=str(tmp_path)) as kubedns:
            one_line(kubedns, "if this port speaks https, write https:// in the server's URL (from --kube-master-url)")
        server.shutdown()


@pytest.mark.parametrize("change,words", [(no_context, ["production"]), (exec_plugin, ["exec", "token"])])
def test_a_kubeconfig_that_cannot_be_used(api, tmp_path, change, words):
    """The message names the file and the faulty part of it."""
    path = tmp_path / "config"
    api.kubeconfig(path)
    edit(path, change)
    said = refused_to_start(f"--kubecfg-file={path}")
    assert str(path) in said
    for word in words:
        assert word in said


def test_a_kubeconfig_with_yaml_aliases_is_refused(tmp_path):
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\na: &x [1]\nb: *x\n")
    said = refused_to_start(f"--kubecfg-file={path}")
    assert "alias" in said and str(path) in said


def stopped(api):
    api.stop()


def other_authority(api):
    api.new_certificate("other")


def other_names(api):
    api.new_certificate(names=["other.example"])


def expired(api):
    api.new_certificate(days=(-3, -1))


def no_token(api):
    api.revoke_token()


def no_right(api):
    api.forbid("services")


def proxy(api):
    api.fault(html=True)


MISSING = "services is forbidden: User \"dns\" cannot list resource \"services\" in API group \"\" at the cluster scope: RBAC: [" \
    + ", ".join(f'clusterrole.rbac.authorization.k8s.io "system:role-{i}" not found' for i in range(12)) + "]"


def no_roles_yet(api):
    """The message is of kube-apiserver 1.36 in its first seconds. A bug: the advice was to grant rights, and the list was cut inside a word."""
    api.fault(status=403, message=MISSING)


def failing(api):
    api.fault(status=500, message="etcd is sad")


@pytest.mark.parametrize(
    "trouble,words",
    [
        (stopped, ["refused"]),
        (other_authority, ["certificate", "(CA|authority|issuer|certificate-authority)"]),
        (other_names, ["certificate", "(name|host|subject)"]),
        (expired, ["certificate", "(verif|expired)"]),  # GnuTLS does not pass the exact reason through libcurl
        (no_token, ["401", "token"]),
        (no_right, ["403", "services", "(list|watch)", "grant"]),
        (no_roles_yet, ["403", 'RBAC: \\[clusterrole.rbac.authorization.k8s.io "system:role-0" not found, .*(io|[0-9]"|not|found,) \\.\\.\\.; ', "just started, wait"]),
        (proxy, ["(HTML|html|not JSON|text/html)"]),
        (failing, ["500", "etcd is sad"]),
    ],
    ids=lambda p: p.__name__ if callable(p) else "",
)
def test_what_is_wrong_where_and_what_to_do(api, tmp_path, trouble, words):
    config, at = api.kubeconfig(tmp_path / "config"), api.address()
    trouble(api)
    with Kubedns(f"--kubecfg-file={config}", directory=str(tmp_path)) as kubedns:

        def said():
            lines = kubedns.log().splitlines()
            return [li for li in lines if all(re.search(w, li, 0 if w.isupper() else re.I) for w in words)]

        line = kubedns.wait(said, 8, lambda: f"a line with {words}")[0]
        print(line)
        assert f"{at['host']}:{at['port']}" in line or "services" in line, "where"
        status, reasons = kubedns.http("/readiness")
        assert status == 503 and all(re.search(w, reasons, re.I) for w in words[:1]), reasons
        assert kubedns.ask("web.default.svc.cluster.local") == "SERVFAIL"


def test_the_same_trouble_is_not_logged_at_every_attempt(api, tmp_path):
    """A minute of the same failure does not fill a page of the log."""
    config = api.kubeconfig(tmp_path / "config")
    api.stop()
    clock = Clock(tmp_path)
    with Kubedns(f"--kubecfg-file={config}", directory=str(tmp_path), env=clock.env) as kubedns:
        clock.run_until(lambda: "refused" in kubedns.log().lower(), 10, what=kubedns.log)
        clock.pass_by(60, 0.5)
        assert kubedns.log().lower().count("refused") <= 9, kubedns.log()


def test_secrets_are_in_no_message(api, tmp_path):
    token = api.address()["token"]
    config = api.kubeconfig(tmp_path / "config")
    api.revoke_token()
    with Kubedns(f"--kubecfg-file={config}", "--v=9", directory=str(tmp_path)) as kubedns:
        kubedns.wait(lambda: "401" in kubedns.log())
        assert token not in kubedns.log() + kubedns.http("/readiness")[1] + kubedns.http("/metrics")[1]


def test_a_redirect_is_not_followed(api, tmp_path):
    """kubedns sends the token to the configured host only."""
    with ApiServer(tls=False) as elsewhere:
        config = api.kubeconfig(tmp_path / "config")
        api.fault(redirect=elsewhere.url() + "/api/v1/services")
        with Kubedns(f"--kubecfg-file={config}", directory=str(tmp_path)) as kubedns:
            kubedns.wait(lambda: "307" in kubedns.log())
            assert elsewhere.count() == 0
