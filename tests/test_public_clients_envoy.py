"""Envoy in front of the server: one port of Envoy accepts gRPC and HTTP, and forwards them to the server's two ports."""

import contextlib
import json
import ssl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import requests
import tritonclient.http
from harness.envoy import Envoy, need_envoy
from harness.public_clients import (
    ERROR,
    add_models,
    add_sub_request,
    array_request,
    text_of,
    text_request,
)
from harness.server import BINARY
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
# The number of calls that Envoy begins on one connection before it opens another.
CALLS_PER_CONNECTION = 4


def typed(name, **fields):
    return {"@type": f"type.googleapis.com/{name}", **fields}


def cluster(name, address, protocol, health_check, root=None):
    """Returns a cluster with one address and one protocol; with TLS if `root`, its certificate authority, is given."""
    host, _, port = address.rpartition(":")
    socket = {"address": {"socket_address": {"address": host, "port_value": int(port)}}}
    checks = {"timeout": "5s", "interval": "0.1s", "no_traffic_interval": "0.1s"}
    made = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": socket}]}]},
        "typed_extension_protocol_options": {
            HTTP_OPTIONS: typed(HTTP_OPTIONS, explicit_http_config={f"{protocol}_protocol_options": {}})
        },
        "health_checks": [{**checks, "unhealthy_threshold": 1, "healthy_threshold": 1, **health_check}],
        # Otherwise Envoy would also send to servers whose health checks fail.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
    }
    if protocol == "http2":
        options = made["typed_extension_protocol_options"][HTTP_OPTIONS]["explicit_http_config"]
        options["http2_protocol_options"]["max_concurrent_streams"] = CALLS_PER_CONNECTION
    if root is not None:
        trusted = {"trusted_ca": {"filename": str(root)}}
        common = {"validation_context": trusted, "alpn_protocols": ["h2" if protocol == "http2" else "http/1.1"]}
        context = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        made["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": typed(context, sni="localhost", common_tls_context=common),
        }
    return made


def configuration(server, root=None):
    """Returns Envoy's configuration as JSON, which is also YAML."""
    filters = "envoy.extensions.filters"
    # Only the client and the server end calls here.
    routes = [
        {"match": {"prefix": "/", "grpc": {}}, "route": {"cluster": "grpc", "timeout": "0s"}},
        {"match": {"prefix": "/"}, "route": {"cluster": "http", "timeout": "0s"}},
    ]
    manager = typed(
        f"{filters}.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="front",
        codec_type="AUTO",
        http_filters=[{"name": "router", "typed_config": typed(f"{filters}.http.router.v3.Router")}],
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
    )
    anywhere = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    listener = {
        "name": "front",
        "address": anywhere,
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    # By default, Envoy's HTTP check sends the cluster's name as Host. The server listens only on the loopback
    # interface, and would refuse that.
    http_check = {"http_health_check": {"path": "/v2/health/ready", "host": "localhost"}}
    clusters = [
        cluster("grpc", server.grpc, "http2", {"grpc_health_check": {}}, root),
        cluster("http", server.http, "http", http_check, root),
    ]
    return {"admin": {"address": anywhere}, "static_resources": {"listeners": [listener], "clusters": clusters}}


class FrontEnvoy(Envoy):
    """Envoy in front of one server. `address` is its port for all protocols."""

    def __init__(self, server, workdir, root=None):
        config = workdir / "envoy.json"
        config.write_text(json.dumps(configuration(server, root)))
        super().__init__(config, workdir)
        self.address = self.listeners["front"]
        try:
            for name in ("grpc", "http"):
                self.wait_for_members(name, 1)
        except BaseException:
            self.stop()
            raise


@pytest.fixture(scope="module")
def models(module_repository):
    need_envoy()
    return add_models(module_repository)


@pytest.fixture(scope="module")
def certificates(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", folder], check=True)
    return folder


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(request, models, certificates, module_serve):
    options = ["--grpc-header-forward-pattern=x-forward-.*"]
    if request.param == "plain":
        return module_serve(models, *options)
    for protocol in ("http", "grpc"):
        options += [f"--{protocol}-use-ssl", f"--{protocol}-server-cert={certificates}/server.pem"]
        options += [f"--{protocol}-server-key={certificates}/server.key"]
    trusted = ssl.create_default_context(cafile=certificates / "root.pem")
    return module_serve(models, *options, tls=trusted)


@pytest.fixture(scope="module")
def envoy(server, certificates, tmp_path_factory):
    root = certificates / "root.pem" if server.tls else None
    made = FrontEnvoy(server, tmp_path_factory.mktemp("envoy"), root)
    yield made
    made.stop()


def channel_to(envoy):
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    return grpc.insecure_channel(envoy.address, unlimited)


@pytest.fixture
def stub(envoy):
    with channel_to(envoy) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture
def http(envoy):
    """http(method, path, ...) sends a request through Envoy."""
    with requests.Session() as session:
        session.trust_env = False
        yield lambda method, path, **more: session.request(method, f"http://{envoy.address}{path}", timeout=60, **more)


# ---- gRPC ------------------------------------------------------------------------------------------


def test_unary_calls(stub):
    assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    answer = stub.ModelInfer(add_sub_request(id="one"))
    assert (answer.model_name, answer.id) == ("add_sub", "one")
    values = [np.frombuffer(raw, np.float32).tolist() for raw in answer.raw_output_contents]
    assert values == [[11, 22, 33, 44], [-9, -18, -27, -36]]


def test_error_in_trailers(stub):
    with pytest.raises(grpc.RpcError) as failed:
        stub.ModelInfer(text_request("failing", "x"))
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.NOT_FOUND, ERROR)
    with pytest.raises(grpc.RpcError) as wrong:
        stub.ModelInfer(array_request(np.ones((2, 2), np.float32)))
    assert wrong.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "unexpected shape for input 'IN' for model 'echo'" in wrong.value.details()


def test_error_behind_answers_of_a_stream(stub):
    messages = [text_request("headers", "x", id="a"), text_request("failing", "x")]
    stream = stub.ModelStreamInfer(iter(messages), metadata=[("triton_grpc_error", "true")])
    assert next(stream).infer_response.id == "a"
    with pytest.raises(grpc.RpcError) as failed:
        next(stream)
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.NOT_FOUND, ERROR)


def test_large_message(stub):
    sent = np.arange(4 * 2**20, dtype=np.float32)
    assert stub.ModelInfer(array_request(sent)).raw_output_contents[0] == sent.tobytes()


def test_metadata(stub):
    given = [("x-forward-text", "a, b"), ("x-forward-bin", "äöü".encode())]
    answer = stub.ModelInfer(text_request("headers", "x"), metadata=given)
    assert json.loads(text_of(answer)) == {"x-forward-text": "a, b", "x-forward-bin": "äöü"}


def test_stream_of_many_answers(stub):
    answers = [text_of(each.infer_response) for each in stub.ModelStreamInfer(iter([text_request("repeat", "1000")]))]
    assert answers == [f"{number} " + "x" * 5000 for number in range(1000)]


def test_stream_in_turns(stub):
    # Each message waits for the answer to the previous one, so no proxy on the way may buffer them.
    answered = threading.Semaphore(1)

    def messages():
        for number in range(10):
            assert answered.acquire(timeout=20)
            yield text_request("headers", "x", id=str(number))

    ids = []
    for answer in stub.ModelStreamInfer(messages(), timeout=60):
        ids.append(answer.infer_response.id)
        answered.release()
    assert ids == [str(number) for number in range(10)]


def test_a_client_that_goes_ends_the_work(stub, models, server):
    folder = models.path / "patient"
    name = "secret" if server.tls else "open"
    call = stub.ModelInfer.future(text_request("patient", name))
    wait_until((folder / f"{name}-started").exists)
    call.cancel()
    wait_until((folder / f"{name}-cancelled").exists)


def test_many_calls_take_several_connections(envoy, server, stub, models):
    arrays = [np.full(1000, number, np.float32) for number in range(40)]
    name = "many-of-tls" if server.tls else "many"
    # The calls wait for a file, so that all are open at once.
    waiting = [stub.ModelInfer.future(text_request("patient", name)) for _ in range(3 * CALLS_PER_CONNECTION)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda each: stub.ModelInfer(array_request(each)), arrays))
    assert [each.raw_output_contents[0] for each in answers] == [each.tobytes() for each in arrays]
    (models.path / "patient" / f"{name}-end").touch()
    assert {text_of(each.result()) for each in waiting} == {name}
    # They stay open for later calls.
    assert envoy.statistic("grpc", "upstream_cx_active") >= 3
    assert envoy.statistic("grpc", "upstream_cx_protocol_error") == 0
    assert envoy.statistic("grpc", "upstream_rq_pending_failure_eject") == 0


# ---- HTTP ------------------------------------------------------------------------------------------


def test_json(http):
    tensors = {"INPUT0": [1, 2, 3, 4], "INPUT1": [10, 20, 30, 40]}
    inputs = [{"name": n, "shape": [4], "datatype": "FP32", "data": v} for n, v in tensors.items()]
    answer = http("POST", "/v2/models/add_sub/infer", json={"inputs": inputs})
    assert answer.status_code == 200
    assert {o["name"]: o["data"] for o in answer.json()["outputs"]} == {
        "OUTPUT0": [11, 22, 33, 44],
        "OUTPUT1": [-9, -18, -27, -36],
    }
    failed = http("POST", "/v2/models/nope/infer", json={"inputs": inputs})
    assert failed.status_code == 404
    assert "Request for unknown model: 'nope' is not found" in failed.json()["error"]


def test_plain_answers(http):
    for path in ("/v2/health/live", "/v2/health/ready", "/v2", "/v2/models/echo"):
        got, head = http("GET", path), http("HEAD", path)
        assert (got.status_code, head.status_code, head.content) == (200, 200, b"")
        assert head.headers["content-length"] == str(len(got.content))
    assert http("GET", "/v2/models/nope/ready").status_code == 404


@pytest.mark.parametrize("count", [4, 2**21])
def test_binary_tensors(envoy, count):
    sent = np.arange(count, dtype=np.float32)
    with contextlib.closing(tritonclient.http.InferenceServerClient(envoy.address)) as client:
        tensor = tritonclient.http.InferInput("IN", [count], "FP32")
        tensor.set_data_from_numpy(sent)
        for compression in (None, "gzip"):
            more = {"request_compression_algorithm": compression, "response_compression_algorithm": compression}
            assert np.array_equal(client.infer("echo", [tensor], **more).as_numpy("OUT"), sent)
        with pytest.raises(InferenceServerException, match="unknown model: 'nope'"):
            client.infer("nope", [tensor])


def test_body_in_chunks(http):
    tensor = {"name": "IN", "shape": [20000], "datatype": "FP32", "data": list(range(20000))}
    body = json.dumps({"inputs": [tensor]}).encode()
    parts = (body[at : at + 5000] for at in range(0, len(body), 5000))
    answer = http("POST", "/v2/models/echo/infer", data=parts)
    assert answer.json()["outputs"][0]["data"] == tensor["data"]


def test_events(http):
    answer = http("POST", "/v2/models/repeat/generate_stream", json={"IN": "3"}, stream=True)
    events = [json.loads(line.removeprefix(b"data: ")) for line in answer.iter_lines() if line]
    assert [each["OUT"][:2] for each in events] == ["0 ", "1 ", "2 "]


# ---- health ----------------------------------------------------------------------------------------


def test_health_checks(envoy):
    for name in ("grpc", "http"):
        before = envoy.statistic(name, "health_check.success")
        wait_until(lambda name=name, before=before: envoy.statistic(name, "health_check.success") > before + 2)
        assert envoy.statistic(name, "health_check.failure") == 0


def test_a_server_that_stops(models, serve, tmp_path):
    """When the server stops, running requests are answered, and then Envoy knows that there is no server."""
    server = serve(models)
    envoy = FrontEnvoy(server, tmp_path)
    try:
        with channel_to(envoy) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            running = stub.ModelInfer.future(text_request("patient", "last"))
            wait_until((models.path / "patient" / "last-started").exists)
            server.process.terminate()
            server.wait_for_log("draining")
            (models.path / "patient" / "last-end").touch()
            assert text_of(running.result(timeout=30)) == "last"
            for name in ("grpc", "http"):
                envoy.wait_for_members(name, 0)
            with pytest.raises(grpc.RpcError) as failed:
                stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20)
            assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        envoy.stop()
