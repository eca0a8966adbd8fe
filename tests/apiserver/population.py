#!/usr/bin/env python3
"""
The objects of a large cluster, with realistic sizes. The same parameters give the same objects.

All names and addresses are computed from numbers, so a client can compute each expected answer. Service i is `web-%05d`, or `db-%05d` if it
is headless, in namespace `ns-%05d` (i mod namespaces). Without `big`, slice s belongs to Service s mod services. Endpoint k of slice s has
the address 100.64.0.1 + s * endpoints + k. In a headless Service it has the hostname `db-%05d-<ordinal>`, as in a StatefulSet. The port is
http, 80, TCP. ctl's `load` (tests/controlplane) puts the same population into a real API server.

As a program it writes the objects as `kubectl get -A -o json` (or yaml) prints them, one file per resource.
"""

import argparse
import hashlib
import ipaddress
import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timezone

MADE = "2026-11-02T09:14:05Z"
CLUSTER_IPS = int(ipaddress.ip_address("10.96.0.0")) + 256
PODS = int(ipaddress.ip_address("100.64.0.0")) + 1
ADDED = 3 << 20  # endpoints that changes add have numbers from PODS + ADDED
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def _digest(*seed):
    return hashlib.blake2b(repr(seed).encode(), digest_size=16).hexdigest()


def _suffix(length, *seed):
    number, out = int(_digest(*seed), 16), ""
    for _ in range(length):
        number, rest = divmod(number, len(ALPHABET))
        out += ALPHABET[rest]
    return out


def _uid(*seed):
    h = _digest(*seed)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:]}"


def _address(n):
    n += PODS
    return f"{n >> 24}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"


def rfc3339(seconds):
    """Formats a time with nanoseconds. The endpoint slice controller writes no nanoseconds, but clients must be able to read them."""
    whole, part = divmod(int(seconds * 1e9), 10**9)
    return datetime.fromtimestamp(whole, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{part:09d}Z"


@dataclass
class Population:
    namespaces: int = 10_000
    services: int = 10_000
    slices: int = 15_000  # spread evenly over the Services
    endpoints: int = 10  # per slice
    headless: int = 10  # every n-th Service is headless; 0: no Service is headless
    big: int = 0  # this many Services, the first ones, are big
    big_slices: int = 100  # slices of each big Service; the number `slices` is for the other Services
    big_headless: bool = False  # big Services are headless, whatever their number
    nodes: int = 5_000  # the endpoints' nodes
    pods: bool = False  # also create the Pods of the endpoints (for --pods=verified)
    node_objects: bool = False
    legacy: bool = False  # also create Endpoints objects
    seed: int = 1

    # Names.

    def namespace(self, i):
        return f"ns-{i % self.namespaces:05d}"

    @property
    def all_slices(self):
        return self.slices + self.big * self.big_slices

    def is_headless(self, i):
        if self.big_headless and i < self.big:
            return True
        return self.headless > 0 and i % self.headless == self.headless - 1

    def service(self, i):
        return f"{'db' if self.is_headless(i) else 'web'}-{i:05d}"

    def cluster_ip(self, i):
        return None if self.is_headless(i) else str(ipaddress.ip_address(CLUSTER_IPS + i))

    def owner(self, s):
        """Returns (Service, index among the Service's slices) for slice s. The slices of the big Services come first."""
        bigs = self.big * self.big_slices
        if s < bigs:
            return s // self.big_slices, s % self.big_slices
        others = self.services - self.big
        return self.big + (s - bigs) % others, (s - bigs) // others

    def slice_key(self, s):
        i, _ = self.owner(s)
        return self.namespace(i), f"{self.service(i)}-{_suffix(5, self.seed, 'slice', s)}"

    def slice_numbers(self, headless_only=False):
        return [s for s in range(self.all_slices) if not headless_only or self.is_headless(self.owner(s)[0])]

    def slices_of(self, i):
        if i < self.big:
            return range(i * self.big_slices, (i + 1) * self.big_slices)
        bigs = self.big * self.big_slices
        return range(bigs + i - self.big, self.all_slices, self.services - self.big)

    def addresses(self, i):
        """The addresses of all endpoints of a Service."""
        return [_address(s * self.endpoints + k) for s in self.slices_of(i) for k in range(self.endpoints)]

    # Objects.

    def objects(self):
        for i in range(self.namespaces):
            yield self.make_namespace(i)
        if self.node_objects:
            for n in range(self.nodes):
                yield self.make_node(n)
        for i in range(self.services):
            yield self.make_service(i)
            if self.legacy:
                yield self.make_endpoints(i)
        for s in range(self.all_slices):
            yield self.make_slice(s)
        if self.pods:
            for s in range(self.all_slices):
                for k in range(self.endpoints):
                    yield self.make_pod(s, k)

    @staticmethod
    def _managed(manager, api_version, fields, **more):
        return [{"manager": manager, "operation": "Update", "apiVersion": api_version, "time": MADE, "fieldsType": "FieldsV1",
                 "fieldsV1": fields, **more}]  # fmt: skip

    @staticmethod
    def _f(keys):
        return {".": {}, **{"f:" + k: {} for k in sorted(keys)}}

    def make_namespace(self, i):
        name = f"ns-{i:05d}"
        labels = {"environment": "production", "kubernetes.io/metadata.name": name,
                  "pod-security.kubernetes.io/enforce": "baseline", "team": f"team-{i % 97:02d}"}  # fmt: skip
        meta = {"name": name, "uid": _uid(self.seed, "ns", i), "resourceVersion": "", "creationTimestamp": MADE, "labels": labels,
                "managedFields": self._managed("helm", "v1", {"f:metadata": {"f:labels": self._f(labels)}})}  # fmt: skip
        return {"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"}}  # fmt: skip

    def labels(self, i):
        name = self.service(i)
        return {"app.kubernetes.io/component": "server", "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": "Helm",
                "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": self.namespace(i),
                "app.kubernetes.io/version": "1.14.2", "helm.sh/chart": "server-3.2.1"}  # fmt: skip

    def make_service(self, i):
        name, namespace, labels = self.service(i), self.namespace(i), self.labels(i)
        ip = self.cluster_ip(i) or "None"
        spec = {"ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}], "type": "ClusterIP"}
        given = {"clusterIP": "None"} if ip == "None" else {}
        applied = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace, "labels": labels},
                   "spec": {**spec, **given}, "status": {"loadBalancer": {}}}  # fmt: skip
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied, separators=(",", ":")) + "\n",
                       "meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}  # fmt: skip
        owned = {"f:" + k: {} for k in ("internalTrafficPolicy", "sessionAffinity", "type", *given)}
        port = {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
        fields = {"f:metadata": {"f:annotations": self._f(annotations), "f:labels": self._f(labels)},
                  "f:spec": {**owned, "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': port}}}  # fmt: skip
        meta = {"name": name, "namespace": namespace, "uid": _uid(self.seed, "svc", i), "resourceVersion": "",
                "creationTimestamp": MADE, "labels": labels, "annotations": annotations,
                "managedFields": self._managed("helm", "v1", fields)}  # fmt: skip
        spec = {**{k: spec[k] for k in ("ports",)}, "clusterIP": ip, "clusterIPs": [ip], "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"}  # fmt: skip
        return {"kind": "Service", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": {"loadBalancer": {}}}

    def make_endpoint(self, s, i, k, address=None, name=None):
        n = s * self.endpoints + k
        node = n * 7 % self.nodes
        hostname = name or f"{self.service(i)}-{self.owner(s)[1] * self.endpoints + k}"
        headless = self.is_headless(i)
        pod = hostname if headless else f"{self.service(i)}-{_suffix(10, self.seed, i)}-{_suffix(5, self.seed, s, k, name)}"
        out = {"addresses": [address or _address(n)], "conditions": {"ready": True, "serving": True, "terminating": False}}
        if headless:
            out["hostname"] = hostname
        out["targetRef"] = {"kind": "Pod", "namespace": self.namespace(i), "name": pod, "uid": _uid(self.seed, "pod", s, k, name)}
        out["nodeName"], out["zone"] = f"node-{node:04d}", f"region-1{'abc'[node % 3]}"
        return out

    def make_slice(self, s):
        i, _ = self.owner(s)
        namespace, name = self.slice_key(s)
        service, uid = self.service(i), _uid(self.seed, "svc", i)
        labels = {**self.labels(i), "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                  "kubernetes.io/service-name": service}  # fmt: skip
        if self.is_headless(i):
            labels["service.kubernetes.io/headless"] = ""
        fields = {"f:addressType": {}, "f:endpoints": {}, "f:ports": {},
                  "f:metadata": {"f:annotations": self._f([TRIGGER]), "f:generateName": {}, "f:labels": self._f(labels),
                                 "f:ownerReferences": {".": {}, f'k:{{"uid":"{uid}"}}': {}}}}  # fmt: skip
        meta = {"name": name, "generateName": service + "-", "namespace": namespace, "uid": _uid(self.seed, "slice", s),
                "resourceVersion": "", "generation": 1, "creationTimestamp": MADE, "labels": labels, "annotations": {TRIGGER: MADE},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": service, "uid": uid, "controller": True,
                                     "blockOwnerDeletion": True}],
                "managedFields": self._managed("kube-controller-manager", "discovery.k8s.io/v1", fields)}  # fmt: skip
        return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": meta, "addressType": "IPv4",
                "endpoints": [self.make_endpoint(s, i, k) for k in range(self.endpoints)],
                "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}  # fmt: skip

    def make_endpoints(self, i):
        """The Endpoints object of a Service. Like the controller, it writes at most 1,000 addresses."""
        addresses = []
        for s in self.slices_of(i):
            for e in (self.make_endpoint(s, i, k) for k in range(self.endpoints)):
                host = {"hostname": e["hostname"]} if "hostname" in e else {}
                addresses.append({"ip": e["addresses"][0], **host, "nodeName": e["nodeName"], "targetRef": e["targetRef"]})
        labels = {**self.labels(i), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if self.is_headless(i):
            labels["service.kubernetes.io/headless"] = ""
        fields = {"f:metadata": {"f:annotations": self._f([TRIGGER]), "f:labels": self._f(labels)}, "f:subsets": {}}
        meta = {"name": self.service(i), "namespace": self.namespace(i), "uid": _uid(self.seed, "ep", i), "resourceVersion": "",
                "creationTimestamp": MADE, "labels": labels, "annotations": {TRIGGER: MADE},
                "managedFields": self._managed("kube-controller-manager", "v1", fields)}  # fmt: skip
        subset = {"addresses": addresses[:1000], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
        return {"kind": "Endpoints", "apiVersion": "v1", "metadata": meta, "subsets": [subset] if addresses else []}

    def make_node(self, n):
        zone = f"region-1{'abc'[n % 3]}"
        labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": f"node-{n:04d}", "kubernetes.io/os": "linux",
                  "node.kubernetes.io/instance-type": "m5.4xlarge", "topology.kubernetes.io/region": "region-1",
                  "topology.kubernetes.io/zone": zone}  # fmt: skip
        meta = {"name": f"node-{n:04d}", "uid": _uid(self.seed, "node", n), "resourceVersion": "", "creationTimestamp": MADE,
                "labels": labels,
                "managedFields": self._managed("kubelet", "v1", {"f:metadata": {"f:labels": self._f(labels)}})}  # fmt: skip
        return {"kind": "Node", "apiVersion": "v1", "metadata": meta, "spec": {"podCIDR": f"10.{n >> 8}.{n & 255}.0/24"},
                "status": {"addresses": [{"type": "InternalIP", "address": f"172.16.{n >> 8}.{n & 255}"}]}}  # fmt: skip

    def make_pod(self, s, k):
        i, _ = self.owner(s)
        e = self.make_endpoint(s, i, k)
        ip, name = e["addresses"][0], e["targetRef"]["name"]
        labels = {"app.kubernetes.io/name": self.service(i), "app.kubernetes.io/instance": self.service(i),
                  "pod-template-hash": _suffix(10, self.seed, i)}  # fmt: skip
        container = {"name": "server", "image": "registry.example/team/server:1.14.2", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                     "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "512Mi"}},
                     "volumeMounts": [{"name": "kube-api-access", "readOnly": True,
                                       "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                     "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"}  # fmt: skip
        fields = {"f:metadata": {"f:labels": self._f(labels)},
                  "f:spec": {'f:containers': {'k:{"name":"server"}': self._f(container)}, "f:restartPolicy": {}, "f:dnsPolicy": {}}}  # fmt: skip
        status_fields = {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}},
                                      "f:phase": {}, "f:podIP": {}, "f:podIPs": {".": {}, f'k:{{"ip":"{ip}"}}': {".": {}, "f:ip": {}}}}}  # fmt: skip
        managed = self._managed("kube-controller-manager", "v1", fields) + self._managed("kubelet", "v1", status_fields, subresource="status")
        meta = {"name": name, "namespace": self.namespace(i), "uid": e["targetRef"]["uid"], "resourceVersion": "",
                "creationTimestamp": MADE, "labels": labels, "managedFields": managed}  # fmt: skip
        spec = {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
                "nodeName": e["nodeName"], "securityContext": {}, "schedulerName": "default-scheduler",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                                 "tolerationSeconds": 300}]}  # fmt: skip
        conditions = [{"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": MADE}
                      for t in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]  # fmt: skip
        status = {"phase": "Running", "conditions": conditions, "hostIP": "172.16.0.1", "podIP": ip, "podIPs": [{"ip": ip}],
                  "startTime": MADE, "qosClass": "Burstable"}  # fmt: skip
        return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}

    # Changes.

    def change(self, obj, s, n, now):
        """
        Makes change number n of slice s in place: adds an endpoint with a new address, or removes the endpoint that an earlier change
        added. Returns the values that a client needs to check it.
        """
        i, _ = self.owner(s)
        what = {"n": n, "namespace": self.namespace(i), "service": self.service(i), "slice": obj["metadata"]["name"]}
        if len(obj["endpoints"]) > self.endpoints:
            gone = obj["endpoints"].pop()
            what["removed"], what["hostname"] = gone["addresses"][0], gone.get("hostname")
        else:
            name = f"{self.service(i)}-x{n}"
            new = self.make_endpoint(s, i, self.endpoints - 1, _address(ADDED + n % (1 << 20)), name)
            obj["endpoints"].append(new)
            what["added"], what["hostname"] = new["addresses"][0], new.get("hostname")
        obj["metadata"]["annotations"][TRIGGER] = rfc3339(now)
        obj["metadata"]["generation"] += 1
        return what


# Writing manifests.

FILES = {"Namespace": "namespaces", "Service": "services", "EndpointSlice": "endpointslices", "Endpoints": "endpoints",
         "Pod": "pods", "Node": "nodes"}  # fmt: skip


def _yaml_scalar(value):
    if isinstance(value, str):
        plain = value and value[0].isalpha() and all(c.isalnum() or c in "-._/" for c in value)
        return value if plain and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n") else json.dumps(value)
    return json.dumps(value)


def _yaml_key(key):
    return _yaml_scalar(key)


def _yaml(value, depth):
    """Yields a value as block YAML. `depth` indents each line. A sequence is not indented below its key, as in kubectl's output."""
    pad = "  " * depth
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if isinstance(item, (dict, list)) and item:
                yield f"{pad}{_yaml_key(key)}:"
                yield from _yaml(item, depth + isinstance(item, dict))
            else:
                yield f"{pad}{_yaml_key(key)}: {_yaml_scalar(item)}"
    elif isinstance(value, list) and value:
        for item in value:
            lines = list(_yaml(item, depth + 1)) if isinstance(item, (dict, list)) and item else [pad + "  " + _yaml_scalar(item)]
            yield pad + "- " + lines[0][len(pad) + 2 :]
            yield from lines[1:]


def write_manifests(population, directory, form="json"):
    """Writes a List of each resource into a file. Returns the file names."""
    os.makedirs(directory, exist_ok=True)
    files = {}
    for obj in population.objects():
        stem = FILES[obj["kind"]]
        first = stem not in files
        if first:
            files[stem] = open(os.path.join(directory, f"{stem}.{form}"), "w", encoding="utf-8")
            files[stem].write('{\n"apiVersion": "v1",\n"items": [\n' if form == "json" else "apiVersion: v1\nitems:\n")
        obj["metadata"]["resourceVersion"] = "1"
        obj = {"apiVersion": obj.pop("apiVersion"), "kind": obj.pop("kind"), **obj}
        if form == "json":
            files[stem].write(("" if first else ",\n") + json.dumps(obj, indent=4))
        else:
            files[stem].write("\n".join(_yaml([obj], 0)) + "\n")
    for f in files.values():
        f.write('\n],\n"kind": "List",\n"metadata": {"resourceVersion": ""}\n}\n' if form == "json"
                else 'kind: List\nmetadata:\n  resourceVersion: ""\n')  # fmt: skip
        f.close()
    return sorted(f.name for f in files.values())


def add_arguments(parser):
    """The parameters of a population as flags."""
    for name in ("namespaces", "services", "slices", "endpoints", "headless", "big", "big_slices", "nodes", "seed"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Population, name))
    for name in ("big-headless", "pods", "node-objects", "legacy"):
        parser.add_argument(f"--{name}", action="store_true")


def from_arguments(arguments):
    names = Population.__dataclass_fields__
    return {k: v for k, v in vars(arguments).items() if k in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--format", choices=("json", "yaml"), default="json")
    parser.add_argument("directory")
    arguments = parser.parse_args()
    for name in write_manifests(Population(**from_arguments(arguments)), arguments.directory, arguments.format):
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
