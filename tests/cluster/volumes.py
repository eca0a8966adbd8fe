"""
A pod's volumes as directories of the host, written as the kubelet does. All files of a volume appear and change with one rename of
`..data`, so a reader never sees a mixture of old and new files.
"""

import base64
import itertools
import os
import shutil

from podspec import Unsupported, field

_serial = itertools.count()


def write_set(directory, files, mode, group):
    """Replaces all files of a volume at once."""
    serial = next(_serial)
    fresh = directory / f"..2026_{serial:06d}"
    fresh.mkdir(mode=0o755)
    for name, data in files.items():
        path = fresh / name
        path.write_bytes(data)
        os.chmod(path, mode)
        own(path, group)
    own(fresh, group)
    old = os.readlink(directory / "..data") if (directory / "..data").is_symlink() else None
    os.symlink(fresh.name, directory / "..data_tmp")
    os.rename(directory / "..data_tmp", directory / "..data")
    for name in files:
        if not (directory / name).is_symlink():
            os.symlink(f"..data/{name}", directory / name)
    for link in directory.iterdir():
        if not link.name.startswith("..") and link.name not in files:
            link.unlink()
    if old:
        shutil.rmtree(directory / old)


def own(path, group):
    if group is not None:
        os.chown(path, -1, group)


def configmap_files(configmap, items=None):
    data = {k: v.encode() for k, v in (configmap or {}).get("data", {}).items()}
    data.update({k: base64.b64decode(v) for k, v in (configmap or {}).get("binaryData", {}).items()})
    return {i["path"]: data[i["key"]] for i in items} if items else data


class Volumes:
    """The volumes of one pod. `source(kind, ...)` requests a ConfigMap or a token from the cluster."""

    def __init__(self, pod, directory, source):
        self.pod, self.directory, self.source = pod, directory, source
        self.shared = []  # directories outside `directory`
        self.group = pod["spec"].get("securityContext", {}).get("fsGroup")
        self.mounts = {}
        for v in pod["spec"].get("volumes", []):
            self.mounts[v["name"]] = self._make(v)

    def _make(self, volume):
        path = self.directory / "volumes" / volume["name"]
        if "emptyDir" in volume:
            if volume["emptyDir"].get("medium") == "Memory":
                path = type(path)("/dev/shm") / f"{self.directory.name}-{volume['name']}"
                self.shared.append(path)
            path.mkdir(parents=True)
            own(path, self.group)
            path.chmod(0o2777 if self.group is not None else 0o777)
            return path
        path.mkdir(parents=True)
        own(path, self.group)
        self._fill(volume, path)
        return path

    def _fill(self, volume, path):
        if "configMap" in volume:
            files, mode = self._configmap(volume["configMap"]), volume["configMap"].get("defaultMode", 0o644)
        elif "projected" in volume:
            files, mode = {}, volume["projected"].get("defaultMode", 0o644)
            for s in volume["projected"]["sources"]:
                files.update(self._projected(s))
        else:
            raise Unsupported(f"volume {volume['name']}: {', '.join(volume)}")
        # With fsGroup, the kubelet makes owner-readable files group-readable.
        write_set(path, files, mode | (0o440 if self.group is not None else 0), self.group)

    def _configmap(self, reference):
        configmap = self.source("configmap", self.pod, reference["name"])
        if configmap is None and not reference.get("optional"):
            raise LookupError(f"configmap {reference['name']} not found")
        return configmap_files(configmap, reference.get("items"))

    def _projected(self, source):
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self.source("token", self.pod, source["serviceAccountToken"]).encode()}
        if "configMap" in source:
            return self._configmap(source["configMap"])
        if "downwardAPI" in source:
            return {i["path"]: field({"fieldRef": i["fieldRef"]}, self.pod).encode() for i in source["downwardAPI"]["items"]}
        raise Unsupported(f"projected: {', '.join(source)}")

    def refresh(self, configmap_name):
        """Updates every volume that uses a ConfigMap. Call this after the ConfigMap has changed."""
        for v in self.pod["spec"].get("volumes", []):
            if v.get("configMap", {}).get("name") == configmap_name:
                self._fill(v, self.mounts[v["name"]])

    def remove(self):
        for path in self.shared:
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)
