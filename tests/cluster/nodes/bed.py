#!/usr/bin/env python3
"""
bed.py COMMAND: a Kubernetes cluster with real nodes on this machine, in namespaces of its own. `make nodes` builds its programs and images.

    up [--nodes N] [--proxy iptables|nftables] [--families dual|ipv4|ipv6]
                     start etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and N nodes (2) with containerd, kubelet and
                     kube-proxy. The default is dual stack with iptables
    load IMAGE...    copy images of docker to every node
    kubectl ARG...   kubectl as administrator
    sh COMMAND       a shell command in the control plane's network, with kubectl and KUBECONFIG
    node N COMMAND   a shell command on node N: in its network, with its mounts and host name
    coredns          install CoreDNS with kubeadm, in place of a Deployment kube-dns
    proxy MODE       change the mode of kube-proxy on every node
    kill PART        SIGKILL to one part: etcd, kube-apiserver, ..., n1-kubelet, n1-containerd, n1-kube-proxy
    stop PART        SIGTERM to one part
    start PART       start the part again
    status           the parts and their processes
    down             stop everything, and remove the namespaces, cgroups and state. The logs stay in last-log

BED, by default build/nodes, is the folder of the programs (bin) and of the state and logs (run). Clusters with different folders can run
at the same time. The host's network, sysctls and iptables stay as they are: each part runs in a network namespace. kubelet sees the kernel
settings that it requires in files of its node.
"""

import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from waiting import wait_for  # noqa: E402

BED = pathlib.Path(os.environ.get("BED", HERE.parents[2] / "build/nodes")).resolve()
BIN, RUN = BED / "bin", BED / "run"
# The names of the network namespaces and cgroups begin with this, so another bed has others.
NAME = f"bed-{zlib.crc32(bytes(BED)):08x}"
CONTROL_PLANE = f"{NAME}-cp"  # its network namespace
VERSION = "v1.36.3"
PAUSE, COREDNS = "registry.k8s.io/pause:3.10.2", "registry.k8s.io/coredns/coredns:v1.14.7"
# Addresses by IP version. The control plane is 1 in the network of the nodes, their name server is 53, and the nodes are 11 and up.
FAMILIES = {"dual": [4, 6], "ipv4": [4], "ipv6": [6]}
NODES, PREFIX_LENGTH = {4: "10.10.0.", 6: "fd10:10::"}, {4: 24, 6: 64}
PODS, POD_MASK = {4: "10.244.0.0/16", 6: "fd00:10:244::/64"}, {4: 24, 6: 80}
SERVICES = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
CLUSTER_DNS = {4: "10.96.0.10", 6: "fd00:10:96::a"}
# kubelet reads these settings and would change them. On a node, a file with the expected value covers each.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Each node has its own folder at these paths. Without it, two kubelets on one machine would share their state.
OWN = ["/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/etc/cni", "/var/lib/cni", "/var/log/pods", "/var/log/containers",
       "/run/netns", "/run/nri", "/etc/kubernetes", "/usr/libexec/kubernetes"]


def sh(command, **options):
    options.setdefault("check", True)
    return subprocess.run(command if isinstance(command, list) else ["sh", "-c", command], **options)


def out(command, **options):
    return sh(command, stdout=subprocess.PIPE, text=True, **options).stdout


def succeeds(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def config():
    return json.loads((RUN / "config").read_text())


def node_numbers():
    return range(1, config()["nodes"] + 1)


def node_name(number):
    """The name of a node's network namespace and cgroup."""
    return f"{NAME}-n{number}"


def versions():
    """The IP versions of the cluster. The first one is that of its Services' first addresses."""
    return FAMILIES[config()["families"]]


def per_version(table):
    return ",".join(table[v] for v in versions())


def address(number):
    """The first address of a machine in the network of the nodes."""
    return f"{NODES[versions()[0]]}{number}"


def api_endpoint():
    host = address(1)
    return f"[{host}]:6443" if ":" in host else f"{host}:6443"


def in_control_plane(command):
    """The arguments that run a command in the control plane's network."""
    return ["nsenter", f"--net=/run/netns/{CONTROL_PLANE}", "env", f"PATH={BIN}:{os.environ['PATH']}", f"KUBECONFIG={RUN}/admin.conf", *command]


def on_node(number, command):
    """The arguments that run a command on a node."""
    anchor = (RUN / f"n{number}" / "anchor.pid").read_text().strip()
    return ["nsenter", f"--net=/proc/{anchor}/ns/net", f"--mount=/proc/{anchor}/ns/mnt", f"--uts=/proc/{anchor}/ns/uts", "env",
            f"PATH={BIN}:/usr/lib/cni:{os.environ['PATH']}", *command]


def kubectl(*args, **options):
    return out(in_control_plane(["kubectl", *args]), **options)


# Parts: processes with a pid file and a log


def pid_of(part):
    """The process ID of a running part. Another process may have an old ID, so the environment must name the part."""
    try:
        pid = int((RUN / "pid" / part).read_text())
        if f"BED_PART={part}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    except (OSError, ValueError):
        pass
    return None


def start(part, command=None):
    """Starts a part. Without a command, with that of its last start."""
    for folder in ("pid", "log"):
        (RUN / folder).mkdir(exist_ok=True)
    if command:
        (RUN / "pid" / f"{part}.command").write_text(json.dumps(command))
    else:
        command = json.loads((RUN / "pid" / f"{part}.command").read_text())
    with open(RUN / "log" / f"{part}.log", "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                   env={**os.environ, "BED_PART": part})
    (RUN / "pid" / part).write_text(str(process.pid))


def stop(part, sig=signal.SIGTERM, patience=20):
    """Ends a part, after `patience` seconds with SIGKILL."""
    pid = pid_of(part)
    if not pid:
        return
    os.kill(pid, sig)
    deadline = time.monotonic() + patience
    while pid_of(part):
        if time.monotonic() > deadline:
            kill([pid])
        time.sleep(0.1)


def parts():
    """Names of the parts that have been started."""
    return sorted(p.name for p in (RUN / "pid").glob("*") if p.suffix != ".command")


# The cluster


def network(nodes):
    """A bridge in the control plane's namespace connects the nodes."""
    def give(namespace, device, number):
        for v in versions():
            nodad = " nodad" if v == 6 else ""
            sh(f"ip -n {namespace} address add {NODES[v]}{number}/{PREFIX_LENGTH[v]} dev {device}{nodad}")

    sh(f"""set -e
ip netns add {CONTROL_PLANE}; ip -n {CONTROL_PLANE} link set lo up
ip -n {CONTROL_PLANE} link add br0 type bridge; ip -n {CONTROL_PLANE} link set br0 up
nsenter --net=/run/netns/{CONTROL_PLANE} sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1""")
    give(CONTROL_PLANE, "br0", 1)
    give(CONTROL_PLANE, "br0", 53)
    for n in range(1, nodes + 1):
        ns = node_name(n)
        sh(f"""set -e
ip netns add {ns}; ip link add n{n} netns {CONTROL_PLANE} type veth peer name eth0 netns {ns}
ip -n {CONTROL_PLANE} link set n{n} master br0 up; ip -n {ns} link set lo up; ip -n {ns} link set eth0 up""")
        give(ns, "eth0", f"1{n}")
        for v in versions():
            sh(f"ip -n {ns} -{v} route add default via {NODES[v]}1")
        sh(f"""nsenter --net=/run/netns/{ns} sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1""")


def keys(nodes):
    """Keys, certificates and kubeconfigs by kubeadm, and a token of an administrator for the tests' own client."""
    certs = RUN / "pki"
    sh(in_control_plane([
        "kubeadm", "init", "phase", "certs", "all", "--cert-dir", str(certs), "--apiserver-advertise-address", address(1),
        "--kubernetes-version", VERSION, "--service-cidr", per_version(SERVICES), "--apiserver-cert-extra-sans", f"127.0.0.1,{address(1)}"]),
        stdout=subprocess.DEVNULL)
    (RUN / "kubeadm.yaml").write_text(f"""apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {VERSION}
certificatesDir: {certs}
controlPlaneEndpoint: "{api_endpoint()}"
networking: {{ serviceSubnet: "{per_version(SERVICES)}", podSubnet: "{per_version(PODS)}", dnsDomain: cluster.local }}
dns: {{ imageTag: {COREDNS.rpartition(":")[2]} }}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{ advertiseAddress: "{address(1)}", bindPort: 6443 }}
""")
    users = {"admin": ("admin", "system:masters"), "controller-manager": ("system:kube-controller-manager", ""),
             "scheduler": ("system:kube-scheduler", ""), "proxy": ("system:kube-proxy", "")}
    for n in range(1, nodes + 1):
        users[f"kubelet-n{n}"] = (f"system:node:n{n}", "system:nodes")
    for name, (user, group) in users.items():
        made = out(in_control_plane(["kubeadm", "kubeconfig", "user", "--config", str(RUN / "kubeadm.yaml"), "--client-name", user,
                                     *(["--org", group] if group else [])]))
        (RUN / f"{name}.conf").write_text(made)
    (RUN / "token").write_text(secrets.token_hex(16))
    (RUN / "tokens.csv").write_text(f"{(RUN / 'token').read_text()},admin,admin,system:masters\n")


def control_plane():
    certs, services = RUN / "pki", per_version(SERVICES)

    def run(part, *command):
        start(part, ["nsenter", f"--net=/run/netns/{CONTROL_PLANE}", *map(str, command)])

    run("upstream", "env", f"ADDRESS={address(53)}", BIN / "coredns", "-conf", HERE / "upstream.Corefile")
    run("etcd", BIN / "ctl", "etcd", "-data", RUN / "etcd", "-port", 2379)
    run("kube-apiserver", BIN / "ctl", "apiserver", f"--advertise-address={address(1)}", "--allow-privileged=true", "--authorization-mode=Node,RBAC",
        f"--client-ca-file={certs}/ca.crt", "--enable-admission-plugins=NodeRestriction", "--etcd-servers=http://127.0.0.1:2379",
        f"--kubelet-client-certificate={certs}/apiserver-kubelet-client.crt", f"--kubelet-client-key={certs}/apiserver-kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP,Hostname", f"--requestheader-client-ca-file={certs}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={certs}/front-proxy-client.crt", f"--proxy-client-key-file={certs}/front-proxy-client.key",
        "--secure-port=6443", "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={certs}/sa.pub", f"--service-account-signing-key-file={certs}/sa.key",
        f"--service-cluster-ip-range={services}", f"--tls-cert-file={certs}/apiserver.crt", f"--tls-private-key-file={certs}/apiserver.key",
        f"--token-auth-file={RUN}/tokens.csv")
    await_api()
    # kubeadm creates this binding too. With it, the API server may use the kubelets, for example for kubectl exec.
    kubectl("create", "clusterrolebinding", "apiserver-kubelet-client", "--clusterrole=system:kubelet-api-admin",
            "--user=kube-apiserver-kubelet-client", check=False)
    run("kube-controller-manager", BIN / "ctl", "kube-controller-manager", f"--kubeconfig={RUN}/controller-manager.conf",
        f"--authentication-kubeconfig={RUN}/controller-manager.conf", f"--authorization-kubeconfig={RUN}/controller-manager.conf",
        "--allocate-node-cidrs=true", f"--cluster-cidr={per_version(PODS)}",
        *(f"--node-cidr-mask-size-ipv{v}={POD_MASK[v]}" for v in versions()), "--cluster-name=bed",
        f"--client-ca-file={certs}/ca.crt", f"--cluster-signing-cert-file={certs}/ca.crt", f"--cluster-signing-key-file={certs}/ca.key",
        "--controllers=*,bootstrapsigner,tokencleaner", "--leader-elect=false", f"--requestheader-client-ca-file={certs}/front-proxy-ca.crt",
        f"--root-ca-file={certs}/ca.crt", f"--service-account-private-key-file={certs}/sa.key", f"--service-cluster-ip-range={services}",
        "--use-service-account-credentials=true")
    run("kube-scheduler", BIN / "ctl", "kube-scheduler", f"--kubeconfig={RUN}/scheduler.conf",
        f"--authentication-kubeconfig={RUN}/scheduler.conf", f"--authorization-kubeconfig={RUN}/scheduler.conf", "--leader-elect=false")


def await_api(seconds=120):
    wait_for(lambda: succeeds(in_control_plane(["kubectl", "get", "--raw", "/readyz"])), seconds, f"kube-apiserver ready; see {RUN}/log")


def own_folder(n, path):
    """The folder of node `n` that is visible at `path` there."""
    return RUN / f"n{n}" / "own" / path.strip("/").replace("/", "-")


def write(n, path, text):
    """Writes a file of node `n`."""
    top = max((o for o in OWN if path.startswith(o + "/")), key=len)
    target = own_folder(n, top) / path[len(top) + 1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def hierarchy(controller):
    """The cgroup file system of a controller. Version 2 has one for all controllers."""
    top = pathlib.Path("/sys/fs/cgroup")
    return top / controller if (top / controller).exists() else top


def hierarchies():
    """The cgroup file systems: several of version 1, or one of version 2."""
    return [pathlib.Path(line.split()[4]) for line in open("/proc/self/mountinfo", encoding="utf-8") if " - cgroup" in line]


def add_node(n, proxy):
    kernel = RUN / f"n{n}" / "kernel"
    kernel.mkdir(parents=True, exist_ok=True)
    mounts = ["mount --make-rprivate /", f"hostname n{n}"]
    for path in OWN:
        own_folder(n, path).mkdir(parents=True, exist_ok=True)
        mounts.append(f"mkdir -p {path} && mount --bind {own_folder(n, path)} {path} && mount --make-rshared {path}")
    for name, value in KERNEL.items():
        file = kernel / name.replace("/", ".")
        file.write_text(value + "\n")
        mounts.append(f"mount --bind {file} /proc/sys/{name}")
    # This process keeps the node's namespaces.
    anchor = RUN / f"n{n}" / "anchor.pid"
    script = "\n".join(["set -e", *mounts, f"echo $$ >{anchor}.new", f"mv {anchor}.new {anchor}", "exec sleep infinity"])
    start(f"n{n}-anchor", ["nsenter", f"--net=/run/netns/{node_name(n)}", "unshare", "--mount", "--uts", "sh", "-c", script])
    wait_for(anchor.exists, 30, f"namespaces of n{n}; see {RUN}/log")

    write(n, "/etc/kubernetes/resolv.conf", f"nameserver {address(53)}\nsearch lab.example\n")
    write(n, "/etc/kubernetes/kubelet.conf", (RUN / f"kubelet-n{n}.conf").read_text())
    write(n, "/etc/kubernetes/proxy.conf", (RUN / "proxy.conf").read_text())
    shutil.copy2(RUN / "pki" / "ca.crt", own_folder(n, "/etc/kubernetes"))
    # Where root lacks CAP_SYS_RESOURCE, runc cannot lower oom_score_adj: restrict_oom_score_adj.
    write(n, "/etc/kubernetes/containerd.toml", f"""version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE}'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
""")
    # kubeadm's settings of kubelet, but for cgroups and disk space.
    write(n, "/etc/kubernetes/kubelet.yaml", f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{node_name(n)}
clusterDNS: ["{CLUSTER_DNS[versions()[0]]}"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /etc/kubernetes/resolv.conf
protectKernelDefaults: true
failSwapOn: false
authentication:
  anonymous: {{ enabled: false }}
  webhook: {{ enabled: true }}
  x509: {{ clientCAFile: /etc/kubernetes/ca.crt }}
authorization: {{ mode: Webhook }}
evictionHard: {{ memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1% }}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
""")
    write(n, "/etc/kubernetes/proxy.yaml", f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{ kubeconfig: /etc/kubernetes/proxy.conf }}
mode: {proxy}
clusterCIDR: {per_version(PODS)}
hostnameOverride: n{n}
conntrack: {{ maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s }}
""")
    for hierarchy in hierarchies():
        (hierarchy / node_name(n)).mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            # Version 1 gives a new cpuset no processor and no memory.
            if (hierarchy / "cpuset.cpu_exclusive").exists():
                (hierarchy / node_name(n) / name).write_text((hierarchy / name).read_text())
    start(f"n{n}-containerd", on_node(n, [f"{BIN}/containerd", "-c", "/etc/kubernetes/containerd.toml"]))
    wait_for(lambda: succeeds(on_node(n, ["ctr", "version"])), 60, f"containerd of n{n}; see {RUN}/log")
    load(PAUSE, nodes=[n])
    addresses = ",".join(f"{NODES[v]}1{n}" for v in versions())
    start(f"n{n}-kubelet", on_node(n, [f"{BIN}/kubelet", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/etc/kubernetes/kubelet.yaml",
                                       f"--hostname-override=n{n}", f"--node-ip={addresses}", "-v=2"]))
    start(f"n{n}-kube-proxy", on_node(n, [f"{BIN}/kube-proxy", "--config=/etc/kubernetes/proxy.yaml", "-v=2"]))


def pod_network():
    """A bridge on each node, and routes between the nodes and the control plane. No pod's address is translated."""
    ranges = {}
    for n in node_numbers():
        ranges[n] = wait_for(lambda n=n: out(in_control_plane(["kubectl", "get", "node", f"n{n}", "--ignore-not-found", "-o",
                                                               "jsonpath={.spec.podCIDRs[*]}"])).split(), 60, f"pod addresses of n{n}")
        write(n, "/etc/cni/net.d/10-bed.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "bed", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipMasq": False, "ipam": {
                    "type": "host-local", "ranges": [[{"subnet": r}] for r in ranges[n]],
                    "routes": [{"dst": "::/0" if ":" in r else "0.0.0.0/0"} for r in ranges[n]]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
    for n, subnets in ranges.items():
        for other in [CONTROL_PLANE, *(node_name(m) for m in ranges if m != n)]:
            for r in subnets:
                v = 6 if ":" in r else 4
                sh(f"ip -n {other} -{v} route replace {r} via {NODES[v]}1{n}")


def load(*images, nodes=None):
    """Copies docker's images to the nodes, except those that a node has already."""
    ids = dict(zip(images, out(["docker", "image", "inspect", "-f", "{{.Id}}", *images]).split()))
    for n in nodes or node_numbers():
        file = RUN / f"n{n}" / "images"
        loaded = json.loads(file.read_text()) if file.exists() else {}
        missing = [image for image in images if loaded.get(image) != ids[image]]
        if missing:
            with subprocess.Popen(["docker", "save", *missing], stdout=subprocess.PIPE) as saved:
                sh(on_node(n, ["ctr", "-n", "k8s.io", "images", "import", "--local", "-"]), stdin=saved.stdout, stdout=subprocess.DEVNULL)
            file.write_text(json.dumps({**loaded, **{image: ids[image] for image in missing}}))


def up(nodes=2, proxy="iptables", families="dual"):
    if RUN.exists():
        sys.exit(f"bed.py: {RUN} exists: use `bed.py down` first")
    for name in ("ctl", "containerd", "coredns"):
        if not (BIN / name).exists():
            sys.exit(f"bed.py: no {BIN / name}: use `make nodes`")
    RUN.mkdir(parents=True)
    (RUN / "config").write_text(json.dumps({"nodes": nodes, "proxy": proxy, "families": families}))
    network(nodes)
    keys(nodes)
    control_plane()
    for n in node_numbers():
        add_node(n, proxy)
    pod_network()
    wait_for(lambda: kubectl("get", "nodes").count(" Ready ") == nodes, 120, f"all nodes ready; see {RUN}/log")


def install_coredns():
    """Installs CoreDNS as `kubeadm init` does. kubeadm would keep an old ConfigMap, and the number of replicas of an old Deployment kube-dns."""
    load(COREDNS)
    kubectl("-n", "kube-system", "delete", "deployment/kube-dns", "configmap/coredns", "--ignore-not-found", "--wait=true")
    sh(in_control_plane(["kubeadm", "init", "phase", "addon", "coredns", "--config", str(RUN / "kubeadm.yaml"), "--kubeconfig",
                         str(RUN / "admin.conf")]), stdout=subprocess.DEVNULL)
    kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")


def set_proxy(mode):
    """Changes the mode of kube-proxy on every node. Removes the rules of the old mode, as a restart of the node would."""
    for n in node_numbers():
        stop(f"n{n}-kube-proxy")
        sh(on_node(n, ["kube-proxy", "--cleanup", "--config=/etc/kubernetes/proxy.yaml"]), check=False)
        file = own_folder(n, "/etc/kubernetes") / "proxy.yaml"
        file.write_text("".join(f"mode: {mode}\n" if line.startswith("mode:") else line for line in file.read_text().splitlines(True)))
        start(f"n{n}-kube-proxy")
    (RUN / "config").write_text(json.dumps({**config(), "proxy": mode}))


def in_cgroups(node, pattern):
    """Process IDs in the cgroups of a node, or of each node if `node` is "*". The path below the node's cgroup matches `pattern`."""
    found = set()
    for file in hierarchy("pids").glob(f"{node_name(node)}/{pattern}/cgroup.procs"):
        try:
            found.update(map(int, file.read_text().split()))
        except OSError:
            pass  # the cgroup ended meanwhile
    return found


def cgroup_of(controller, container_id):
    """The folder of a container's cgroup."""
    return next(hierarchy(controller).glob(f"{NAME}-n*/kubepods/**/{container_id}"))


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def remove_node(n):
    """Ends the pods, the shims and the namespaces of a node."""
    for _ in range(50):
        pids = in_cgroups(n, "**")
        if not pids:
            break
        kill(pids)
        time.sleep(0.1)
    stop(f"n{n}-containerd")
    anchor = pid_of(f"n{n}-anchor")
    if anchor:
        namespace = os.readlink(f"/proc/{anchor}/ns/mnt")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/mnt") == namespace and int(process.name) != anchor:
                    kill([int(process.name)])
            except OSError:
                pass  # the process ended meanwhile
        stop(f"n{n}-anchor", signal.SIGKILL)
    for hierarchy in hierarchies():
        for folder in sorted((hierarchy / node_name(n)).glob("**/"), key=lambda f: -len(f.parts)):
            try:
                folder.rmdir()
            except OSError:
                pass
    sh(f"ip netns del {node_name(n)}", check=False)


def down():
    if not RUN.exists():
        return
    for part in parts():
        if not part.endswith(("-anchor", "-containerd")):
            stop(part)
    for n in node_numbers():
        remove_node(n)
    sh(f"ip netns del {CONTROL_PLANE}", check=False)
    if (RUN / "log").exists():
        shutil.rmtree(BED / "last-log", ignore_errors=True)
        (RUN / "log").rename(BED / "last-log")
    shutil.rmtree(RUN, ignore_errors=True)


def status():
    for part in parts():
        print(f"{part:28} {pid_of(part) or 'not running'}")


def main(name="", *args):
    if name == "up":
        value = dict(zip(args, args[1:]))
        up(int(value.get("--nodes", 2)), value.get("--proxy", "iptables"), value.get("--families", "dual"))
        print(kubectl("get", "nodes", "-o", "wide"), end="")
    elif name == "kubectl":
        os.execvp("nsenter", in_control_plane(["kubectl", *args]))
    elif name == "sh":
        os.execvp("nsenter", in_control_plane(["sh", "-c", " ".join(args)]))
    elif name == "node":
        os.execvp("nsenter", on_node(int(args[0].lstrip("n")), ["sh", "-c", " ".join(args[1:])]))
    elif name == "kill":
        stop(args[0], signal.SIGKILL)
    elif name in ("load", "coredns", "proxy", "stop", "start", "status", "down"):
        {"load": load, "coredns": install_coredns, "proxy": set_proxy, "stop": stop, "start": start, "status": status, "down": down}[name](*args)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
