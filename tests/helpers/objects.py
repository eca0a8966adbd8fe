"""Minimal objects for tests."""


def _object(kind, api_version, name, namespace, labels, **rest):
    meta = {"name": name}
    if namespace:
        meta["namespace"] = namespace
    if labels:
        meta["labels"] = labels
    return {"kind": kind, "apiVersion": api_version, "metadata": meta, **rest}


def namespace(name, **labels):
    return _object("Namespace", "v1", name, None, labels)


def service(name, ip, ns="default", ports=(("http", 80),), **spec):
    """A Service with a cluster address or "None"."""
    ports = [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]
    return _object("Service", "v1", name, ns, None, spec={"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ports": ports, **spec})


def endpoint_slice(service_name, addresses, ns="default", suffix="abc12", hostnames=(), ports=(("http", 80),), labels=None):
    endpoints = []
    for i, address in enumerate(addresses):
        host = {"hostname": hostnames[i]} if i < len(hostnames) else {}
        endpoints.append({"addresses": [address], "conditions": {"ready": True}, **host})
    labels = {"kubernetes.io/service-name": service_name, **(labels or {})}
    family = "IPv6" if addresses and ":" in addresses[0] else "IPv4"
    return _object("EndpointSlice", "discovery.k8s.io/v1", f"{service_name}-{suffix}", ns, labels, addressType=family,
                   endpoints=endpoints, ports=[{"name": n, "port": p, "protocol": "TCP"} for n, p in ports])  # fmt: skip


def endpoints(service_name, addresses, ns="default", hostnames=(), ports=(("http", 80),)):
    """An Endpoints object, the legacy kind."""
    listed = [{"ip": a, **({"hostname": hostnames[i]} if i < len(hostnames) else {})} for i, a in enumerate(addresses)]
    ports = [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]
    return _object("Endpoints", "v1", service_name, ns, None, subsets=[{"addresses": listed, "ports": ports}])


def config_map(name, data, ns="kube-system"):
    return _object("ConfigMap", "v1", name, ns, None, data=data)
