"""
The answers that dns.md promises for a set of objects, as one dictionary from names to records. It is built from all objects at once, in
the order of the document's table, independently of kubedns's code. Names are lower-case text without the last dot.

    model = Model(objects, options)
    model.expect("web.default.svc.cluster.local", "A")   # an Expectation
"""

import ipaddress
from collections import defaultdict
from dataclasses import dataclass

TTL, NEGATIVE_TTL, VERSION_TTL = 30, 5, 28800
SOON_TTL, UNLIKELY_TTL, NEVER_TTL = 0, 30, 300  # negative TTLs, see kubedns.8 --negative-ttl
STEPS = 8  # maximum length of a chain of ExternalNames
NOERROR, NXDOMAIN, REFUSED = 0, 3, 5


@dataclass
class Options:
    """The flags of kubedns that change its answers."""

    zone: str = "cluster.local"
    pods: str = "insecure"
    namespaces: tuple = ()
    reverse_cidrs: tuple = ()
    reverse_all_endpoints: bool = False
    endpoint_pod_names: bool = False
    ignore_empty_service: bool = False
    ns_addresses: tuple = ("192.0.2.53", "2001:db8:53::1")

    def arguments(self):
        out = [f"--domain={self.zone}", f"--pods={self.pods}", f"--ns-addresses={','.join(self.ns_addresses)}"]
        if self.namespaces:
            out.append("--namespaces=" + ",".join(self.namespaces))
        if self.reverse_cidrs:
            out.append("--reverse-cidrs=" + ",".join(self.reverse_cidrs))
        for name in ("reverse_all_endpoints", "endpoint_pod_names", "ignore_empty_service"):
            if getattr(self, name):
                out.append("--" + name.replace("_", "-"))
        return out


@dataclass
class Expectation:
    rcode: int
    aa: bool
    answer: frozenset = frozenset()  # (owner, type, ttl, rdata)
    soa: str = None  # owner of the SOA in the authority section; None if the section is empty
    soa_ttl: int = NEGATIVE_TTL
    glue: frozenset = frozenset()  # (owner, type, ttl, rdata)
    any: bool = False  # the answer must contain the HINFO of RFC 8482 and may contain other records


@dataclass(frozen=True)
class Entry:
    """An endpoint of a slice. The rules for "an endpoint in several slices" compare these values."""

    address: str
    name: str
    ports: frozenset  # ports of the endpoint's slice: (name, protocol, number)


def family(address):
    return "AAAA" if ":" in address else "A"


def dashed(address):
    text = str(ipaddress.ip_address(address)).replace(".", "-").replace(":", "-")
    return text + "0" if text.endswith("-") else text


def reverse(address):
    return ipaddress.ip_address(address).reverse_pointer


def is_address(text):
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return False


def reverse_zones(cidr):
    """The reverse zones of a prefix, on octet (nibble) boundaries."""
    network = ipaddress.ip_network(cidr)
    bits = 8 if network.version == 4 else 4
    border = -(-network.prefixlen // bits) * bits
    labels = border // bits
    for part in network.subnets(new_prefix=border):
        pointer = part.network_address.reverse_pointer.split(".")
        yield ".".join(pointer[len(pointer) - 2 - labels :])


def is_label(text):
    return 0 < len(text) <= 63 and all(c.isalnum() or c == "-" for c in text) and text[0] != "-" and text[-1] != "-"


class Model:
    def __init__(self, objects, options=None):
        self.options = options or Options()
        self.zone = self.options.zone
        self.records = defaultdict(lambda: defaultdict(set))  # name -> type -> rdata
        self.version = f"dns-version.{self.zone}"
        by_kind = defaultdict(list)
        for obj in objects:
            by_kind[obj["kind"]].append(obj)
        shown = self.options.namespaces
        self.namespaces = {n["metadata"]["name"] for n in by_kind["Namespace"]}
        if shown:
            self.namespaces &= set(shown)
        self.slices = defaultdict(list)
        for s in by_kind["EndpointSlice"]:
            service = s["metadata"].get("labels", {}).get("kubernetes.io/service-name")
            self.slices[s["metadata"]["namespace"], service].append(s)
        self.pods = {
            (p["metadata"]["namespace"], str(ipaddress.ip_address(ip["ip"])))
            for p in by_kind["Pod"]
            if p["status"].get("phase") == "Running"
            for ip in p["status"].get("podIPs", [])
        }
        self.cluster_owners, self.endpoint_owners = defaultdict(set), defaultdict(set)
        self.headless, self.endpoint_names = set(), set()
        self.services = {}  # (namespace, name) of a Service -> true if the Service's name or a name below it is about to exist
        self._apex()
        for service in by_kind["Service"]:
            if not shown or service["metadata"]["namespace"] in shown:
                self._service(service)
        self._pointers()
        self._existing()

    # The tree.

    def _apex(self):
        z = self.zone
        self.records[z]["SOA"].add("soa")
        self.records[z]["NS"].add(f"ns.dns.{z}")
        for address in self.options.ns_addresses:
            self.records[f"ns.dns.{z}"][family(address)].add(address)
        self.records[self.version]["TXT"].add("1.1.0")
        self.empty = {f"svc.{z}"} | ({f"pod.{z}"})
        for ns in self.namespaces:
            self.empty.add(f"{ns}.svc.{z}")
            if self.options.pods != "disabled":
                self.empty.add(f"{ns}.pod.{z}")
        self.zones = {zone for cidr in self.options.reverse_cidrs for zone in reverse_zones(cidr)}
        for zone in self.zones:
            self.records[zone]["SOA"].add("soa")

    def _endpoints(self, service):
        """The entries of all slices of this Service. Endpoints that are not ready count only if the Service publishes them too."""
        out, meta = set(), service["metadata"]
        everything = service["spec"].get("publishNotReadyAddresses") or (
            meta.get("annotations", {}).get("service.alpha.kubernetes.io/tolerate-unready-endpoints") == "true"
        )
        for s in self.slices[meta["namespace"], meta["name"]]:
            if s["addressType"] == "FQDN":
                continue
            ports = frozenset((p.get("name") or "", p.get("protocol") or "TCP", p["port"]) for p in s.get("ports") or () if p.get("port"))
            for e in s.get("endpoints") or ():
                ready = (e.get("conditions") or {}).get("ready")
                if not (everything or ready or ready is None):
                    continue
                address = str(ipaddress.ip_address(e["addresses"][0]))  # the API does not define the meaning of a second address
                pod = (e.get("targetRef") or {}).get("name", "") if self.options.endpoint_pod_names else ""
                out.add(Entry(address, e.get("hostname") or (pod if is_label(pod) else dashed(address)), ports))
        return out

    def _service(self, service):
        meta, spec = service["metadata"], service["spec"]
        at = f"{meta['name']}.{meta['namespace']}.svc.{self.zone}"
        self.services[meta["namespace"], meta["name"]] = False
        if spec.get("type") == "ExternalName":
            target = spec["externalName"].rstrip(".").lower()
            if is_address(target):
                self.records[at][family(target)].add(str(ipaddress.ip_address(target)))
            else:
                self.records[at]["CNAME"].add(target)
            return
        endpoints = self._endpoints(service)
        addresses = spec.get("clusterIPs") or [spec["clusterIP"]]
        headless = addresses[0] == "None"
        self.services[meta["namespace"], meta["name"]] = headless or not endpoints and self.options.ignore_empty_service
        if headless and not endpoints or not endpoints and self.options.ignore_empty_service:
            return
        self._endpoint_names(at, endpoints, headless)
        ports = [(p.get("name") or "", p.get("protocol") or "TCP", p["port"]) for p in spec.get("ports") or ()]
        if headless:
            self.headless.add(at)
            for e in endpoints:
                self.records[at][family(e.address)].add(e.address)
            pairs = {(port, f"{e.name}.{at}") for e in endpoints for port in e.ports}
        else:
            for address in addresses:
                self.records[at][family(address)].add(str(ipaddress.ip_address(address)))
                self.cluster_owners[str(ipaddress.ip_address(address))].add(at)
            pairs = {(port, at) for port in ports}
        for (name, protocol, number), target in pairs:
            if name:
                self.records[f"_{name}._{protocol}.{at}".lower()]["SRV"].add((number, target))
            self.records[at]["SRV"].add((number, target))

    def _endpoint_names(self, at, endpoints, headless):
        for e in endpoints:
            own = f"{e.name}.{at}".lower()
            self.endpoint_names.add(own)
            self.records[own][family(e.address)].add(e.address)
            for _, _, number in e.ports:
                self.records[own]["SRV"].add((number, own))
            if headless or self.options.reverse_all_endpoints:
                self.endpoint_owners[e.address].add(own)

    def _pointers(self):
        for address, owners in self.endpoint_owners.items():
            if address not in self.cluster_owners:
                self.records[reverse(address)]["PTR"] |= owners
        for address, owners in self.cluster_owners.items():
            self.records[reverse(address)]["PTR"] |= owners

    def _existing(self):
        """Collects every name that exists: names with records, and all names above them in the zone."""
        self.exists = set()
        for name in [n for n, types in self.records.items() if any(types.values())] + list(self.empty):
            while name and name not in self.exists:
                self.exists.add(name)
                name = name.partition(".")[2]

    # The answers.

    def zone_of(self, name):
        """Returns the closest of our zones that contains the name, or None."""
        while name:
            if name == self.zone or name in self.zones:
                return name
            name = name.partition(".")[2]
        return None

    def pod(self, name):
        """Returns the address of a pod name, or None if there is no such name."""
        label, _, rest = name.partition(".")
        ns, _, rest = rest.partition(".")
        if rest != f"pod.{self.zone}" or self.options.pods == "disabled" or ns not in self.namespaces:
            return None
        for text in (label.replace("-", "."), label.replace("-", ":")):
            if is_address(text) and label.count("-") >= 2:
                address = str(ipaddress.ip_address(text))
                if self.options.pods == "insecure" or (ns, address) in self.pods:
                    return address
        return None

    def here(self, name):
        """Returns {type: rdata} of a name. It is empty if the name exists without records. Returns None if the name does not exist."""
        address = self.pod(name)
        if address:
            return {family(address): {address}}
        if name in self.exists:
            return self.records[name] if name in self.records else {}
        return None

    def _srv_share(self, name, target, types):
        """
        The number of SRV records of a name that share the weight 100. For a headless Service it is the number of addresses. For a Service
        with a ClusterIP it is the number of ports. For an endpoint's name it is 1.
        """
        if target == name and name in self.endpoint_names:
            return 1
        while name.startswith("_"):
            name = name.partition(".")[2]
        return max(len(self.records[name].get(f, ())) for f in ("A", "AAAA")) if name in self.headless else len(types["SRV"])

    def _record(self, name, type_, rdata, types):
        if type_ == "SRV":
            number, target = rdata
            weight = max(1, 100 // self._srv_share(name, target, types))
            return (name, type_, TTL, f"0 {weight} {number} {target}")
        return (name, type_, VERSION_TTL if name == self.version else TTL, rdata)

    def _glue(self, answer):
        targets = {r[3].rpartition(" ")[2] for r in answer if r[1] in ("SRV", "NS")}
        return frozenset((t, f, TTL, a) for t in targets for f in ("A", "AAAA") for a in (self.here(t) or {}).get(f, ()))

    def expect(self, name, type_):
        name, chain = name.lower(), {}
        while True:
            zone, types = self.zone_of(name), self.here(name)
            if zone is None and (types is None or not any(types.values())):
                return Expectation(NOERROR, True, frozenset(chain.values())) if chain else Expectation(REFUSED, False)
            cname = next(iter(types.get("CNAME", ())), None) if types else None
            if cname is None:
                break
            chain[name] = (name, "CNAME", TTL, cname)
            if type_ in ("CNAME", "ANY") or cname in chain or len(chain) == STEPS:
                return Expectation(NOERROR, True, frozenset(chain.values()))
            name = cname
        soa = zone or name
        before = frozenset(chain.values())
        if types is None:
            return Expectation(NXDOMAIN, True, before, soa, self.denied_for(name))
        if type_ == "ANY" and any(types.values()):
            return Expectation(NOERROR, True, any=True)
        own = frozenset(self._record(name, type_, r, types) for r in types.get(type_, ()))
        if not own:
            return Expectation(NOERROR, True, before, soa)
        return Expectation(NOERROR, True, before | own, glue=self._glue(own))

    def denied_for(self, name):
        """Returns the TTL in seconds of the negative answer for this name."""
        if self.zone_of(name) != self.zone:
            return NEGATIVE_TTL
        labels = name[: -len(self.zone) - 1].split(".")
        if labels[-1] == "pod":
            return NEGATIVE_TTL if len(labels) <= 3 else NEVER_TTL
        if labels[-1] != "svc":
            return NEVER_TTL if labels[-1] in ("dns", "dns-version") else UNLIKELY_TTL
        if len(labels) > 5 or len(labels) == 5 and not (labels[0][:1] == labels[1][:1] == "_"):
            return NEVER_TTL
        waiting = self.services.get(tuple(labels[-2:-4:-1]))
        if waiting:
            return SOON_TTL
        return NEGATIVE_TTL

    def names(self):
        """Every name that exists in our zones, and the known reverse names."""
        return sorted(self.exists)
