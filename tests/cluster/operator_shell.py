"""An operator's shell in a copy of the release's conf/kubernetes. Its kubectl reaches the test's cluster, and kubedns-migrate is in its PATH."""

import os
import re
import shutil
import subprocess
import textwrap

from cluster import DNS_IP, REGISTRY, ROOT


class Operator:
    def __init__(self, directory, kubectl):
        """`kubectl` is the command with its flags."""
        self.directory = directory
        shutil.copytree(ROOT / "conf/kubernetes", directory / "conf/kubernetes")
        (directory / "bin").mkdir()
        for name, command in (("kubectl", kubectl), ("kubedns-migrate", ROOT / "build/bin/kubedns-migrate")):
            (directory / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (directory / "bin" / name).chmod(0o755)

    def sh(self, command, text=None, codes=(0,)):
        """Runs the command and returns its output. The exit status must be in `codes`."""
        env = {**os.environ, "PATH": f"{self.directory}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", command], cwd=self.directory, env=env, input=text, capture_output=True, text=True, timeout=300, check=False)
        print(f"$ {command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        assert done.returncode in codes, f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def save(self, text):
        """Saves a block of a document as a file. The block's first line has the file's path."""
        path = self.directory / re.match(r"# (\S+)\n", text)[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def settings(self, **values):
        path = self.directory / "conf/kubernetes/settings/settings.yaml"
        text = path.read_text()
        for name, value in {"registry": REGISTRY, "clusterIP": DNS_IP, **values}.items():
            text = re.sub(rf"^  {name}: .*$", f"  {name}: {value}", text, flags=re.M)
        path.write_text(text)


def section(document, heading):
    """Returns the code blocks of a document between this heading and the next one. If the heading is None, returns all blocks of the document."""
    inside, block, found = heading is None, None, []
    for line in (ROOT / document).read_text().splitlines(keepends=True):
        if line.lstrip().startswith("```"):
            if block is not None and inside:
                found.append(textwrap.dedent(block))
            block = "" if block is None else None
        elif block is not None:
            block += line
        elif line.startswith("#") and heading is not None:
            inside = line.strip("# \n") == heading
    return found


def commands(block):
    """
    The command lines of a block, without comments at the end. If a line has an open quote or ends with a backslash, the next line belongs
    to the same command.
    """
    lines, open_line = [], ""
    for line in block.splitlines():
        open_line += line if not open_line else "\n" + line
        if open_line.count("'") % 2 == 0 and not open_line.endswith("\\"):
            lines.append(re.sub(r"\s+#.*$", "", open_line))
            open_line = ""
    return [line for line in lines if line.strip()]
