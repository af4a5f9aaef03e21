"""Programs that stand in for kubectl, helm and others while a page is read (harness/deployments.py).

They do what nodes do: they fill a volume and run commands of pods. They keep the objects. With an API server, the
real kubectl gives them to it too.

As a program: cluster.py FOLDER PROGRAM ARGUMENT...
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys


class StandIn:
    def __init__(self, folder, settings):
        self.folder = folder
        self.settings = settings
        self.real = settings["kubeconfig"] is not None

    def kubectl(self, arguments):
        verb = arguments[0]
        method = getattr(self, f"kubectl_{verb.replace('-', '_')}", None)
        if method is None:
            raise SystemExit(f"kubectl {verb}: the cluster of the tests cannot do this")
        method(arguments)

    def kubectl_create(self, arguments):
        if arguments[1] == "namespace":
            self._apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": arguments[2]}}))
        elif self.real:
            self._real(*arguments)
        else:
            assert arguments[1:3] == ["secret", "generic"]
            assert "--dry-run=client" in arguments
            secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {}}
            secret["metadata"] = {"name": arguments[3], "namespace": namespace(arguments)}
            for argument in arguments[4:]:
                option, _, value = argument.partition("=")
                if option == "--type":
                    secret["type"] = value
                elif option == "--from-file":
                    key, _, file = value.rpartition("=")
                    content = pathlib.Path(file).read_bytes()
                    secret["data"][key or file] = base64.b64encode(content).decode()
            print(json.dumps(secret))

    def kubectl_apply(self, arguments):
        file = arguments[arguments.index("-f") + 1]
        self._apply(sys.stdin.read() if file == "-" else pathlib.Path(file).read_text())

    def kubectl_wait(self, arguments):
        if self.real:
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            self._set_status(arguments, next(each for each in arguments if each.startswith("pod/")), ready)
            self._real(*arguments)

    def kubectl_rollout(self, arguments):
        if self.real:
            assert arguments[1] == "status"
            name = next(each for each in arguments if each.startswith("statefulset/"))
            made = json.loads(self._real("get", "-n", namespace(arguments), name, "-o", "json", capture=True))
            count = made["spec"]["replicas"]
            numbers = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), count)
            revision = {"currentRevision": "a", "updateRevision": "a"}
            status = {"observedGeneration": made["metadata"]["generation"], **numbers, **revision}
            self._set_status(arguments, name, {"status": status})
            self._real(*arguments)

    def kubectl_get(self, arguments):
        if self.real:
            address = {"status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}}
            self._set_status(arguments, f"service/{arguments[arguments.index('service') + 3]}", address)
            self._real(*arguments)
        else:
            print("127.0.0.1", end="")

    def kubectl_delete(self, arguments):
        if self.real:
            self._real(*arguments)

    def kubectl_port_forward(self, arguments):
        pass  # The stand-in of curl asks the server's own ports.

    def kubectl_cp(self, arguments):
        source, (_, _, path) = pathlib.Path(arguments[1]), arguments[2].partition(":")
        target = self._in_volume(path)
        # Into a folder that exists, else to a new one.
        shutil.copytree(source, target / source.name if target.is_dir() else target)

    def kubectl_exec(self, arguments):
        if self.real:
            return
        command = arguments[arguments.index("--") + 1 :]
        if command[0] == "braid":
            pod = json.loads((self.folder / "pod.json").read_text())
            ports = (pod["addresses"][name].rpartition(":")[2] for name in ("grpc", "http", "metrics"))
            here = {"kubernetes://models/braid-replicas": ":".join(["localhost", *ports])}
            command = [pod["braid"], *(here.get(each, each) for each in command[1:]), "--watch-seconds=0.1"]
            for path, folder in pod["mounts"].items():
                command = [each.replace(path, folder) for each in command]
        else:
            command = [str(self._in_volume(each)) if each.startswith("/models/") else each for each in command]
        raise SystemExit(subprocess.run(command, check=False).returncode)

    def helm(self, arguments):
        assert arguments[0] == "upgrade"
        rest = [each for each in arguments[1:] if each != "--install"]
        # A Helm and a kube-apiserver built without their release scripts do not know the version of Kubernetes.
        command = [self.settings["helm"], "template", *rest, "--kube-version", "1.34.0"]
        self._apply(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)

    def curl(self, arguments):
        if self.real:
            return
        addresses = json.loads((self.folder / "pod.json").read_text())["addresses"]
        for usual, name in (("8000", "http"), ("8002", "metrics")):
            port = addresses[name].rpartition(":")[2]
            arguments = [each.replace(f":{usual}", f":{port}") for each in arguments]
        os.execv(self.settings["curl"], ["curl", "--noproxy", "*", "--max-time", "60", "--fail-with-body", *arguments])

    def make(self, arguments):
        pass

    def skopeo(self, arguments):
        pass

    def _in_volume(self, path):
        assert path.startswith("/models"), path
        return self.folder / "volume" / path.removeprefix("/models").lstrip("/")

    def _apply(self, manifests):
        if self.real:
            # Like KubeApiserver.apply, so that neither hinders the other.
            how = ["--server-side", "--field-manager=test", "--force-conflicts", "--validate=strict"]
            self._real("apply", *how, "-f", "-", given=manifests)
        with (self.folder / "applied.yaml").open("a") as file:
            file.write(f"---\n{manifests}\n")

    def _set_status(self, arguments, name, status):
        what = ["-n", namespace(arguments), name, "--subresource=status", "--type=merge", "-p", json.dumps(status)]
        self._real("patch", *what, capture=True)

    def _real(self, *arguments, given="", capture=False):
        environment = {**os.environ, "KUBECONFIG": self.settings["kubeconfig"], "NO_PROXY": "localhost"}
        done = subprocess.run(
            [self.settings["kubectl"], *arguments], env=environment, input=given, text=True, check=False,
            stdout=subprocess.PIPE if capture else None,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(done.returncode)
        return done.stdout


def namespace(arguments):
    return arguments[arguments.index("-n") + 1]


def main():
    folder, program, *arguments = sys.argv[1:]
    folder = pathlib.Path(folder)
    with (folder / "calls").open("a") as calls:
        calls.write(json.dumps([program, *arguments]) + "\n")
    getattr(StandIn(folder, json.loads((folder / "settings.json").read_text())), program)(arguments)


if __name__ == "__main__":
    main()
