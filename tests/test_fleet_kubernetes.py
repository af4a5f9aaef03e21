"""Replicas found by the EndpointSlices of a Service: `--endpoints kubernetes://...`. The test provides the API server."""

import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import types

import pytest
from harness.fleets import Fleet, run_fleet
from harness.server import BINARY, Server

TOKEN = "the-token-of-the-pod"
SERVICE = (
    "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dbraid"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    options = ["--model-control-mode=explicit", "--load-model=*"]
    with Fleet(tmp_path_factory.mktemp("fleet"), ("one", "two"), *options) as made:
        yield made


@contextlib.contextmanager
def api_server(certificates, account, slices):
    """An API server with one Service. Yields the environment of a pod (`env`), and the paths that were requested
    (`asked`)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(self.path)
            status, answer = 200, {"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": []}
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                text = 'endpointslices.discovery.k8s.io is forbidden: User "system:anonymous" cannot list resource'
                status, answer = 403, {"kind": "Status", "status": "Failure", "message": text, "code": 403}
            elif self.path == SERVICE:
                answer["items"] = slices
            body = json.dumps(answer).encode()
            self.send_response(status)
            # In chunks, like the real API server.
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (body[:20], body[20:], b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    account.mkdir()
    (account / "token").write_text(TOKEN + "\n")
    (account / "namespace").write_text("models")
    (account / "ca.crt").write_bytes((certificates / "root.pem").read_bytes())
    env = {
        "KUBERNETES_SERVICE_HOST": "localhost",
        "KUBERNETES_SERVICE_PORT": str(server.server_address[1]),
        "BRAID_KUBERNETES_ACCOUNT": str(account),
    }
    try:
        yield types.SimpleNamespace(env=env, asked=asked, account=account)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def slice_of(endpoint, **conditions):
    """Returns an EndpointSlice of one pod with its own ports."""
    host, grpc, http_port, metrics = endpoint.split(":")
    ports = zip(("http", "grpc", "metrics"), map(int, (http_port, grpc, metrics)), strict=True)
    return {
        "addressType": "IPv4",
        "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports],
        "endpoints": [
            {
                "addresses": [host],
                "conditions": {"ready": True, "serving": True, "terminating": False, **conditions},
                "targetRef": {"kind": "Pod", "name": f"braid-{http_port}", "uid": http_port},
            }
        ],
    }


@pytest.fixture
def kubernetes(certificates, fleet, tmp_path):
    slices = [
        slice_of(fleet.endpoint("one")),
        slice_of(fleet.endpoint("two"), serving=False, terminating=True),
        slice_of("127.0.0.1:1:2:3", ready=False, serving=False),
    ]
    with api_server(certificates, tmp_path / "account", slices) as served:
        yield served


def names(fleet):
    return ["127.0.0.1:" + fleet.endpoint(name).split(":")[2] for name in ("one", "two")]


def status(kubernetes, where, *more, check=True):
    done = run_fleet("status", "--endpoints", where, "--format=json", *more, check=check, env=kubernetes.env)
    return [replica["endpoint"] for replica in json.loads(done.stdout)["replicas"]] if check else done


def test_replicas_that_are_ready(kubernetes, fleet):
    one, two = names(fleet)
    assert status(kubernetes, "kubernetes://models/braid") == [one]
    # The namespace of the pod.
    assert status(kubernetes, "kubernetes://braid") == [one]
    assert kubernetes.asked == [SERVICE] * 2
    assert status(kubernetes, "kubernetes://braid?terminating=true") == sorted([one, two])


def test_ports_that_are_named(kubernetes, fleet):
    http_port = fleet.endpoint("one").split(":")[2]
    found = json.loads(
        run_fleet("status", f"--endpoints=kubernetes://braid:{http_port}", "--format=json", env=kubernetes.env).stdout
    )
    assert [replica["answered"] for replica in found["replicas"]] == [True]
    assert "no_metrics" in found["replicas"][0]


def test_envoy_sends_nothing_new_to_a_replica_that_ends(kubernetes, fleet, tmp_path):
    one, two = names(fleet)
    where = "kubernetes://models/braid?terminating=true"
    run_fleet("envoy", "--endpoints", where, "--xds-folder", tmp_path / "xds", env=kubernetes.env)
    (made,) = json.loads((tmp_path / "xds" / "endpoints-http-sequences.json").read_text())["resources"]
    health = {}
    for each in made["endpoints"][0]["lb_endpoints"]:
        address = each["endpoint"]["address"]["socket_address"]
        health[f"{address['address']}:{address['port_value']}"] = each.get("health_status", "")
    assert health == {one: "", two: "DRAINING"}


def test_a_reload_by_replicas_of_the_api(kubernetes, fleet):
    one, _ = names(fleet)
    done = run_fleet(
        "reload", "--endpoints=kubernetes://models/braid", "--model=work", "--watch-seconds=0", env=kubernetes.env
    )
    assert one in done.stdout


def test_the_console_by_replicas_of_the_api(kubernetes, fleet, repository, tmp_path):
    repository.add_identity("m")
    where = "--fleet-endpoints=kubernetes://models/braid"
    with Server([repository.path], where, workdir=tmp_path, env=kubernetes.env) as server:
        status, _, body = server.request("GET", "/console/api/fleet", address=server.metrics)
        assert status == 200
        assert [replica["endpoint"] for replica in json.loads(body)["replicas"]] == names(fleet)[:1]
        (kubernetes.account / "token").unlink()
        status, _, body = server.request("GET", "/console/api/fleet", address=server.metrics)
        assert status == 503
        assert "automountServiceAccountToken" in json.loads(body)["error"]


def test_what_is_missing_is_named(kubernetes, certificates, tmp_path):
    def fault(where="kubernetes://models/braid", code=1, **env):
        served = types.SimpleNamespace(env={**kubernetes.env, **env})
        done = status(served, where, check=False)
        assert done.returncode == code
        return done.stderr.removeprefix("braid fleet: ").strip()

    assert fault("kubernetes://models/brad") == "no EndpointSlices of a Service models/brad found"
    assert fault("kubernetes://models/braid/1", code=2).startswith(
        "'kubernetes://models/braid/1': expected kubernetes://NAMESPACE/SERVICE"
    )
    assert fault(KUBERNETES_SERVICE_HOST="") == (
        "kubernetes:// works only in a pod: the environment has no KUBERNETES_SERVICE_HOST"
    )
    assert fault(KUBERNETES_SERVICE_PORT="https") == "KUBERNETES_SERVICE_PORT is 'https', which is not a port"
    assert "cannot connect to localhost:1: " in fault(KUBERNETES_SERVICE_PORT="1")
    (kubernetes.account / "token").write_text("of somebody else")
    assert fault() == (
        "cannot list the EndpointSlices of the Service models/braid; the pod's service account needs the right to do so: "
        'HTTP 403: endpointslices.discovery.k8s.io is forbidden: User "system:anonymous" cannot list '
        "resource"
    )
    # A server without a trusted certificate in place of the API server gets no token.
    asked = len(kubernetes.asked)
    (kubernetes.account / "ca.crt").write_bytes((certificates / "stranger.pem").read_bytes())
    assert "TLS: " in fault()
    (kubernetes.account / "ca.crt").unlink()
    assert "ca.crt" in fault()
    assert len(kubernetes.asked) == asked
