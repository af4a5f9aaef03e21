"""Protection of requests: web pages in browsers, names that lead to this machine, restricted groups, and files in load
requests."""

import base64
import json
import queue

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness.repository import IDENTITY, config

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
EVIL = "http://evil.example"
# A form of a page can send this without a preflight: text/plain that is also JSON.
FORM = {"Origin": EVIL, "Content-Type": "text/plain"}
FILES = {
    "parameters": {
        "config": json.dumps(
            {
                "backend": "python",
                "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
                "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
            }
        ),
        "file:1/model.py": base64.b64encode(IDENTITY.encode()).decode(),
    }
}


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add("m", IDENTITY, SIMPLE)
    return module_serve(module_repository, "--model-control-mode=explicit", "--load-model=m")


def infer(server, headers):
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1]}]}
    return server.json("POST", "/v2/models/m/infer", body, headers)


def test_a_page_changes_nothing(server):
    error = {"error": f"Requests from origin '{EVIL}' are refused; allow it with --allow-origin"}
    assert server.json("POST", "/v2/repository/models/evil/load", FILES, FORM) == (403, error)
    assert server.json("POST", "/v2/repository/models/m/unload", {}, FORM) == (403, error)
    assert server.json("POST", "/v2/logging", {"log_info": False}, FORM) == (403, error)
    assert server.json("POST", "/v1/models/m:predict", {"instances": [[1]]}, FORM) == (403, error)
    assert infer(server, FORM) == (403, error)
    assert infer(server, {"Origin": "null"})[0] == 403
    assert [model["name"] for model in server.json("POST", "/v2/repository/index")[1]] == ["m"]


def test_a_page_of_the_server_itself_and_clients_go_on(server):
    assert infer(server, {})[0] == 200
    assert infer(server, {"Origin": f"http://{server.http}"})[0] == 200
    # A page may send this, but cannot read the response.
    assert server.request("GET", "/v2/models/m", headers={"Origin": EVIL})[0] == 200


@pytest.mark.parametrize("port", ["http", "metrics"])
def test_a_server_for_this_machine_has_the_names_of_this_machine(server, port):
    path = {"http": "/v2", "metrics": "/metrics"}[port]
    address = getattr(server, port)
    number = address.rpartition(":")[2]
    for host in [address, f"localhost:{number}", "localhost", f"braid.localhost:{number}", f"[::1]:{number}"]:
        assert server.request("GET", path, headers={"Host": host}, address=address)[0] == 200, host
    for host in ["evil.example", f"evil.example:{number}", "localhost.evil.example"]:
        status, _, body = server.request("GET", path, headers={"Host": host}, address=address)
        assert status == 403
        name = host.partition(":")[0]
        assert json.loads(body)["error"] == (
            f"Host '{name}' is not allowed on a loopback-only server; allow it with --allow-host"
        )


def test_origins_and_hosts_can_be_allowed(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    server = serve(repository, "--allow-origin=https://ui.example", "--allow-host=braid.internal")
    assert infer(server, {"Origin": "https://ui.example"})[0] == 200
    assert infer(server, FORM)[0] == 403
    assert server.request("GET", "/v2", headers={"Host": "braid.internal:8000"})[0] == 200
    assert server.request("GET", "/v2", headers={"Host": "evil.example"})[0] == 403


def test_a_server_for_other_machines_has_any_name(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    server = serve(repository, "--http-address=0.0.0.0", "--metrics-address=0.0.0.0")
    assert server.request("GET", "/v2", headers={"Host": "braid.example"})[0] == 200
    assert server.request("GET", "/metrics", headers={"Host": "braid.example"}, address=server.metrics)[0] == 200
    assert infer(server, FORM)[0] == 403


def test_files_of_loads_have_a_switch_of_their_own(server, repository, serve):
    assert server.json("POST", "/v2/repository/models/new/load", FILES) == (200, None)
    assert server.json("POST", "/v2/repository/models/new/unload") == (200, None)
    repository.add("m", IDENTITY, SIMPLE)
    closed = serve(repository, "--model-control-mode=explicit", "--allow-file-overrides=false")
    assert closed.json("POST", "/v2/repository/models/new/load", FILES) == (
        501,
        {
            "error": "load parameter 'file:1/model.py' is not allowed, the server was started with "
            "--allow-file-overrides=false"
        },
    )
    assert closed.json("POST", "/v2/repository/models/m/load") == (200, None)


def test_metrics_health_and_reflection_can_be_restricted(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    server = serve(
        repository,
        "--http-restricted-api=health,metrics:x-key=secret",
        "--grpc-restricted-protocol=health,reflection:x-key=secret",
        ready=False,
    )
    key = {"x-key": "secret"}
    error = b'{"error":"This API is restricted, expecting header \'x-key\'"}'
    for path, address in [("/v2/health/live", server.http), ("/metrics", server.metrics)]:
        for method in ["GET", "HEAD"]:
            status, _, body = server.request(method, path, address=address)
            assert (status, body) == (403, error if method == "GET" else b"")
            assert server.request(method, path, headers=key, address=address)[0] == 200
    with grpc.insecure_channel(server.grpc) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as refusal:
            list(stub.ServerReflectionInfo(iter([question])))
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
        assert refusal.value.details() == ("This protocol is restricted, expecting header 'triton-grpc-protocol-x-key'")
        metadata = [("triton-grpc-protocol-x-key", "secret")]
        [answer] = stub.ServerReflectionInfo(iter([question]), metadata=metadata)
        assert "inference.GRPCInferenceService" in [s.name for s in answer.list_services_response.service]


def test_metrics_on_the_rest_port_are_of_the_same_group(tmp_path, repository, serve):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_config_list": [], "monitoring": {"metrics": {"enable": True}}})
    )
    repository.add("m", IDENTITY, SIMPLE)
    server = serve(
        repository, f"--config_path={tmp_path / 'config.json'}", "--http-restricted-api=metrics:x-key=secret"
    )
    assert server.request("GET", "/metrics")[0] == 403
    assert server.request("HEAD", "/metrics", headers={"x-key": "secret"})[0] == 200


def test_reflection_answers_what_tools_ask(server):
    with grpc.insecure_channel(server.grpc) as channel:
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services="*"),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.ModelInferRequest"),
            reflection_pb2.ServerReflectionRequest(file_by_filename="grpc_service.proto"),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Symbol"),
            reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type="inference.ModelConfig"),
            reflection_pb2.ServerReflectionRequest(),
        ]
        listed, symbol, file, unknown, extensions, nothing = ask(iter(requests))
    names = [service.name for service in listed.list_services_response.service]
    assert names == sorted(names)
    assert {"grpc.health.v1.Health", "tensorflow.serving.PredictionService"} <= set(names)
    assert symbol.file_descriptor_response == file.file_descriptor_response
    # The file and its import.
    assert len(file.file_descriptor_response.file_descriptor_proto) == 2
    assert unknown.error_response.error_code == 5
    assert unknown.error_response.error_message == "symbol 'no.such.Symbol' not found"
    assert extensions.all_extension_numbers_response.base_type_name == "inference.ModelConfig"
    assert nothing.error_response.error_code == 3


def test_an_open_reflection_call_does_not_hold_up_a_stop(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    server = serve(repository)
    with grpc.insecure_channel(server.grpc) as channel:
        questions = queue.SimpleQueue()
        questions.put(reflection_pb2.ServerReflectionRequest(list_services=""))
        answers = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(questions.get, None))
        next(answers)
        server.stop(seconds=20)
        questions.put(None)
