"""The commands of docs/kubernetes-deployment.md, and the server that they describe."""

import base64
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys

import yaml

from harness.kubernetes import LOADER
from harness.pages import blocks
from harness.public_clients import need
from harness.server import BINARY, ROOT, Server

PAGE = "docs/kubernetes-deployment.md"


class Deployment:
    """The page's blocks, run in a folder with stand-ins for the programs that need a cluster (harness/cluster.py)."""

    def __init__(self, folder, kubeconfig=None):
        self.folder = folder / "braid"
        self.folder.mkdir()
        for name in ("deploy", "examples"):
            (self.folder / name).symlink_to(ROOT / name)
        self.state = folder / "cluster"
        self.volume = self.state / "volume"
        self.volume.mkdir(parents=True)
        settings = {
            "helm": str(need("helm") / "helm"),
            "kubeconfig": kubeconfig and str(kubeconfig),
            "kubectl": shutil.which("kubectl"),
            "curl": shutil.which("curl"),
        }
        (self.state / "settings.json").write_text(json.dumps(settings))
        (self.state / "bin").mkdir()
        for name in ("kubectl", "helm", "curl", "make", "skopeo"):
            program = self.state / "bin" / name
            stand_in = ROOT / "tests" / "harness" / "cluster.py"
            # Without site packages, Python starts in a few milliseconds.
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {stand_in} {self.state} {name} "$@"\n')
            program.chmod(0o755)
        self.blocks = [block.text for block in blocks(PAGE) if block.language == "sh"]
        self._registry = self.blocks[0].splitlines()[0]
        assert self._registry.startswith("export REGISTRY=")

    def run(self, block):
        """Runs a block in a shell of its own, and returns the output."""
        environment = {**os.environ, "PATH": f"{self.state}/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{self._registry}\n{block}"], cwd=self.folder, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\nended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def block(self, title, number=0):
        """Returns a block of a section."""
        section = (ROOT / PAGE).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        return [each for each in self.blocks if each in section][number]

    def commands(self, program):
        """Returns the arguments of all calls of a program."""
        calls = map(json.loads, (self.state / "calls").read_text().splitlines())
        return [arguments for name, *arguments in calls if name == program]

    @property
    def applied(self):
        """Returns all applied manifests, as YAML."""
        return (self.state / "applied.yaml").read_text()

    def objects(self, kind, name=None):
        """Returns the applied objects of a kind, in the order of their application."""
        found = (each for each in yaml.load_all(self.applied, LOADER) if each and each["kind"] == kind)
        return [each for each in found if name in (None, each["metadata"]["name"])]


class Replica(Server):
    """A server as the container describes it, with folders here in place of its mounts."""

    def __init__(self, deployment):
        pod = deployment.objects("StatefulSet")[0]["spec"]["template"]["spec"]
        (self.container,) = pod["containers"]
        folders = {"/models": deployment.volume}
        volumes = {each["name"]: each for each in pod["volumes"]}
        self.secrets = {}
        for mount in self.container["volumeMounts"]:
            source = volumes[mount["name"]].get("secret")
            if source:
                folder = folders[mount["mountPath"]] = deployment.state / mount["name"]
                mount_secret(deployment.objects("Secret", source["secretName"])[0], folder, source)
                self.secrets[mount["name"]] = (folder, source)
        command, *options = self.container["args"]
        assert command == "serve"
        for path, folder in folders.items():
            options = [re.sub(rf"^((--[\w-]+=)?){path}\b", rf"\1{folder}", each) for each in options]
        unverified = ssl.create_default_context()  # A kubelet verifies no certificate.
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        # As in a pod. The view of the fleet, which asks the API, stays closed.
        account = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
        options.append("--allow-host=models.example")  # In a pod it listens on all addresses, here on loopback only.
        super().__init__([], *options, workdir=deployment.folder.parent, tls=unverified, env=account)
        addresses = {"http": self.http, "grpc": self.grpc, "metrics": self.metrics}
        mounts = {path: str(folder) for path, folder in folders.items() if path != "/models"}
        about = {"addresses": addresses, "mounts": mounts, "braid": str(BINARY)}
        (deployment.state / "pod.json").write_text(json.dumps(about))


def mount_secret(secret, folder, source):
    """Puts a Secret into a folder like the kubelet: the files are links to a folder that is replaced as a whole."""
    fresh = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    fresh.mkdir(parents=True)
    data = secret["data"]
    for item in source.get("items", [{"key": key, "path": key} for key in data]):
        file = fresh / item["path"]
        file.write_bytes(base64.b64decode(data[item["key"]]))
        # For pods with an fsGroup the kubelet lets the group read.
        file.chmod(source["defaultMode"] | stat.S_IRGRP)
        if not (folder / item["path"]).is_symlink():
            (folder / item["path"]).symlink_to(f"..data/{item['path']}")
    (folder / "..new").symlink_to(fresh.name)
    (folder / "..new").rename(folder / "..data")
