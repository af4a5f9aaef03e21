"""Users and rights: tokens, a policy, reloading of both, the management port, and the responses of each protocol."""

import hashlib
import json
import re
import socket

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from harness.repository import IDENTITY, config
from harness.server import ROOT, wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
TOKENS = f"alice a-token\nbob b-token\noperator sha256:{hashlib.sha256(b'o-token').hexdigest()}\n"
POLICY = {
    "rules": [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["alice"], "apis": ["inference", "metadata", "statistics"], "models": ["add*"]},
        {"identities": ["bob"], "apis": ["metadata"]},
        {"identities": ["operator"], "apis": ["*"]},
    ]
}
BODY = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [3]}]})
UNKNOWN = "unknown bearer token in the header 'authorization'"


def bearer(name):
    return {"authorization": f"Bearer {name[0]}-token"} if name else {}


def ask(server, method, path, who=None, body=None, port="http"):
    """Returns (status, error or answer)."""
    status, headers, answer = server.request(method, path, body, bearer(who), address=getattr(server, port))
    assert (headers["WWW-Authenticate"] == "Bearer") == (status == 401)
    try:
        answer = json.loads(answer)
    except ValueError:
        return status, answer
    return status, answer.get("error", answer) if isinstance(answer, dict) else answer


def infer(server, model, who):
    return ask(server, "POST", f"/v2/models/{model}/infer", who, BODY)


def tensor(module, value=3):
    one = module.InferInput("IN", [1], "FP32")
    one.set_data_from_numpy(np.array([value], np.float32))
    return [one]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    (folder / "tokens").write_text(TOKENS)
    (folder / "policy.json").write_text(json.dumps(POLICY))
    (folder / "tokens").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def server(module_repository, module_serve, files):
    for model in ["add", "other"]:
        module_repository.add(model, IDENTITY, SIMPLE)
    return module_serve(
        module_repository,
        "--model-control-mode=explicit",
        "--load-model=add",
        "--load-model=other",
        f"--token-file={files / 'tokens'}",
        f"--policy-file={files / 'policy.json'}",
    )


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def code_of(call, *arguments, who=None):
    """Returns (code, text) of a gRPC call; OK has no text."""
    try:
        call(*arguments, metadata=list(bearer(who).items()), timeout=30)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def test_health_is_for_everybody(server, stub):
    for port in ["http", "metrics"]:
        for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/add/ready"]:
            assert ask(server, "GET", path, port=port)[0] == 200, (port, path)
    assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    assert stub.ModelReady(service_pb2.ModelReadyRequest(name="other")).ready


@pytest.mark.parametrize("who", [None, "xavier"])
def test_nothing_else_is(server, stub, who):
    routes = [("POST", "/v2/models/add/infer", BODY), ("POST", "/v2/models/add/generate", "{}"), ("GET", "/v2", None)]
    routes += [("GET", "/v2/models/add", None), ("GET", "/v2/models/stats", None), ("GET", "/v2/logging", None)]
    routes += [("POST", "/v2/repository/index", "{}"), ("POST", "/v2/repository/models/add/unload", "{}")]
    routes += [("GET", "/v2/models/add/config", None), ("GET", "/v2/trace/setting", None)]
    routes += [("GET", "/v2/systemsharedmemory/status", None), ("POST", "/v1/models/add:predict", "{}")]
    routes += [("GET", "/v1/models/add", None), ("GET", "/v1/models/add/metadata", None), ("GET", "/v1/config", None)]
    for method, path, body in routes:
        status, error = ask(server, method, path, who, body)
        assert status == 401, path
        if who:
            assert error == UNKNOWN
        else:
            assert re.fullmatch(
                r"the API '[a-z-]+'( of .*)? requires "
                r"a bearer token in the header 'authorization'",
                error,
            ), error
    assert ask(server, "GET", "/metrics", who, port="metrics")[0] == 401
    service = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    asked = 0
    with grpc.insecure_channel(server.grpc) as channel:
        paths = [f"/{service.full_name}/{method.name}" for method in service.methods]
        paths += [f"/tensorflow.serving.PredictionService/{name}" for name in ["Predict", "GetModelMetadata"]]
        paths += ["/tensorflow.serving.ModelService/GetModelStatus", "/grpc.health.v1.Health/Check"]
        paths += [f"/grpc.reflection.{name}.ServerReflection/ServerReflectionInfo" for name in ["v1", "v1alpha"]]
        for path in paths:
            code, text = code_of(channel.unary_unary(path), b"", who=who)
            open_to_all = who is None and path.rpartition("/")[2] in {
                "ServerLive",
                "ServerReady",
                "ModelReady",
                "Check",
            }
            assert (code != grpc.StatusCode.UNAUTHENTICATED) == open_to_all, (path, code, text)
            asked += 1
    assert asked == 26


def test_a_token_opens_what_the_policy_says_over_http(server):
    assert infer(server, "add", "alice")[1]["outputs"][0]["data"] == [3]
    denied = "'alice' may not use the API 'inference' of model 'other'"
    assert infer(server, "other", "alice") == (403, denied)
    # A missing model gives no more information than an existing one.
    assert infer(server, "none", "alice") == (403, denied.replace("other", "none"))
    assert infer(server, "add", "bob") == (403, "'bob' may not use the API 'inference' of model 'add'")
    assert ask(server, "POST", "/v2/models/other/generate", "alice", "{}") == (403, denied)
    assert ask(server, "POST", "/v1/models/other:predict", "alice", "{}") == (403, denied)
    assert ask(server, "GET", "/v2", "bob")[1]["name"] == "triton"
    assert ask(server, "GET", "/v2/models/other", "bob")[1]["name"] == "other"
    assert ask(server, "GET", "/v2/models/add/stats", "alice")[0] == 200
    assert ask(server, "GET", "/v2/models/stats", "alice") == (
        403,
        "'alice' may not use the API 'statistics' of all models",
    )
    assert ask(server, "POST", "/v2/repository/models/add/load", "alice", "{}")[0] == 403
    assert ask(server, "POST", "/v2/repository/models/add/load", "operator", "{}")[0] == 200
    names = [model["name"] for model in ask(server, "POST", "/v2/repository/index", "operator", "{}")[1]]
    assert names == ["add", "other"]
    assert ask(server, "GET", "/metrics", "operator", port="metrics")[0] == 200
    assert ask(server, "GET", "/metrics", "alice", port="metrics")[0] == 403


def test_a_token_opens_what_the_policy_says_over_grpc(server, stub):
    client = triton_grpc.InferenceServerClient(server.grpc)
    assert client.infer("add", tensor(triton_grpc), headers=bearer("alice")).as_numpy("OUT") == [3]
    for model, who, text in [
        ("other", "alice", "'alice' may not use the API 'inference' of model 'other'"),
        ("none", "alice", "'alice' may not use the API 'inference' of model 'none'"),
        ("add", "bob", "'bob' may not use the API 'inference'"),
    ]:
        with pytest.raises(triton_grpc.InferenceServerException) as raised:
            client.infer(model, tensor(triton_grpc), headers=bearer(who))
        assert (raised.value.status(), raised.value.message()) == ("StatusCode.PERMISSION_DENIED", text)
    client.close()
    denied = grpc.StatusCode.PERMISSION_DENIED
    load = service_pb2.RepositoryModelLoadRequest(model_name="add")
    assert code_of(stub.RepositoryModelLoad, load, who="alice")[0] == denied
    assert code_of(stub.RepositoryModelLoad, load, who="operator")[0] == grpc.StatusCode.OK
    for request, ok in [("add", True), ("other", False), ("", False)]:
        statistics = service_pb2.ModelStatisticsRequest(name=request)
        assert (code_of(stub.ModelStatistics, statistics, who="alice")[0] != denied) == ok, request
    assert code_of(stub.ModelMetadata, service_pb2.ModelMetadataRequest(name="other"), who="bob")[1] == ""
    assert code_of(stub.ModelMetadata, service_pb2.ModelMetadataRequest(name="other"), who="alice")[0] == denied
    index = service_pb2.RepositoryIndexRequest()
    assert code_of(stub.RepositoryIndex, index, who="operator")[0] == grpc.StatusCode.OK


def test_each_message_of_a_stream_is_asked_about(server):
    client = triton_grpc.InferenceServerClient(server.grpc)
    answers = []
    client.start_stream(lambda result, error: answers.append((result, error)), headers=bearer("alice"))
    for model in ["add", "other", "add"]:
        client.async_stream_infer(model, tensor(triton_grpc))
    wait_until(lambda: len(answers) == 3, 30, "three answers")
    client.stop_stream()
    client.close()
    errors = [error.message() for _, error in answers if error]
    assert errors == ["'alice' may not use the API 'inference' of model 'other'"]
    assert [result.as_numpy("OUT")[0] for result, _ in answers if result] == [3, 3]


def test_the_http_client_of_triton(server):
    client = triton_http.InferenceServerClient(server.http)
    assert client.infer("add", tensor(triton_http), headers=bearer("alice")).as_numpy("OUT") == [3]
    with pytest.raises(triton_http.InferenceServerException) as raised:
        client.infer("add", tensor(triton_http))
    assert raised.value.status() == "401"
    client.close()


def test_who_may_not_is_told_before_the_body(server):
    host, _, port = server.http.rpartition(":")
    for who, status in [("", "401"), ("authorization: bearer b-token\r\n", "403")]:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = f"POST /v2/models/add/infer HTTP/1.1\r\nhost: {host}\r\n{who}content-length: 60000000\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(4096).decode().split()[1] == status


def test_refusals_are_counted_and_told_once(server):
    def counts():
        _, _, page = server.request("GET", "/metrics", headers=bearer("operator"), address=server.metrics)
        return [
            int(re.search(rf'braid_access_refused_total{{reason="{reason}"}} (\d+)', page.decode()).group(1))
            for reason in ["unauthenticated", "permission_denied"]
        ]

    before = counts()
    for _ in range(3):
        infer(server, "add", None)
        infer(server, "add", "bob")
    assert counts() == [before[0] + 3, before[1] + 3]
    lines = [line for line in server.log.splitlines() if "refusing requests without the required rights" in line]
    assert 1 <= len(lines) <= 2
    assert not any("a-token" in line or "x-token" in line for line in server.log.splitlines())


def test_two_tokens_are_none(server, stub):
    both = [("authorization", "Bearer a-token"), ("authorization", "Bearer b-token")]
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="add"), metadata=both, timeout=20)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details() == "duplicate metadata 'authorization'"


def test_the_files_are_read_again(repository, serve, tmp_path):
    repository.add("add", IDENTITY, SIMPLE)
    tokens = tmp_path / "tokens"
    tokens.write_text("alice a-token\n")
    server = serve(repository, f"--token-file={tokens}")
    server.wait_for_log("every user of this machine can read the token file")
    assert infer(server, "add", "alice")[0] == 200
    assert infer(server, "add", "bob") == (401, UNKNOWN)
    # An open stream notices the change, too.
    client = triton_grpc.InferenceServerClient(server.grpc)
    answers = []
    client.start_stream(lambda result, error: answers.append(error), headers=bearer("alice"))
    client.async_stream_infer("add", tensor(triton_grpc))
    wait_until(lambda: answers == [None], 30, "an answer")
    (tmp_path / "new").write_text("bob b-token\n")
    (tmp_path / "new").chmod(0o640)
    (tmp_path / "new").rename(tokens)
    server.wait_for_log("the group can read the token file '.*'")
    wait_until(lambda: infer(server, "add", "bob")[0] == 200, 30, "bob's token")
    assert infer(server, "add", "alice") == (401, UNKNOWN)
    client.async_stream_infer("add", tensor(triton_grpc))
    wait_until(lambda: len(answers) == 2, 30, "another answer")
    assert answers[1].message() == UNKNOWN
    client.stop_stream()
    client.close()
    (tmp_path / "new").write_text("bob\n")
    (tmp_path / "new").rename(tokens)
    server.wait_for_log(r"keeping the previous tokens and rights: .*line 1: expected an identity and a token")
    assert infer(server, "add", "bob")[0] == 200


def test_management_can_have_a_port_of_its_own(repository, serve, files):
    repository.add("add", IDENTITY, SIMPLE)
    server = serve(
        repository,
        "--model-control-mode=explicit",
        "--load-model=add",
        "--admin-address=127.0.0.1:0",
        "--allow-console=false",
        f"--token-file={files / 'tokens'}",
    )
    moved = [("POST", "/v2/repository/models/add/load"), ("POST", "/v2/repository/index"), ("GET", "/v2/logging")]
    moved += [("GET", "/v2/trace/setting"), ("GET", "/v1/config")]
    for method, path in moved:
        status, text = ask(server, method, path, "alice", "{}" if method == "POST" else None)
        assert (status, text.split("'")[2]) == (403, " is not served at this port"), path
        assert ask(server, method, path, "alice", "{}" if method == "POST" else None, port="admin")[0] == 200, path
        assert ask(server, method, path, None, "{}" if method == "POST" else None, port="admin")[0] == 401, path
    assert ask(server, "GET", "/metrics", "alice", port="admin")[0] == 200
    assert ask(server, "GET", "/metrics", "alice", port="metrics")[0] == 403
    assert ask(server, "GET", "/v2/health/ready", port="metrics")[0] == 200
    assert ask(server, "GET", "/v2/health/ready", port="admin")[0] == 200
    assert ask(server, "GET", "/v2/models/add/config", "alice", port="admin")[0] == 200
    assert ask(server, "POST", "/v2/models/add/infer", "alice", BODY, port="admin") == (
        403,
        "the API 'inference' is not served at this port",
    )
    assert infer(server, "add", "alice")[0] == 200
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        load = service_pb2.RepositoryModelLoadRequest(model_name="add")
        assert code_of(stub.RepositoryModelLoad, load, who="alice") == (
            grpc.StatusCode.PERMISSION_DENIED,
            "the API 'model-repository' is not served at this port",
        )


def test_some_apis_can_stay_at_the_main_port(repository, serve):
    repository.add("add", IDENTITY, SIMPLE)
    server = serve(repository, "--admin-address=127.0.0.1:0", "--admin-apis=logging")
    assert ask(server, "GET", "/v2/logging")[0] == 403
    assert ask(server, "POST", "/v2/repository/index", body="{}")[0] == 200
    assert ask(server, "GET", "/metrics", port="metrics")[0] == 200
    assert ask(server, "GET", "/v2/logging", port="admin")[0] == 200


def test_secrets_of_groups_come_from_files(repository, serve, tmp_path):
    repository.add("add", IDENTITY, SIMPLE)
    groups = tmp_path / "groups"
    groups.write_text("# ours\nmodel-repository,logging:x-admin=secret\n")
    server = serve(repository, f"--http-restricted-api-file={groups}", f"--grpc-restricted-protocol-file={groups}")
    text = "This API is restricted, expecting header 'x-admin'"
    assert ask(server, "GET", "/v2/logging") == (403, text)
    assert server.json("GET", "/v2/logging", headers={"x-admin": "secret"})[0] == 200
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert code_of(stub.LogSettings, service_pb2.LogSettingsRequest()) == (
            grpc.StatusCode.UNAVAILABLE,
            "This protocol is restricted, expecting header 'triton-grpc-protocol-x-admin'",
        )
        stub.LogSettings(service_pb2.LogSettingsRequest(), metadata=[("triton-grpc-protocol-x-admin", "secret")])


@pytest.mark.parametrize(
    ("option", "content", "text"),
    [
        ("token-file", None, "cannot open the token file '{}': No such file or directory"),
        ("token-file", "alice\n", "the token file '{}': line 1: expected an identity and a token"),
        ("policy-file", "{}", "the policy file '{}': /rules: "),
        ("http-restricted-api-file", "x:y=z", "the file of restricted groups '{}': line 1: unknown restricted api 'x'"),
    ],
)
def test_files_that_are_not_good_keep_the_server_from_starting(repository, serve, tmp_path, option, content, text):
    repository.add("add", IDENTITY, SIMPLE)
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    server = serve(repository, f"--{option}={file}", ready=False, listening=False)
    server.wait_exit()
    server.stop(status=1)
    assert text.format(file) in server.stderr


def test_the_example(serve):
    folder = ROOT / "examples" / "access"
    server = serve(
        ROOT / "examples" / "models",
        f"--token-file={folder / 'tokens'}",
        f"--policy-file={folder / 'policy.json'}",
        "--admin-address=127.0.0.1:0",
    )
    page = (ROOT / "docs" / "access.md").read_text()
    shown = re.findall(r'^curl -s (?:-H "(.*?)" )?localhost:(\d+)(\S+)(?: -d \'(.*?)\')?(?: +# (\d+).*)?$', page, re.M)
    assert len(shown) == 4
    for header, port, path, body, status in shown:
        headers = dict([header.split(": ")]) if header else {}
        address = {"8000": server.http, "8003": server.admin}[port]
        answered, _, answer = server.request("POST" if body else "GET", path, body or None, headers, address=address)
        assert answered == int(status or 200), answer
    rules = json.loads(re.search(r"```json\n(.*?)```", page, re.S).group(1))["rules"]
    assert [rule["apis"] for rule in rules] == [
        rule["apis"] for rule in json.loads((folder / "policy.json").read_text())["rules"]
    ]
    line = re.search(r"^operator +(\S+)", (folder / "tokens").read_text(), re.M).group(1)
    assert line in page
    assert line == "sha256:" + hashlib.sha256(b"operator-example-token").hexdigest()


def test_a_server_without_tokens_asks_nobody(repository, serve):
    repository.add("add", IDENTITY, SIMPLE)
    server = serve(repository)
    assert infer(server, "add", None)[0] == 200
    assert infer(server, "add", "xavier")[0] == 200
    assert "braid_access_refused_total" not in server.request("GET", "/metrics", address=server.metrics)[2].decode()
