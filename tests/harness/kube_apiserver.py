"""A kube-apiserver and an etcd for one test, on the loopback interface: Kubernetes without nodes and controllers."""

import contextlib
import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml

from harness.ports import free_port
from harness.public_clients import environment, need
from harness.server import BINARY
from harness.waiting import wait_until


class RefusedError(Exception):
    """The API's error for an object."""


class KubeApiserver:
    """A running API server. Use as a context manager."""

    def __init__(self, folder):
        programs = need("kube-apiserver")
        self._stack = contextlib.ExitStack()
        self._folder = folder
        certificates = folder / "certificates"
        certificates.mkdir()
        subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", certificates], check=True)
        self._token = secrets.token_hex()
        (folder / "tokens").touch(0o600)
        (folder / "tokens").write_text(f"{self._token},test,test,system:masters\n")
        store, peers, self._port = (free_port() for _ in range(3))
        self._etcd = [
            programs / "etcd",
            *("--data-dir", folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
            *(
                "--listen-client-urls",
                f"http://127.0.0.1:{store}",
                "--advertise-client-urls",
                f"http://127.0.0.1:{store}",
            ),
            *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"),
            *("--initial-cluster", f"default=http://127.0.0.1:{peers}"),
        ]
        key, certificate = certificates / "server.key", certificates / "server.pem"
        self._apiserver = [
            programs / "kube-apiserver",
            *("--etcd-servers", f"http://127.0.0.1:{store}"),
            *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", self._port),
            *("--tls-cert-file", certificate, "--tls-private-key-file", key),
            *("--token-auth-file", folder / "tokens", "--authorization-mode", "RBAC"),
            *("--service-cluster-ip-range", "10.96.0.0/24", "--endpoint-reconciler-type", "none"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", certificate, "--service-account-signing-key-file", key),
        ]
        self._root = certificates / "root.pem"
        trusted = ssl.create_default_context(cafile=self._root)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )

    def __enter__(self):
        with self._stack:
            self._start("etcd", self._etcd)
            process = self._start("kube-apiserver", self._apiserver)
            wait_until(lambda: self._ready(process), 120, "the kube-apiserver to be ready")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind, value, trace):
        self._stack.close()

    def _start(self, name, command):
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
        )
        self._stack.callback(process.wait, 30)
        self._stack.callback(process.kill)
        return process

    def _ready(self, process):
        assert process.poll() is None, (self._folder / "kube-apiserver.log").read_text()[-4000:]
        try:
            return self.ask("GET", "/readyz") == "ok"
        except (RefusedError, OSError):
            return False

    def ask(self, method, path, body=None, content="application/json"):
        """Returns the API's answer: an object, or a text if it is not JSON. A warning of the API counts as an error."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content}
        request = urllib.request.Request(
            f"https://localhost:{self._port}{path}", body and json.dumps(body).encode(), headers, method=method
        )
        try:
            with self._opener.open(request, timeout=60) as answer:
                text = answer.read().decode()
                warnings = answer.headers.get_all("Warning", [])
        except urllib.error.HTTPError as error:
            raise RefusedError(f"{error.code}: {error.read().decode()}") from None
        if warnings:
            raise RefusedError(" ".join(warnings))
        return json.loads(text) if text.startswith("{") else text

    def apply(self, manifests, namespace="models", dry_run=False):
        """`kubectl apply --server-side`: returns the resulting objects. `manifests` is YAML with several objects."""
        how = f"fieldManager=test&fieldValidation=Strict{'&dryRun=All' if dry_run else ''}"
        applied = []
        for manifest in filter(None, yaml.safe_load_all(manifests)):
            path = f"{self.path(manifest, namespace)}/{manifest['metadata']['name']}"
            applied.append(self.ask("PATCH", f"{path}?{how}", manifest, "application/apply-patch+yaml"))
        return applied

    def kubeconfig(self):
        """Writes the file by which kubectl and helm find the API; returns its path."""
        cluster = {"server": f"https://localhost:{self._port}", "certificate-authority": str(self._root)}
        about = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        file = self._folder / "kubeconfig"
        file.touch(0o600)
        file.write_text(json.dumps(about))
        return file

    def wait_for_kind(self, version, kind):
        """Waits until the API has a custom kind, such as ("serving.kserve.io/v1beta1", "InferenceService")."""

        def found():
            try:
                return any(each["kind"] == kind for each in self.ask("GET", f"/apis/{version}")["resources"])
            except RefusedError:
                return False

        wait_until(found, 30, f"the API of {kind}")

    def path(self, manifest, namespace="models"):
        """Returns the path of all objects of a manifest's kind and namespace."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = next(
            each for each in self.ask("GET", base)["resources"] if each["kind"] == kind and "/" not in each["name"]
        )
        if not resource["namespaced"]:
            return f"{base}/{resource['name']}"
        return f"{base}/namespaces/{manifest['metadata'].get('namespace', namespace)}/{resource['name']}"
