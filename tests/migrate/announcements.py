"""
Which line of a report announces a different answer (tests/migrate/corpus.py).

A line announces a difference only if its sentence says what differs, and the line names the query's name. `SENTENCES` has the sentences of
kubedns-migrate that are about answers, each with the differences that it describes. A sentence that is not in this list announces nothing.
"""

import ipaddress
import re


def zone_of(word):
    word = re.sub(r"^[a-z]+://", "", word)
    word = re.sub(r":\d+$", "", word)
    try:
        network = ipaddress.ip_network(word, strict=False)
        return ".".join(reversed(str(network.network_address).split(".")[: network.prefixlen // 8])) + ".in-addr.arpa"
    except ValueError:
        return word.strip(".").lower()


def below(name, zone):
    return zone == "" or name == zone or name.endswith("." + zone)


def in_zones(name, words):
    return any(below(name, zone_of(w)) for w in words)


def reverse_of(word):
    try:
        return ipaddress.ip_address(word).reverse_pointer
    except ValueError:
        return None


# The Corefile.


class Line:
    """A line of the Corefile, with its server block (`zones`, None if it is not known) and its directive."""

    def __init__(self, zones, words, head=None):
        self.zones, self.words, self.head, self.body = zones, words, head or self, []

    @property
    def plugin(self):
        return self.head.words[0]

    def rules(self):
        """The words of the directive's first line and of the lines in its block."""
        return [self.head.words, *(b.words for b in self.head.body)]


def lines_of_file(text, name=""):
    """Returns {number: Line} for a file with server blocks, or with lines that a server block imports, such as NAME.override."""
    found, depth, zones, keys = {}, 0, [], []
    fragment = name.endswith(".override") or not re.search(r"^\S.*\{\s*$", text, re.M)
    depth += fragment
    block, head = None, None
    for n, line in enumerate(text.splitlines(), 1):
        words = [w.strip('"`') for w in re.sub(r"(^|\s)#.*", "", line).split()]
        if not words:
            continue
        opens, closes = words[-1] == "{", words[-1] == "}"
        words = [w for w in words if w not in "{}"]
        if depth == 0 and words:
            zones = zones + [zone_of(w.rstrip(",")) for w in words]
            keys.append(n)
            if words[0].startswith("("):
                block = None
            elif opens:
                block = zones
            for key in keys if opens else ():
                found[key] = Line(block, words)
            if opens:
                zones, keys = [], []
        elif depth == 1 and words:
            found[n] = head = Line(block, words)
        elif words and head is not None:
            found[n] = Line(block, words, head)
            head.body.append(found[n])
        depth += opens - closes
    return found


# What a directive decides.


def host_lines(line):
    return [w for w in line.rules() if reverse_of(w[0])]


def is_host(line, name):
    return any(name in (w.strip(".").lower() for w in words[1:]) for words in host_lines(line))


def is_host_below(line, name):
    return any(below(name, w.strip(".").lower()) for words in host_lines(line) for w in words[1:])


def is_host_address(line, name):
    return name in (reverse_of(w[0]) for w in host_lines(line))


def rewrite_rule(line):
    """The words of a rewrite from its kind on, such as ["name", "exact", FROM, TO]."""
    words = line.head.words[1:]
    if line.head.body:
        words = next((b.words for b in line.head.body if b.words[0] != "answer"), [])
    return words[1:] if words[:1] in (["stop"], ["continue"]) else words


def rewrite_kind(line):
    """Returns (kind, FROM, TO) of a rewrite of names."""
    rule = rewrite_rule(line)
    if rule[:1] not in (["name"], ["ttl"]) or len(rule) < 3:
        return None, "", ""
    kinds = ("exact", "prefix", "suffix", "substring", "regex")
    return (rule[1], rule[2], rule[3] if len(rule) > 3 else "") if rule[1] in kinds else ("exact", rule[1], rule[2])


def is_rewritten(line, name):
    """True if CoreDNS rewrites the name with this line."""
    kind, old, _ = rewrite_kind(line)
    dotted = name + "."
    if kind == "exact":
        return name == old.strip(".").lower()
    if kind == "prefix":
        return name.startswith(old)
    if kind == "suffix":
        return dotted.endswith(old.rstrip(".") + ".")
    if kind == "substring":
        return old in dotted
    try:
        return kind == "regex" and bool(re.search(old, dotted))
    except re.error:
        return False


def new_name(line, name):
    """Returns the name after the rewrite, or None."""
    kind, old, new = rewrite_kind(line)
    if rewrite_rule(line)[:1] != ["name"] or not is_rewritten(line, name):
        return None
    if kind == "exact":
        return zone_of(new)
    if kind == "suffix":
        return (name + ".")[: -len(old.rstrip(".") + ".")] + new.rstrip(".")
    if kind == "regex":
        found = re.search(old, name + ".")
        return re.sub(r"\{(\d)\}", lambda m: found[0] if m[1] == "0" else found[int(m[1])] if int(m[1]) <= (found.re.groups or 0) else "", new).strip(".")
    return name.replace(old, new, 1)


def is_template(line, name):
    """True if the template is for the name, of any type."""
    matches = [w[1] for w in line.rules() if w[0] == "match" and len(w) > 1]
    zones = line.head.words[3:]
    try:
        return (not zones or in_zones(name, zones)) and (not matches or any(re.search(m, name + ".") for m in matches))
    except re.error:
        return False


def is_of_type(line, rdtype):
    """True if the template answers queries of the type in CoreDNS. All templates answer ANY queries."""
    return rdtype == "ANY" or len(line.head.words) < 3 or line.head.words[2].upper() in ("ANY", rdtype)


# A difference, and the sentences.


class Difference:
    def __init__(self, query, theirs, ours, ttls=None):
        self.name, self.rdtype = query
        self.theirs, self.ours, self.ttls = theirs, ours, ttls  # ttls: (theirs, ours) if only the TTLs differ

    def rcode(self):
        return self.theirs.split()[0]

    def only_values(self):
        """True if the answers have the same names and types, and other values."""
        theirs, ours = ([r[:2] for r in re.findall(r"\[(\S+) (\S+) ([^\]]*)\]", t)] for t in (self.theirs, self.ours))
        return not self.ttls and theirs == ours and self.rdtype not in ("A", "AAAA", "TXT") and self.theirs.split(" [")[0] == self.ours.split(" [")[0]

    def only_owners(self):
        """True if the answers have the same types and values, and other names."""
        theirs, ours = ([r[1:] for r in re.findall(r"\[(\S+) (\S+) ([^\]]*)\]", t)] for t in (self.theirs, self.ours))
        return not self.ttls and sorted(theirs) == sorted(ours) and self.theirs.split(" [")[0] == self.ours.split(" [")[0]


def quoted(said):
    return [zone_of(w) for w in re.findall(r'"([^"]+)"', said)]


def rewrites_records(_w, line, d, n):
    return not d.ttls and not d.only_values() and is_rewritten(line, n)


def is_forwarded(w, line, n):
    return len(line.head.words) > 1 and below(n, zone_of(line.head.words[1])) and not below(n, w.domain)


def option_decides(w, line, d, n):
    """True if an option of kubernetes can decide the name."""
    option, cluster = line.words[0], below(n, w.domain)
    if option == "ttl":
        return bool(d.ttls) and cluster
    if d.ttls:
        return False
    if option == "pods":
        return below(n, "pod." + w.domain)
    if option == "fallthrough":
        return cluster or n.endswith(".arpa")
    return cluster


# (sentence, test): the test gets the world, the line, the difference and one of its names. Names in the cluster's domain are `cluster`.
# Each test runs only for lines of the server block that CoreDNS uses for the name, unless the sentence is in ANYWHERE.
SENTENCES = [
    # kubernetes
    (r"A reverse name that the cluster does not have is forwarded; CoreDNS returns (\w+)", lambda w, l, d, n: n.endswith(".arpa") and d.rcode() in ("NXDOMAIN", "SERVFAIL")),
    (r"kubedns also answers the cluster's reverse names|kubedns also answers reverse names of the cluster's", lambda w, l, d, n: n.endswith(".arpa") and "." + w.domain in d.ours),
    (r"The ConfigMap's key rewrites gives the same names to ([^.]\S*(?:, \S+)*)", lambda w, l, d, n: in_zones(n, l.head.words[1:]) and not below(n, w.domain)),
    (r"CoreDNS answers them only after a rewrite in this server block", lambda w, l, d, n: below(n, w.domain)),
    (r"the cluster's names, with the options of kubernetes at", lambda w, l, d, n: below(n, w.domain)),
    (r"that of kubernetes at", option_decides),
    (r"kubedns answers for every Service|kubedns answers headless Services, endpoints and their reverse names",
     lambda w, l, d, n: not d.ttls and (below(n, w.domain) and "[" not in d.theirs or n.endswith(".arpa") and "." + w.domain in d.ours)),
    # forward
    (r"Until then these queries go|not to those of the node's resolv.conf|only these servers, not resolv.conf's|only with the tls:// servers",
     lambda w, l, d, n: l.plugin in ("forward", "proxy") and is_forwarded(w, l, n)),
    (r"go to the servers of the stub domain above it", lambda w, l, d, n: in_zones(n, l.zones or []) and is_forwarded(w, l, n)),
    (r"CoreDNS forwards only \S+ itself to these servers", lambda w, l, d, n: n == zone_of(l.words[1])),
    (r"these names get NXDOMAIN", lambda w, l, d, n: not d.ttls and in_zones(n, l.words[1:]) and ("NXDOMAIN" in d.ours or d.ours == "NOERROR" and "or NOERROR without records" in l.said)),
    (r"not names below those of hosts, rewrite and template, which kubedns forwards", lambda w, l, d, n: not d.ttls and l.words[0] == "except" and in_zones(n, l.words[1:])),
    (r"return SERVFAIL or REFUSED, clients get no reply", lambda w, l, d, n: d.ours == "no answer"),
    (r"the cluster's own domain is never forwarded", lambda w, l, d, n: below(n, w.domain)),
    # server blocks
    (r"no line of this block forwards its names", lambda w, l, d, n: d.rcode() in ("SERVFAIL", "REFUSED")),
    (r"no line forwards names outside these zones", lambda w, l, d, n: d.rcode() in ("SERVFAIL", "REFUSED") and d.ours in ("SERVFAIL", "REFUSED") or re.match(r"(SERVFAIL|REFUSED) \[\S+ cname", d.ours)),
    (r"left out: only for the clients of its view|left out: CoreDNS uses this server block only for its own port", lambda w, l, d, n: True),
    (r"names that no line forwards go to the servers of the node's resolv.conf", lambda w, l, d, n: d.rcode() in ("SERVFAIL", "REFUSED")),
    (r"names outside these zones go to the servers of the node's resolv.conf", lambda w, l, d, n: d.rcode() == "REFUSED" and not in_zones(n, l.zones or [])),
    (r"kubedns also answers the cluster's names and reverse names", lambda w, l, d, n: below(n, w.domain) or n.endswith(".arpa")),
    (r"a placeholder, which another program replaces", lambda w, l, d, n: True),
    # hosts
    (r"CoreDNS returns SERVFAIL for them", lambda w, l, d, n: d.rcode() == "SERVFAIL" and not is_host(l, n)),
    (r"no records of types other than A and AAAA", lambda w, l, d, n: not d.ttls and is_host(l.head, n) and d.rdtype not in ("A", "AAAA", "PTR")),
    (r"answers the reverse names of these addresses|kubedns answers the reverse names too", lambda w, l, d, n: not d.ttls and "ptr" in d.ours and is_host_address(l, n)),
    (r"kubedns also answers the reverse name of this address", lambda w, l, d, n: not d.ttls and n == reverse_of(l.words[0])),
    (r"--ttl; CoreDNS's default is 3600|kubedns's --ttl applies to these names too", lambda w, l, d, n: d.ttls and (is_host(l, n) or is_host_address(l, n))),
    (r'key hosts, without "', lambda w, l, d, n: not d.ttls and any(below(n, q) for q in quoted(l.said))),
    (r"only for the reverse name of the address", lambda w, l, d, n: not d.ttls and n == reverse_of(l.words[0])),
    (r"a template of this server block", lambda w, l, d, n: not d.ttls and any(below(n, q) for q in quoted(l.said))),
    (r"wildcards go into the ConfigMap's key records", lambda w, l, d, n: not d.ttls and any(w2.startswith("*.") and below(n, w2[2:]) for w2 in l.words[1:])),
    # rewrite
    (r"targets in SRV and other records keep the new name", lambda w, l, d, n: d.only_values() and is_rewritten(l, n)),
    (r"the answer has the name of the query, not the new name", lambda w, l, d, n: d.only_owners() and is_rewritten(l, n)),
    (r"the suffix itself is rewritten too|as a suffix: it also applies to", lambda w, l, d, n: not d.ttls and n == zone_of(rewrite_kind(l)[1].replace("\\", "").rsplit(")", 1)[-1].strip("^$?."))),
    (r"in kubedns a suffix begins at a label", lambda w, l, d, n: not d.ttls and is_rewritten(l, n) and not below(n, zone_of(rewrite_kind(l)[1]))),
    (r"kubedns answers the new name itself; CoreDNS sends it to this block's servers|the new name is looked up like any other name|the new name is not rewritten again|"
     r"it takes precedence over rewrites above it|no patterns in the classic topology|no rewrites of this kind|left out: an earlier rewrite has this suffix", rewrites_records),
    (r"no rewrites of (this kind|types)", lambda w, l, d, n: rewrite_rule(l)[:2] == ["type", d.rdtype]),
    (r"it also applies to names in the zones of other server blocks", lambda w, l, d, n: not d.ttls and below(n, zone_of(rewrite_kind(l)[1]))),
    (r"for all others; not per name", lambda w, l, d, n: d.ttls and is_rewritten(l, n)),
    # template
    (r"These names are then aliases for all types|kubedns also looks up the target of the alias|CoreDNS returned this record for all types", lambda w, l, d, n: not d.ttls and is_template(l, n)),
    (r"because the template has no fallthrough", lambda w, l, d, n: d.rcode() == "SERVFAIL" and in_zones(n, l.head.words[3:] or l.zones) and is_of_type(l, d.rdtype) and not is_template(l, n)),
    (r'names in "[^"]+" go to the servers of another forward', lambda w, l, d, n: any(below(n, q) for q in quoted(l.said))),
    (r"the template in line \d+ has some of these names too|because of the record of the template in line", lambda w, l, d, n: not d.ttls and is_template(l, n)),
    (r"These names then have no records of other types", lambda w, l, d, n: not d.ttls and is_template(l, n) and (d.rdtype == "ANY" or not is_of_type(l, d.rdtype))),
    (r"CoreDNS's cache (limits|raises) (the TTL|them)", lambda w, l, d, n: d.ttls and (is_template(l, n) if l.plugin == "template" else in_zones(n, l.head.words[2:] or l.zones))),
    (r"names that go on after the end of the pattern",
     lambda w, l, d, n: not d.ttls and (is_template(l, n) and is_of_type(l, d.rdtype) if l.plugin == "template" else is_rewritten(l, n))),
    (r"the servers of the stub domain answer the zone's own name", lambda w, l, d, n: not d.ttls and is_template(l, n)),
    (r'" then exists in the zone of the file in line', lambda w, l, d, n: not d.ttls and any(below(n, q) for q in quoted(l.said))),
    (r'does not cover other names in "', lambda w, l, d, n: not d.ttls and any(below(n, q) for q in quoted(l.said))),
    (r'names below "[^"]+" go to the servers of the stub domain; CoreDNS', lambda w, l, d, n: not d.ttls and any(below(n, q) for q in quoted(l.said))),
    (r"The records also answer names in zones of other server blocks", lambda w, l, d, n: not d.ttls and is_template(l, n)),
    (r"NXDOMAIN for the zone and all names below it", lambda w, l, d, n: not d.ttls and is_template(l, n)),
    (r"not translated: .* These names are looked up like any other name", lambda w, l, d, n: is_template(l, n) and is_of_type(l, d.rdtype)),
    (r"NODATA for every external name|left out: it is not for the zones of the other server blocks|no filter in the classic topology",
     lambda w, l, d, n: d.rdtype == "AAAA" or "AAAA" in d.theirs),
    # file
    (r"below this zone get the answers of this zone", lambda w, l, d, n: not d.ttls and in_zones(n, l.head.words[2:] or l.zones)),
    (r"the template in line (\d+) answers (some of )?these names", lambda w, l, d, n: not d.ttls and in_zones(n, l.head.words[2:] or l.zones) and is_template(w.template(l), n)),
    (r"with a SOA record in the key records", lambda w, l, d, n: not d.ttls and in_zones(n, l.head.words[2:] or l.zones)),
    (r"the file is not here|left out: .* Run a name server for the zone", lambda w, l, d, n: not d.ttls and in_zones(n, l.head.words[2:] or l.zones or [""])),
    # cache
    (r"the maximum time that it caches a record, also of other server blocks", lambda w, l, d, n: d.ttls and d.ttls[1] < d.ttls[0] and not below(n, w.domain)),
    (r"CoreDNS limits (these TTLs too|the TTL to 3600 s)", lambda w, l, d, n: d.ttls and d.ttls[1] > d.ttls[0] and (not below(n, w.domain) or n == "dns-version." + w.domain)),
    (r"CoreDNS limits the TTLs of the names in this server block", lambda w, l, d, n: d.ttls and d.ttls[1] > d.ttls[0]),
    (r"raises TTLs below \d+ s", lambda w, l, d, n: d.ttls and d.ttls[1] < d.ttls[0]),
    (r"environment variable \S+ is not set here", lambda w, l, d, n: True),
    # other plugins
    (r"CoreDNS answered every ANY query", lambda w, l, d, n: d.rdtype == "ANY"),
    (r"answers? localhost itself", lambda w, l, d, n: below(n, "localhost") or n.startswith("localhost.") or n == "1.0.0.127.in-addr.arpa"),
    (r"AAAA records from A records", lambda w, l, d, n: d.rdtype == "AAAA"),
    (r"--search-completion=inferred", lambda w, l, d, n: below(n, w.domain) and " cname " in d.theirs + d.ours),
    (r"a NetworkPolicy decides which clients", lambda w, l, d, n: in_zones(n, l.words[1:] or l.zones or [""]) and "[" not in d.theirs),
    (r"no zones of this kind|only UDP and TCP|a plugin for tests|not a plugin of CoreDNS's default build", lambda w, l, d, n: in_zones(n, l.words[1:2]) if len(l.words) > 1 else True),
    (r"--external-zones", lambda w, l, d, n: in_zones(n, l.head.words[1:] or l.zones or [])),
]  # fmt: skip
# Sentences about names of other server blocks.
ANYWHERE = re.compile(r"the cluster's reverse names|reverse names of these addresses|reverse names? of this address|reverse names of the cluster's|A reverse name that|names in (the )?zones of other server blocks|also of other server blocks|"
                      r"kubedns answers the reverse names too|does not cover other names in|then exists in the zone of the file|names outside these zones|also answers the cluster's names|clients get no reply")  # fmt: skip


class World:
    """The Corefile and a report about it."""

    def __init__(self, files, printed, domain):
        """`files` is {name: text} of the Corefile and of the files that it imports."""
        self.domain, self.lines, self.known = domain, [], {}
        for file, text in files.items():
            self.known.update({(file, n): line for n, line in lines_of_file(text, file).items()})
        self.zones = {z for line in self.known.values() if line.zones for z in line.zones}
        for place, numbers, texts, verdict, said in re.findall(r"^# (\S.*?):([0-9, ]+): (.*)\n#     (changes|NO EQUIVALENT): (.*)", printed, re.M):
            file = place.rsplit("/", 1)[-1]
            for number, text in zip(numbers.split(", "), [*texts.split("; "), *[""] * numbers.count(",")]):
                line = self.known.get((file, int(number))) or Line(None, text.split() or ["?"])
                copy = Line(line.zones, line.words, line.head if line.head is not line else None)
                copy.body, copy.said, copy.number, copy.file = line.body, said, int(number), file
                copy.text = f"{' '.join(line.words)[:40]}: {verdict}: {said[:100]}"
                self.lines.append(copy)

    def template(self, line):
        """The template that the sentence names by its line."""
        return self.known[line.file, int(re.search(r"the template in line (\d+)", line.said)[1])]

    def zone(self, name):
        return max((z for z in self.zones if below(name, z)), key=len, default=None)

    def has_plugin(self, name, plugin):
        zone = self.zone(name)
        return any(line.plugin == plugin and (line.zones is None or zone in line.zones) for line in self.known.values())

    def names(self, d):
        """The name of the query, the names that CoreDNS makes of it, and the targets of aliases in the answers."""
        names, zone = [d.name], self.zone(d.name)
        for name in names:
            for line in self.known.values():
                if line.plugin == "rewrite" and line.head is line and (line.zones is None or zone in line.zones):
                    new = new_name(line, name)
                    if new and new not in names and len(names) < 8:
                        names.append(new.lower())
        return [*names, *(t for t in re.findall(r" cname (\S+?)\.?\]", d.theirs + d.ours) if t not in names)]

    def announcing(self, d):
        """The lines of the report that announce the difference."""
        return [line for line in self.lines if self.announces(line, d)]

    def announces(self, line, d):
        for sentence, test in SENTENCES:
            if not re.search(sentence, line.said):
                continue
            for name in self.names(d):
                here = line.zones is None or self.zone(name) in line.zones or self.zone(d.name) in line.zones
                if (here or ANYWHERE.search(line.said)) and test(self, line, d, name):
                    return True
        return False
