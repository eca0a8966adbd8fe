"""
Translates a Pod's spec into a container engine's arguments, as the kubelet would interpret it. The functions are pure: they take a dict and
return arguments of `docker run`.

The tests are about the manifest, so no field of it may be ignored silently. If this file does not know a field, it raises an error and
the pod does not start.
"""

import re


class Unsupported(Exception):
    pass


# Scheduling and bookkeeping. The API server, a scheduler or a controller uses these fields, not the kubelet.
POD_IGNORED = {"affinity", "enableServiceLinks", "nodeName", "nodeSelector", "priority", "priorityClassName", "preemptionPolicy",
               "schedulerName", "serviceAccount", "tolerations", "topologySpreadConstraints"}
POD_KNOWN = POD_IGNORED | {"automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "hostAliases", "hostname",
                           "restartPolicy", "securityContext", "serviceAccountName", "subdomain",
                           "terminationGracePeriodSeconds", "volumes"}
POD_SECURITY_KNOWN = {"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "seccompProfile", "supplementalGroups", "sysctls"}
CONTAINER_KNOWN = {"args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
                   "readinessProbe", "resources", "securityContext", "terminationMessagePath", "terminationMessagePolicy",
                   "volumeMounts"}
SECURITY_KNOWN = {"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser",
                  "seccompProfile"}
PROBE_KNOWN = {"failureThreshold", "httpGet", "initialDelaySeconds", "periodSeconds", "successThreshold",
               "tcpSocket", "terminationGracePeriodSeconds", "timeoutSeconds"}

# Namespaced sysctls that the kubelet permits by default.
SAFE_SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
                "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
                "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"}


def known(obj, fields, where):
    for field in obj:
        if field not in fields:
            raise Unsupported(f"{where}.{field}")


def check(spec):
    known(spec, POD_KNOWN, "spec")
    known(spec.get("securityContext", {}), POD_SECURITY_KNOWN, "spec.securityContext")
    for c in spec["containers"]:
        where = f"containers[{c['name']}]"
        known(c, CONTAINER_KNOWN, where)
        known(c.get("securityContext", {}), SECURITY_KNOWN, f"{where}.securityContext")
        for probe in ("livenessProbe", "readinessProbe"):
            known(c.get(probe, {}), PROBE_KNOWN, f"{where}.{probe}")
    for s in spec.get("securityContext", {}).get("sysctls", []):
        if s["name"] not in SAFE_SYSCTLS:
            raise Unsupported(f"sysctl {s['name']}: not in the kubelet's safe set")


def expand(text, env):
    """Replaces $(NAME) by the value in the container's environment, and $$ by a dollar sign. An unknown name stays as it is."""
    return re.sub(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))",
                  lambda m: "$" if m[1] == "$" else env.get(m[2], m[0]), text)


def environment(container, pod, services):
    """The container's variables: first the variables for Services, then the variables in the spec. A variable may use the values of earlier variables."""
    env = dict(services)
    for e in container.get("env", []):
        if "valueFrom" in e:
            env[e["name"]] = field(e["valueFrom"], pod)
        else:
            env[e["name"]] = expand(e.get("value", ""), env)
    return env


def field(source, pod):
    if set(source) != {"fieldRef"}:
        raise Unsupported(f"valueFrom: {', '.join(source)}")
    path = source["fieldRef"]["fieldPath"]
    values = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"],
              "metadata.uid": pod["metadata"]["uid"], "spec.nodeName": pod["spec"].get("nodeName", ""),
              "status.podIP": pod.get("status", {}).get("podIP", "")}
    if path not in values:
        raise Unsupported(f"fieldRef {path}")
    return values[path]


def quantity(text):
    """Returns a memory quantity in bytes."""
    m = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|k|M|G)?", str(text))
    scale = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9, None: 1}
    return int(float(m[1]) * scale[m[2]])


def cpus(text):
    return int(text[:-1]) / 1000 if str(text).endswith("m") else float(text)


def resources(container):
    limits = container.get("resources", {}).get("limits", {})
    requests = container.get("resources", {}).get("requests", {})
    args = []
    if "memory" in limits:
        args += ["--memory", quantity(limits["memory"]), "--memory-swap", quantity(limits["memory"])]
    if "cpu" in limits:
        args += ["--cpus", cpus(limits["cpu"])]
    if "cpu" in requests:
        args += ["--cpu-shares", max(2, int(cpus(requests["cpu"]) * 1024))]
    return args


def security(spec, container, image_user):
    """Returns arguments for user, groups, capabilities and confinement. The container's own settings override the pod's."""
    pod = spec.get("securityContext", {})
    own = container.get("securityContext", {})

    def setting(name):
        return own.get(name, pod.get(name))

    args = []
    user, group = setting("runAsUser"), setting("runAsGroup")
    if user is not None or group is not None:
        args += ["--user", f"{user if user is not None else image_user or 0}:{group if group is not None else 0}"]
    effective = user if user is not None else image_user
    if setting("runAsNonRoot") and str(effective or 0).partition(":")[0] in ("0", "root"):
        raise Unsupported(f"container {container['name']}: runAsNonRoot, and the image would run as root")
    for g in [*pod.get("supplementalGroups", []), *([pod["fsGroup"]] if "fsGroup" in pod else [])]:
        args += ["--group-add", g]
    if own.get("readOnlyRootFilesystem"):
        args += ["--read-only"]
    for c in own.get("capabilities", {}).get("drop", []):
        args += ["--cap-drop", c]
    for c in own.get("capabilities", {}).get("add", []):
        args += ["--cap-add", c]
    if own.get("allowPrivilegeEscalation") is False:
        args += ["--security-opt", "no-new-privileges"]
    # The engine's default profile is RuntimeDefault. A pod that names no profile runs without one.
    profile = (setting("seccompProfile") or {"type": "Unconfined"})["type"]
    if profile == "Unconfined":
        args += ["--security-opt", "seccomp=unconfined"]
    elif profile != "RuntimeDefault":
        raise Unsupported(f"seccompProfile {profile}")
    return args


def container_args(spec, container, env, mounts, image_user):
    """Returns all arguments after `docker run`. `mounts` maps a volume's name to its directory on the host."""
    args = [*resources(container), *security(spec, container, image_user)]
    for name, value in env.items():
        args += ["--env", f"{name}={value}"]
    for m in container.get("volumeMounts", []):
        if set(m) - {"name", "mountPath", "readOnly"}:
            raise Unsupported(f"volumeMounts: {', '.join(m)}")
        args += ["--mount", f"type=bind,src={mounts[m['name']]},dst={m['mountPath']}" + (",readonly" if m.get("readOnly") else "")]
    words = [expand(a, env) for a in container.get("command", [])]
    if words:
        args += ["--entrypoint", words[0]]
    return [str(a) for a in [*args, container["image"], *words[1:], *(expand(a, env) for a in container.get("args", []))]]


def pause_args(spec):
    """Returns the arguments of the process that holds the pod's network: the pod's sysctls, and the node's limit for privileged ports."""
    sysctls = {"net.ipv4.ip_unprivileged_port_start": "1024"}  # the engine would set 0, and then a port that needs a privilege would work without it
    sysctls.update({s["name"]: s["value"] for s in spec.get("securityContext", {}).get("sysctls", [])})
    return [x for name, value in sysctls.items() for x in ("--sysctl", f"{name}={value}")]


def resolv_conf(spec, namespace, node_text, cluster_dns, domain):
    policy = spec.get("dnsPolicy", "ClusterFirst")
    extra = spec.get("dnsConfig", {})
    if policy == "Default":
        lines = node_text.splitlines()
    elif policy == "None":
        lines = []
    else:
        lines = [f"nameserver {cluster_dns}", f"search {namespace}.svc.{domain} svc.{domain} {domain}", "options ndots:5"]
    lines += [f"nameserver {n}" for n in extra.get("nameservers", [])]
    if extra.get("searches"):
        lines += ["search " + " ".join(extra["searches"])]
    if extra.get("options"):
        lines += ["options " + " ".join(o["name"] + (f":{o['value']}" if "value" in o else "") for o in extra["options"])]
    return "\n".join(lines) + "\n"


def hosts(spec, pod, address, domain):
    name = spec.get("hostname", pod["metadata"]["name"])
    names = name
    if spec.get("subdomain"):
        names = f"{name}.{spec['subdomain']}.{pod['metadata']['namespace']}.svc.{domain} {name}"
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{address} {names}"]
    lines += [f"{h['ip']} {' '.join(h['hostnames'])}" for h in spec.get("hostAliases", [])]
    return "\n".join(lines) + "\n"
