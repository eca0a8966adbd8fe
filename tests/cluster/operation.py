"""An operator who follows a recipe of conf/install on a cluster with the distribution's own DNS and controllers."""

import json

from cluster import DNS_IP
from operator_shell import Operator, commands
from recipes import Recipe
from waiting import wait_for

KINDS = "deployments,services,serviceaccounts,poddisruptionbudgets,configmaps"
# Fields that the API server and its controllers set.
SERVER_SET = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class Operation:
    """A distribution and an operator who follows its recipe."""

    def __init__(self, kubectl, ctl, kubeconfig, directory, distribution):
        """`kubectl` runs kubectl with arguments and text. `distribution` is a class of distributions.py."""
        self.kubectl, self.directory, self.recipe = kubectl, directory, Recipe(distribution.name)
        kubeadm = [ctl, kubeconfig] if distribution.name == "kubeadm" else []
        self.distribution = distribution(kubectl, directory, DNS_IP, *kubeadm)
        self.operator = Operator(directory, f"{ctl} kubectl --kubeconfig {kubeconfig}")
        self.operator.settings()
        for tool, path in self.distribution.tools.items():
            (directory / "bin" / tool).symlink_to(path)
        self.distribution.install()

    def step(self, name):
        """Runs the commands of a step. kubectl-dns and compare need pods that answer."""
        return "".join(self.operator.sh(self.distribution.command(c)) for c in commands(self.recipe.step(name)[2])
                       if not c.startswith(("kubectl dns ", "conf/kubernetes/compare ")))

    def switch(self, *steps):
        self.operator.save(self.recipe.data["overlay"])
        for name in steps or ("check", "stop", "beside", "switch"):
            self.step(name)

    def get(self, what):
        return json.loads(self.kubectl("-n", "kube-system", "get", *what.split(), "-o", "json"))

    def replicas(self, name=None):
        return self.get(f"deployment {name or self.recipe.data['old']}")["spec"]["replicas"]

    def answering(self):
        """Returns the Deployments to whose pods the Service sends queries."""
        slices = self.get(f"endpointslices -l kubernetes.io/service-name={self.recipe.data['service']}")["items"]
        return {e["targetRef"]["name"].rsplit("-", 2)[0] for s in slices for e in s["endpoints"] or [] if e["conditions"]["ready"]}

    def await_answering(self, *deployments):
        wait_for(lambda: self.answering() == set(deployments), 20, lambda: f"only {deployments} answer, not {self.answering()}")

    def objects(self):
        """Returns all objects as the operator sees them, without the fields that the server sets."""
        kept = {}
        for o in self.get(KINDS)["items"]:
            meta = {k: v for k, v in o["metadata"].items() if k not in SERVER_SET}
            meta.get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
            kept[o["kind"], meta["name"]] = json.dumps({**{k: v for k, v in o.items() if k != "status"}, "metadata": meta}, sort_keys=True)
        return kept
