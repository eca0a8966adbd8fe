"""The resources that the stand-in serves: their paths, and the empty object that a bookmark contains."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    name: str  # the plural name, as in the path
    kind: str
    group: str  # "" is the core group
    version: str
    namespaced: bool
    empty: str  # the part after the metadata in a bookmark, as Go's encoder writes the zero value
    custom: bool = False  # true if a CRD defines the resource: objects are then encoded as stored, with keys in alphabetical order

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self):
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def qualified(self):
        """The resource's name as the API server's error messages write it."""
        return f"{self.name}.{self.group}" if self.group else self.name


NODE = (
    ',"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"",'
    '"kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"",'
    '"architecture":""}}'
)
GATEWAY_API = "gateway.networking.k8s.io"
_ALL = [
    Resource("services", "Service", "", "v1", True, ',"spec":{},"status":{"loadBalancer":{}}'),
    Resource("endpointslices", "EndpointSlice", "discovery.k8s.io", "v1", True, ',"addressType":"","endpoints":null,"ports":null'),
    Resource("endpoints", "Endpoints", "", "v1", True, ""),
    Resource("namespaces", "Namespace", "", "v1", False, ',"spec":{},"status":{}'),
    Resource("pods", "Pod", "", "v1", True, ',"spec":{"containers":null},"status":{}'),
    Resource("nodes", "Node", "", "v1", False, NODE),
    Resource("configmaps", "ConfigMap", "", "v1", True, ""),
    Resource("ingresses", "Ingress", "networking.k8s.io", "v1", True, ',"spec":{},"status":{"loadBalancer":{}}'),
    # CRDs define these resources. For a cluster without the CRDs, call absent("gateway.networking.k8s.io").
    Resource("gateways", "Gateway", GATEWAY_API, "v1", True, ',"spec":{"gatewayClassName":"","listeners":null}', custom=True),
    Resource("listenersets", "ListenerSet", GATEWAY_API, "v1", True, ',"spec":{"listeners":null,"parentRef":{"name":""}}', custom=True),
    Resource("httproutes", "HTTPRoute", GATEWAY_API, "v1", True, ',"spec":{}', custom=True),
    Resource("grpcroutes", "GRPCRoute", GATEWAY_API, "v1", True, ',"spec":{}', custom=True),
    Resource("tlsroutes", "TLSRoute", GATEWAY_API, "v1", True, ',"spec":{"rules":null}', custom=True),
    # A CRD defines this resource too. For a cluster without the CRD, call absent("multicluster.x-k8s.io").
    Resource("serviceimports", "ServiceImport", "multicluster.x-k8s.io", "v1alpha1", True, ',"spec":{"ports":null,"type":""}', custom=True),
    # DNS does not need this resource. A test can check that it is never requested.
    Resource("secrets", "Secret", "", "v1", True, ""),
]

RESOURCES = {r.name: r for r in _ALL}
BY_KIND = {r.kind: r for r in _ALL}
