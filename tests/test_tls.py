"""TLS on the ports of HTTP, metrics and gRPC, with common clients."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc
import tritonclient.http
import urllib3
from harness.repository import config, per_request
from harness.server import BINARY, ROOT, Server
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

# Waits until it is cancelled, and then writes a file.
PATIENT = per_request(
    """
    open(os.path.join(self.args["model_repository"], "STARTED"), "w").close()
    deadline = time.monotonic() + 20
    while not request.is_cancelled() and time.monotonic() < deadline:
        time.sleep(0.005)
    if request.is_cancelled():
        open(os.path.join(self.args["model_repository"], "CANCELLED"), "w").close()
    return respond(OUT=get(request, "IN"))
    """
)
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(20):
                text = np.array([b"%d " % number + b"x" * 5000], dtype=object)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BODY = {"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
PATH = "/v2/models/echo/infer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Certificates and keys: root.pem, and NAME.pem with NAME.key of server, client, plain and stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", folder], check=True)
    return folder


def options(folder, *, mutual=False, root=False):
    """Returns the server's options for both protocols."""
    given = []
    for protocol in ("http", "grpc"):
        given += [f"--{protocol}-use-ssl-mutual" if mutual else f"--{protocol}-use-ssl"]
        given += [f"--{protocol}-server-cert={folder}/server.pem", f"--{protocol}-server-key={folder}/server.key"]
        if mutual or root:
            given.append(f"--{protocol}-root-cert={folder}/root.pem")
    return given


def context(folder, client=None):
    """Returns the SSLContext of a Python client: its trusted root, and its certificate."""
    made = ssl.create_default_context(cafile=folder / "root.pem")
    if client:
        made.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
    return made


def grpc_client(server, folder, client=None):
    shown = {}
    if client:
        shown = {"private_key": f"{folder}/{client}.key", "certificate_chain": f"{folder}/{client}.pem"}
    return contextlib.closing(
        tritonclient.grpc.InferenceServerClient(server.grpc, ssl=True, root_certificates=f"{folder}/root.pem", **shown)
    )


@pytest.fixture(scope="module")
def server(module_repository, module_serve, folder):
    module_repository.add_identity("echo")
    module_repository.add("patient", PATIENT, config("patient", [("IN", "FP32", [2])], [("OUT", "FP32", [2])]))
    module_repository.add(
        "repeat",
        REPEAT,
        config(
            "repeat",
            [("IN", "FP32", [1])],
            [("OUT", "STRING", [1])],
            extra="model_transaction_policy { decoupled: true }",
        ),
    )
    return module_serve(module_repository, *options(folder), tls=context(folder))


def tensor(module, array):
    given = module.InferInput("IN", list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


# ---- clients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3_000_000])
def test_tritonclient_over_http(server, folder, count):
    array = np.arange(count, dtype=np.float32)
    client = tritonclient.http.InferenceServerClient(
        server.http, ssl=True, ssl_context_factory=lambda: context(folder), concurrency=2
    )
    with contextlib.closing(client):
        for _ in range(3):
            answer = client.infer("echo", [tensor(tritonclient.http, array)])
            assert np.array_equal(answer.as_numpy("OUT"), array)
        asked = [client.async_infer("echo", [tensor(tritonclient.http, array)]) for _ in range(4)]
        assert all(np.array_equal(each.get_result().as_numpy("OUT"), array) for each in asked)


@pytest.mark.parametrize("count", [2, 3_000_000])
def test_tritonclient_over_grpc(server, folder, count):
    array = np.arange(count, dtype=np.float32)
    with grpc_client(server, folder) as client:
        for _ in range(3):
            answer = client.infer("echo", [tensor(tritonclient.grpc, array)])
            assert np.array_equal(answer.as_numpy("OUT"), array)


def test_requests_and_urllib3(server, folder):
    url = f"https://{server.http}"
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(folder / "root.pem")
        for _ in range(3):
            answer = session.post(url + PATH, json=BODY, timeout=20)
            assert answer.json()["outputs"][0]["data"] == [1, 2]
        # In chunks, as the requests library sends bodies of unknown size.
        pieces = json.dumps(BODY).encode()
        answer = session.post(url + PATH, data=iter([pieces[:10], pieces[10:]]), timeout=20)
        assert answer.json()["outputs"][0]["data"] == [1, 2]
    with urllib3.PoolManager(ca_certs=str(folder / "root.pem")) as pool:
        answer = pool.request("GET", f"{url}/v2/health/ready", headers={"Connection": "close"}, timeout=20)
        assert answer.status == 200


def test_the_client_of_python(server):
    assert server.json("POST", PATH, BODY)[1]["outputs"][0]["data"] == [1, 2]
    assert server.json("GET", "/v2/nope")[0] == 404


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("more", [[], ["--http2"], ["-H", "Expect: 100-continue"], ["-H", "Connection: close"]])
def test_curl(server, folder, more):
    command = ["curl", "-sS", "--max-time", "20", "--cacert", folder / "root.pem", *more]
    done = subprocess.run(
        [*command, f"https://{server.http}{PATH}", "-d", json.dumps(BODY)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"][0]["data"] == [1, 2]


def test_metrics(server):
    series = server.metric_values()
    assert 'nv_inference_count{model="echo",version="1"}' in series


def test_a_stream_of_events(server):
    status, headers, body = server.request("POST", "/v2/models/repeat/generate_stream", json.dumps({"IN": [1.0]}))
    assert status == 200
    assert headers["Content-Type"].startswith("text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().split("\n\n") if line]
    assert [event["OUT"].split()[0] for event in events] == [str(number) for number in range(20)]


def test_the_line_to_paste(server):
    assert re.search(r"try: +curl -s https://127\.0\.0\.1:\d+/v2/models/", server.stdout)


def status_over_http(server, made):
    """Returns the status of a request with this SSLContext."""
    host, _, port = server.http.rpartition(":")
    with contextlib.closing(http.client.HTTPSConnection(host, int(port), timeout=20, context=made)) as client:
        client.request("GET", "/v2/health/ready")
        return client.getresponse().status


# ---- invalid TLS connections -----------------------------------------------------------------------


@pytest.mark.parametrize("port", ["http", "metrics", "grpc"])
def test_a_client_without_tls_is_hung_up_on(server, port):
    host, _, number = getattr(server, port).rpartition(":")
    with socket.create_connection((host, int(number)), timeout=20) as client:
        client.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        told = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(4096):
                told += piece
        assert b"HTTP/" not in told
    assert server.json("GET", "/v2/health/ready")[0] == 200


def test_a_client_that_does_not_trust_the_root_leaves(server):
    with pytest.raises(ssl.SSLCertVerificationError):
        status_over_http(server, ssl.create_default_context())
    assert server.json("GET", "/v2/health/ready")[0] == 200


def test_http_2_is_not_spoken_on_the_port_of_http(server, folder):
    made = context(folder)
    made.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        status_over_http(server, made)
    made.set_alpn_protocols(["h2", "http/1.1"])
    assert status_over_http(server, made) == 200


# ---- cancellation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in order", "cut off", "with more on its way"])
def test_running_request_of_a_client_that_goes_away_is_cancelled(server, module_repository, way):
    started, cancelled = (module_repository.path / "patient" / name for name in ("STARTED", "CANCELLED"))
    started.unlink(missing_ok=True)
    cancelled.unlink(missing_ok=True)
    host, _, port = server.http.rpartition(":")
    body = json.dumps(BODY).encode()
    head = b"POST /v2/models/patient/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    plain = socket.create_connection((host, int(port)), timeout=20)
    with server.tls.wrap_socket(plain, server_hostname="localhost") as client:
        client.sendall(head + body)
        wait_until(started.exists, 20, "the request to run")
        assert not cancelled.exists()
        if way == "with more on its way":
            client.sendall(head + body)
        if way != "cut off":
            # The client ends its side; the server sends nothing yet.
            client.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                client.unwrap()
    wait_until(cancelled.exists, 5, "the cancellation")


# ---- certificates of clients -----------------------------------------------------------------------


def refused_over_grpc(server, folder, client=None):
    with grpc_client(server, folder, client) as asked, pytest.raises(InferenceServerException) as raised:
        asked.is_server_live(client_timeout=5)
    return raised.value.status()


def test_mutual(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *options(folder, mutual=True), tls=context(folder, "client"))
    assert server.json("POST", PATH, BODY)[1]["outputs"][0]["data"] == [1, 2]
    assert server.metric_values()
    with grpc_client(server, folder, "client") as client:
        assert client.is_server_live()
    for shown in (None, "stranger"):
        with pytest.raises(OSError):
            status_over_http(server, context(folder, shown))
        assert refused_over_grpc(server, folder, shown) in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")
    assert server.json("GET", "/v2/health/ready")[0] == 200


def test_with_a_root_a_certificate_is_asked_for_and_need_not_be_shown(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *options(folder, root=True), tls=context(folder))
    for shown in (None, "client", "plain"):
        assert status_over_http(server, context(folder, shown)) == 200
        with grpc_client(server, folder, shown) as client:
            assert client.is_server_live()
    with pytest.raises(OSError):
        status_over_http(server, context(folder, "stranger"))
    assert refused_over_grpc(server, folder, "stranger") in (
        "StatusCode.UNAVAILABLE",
        "StatusCode.DEADLINE_EXCEEDED",
    )


# ---- starting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_files_that_cannot_be_used(repository, folder, protocol):
    repository.add_identity("echo")
    command = [BINARY, "serve", repository.path, "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    command += [f"--{protocol}-use-ssl", f"--{protocol}-server-cert={folder}/server.pem"]
    for key, reason in (("missing.key", "No such file or directory"), ("client.key", "key values mismatch")):
        done = subprocess.run(
            [*command, "--host=127.0.0.1", f"--{protocol}-server-key={folder / key}"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert f"error: cannot use the server key '{folder / key}': {reason}" in done.stderr


def test_a_certificate_is_an_identity_of_a_policy(repository, serve, folder, tmp_path):
    repository.add_identity("echo")
    policy = tmp_path / "policy.json"
    rules = [
        {"identities": ["spiffe://test/*"], "apis": ["inference"], "models": ["echo"]},
        {"identities": ["anonymous"], "apis": ["health"]},
    ]
    policy.write_text(json.dumps({"rules": rules}))
    server = serve(repository, *options(folder, root=True), f"--policy-file={policy}", tls=context(folder))
    for client, status, code, text in [
        ("client", 200, None, None),
        ("plain", 403, "StatusCode.PERMISSION_DENIED", "'plain client' may not use the API 'inference'{}"),
        (
            None,
            401,
            "StatusCode.UNAUTHENTICATED",
            "the API 'inference'{} requires a client certificate",
        ),
    ]:
        shown = (folder / f"{client}.pem", folder / f"{client}.key") if client else None
        url = f"https://{server.http}{PATH}"
        answer = requests.post(url, json=BODY, verify=folder / "root.pem", cert=shown, timeout=30)
        assert answer.status_code == status, answer.text
        with grpc_client(server, folder, client) as over_grpc:
            given = [tensor(tritonclient.grpc, np.array([1, 2], np.float32))]
            if status == 200:
                assert over_grpc.infer("echo", given).as_numpy("OUT").tolist() == [1, 2]
                continue
            assert answer.json()["error"] == text.format(" of model 'echo'")
            with pytest.raises(InferenceServerException) as raised:
                over_grpc.infer("echo", given)
            assert (raised.value.status(), raised.value.message()) == (code, text.format(""))


def test_certificates_are_read_again(repository, serve, folder, tmp_path):
    repository.add_identity("echo")
    own = tmp_path / "certificates"
    shutil.copytree(folder, own)
    server = serve(repository, *options(own), tls=context(folder))

    def number_over(port):
        host, _, number = getattr(server, port).rpartition(":")
        with context(folder).wrap_socket(socket.create_connection((host, int(number))), server_hostname=host) as client:
            return client.getpeercert()["serialNumber"]

    before = number_over("http")
    kept = server.connection()
    kept.request("GET", "/v2/health/live")
    kept.getresponse().read()
    # A certificate without its key is unusable: the previous pair stays in use.
    shutil.copy(folder / "client.pem", own / "server.pem")
    server.wait_for_log("keeping the previous certificates: cannot use the server key")
    assert number_over("http") == before
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    for name in ["server.pem", "server.key"]:
        (tmp_path / name).rename(own / name)
    trusted = ssl.create_default_context(cafile=tmp_path / "root.pem")
    for address in [server.http, server.metrics]:
        host, _, number = address.rpartition(":")

        def trusted_now(host=host, number=number):
            try:
                with trusted.wrap_socket(socket.create_connection((host, int(number))), server_hostname=host):
                    return True
            except ssl.SSLError:
                return False

        wait_until(trusted_now, 30, "the new certificate")
    # An existing connection continues.
    kept.request("GET", "/v2/health/live")
    assert kept.getresponse().status == 200
    kept.close()


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="there is no curl or no openssl")
def test_what_the_page_starts_with(tmp_path):
    """Runs the commands of the documentation's page, and sends its requests to the server that they start."""
    text = (ROOT / "docs" / "tls.md").read_text()
    make, serve, ask = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:3]
    subprocess.run(["bash", "-euc", make], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    given = serve.replace("\\\n", " ").partition("braid serve")[2].split()
    assert given[0] == "examples/models"
    made = ssl.create_default_context(cafile=tmp_path / "server.pem")
    with Server([ROOT / given[0]], *given[1:], workdir=tmp_path, tls=made) as server:
        for port, address in ((8000, server.http), (8002, server.metrics)):
            ask = ask.replace(f"localhost:{port}", "localhost:" + address.rpartition(":")[2])
        for line in ask.splitlines():
            done = subprocess.run(["bash", "-euc", line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            assert "outputs" in done.stdout or "nv_inference" in done.stdout
        root = (tmp_path / "server.pem").read_bytes()
        with grpc.secure_channel(
            "localhost:" + server.grpc.rpartition(":")[2], grpc.ssl_channel_credentials(root)
        ) as channel:
            grpc.channel_ready_future(channel).result(timeout=20)


# ---- braid bench and braid try ------------------------------------------------------------------


def command(server, protocol, name, *arguments):
    return subprocess.run(
        [BINARY, name, "-u", getattr(server, protocol), "-i", protocol, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_braid_bench_and_braid_try(server, folder, protocol):
    tls = ["--ssl", "--ssl-ca", f"{folder}/root.pem"]
    done = command(server, protocol, "try", "echo", "-d", "IN=[1, 2]", "--json", *tls)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"][0]["data"] == [1, 2]
    arguments = [
        "-m",
        "echo",
        "--shape",
        "IN:300000",
        "--request-count",
        20,
        "--concurrency-range",
        3,
        "--format",
        "json",
    ]
    done = command(server, protocol, "bench", *arguments, *tls)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measurements"][0]["requests"] == 20
    refused = command(server, protocol, "try", "echo", "--shape", "IN:2", "--ssl")
    assert refused.returncode == 1
    assert "TLS: " in refused.stderr
    assert "certificate" in refused.stderr
    unverified = command(server, protocol, "try", "echo", "--shape", "IN:2", "--ssl", "--ssl-https-verify-peer", 0)
    assert unverified.returncode == 0, unverified.stderr


# ---- sessions that are resumed --------------------------------------------------------------------

# Requests that make either port answer, so that its session tickets have arrived.
QUESTIONS = {
    "http": b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_certificate_is_verified_with_each_connection(repository, serve, folder, protocol, asked, version):
    repository.add_identity("echo")
    server = serve(repository, *options(folder, root=asked), tls=context(folder, "client" if asked else None))
    client = context(folder, "client" if asked else None)
    client.minimum_version = client.maximum_version = version
    host, _, port = getattr(server, protocol).rpartition(":")
    session, reused = None, []
    for _ in range(2):
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            client.wrap_socket(plain, server_hostname="localhost", session=session) as wrapped,
        ):
            wrapped.sendall(QUESTIONS[protocol])
            assert wrapped.recv(4096) != b""
            session, reused = wrapped.session, [*reused, wrapped.session_reused]
            with contextlib.suppress(OSError):
                wrapped.unwrap()
    assert reused == [False, not asked]
