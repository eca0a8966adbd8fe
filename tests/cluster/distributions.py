"""
The old DNS of each distribution, and stand-ins for the controllers that restore it. The objects have the names, labels, selectors and fields that the
sources in conf/install name. The controllers use the real API server, with the distribution's field manager. kubeadm is the real kubeadm.

The objects have no probes and no volumes, because the recipes do not depend on these.
"""

import json
import subprocess
import threading

import yaml

from run import Failed

META = {"namespace": "kube-system"}
RECONCILE = {"addonmanager.kubernetes.io/mode": "Reconcile"}
PORTS = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]


def deployment(name, labels, selector, image, containers=("coredns",), args=(), **spec):
    pod = {"dnsPolicy": "Default", "containers": [{"name": c, "image": image, "args": list(args)} for c in containers]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**META, "name": name, "labels": labels},
            "spec": {**spec, "selector": {"matchLabels": selector}, "template": {"metadata": {"labels": selector}, "spec": pod}}}


def service(name, labels, selector, address, ports=None, **meta):
    ports = ports or [*PORTS, {"name": "metrics", "port": 9153, "protocol": "TCP"}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {**META, "name": name, "labels": labels, **meta},
            "spec": {"clusterIP": address, "selector": selector, "ports": ports}}


def account(name, **labels):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**META, "name": name, "labels": labels}}


class Distribution:
    """The controllers of a distribution. `kubectl` runs kubectl with arguments and input, and returns its output."""

    manager, name = "", ""

    def __init__(self, kubectl, directory, address):
        self.kubectl, self.directory, self.address = kubectl, directory, address
        self.tools = {}  # programs that the recipe's commands call, besides kubectl

    def objects(self):
        raise NotImplementedError

    def manage(self):
        """What the distribution does again and again: at a start, at an upgrade, or every minute."""
        self.apply(self.objects())

    install = manage

    def apply(self, objects, *args):
        self.kubectl("apply", f"--field-manager={self.manager}", *args, "-f", "-", text=yaml.safe_dump_all(objects))

    def command(self, text):
        """Changes paths of the machine in a recipe's command to paths below the test's directory."""
        return text


class Kubeadm(Distribution):
    """The real kubeadm. `kubeadm upgrade apply` runs the same code for DNS as this phase of `kubeadm init`."""

    name = "kubeadm"

    def __init__(self, kubectl, directory, address, ctl, kubeconfig):
        super().__init__(kubectl, directory, address)
        script = directory / "kubeadm-upgrade"
        script.write_text("#!/bin/sh\n[ \"$1 $2\" = 'upgrade apply' ] || exit 2\ncase \" $* \" in *' --skip-phases=addon/coredns '*) exit 0 ;; esac\n"
                          f"exec {ctl} kubeadm init phase addon coredns --kubeconfig {kubeconfig} --kubernetes-version v1.36.3 "
                          f"--service-cidr {address.rsplit('.', 1)[0]}.0/24\n")
        script.chmod(0o755)
        self.tools = {"kubeadm": script}
        self.run = script

    def manage(self, *args):
        done = subprocess.run([self.run, "upgrade", "apply", "VERSION", *args], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr)

    install = manage


class Files(Distribution):
    """The server process of k3s and RKE2. At its start it writes its manifest, and applies it unless there is a .skip file."""

    manager, file = "deploy@server-0", ""

    def manage(self):
        folder = self.directory / "manifests"
        folder.mkdir(exist_ok=True)
        (folder / self.file).write_text(yaml.safe_dump_all(self.objects()))
        if not (folder / f"{self.file}.skip").exists():
            self.apply(self.objects())

    install = manage

    def disable(self):
        """`--disable`: deletes the objects of the manifest and the manifest."""
        self.kubectl("delete", "--wait=false", "-f", "-", text=yaml.safe_dump_all(self.objects()))
        (self.directory / "manifests" / self.file).unlink()

    def command(self, text):
        return text.replace(f"/var/lib/rancher/{self.name}/server/manifests", str(self.directory / "manifests"))


class K3s(Files):
    name, file = "k3s", "coredns.yaml"

    def objects(self):
        labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
        return [account("coredns"),
                deployment("coredns", labels, {"k8s-app": "kube-dns"}, "rancher/mirrored-coredns-coredns:1.11.3", revisionHistoryLimit=0,
                           strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
                service("kube-dns", {**labels, "kubernetes.io/cluster-service": "true"}, {"k8s-app": "kube-dns"}, self.address,
                        annotations={"prometheus.io/port": "9153", "prometheus.io/scrape": "true"})]


class Autoscaler:
    """The cluster-proportional-autoscaler. While its own Deployment has a pod, it sets the replicas of its target."""

    def autoscale(self, own, target, replicas=2):
        if json.loads(self.kubectl("-n", "kube-system", "get", "deployment", own, "-o", "json"))["spec"]["replicas"] > 0:
            self.kubectl("-n", "kube-system", "scale", f"deployment/{target}", f"--replicas={replicas}")


class Rke2(Files, Autoscaler):
    """Helm's job applies the rendered objects of the chart when the server process has applied the HelmChart."""

    name, file, manager = "rke2", "rke2-coredns.yaml", "helm"
    full = "rke2-coredns-rke2-coredns"

    def objects(self):
        labels = {"app.kubernetes.io/instance": "rke2-coredns", "app.kubernetes.io/name": "rke2-coredns", "k8s-app": "kube-dns"}
        own = {"app.kubernetes.io/instance": "rke2-coredns", "app.kubernetes.io/name": "rke2-coredns-autoscaler", "k8s-app": "kube-dns-autoscaler"}
        helm = {"app.kubernetes.io/managed-by": "Helm", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
        return [account("coredns"),
                deployment(self.full, {**labels, **helm}, labels, "rancher/hardened-coredns:v1.10.1"),
                deployment(f"{self.full}-autoscaler", {**own, **helm}, own, "rancher/hardened-cluster-autoscaler:v1.8.6", ["autoscaler"]),
                service(self.full, {**labels, **helm}, labels, self.address, PORTS)]

    def install(self):
        self.manage()
        self.tick()

    def tick(self):
        self.autoscale(f"{self.full}-autoscaler", self.full)


class Gke(Distribution, Autoscaler):
    """The add-on manager applies its objects every minute, and the autoscaler sets the number of pods."""

    name, manager = "gke-standard", "kubectl-client-side-apply"
    image, containers, args = "registry.k8s.io/dns/k8s-dns-kube-dns:1.26.8", ("kubedns", "dnsmasq", "sidecar"), ()

    def objects(self):
        labels = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", **RECONCILE}
        own = {"k8s-app": "kube-dns-autoscaler"}
        return [account("kube-dns", **{"kubernetes.io/cluster-service": "true", **RECONCILE}),
                service("kube-dns", {**labels, "kubernetes.io/name": "KubeDNS"}, {"k8s-app": "kube-dns"}, self.address, PORTS),
                deployment("kube-dns", labels, {"k8s-app": "kube-dns"}, self.image, self.containers, self.args,
                           strategy={"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}),
                deployment("kube-dns-autoscaler", {**own, **RECONCILE}, own, "registry.k8s.io/cpa/cluster-proportional-autoscaler:1.8.4", ["autoscaler"])]

    def install(self):
        self.manage()
        self.tick()

    def tick(self):
        self.manage()
        self.autoscale("kube-dns-autoscaler", "kube-dns")


class Eks(Distribution):
    """The manager of the add-on `coredns`. `aws eks` is a stand-in that tells it what to do."""

    name, manager = "eks", "eks"

    def __init__(self, kubectl, directory, address):
        super().__init__(kubectl, directory, address)
        self.managed = directory / "managed"
        script = directory / "aws"
        script.write_text(f"#!/bin/sh\ncase \"$*\" in\n"
                          f"'eks describe-addon --cluster-name CLUSTER --addon-name coredns '*) [ -e {self.managed} ] && echo v1.13.1-eksbuild.1 ;;\n"
                          f"'eks delete-addon --cluster-name CLUSTER --addon-name coredns --preserve') rm {self.managed} ;;\n"
                          f"'eks create-addon --cluster-name CLUSTER --addon-name coredns --resolve-conflicts OVERWRITE') touch {self.managed} ;;\n"
                          "*) echo \"aws: unknown: $*\" >&2; exit 2 ;;\nesac\n")
        script.chmod(0o755)
        self.tools = {"aws": script}

    def objects(self):
        labels = {"eks.amazonaws.com/component": "coredns", "k8s-app": "kube-dns"}
        return [account("coredns", **labels),
                deployment("coredns", {**labels, "kubernetes.io/name": "CoreDNS"}, labels, "602401143452.dkr.ecr.example/eks/coredns:v1.13.1",
                           replicas=2, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}),
                service("kube-dns", {"eks.amazonaws.com/component": "kube-dns", "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
                                     "kubernetes.io/name": "CoreDNS"}, {"k8s-app": "kube-dns"}, self.address, PORTS)]

    def install(self):
        self.managed.touch()
        self.manage()

    def manage(self):
        """An update of the add-on with --resolve-conflicts OVERWRITE."""
        if self.managed.exists():
            self.apply(self.objects(), "--server-side", "--force-conflicts")


BY_NAME = {c.name: c for c in (Kubeadm, K3s, Rke2, Gke, Eks)}


class Ticking:
    """Runs a controller again and again in a thread. The end of the block fails if the controller failed."""

    def __init__(self, step, period=0.5):
        self.step, self.period = step, period
        self.over, self.failure = threading.Event(), None
        self.thread = threading.Thread(target=self.run)
        self.ran = 0

    def run(self):
        try:
            while not self.over.wait(self.period):
                self.step()
                self.ran += 1
        except Exception as e:
            self.failure = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.failure:
            raise self.failure
