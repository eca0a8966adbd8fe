"""Parses the label and field selectors of a query string as the API server does."""

import re

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")


class BadSelector(ValueError):
    pass


def _split(text):
    """Splits at commas outside parentheses."""
    return [p for p in re.split(r",(?![^(]*\))", text) if p.strip()]


def labels(text):
    """Returns a predicate on a dict of labels."""
    tests = []
    for part in _split(text or ""):
        part = part.strip()
        if found := _SET.match(part):
            key, word, values = found.groups()
            values = {v.strip() for v in values.split(",")}
            if word == "in":
                tests.append(lambda ls, k=key, v=values: ls.get(k) in v)
            else:
                tests.append(lambda ls, k=key, v=values: ls.get(k) not in v)
        elif "!=" in part:
            key, value = (s.strip() for s in part.split("!=", 1))
            tests.append(lambda ls, k=key, v=value: ls.get(k) != v)
        elif "=" in part:
            key, value = (s.strip() for s in re.split("==?", part, maxsplit=1))
            tests.append(lambda ls, k=key, v=value: ls.get(k) == v)
        elif part.startswith("!"):
            tests.append(lambda ls, k=part[1:].strip(): k not in ls)
        elif re.fullmatch(r"[A-Za-z0-9./_-]+", part):
            tests.append(lambda ls, k=part: k in ls)
        else:
            raise BadSelector(f"unable to parse requirement: {part}")
    return (lambda ls: all(t(ls) for t in tests)) if tests else None


def both(a, b):
    """A predicate that is true if both predicates are true. None is a predicate that is always true."""
    return a and b and (lambda ls: a(ls) and b(ls)) or a or b


# A Pod's phase and node are stored under these keys among its labels. No real label's key contains an @.
PHASE, NODE = "status.phase@", "spec.nodeName@"


def pod(text):
    """Splits a Pod's field selector. Returns the part without phase and node, and a predicate on labels for the other part, or None."""
    mine, rest = [], []
    for part in (p.strip() for p in _split(text or "")):
        key = next((k for k in (PHASE, NODE) if part.startswith(k[:-1])), None)
        if key:
            mine.append(part.replace(key[:-1], key, 1))
        else:
            rest.append(part)
    return ",".join(rest), labels(",".join(mine))


def fields(text):
    """Returns a predicate on (namespace, name). It supports only metadata.name and metadata.namespace, like most resources of the API."""
    tests = []
    for part in _split(text or ""):
        found = re.fullmatch(r"\s*(metadata\.name|metadata\.namespace)\s*(==|=|!=)\s*([^\s]*)\s*", part)
        if not found:
            raise BadSelector("field label not supported: " + re.split("[=!]", part)[0].strip())
        place = 1 if found[1] == "metadata.name" else 0
        tests.append((place, found[2] != "!=", found[3]))
    if not tests:
        return None
    return lambda *at: all((at[place] == value) == want for place, want, value in tests)
