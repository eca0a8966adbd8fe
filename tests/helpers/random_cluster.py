"""
Unusual but valid clusters, generated from a seed. They use few names and addresses, so that these collide in every way. A cluster is a
dictionary from (kind, namespace, name) to the object as the API returns it. change() makes one step.
"""

import random

NAMESPACES = ["default", "a", "svc"]
SERVICES = ["web", "db", "x", "web-2", "pod", "dns", "ext", "loop"]
ADDRESSES4 = [f"10.1.{i % 2}.{1 + i}" for i in range(9)] + ["10.2.0.1", "172.16.0.9", "10.96.0.1"]
ADDRESSES6 = ["2001:db8::1", "2001:db8::", "2001:db8:1::a", "fd00::1", "fd00:1:2:3:4:5:6:7"]
MANY = [f"10.3.{i // 8}.{i}" for i in range(150)]
CLUSTER4 = [f"10.96.0.{i}" for i in range(1, 7)]
CLUSTER6 = ["fd00:96::1", "fd00:96::2", "fd00:97::3"]
HOSTS = ["h0", "h1", "db-0", "10-1-0-1", "10-1-1-2", "2001-db8--1", "tcp", "h0"]
PODS = ["web-abc", "db-0", "p.with.dots", "h1"]
PORTS = [("http", "TCP", 80), ("http", "TCP", 8080), ("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("", "TCP", 80), ("", "UDP", 9), ("sctp", "SCTP", 80)]
OUTSIDE = ["www.example.com", "192.0.2.7", "2001:db8::77", "example.com."]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.cluster = {}
        for ns in NAMESPACES:
            self.put(self.object("Namespace", "v1", ns, None))
        for _ in range(self.random.randrange(3, 14)):
            self.put(self.service())
        for _ in range(self.random.randrange(3, 20)):
            self.put(self.slice())
        for _ in range(self.random.randrange(4)):
            self.put(self.pod())

    @staticmethod
    def key(obj):
        return obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]

    def put(self, obj):
        self.cluster[self.key(obj)] = obj
        return obj

    def object(self, kind, version, name, namespace, **rest):
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        return {"kind": kind, "apiVersion": version, "metadata": meta, **rest}

    def some(self, values, least, most):
        return self.random.sample(values, min(len(values), self.random.randint(least, most)))

    def ports(self, least=0):
        """Ports with unique names, as the API requires. If a port has no name, it is the only port."""
        out, names = [], set()
        for name, protocol, number in self.some(PORTS, least, 4):
            if name in names:
                continue
            names.add(name)
            out.append({"name": name, "protocol": protocol, "port": number} if name else {"protocol": protocol, "port": number})
        return [p for p in out if "name" in p] or out[:1]

    def service(self, name=None, ns=None):
        r = self.random
        obj = self.object("Service", "v1", name or r.choice(SERVICES), ns or r.choice(NAMESPACES))
        kind = r.random()
        spec = obj["spec"] = {"type": "ClusterIP", "ports": self.ports(0 if kind < 0.5 else 1)}
        if kind < 0.5:
            spec.update(clusterIP="None", clusterIPs=["None"])
            if r.random() < 0.2:
                spec["publishNotReadyAddresses"] = True
            elif r.random() < 0.05:
                obj["metadata"]["annotations"] = {"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
        elif kind < 0.8:
            four, six = r.choice(CLUSTER4), r.choice(CLUSTER6)
            ips = r.choice([[four], [six], [four, six], [six, four]])
            spec.update(type=r.choice(["ClusterIP", "NodePort", "LoadBalancer"]), clusterIP=ips[0])
            if len(ips) == 2 or r.random() < 0.7:
                spec["clusterIPs"] = ips
        else:
            obj["spec"] = {"type": "ExternalName", "externalName": self.target()}
        return obj

    def target(self):
        r = self.random
        inside = f"{r.choice(SERVICES)}.{r.choice(NAMESPACES)}.svc.cluster.local"
        return r.choice([inside, inside, f"{r.choice(HOSTS)}.{inside}", f"10-1-0-1.{r.choice(NAMESPACES)}.pod.cluster.local",
                         "1.0.96.10.in-addr.arpa", "9.9.1.10.in-addr.arpa", "cluster.local", "a.svc.cluster.local", r.choice(OUTSIDE)])  # fmt: skip

    def endpoint(self, addresses):
        r = self.random
        e = {"addresses": [r.choice(addresses)]}
        if r.random() < 0.05:
            e["addresses"] = self.some(addresses, 2, 3)
        if r.random() < 0.5:
            e["hostname"] = r.choice(HOSTS)
        if r.random() < 0.4:
            e["targetRef"] = {"kind": "Pod", "name": r.choice(PODS)}
        e["conditions"] = r.choice([{"ready": True}, {"ready": True}, {"ready": True, "serving": True, "terminating": False}, {}, {"ready": False},
                                    {"ready": False, "serving": True, "terminating": True}])  # fmt: skip
        if r.random() < 0.1:
            del e["conditions"]
        return e

    def slice(self, name=None, ns=None):
        r = self.random
        kind = r.choice(["IPv4", "IPv4", "IPv4", "IPv6", "IPv6", "FQDN"] if r.random() < 0.3 else ["IPv4", "IPv4", "IPv6"])
        service = r.choice(SERVICES[:5])
        obj = self.object("EndpointSlice", "discovery.k8s.io/v1", name or f"{service}-{r.choice('abc')}", ns or r.choice(NAMESPACES))
        labelled = service.capitalize() if r.random() < 0.05 else service
        obj["metadata"]["labels"] = {"kubernetes.io/service-name": labelled}
        obj["addressType"] = kind
        if kind == "FQDN":
            obj["endpoints"] = [{"addresses": ["host.example.com"], "conditions": {"ready": True}}]
        else:
            addresses = ADDRESSES4 if kind == "IPv4" else ADDRESSES6
            count = r.choice([0, 1, 1, 2, 3, 5])
            if kind == "IPv4" and r.random() < 0.06:  # more records than fit into a message of 512 or 1,232 bytes
                addresses, count = MANY, r.choice([40, 100])
            obj["endpoints"] = [self.endpoint(addresses) for _ in range(count)]
        obj["ports"] = self.ports()
        if not obj["ports"] and r.random() < 0.5:
            obj["ports"] = None
        return obj

    def pod(self):
        r = self.random
        obj = self.object("Pod", "v1", r.choice(PODS[:2] + ["p1", "p2"]), r.choice(NAMESPACES), spec={"nodeName": "n"})
        ips = [r.choice(ADDRESSES4)] + ([r.choice(ADDRESSES6)] if r.random() < 0.4 else [])
        obj["status"] = {"phase": r.choice(["Running", "Running", "Pending", "Succeeded"]), "podIP": ips[0], "podIPs": [{"ip": i} for i in ips]}
        return obj

    def change(self):
        """One step: [(key, object or None)]. It changes a namespace only if the namespace contains no objects."""
        r = self.random
        mine = [k for k in self.cluster if k[0] != "Namespace"]
        what = r.random()
        if what < 0.2 and mine:
            key = r.choice(mine)
            del self.cluster[key]
            return [(key, None)]
        if what < 0.3:
            new = self.object("Namespace", "v1", "extra", None)
            if self.cluster.pop(self.key(new), None):
                return [(self.key(new), None)]
        elif what < 0.5 and any(k[0] == "Service" for k in mine):
            _, ns, name = r.choice([k for k in mine if k[0] == "Service"])
            new = self.service(name, ns)
        elif what < 0.75 and any(k[0] == "EndpointSlice" for k in mine):
            new = self.changed_slice(r.choice([k for k in mine if k[0] == "EndpointSlice"]))
        else:
            new = r.choice([self.service, self.slice, self.slice, self.pod])()
        key, old = self.key(new), self.cluster.get(self.key(new))
        self.put(new)
        again = old and old.get("addressType") != new.get("addressType")  # a slice's address family never changes, so this is a new slice with the same name
        return [(key, None)] * bool(again) + [(key, new)]

    def changed_slice(self, key):
        """Changes a slice. Everything may change except the address family."""
        old, r = self.cluster[key], self.random
        new = self.slice(key[2], key[1])
        while new["addressType"] != old["addressType"]:
            new = self.slice(key[2], key[1])
        if r.random() < 0.6:  # change only a part of the slice
            part = r.choice(["endpoints", "ports"])
            new = {**old, part: new[part]}
        return new

    def options(self):
        """Random flags of a kubedns for this cluster, as the fields of dns_model.Options."""
        r = self.random
        cidrs = [(), (), ("10.96.0.0/12",), ("10.0.0.0/8", "10.1.0.0/16"), ("10.1.0.0/16", "10.0.0.0/8", "fd00::/16", "2001:db8::/30"), ("10.1.0.0/23",)]
        return {"pods": r.choice(["insecure", "insecure", "verified", "disabled"]), "namespaces": r.choice([(), (), (), ("a", "svc")]),
                "reverse_cidrs": r.choice(cidrs), "reverse_all_endpoints": r.random() < 0.3, "endpoint_pod_names": r.random() < 0.3,
                "ignore_empty_service": False}  # fmt: skip
