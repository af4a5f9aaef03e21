"""Rights beyond the named model of a request: other models, code, regions, the whole server."""

import hashlib
import json
import sys

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from harness.access import access
from harness.ensembles import ensemble, step
from harness.regions import Region
from harness.repository import IDENTITY, config, per_request
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
TOKENS = f"dev d-token\nreader r-token\noperator sha256:{hashlib.sha256(b'o-token').hexdigest()}\n"
RULES = [
    {"identities": ["anonymous"], "apis": ["health"]},
    {"identities": ["dev"], "apis": ["*"], "models": ["add_*"]},
    {"identities": ["reader"], "apis": ["inference"]},
    {"identities": ["operator"], "apis": ["*"]},
]
CLIENTS = {"http": triton_http, "grpc": triton_grpc}
# The request headers that a model sees.
HEADERS = per_request(
    """
    return respond(OUT=np.array([request.parameters().encode()], dtype=object))
    """
)


def bearer(who):
    return {"authorization": f"Bearer {who[0]}-token"}


@pytest.fixture
def guarded(repository, serve, tmp_path):
    """guarded(*options) serves the repository in explicit mode, with RULES."""

    def start(*options, load=("*",)):
        loads = (f"--load-model={name}" for name in load)
        access_options = access(tmp_path, TOKENS, RULES)
        return serve(repository, "--model-control-mode=explicit", *loads, *access_options, *options)

    return start


def manage(server, protocol, action, model, who, parameters=None):
    """Returns the error of a load or an unload; empty if it succeeded."""
    if protocol == "http":
        body = json.dumps({"parameters": parameters or {}})
        status, _, answer = server.request("POST", f"/v2/repository/models/{model}/{action}", body, bearer(who))
        error = json.loads(answer)["error"] if answer else ""
        assert (status == 403) == ("may not use" in error), (status, error)
        return error
    request = {"load": service_pb2.RepositoryModelLoadRequest, "unload": service_pb2.RepositoryModelUnloadRequest}[
        action
    ](model_name=model)
    for name, value in (parameters or {}).items():
        if isinstance(value, bool):
            request.parameters[name].bool_param = value
        else:
            request.parameters[name].string_param = value
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call = stub.RepositoryModelLoad if action == "load" else stub.RepositoryModelUnload
        try:
            call(request, metadata=list(bearer(who).items()), timeout=30)
        except grpc.RpcError as error:
            denied = error.code() == grpc.StatusCode.PERMISSION_DENIED
            assert denied == ("may not use" in error.details()), error
            return error.details()
    return ""


def ready(server, model):
    return server.request("GET", f"/v2/models/{model}/ready", headers=bearer("operator"))[0] == 200


def over(name, model):
    """Returns the configuration of an ensemble over `model`, for a load request."""
    return json.dumps(
        {
            "name": name,
            "platform": "ensemble",
            "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
            "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
            "ensemble_scheduling": {
                "step": [
                    {"model_name": model, "model_version": -1, "input_map": {"IN": "X"}, "output_map": {"OUT": "Y"}}
                ]
            },
        }
    )


# ---- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_load_needs_rights_to_the_models_that_it_uses(repository, guarded, protocol):
    for model in ["add_a", "add_b", "secret"]:
        repository.add(model, IDENTITY, SIMPLE)
    server = guarded()
    refusal = "'dev' may not use the API 'model-repository' of model 'secret'"
    assert manage(server, protocol, "load", "add_a", "dev", {"config": over("add_a", "secret")}) == refusal
    assert manage(server, protocol, "load", "add_a", "dev", {"config": over("add_a", "nothing")}) == refusal.replace(
        "secret", "nothing"
    )
    # Nothing has changed: add_a is still the model of its folder.
    body = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [3]}]})
    assert server.request("POST", "/v2/models/add_a/infer", body, bearer("dev"))[0] == 200
    assert manage(server, protocol, "load", "add_a", "dev", {"config": over("add_a", "add_b")}) == ""
    assert manage(server, protocol, "load", "add_a", "operator", {"config": over("add_a", "secret")}) == ""


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_models_behind_models_count(repository, guarded, protocol):
    repository.add("secret", IDENTITY, SIMPLE)
    ensemble(
        repository, "add_outer", [step("add_inner", {"X": "X"}, {"Y": "Y"})], [("X", "FP32", [1])], [("Y", "FP32", [1])]
    )
    ensemble(
        repository, "add_inner", [step("secret", {"IN": "X"}, {"OUT": "Y"})], [("X", "FP32", [1])], [("Y", "FP32", [1])]
    )
    server = guarded(load=())
    refusal = "'dev' may not use the API 'model-repository' of model 'secret'"
    assert manage(server, protocol, "load", "add_outer", "dev") == refusal
    assert not ready(server, "secret")
    assert manage(server, protocol, "load", "add_outer", "operator") == ""
    assert manage(server, protocol, "unload", "add_outer", "dev", {"unload_dependents": True}) == refusal
    assert all(ready(server, model) for model in ("add_outer", "add_inner", "secret"))
    assert manage(server, protocol, "unload", "add_outer", "dev") == ""
    assert ready(server, "secret")
    wait_until(lambda: not ready(server, "add_outer"), what="the unload")


def test_who_may_load_and_not_infer_makes_no_way_to_infer(repository, serve, tmp_path):
    for model in ["add_a", "other"]:
        repository.add(model, IDENTITY, SIMPLE)
    rules = [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["loader"], "apis": ["model-repository"]},
        {"identities": ["loader"], "apis": ["inference"], "models": ["add_*"]},
    ]
    access_options = access(tmp_path, "loader l-token\n", rules)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*", *access_options)
    error = manage(server, "http", "load", "add_a", "loader", {"config": over("add_a", "other")})
    assert error == "'loader' may not use the API 'inference' of model 'other'"


# ---- code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("parameters[EXECUTION_ENV_PATH]", {"parameters": {"EXECUTION_ENV_PATH": {"string_value": sys.prefix}}}),
        ("parameters[WORKER_ISOLATION]", {"parameters": {"WORKER_ISOLATION": {"string_value": "none"}}}),
        ("default_model_filename", {"default_model_filename": "other.py"}),
        ("backend", {"backend": "openvino"}),
        ("platform", json.loads(over("add", "other"))),
    ],
)
def test_without_overrides_the_repository_chooses_the_code(repository, serve, field, change):
    strict = 'parameters { key: "WORKER_ISOLATION" value { string_value: "basic" } }'
    repository.add("add", IDENTITY, SIMPLE + strict, files={"1/other.py": IDENTITY})
    repository.add("other", IDENTITY, SIMPLE)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*", "--allow-file-overrides=false")
    own = server.json("GET", "/v2/models/add/config")[1]
    if field == "platform":
        changed = change
    else:
        changed = {**own, **change}
        changed["parameters"] = {**own["parameters"], **change.get("parameters", {})}
    error = manage(server, "http", "load", "add", "dev", {"config": json.dumps(changed)})
    end = "of model 'add', the server was started with --allow-file-overrides=false"
    if field == "platform":
        # Both differ; the error names the first.
        assert error in [f"load parameter 'config' may not change '{name}' {end}" for name in ("backend", "platform")]
    else:
        assert error == f"load parameter 'config' may not change '{field}' {end}"
    # The client may change fields that choose no code.
    assert manage(server, "http", "load", "add", "dev", {"config": json.dumps({**own, "max_batch_size": 4})}) == ""
    assert server.json("GET", "/v2/models/add/config")[1]["max_batch_size"] == 4
    allowing = serve(repository, "--model-control-mode=explicit", "--load-model=*")
    assert "--allow-file-overrides" not in manage(
        allowing, "http", "load", "add", "dev", {"config": json.dumps(changed)}
    )


# ---- regions --------------------------------------------------------------------------------------


@pytest.fixture
def region():
    region = Region(4)
    yield region
    region.remove()


def infer_in_region(module, client, region, who, where):
    tensor = module.InferInput("IN", [1], "FP32")
    output = module.InferRequestedOutput("OUT")
    if where == "input":
        tensor.set_shared_memory(region.name, 4)
    else:
        tensor.set_data_from_numpy(np.array([5], np.float32))
        output.set_shared_memory(region.name, 4)
    return client.infer("add_a", [tensor], outputs=[output], headers=bearer(who))


@pytest.mark.parametrize("where", ["input", "output"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_request_that_names_a_region_needs_the_right(repository, guarded, region, protocol, where):
    repository.add("add_a", IDENTITY, SIMPLE)
    server = guarded()
    module = CLIENTS[protocol]
    region.fill(np.array([7], np.float32))
    with module.InferenceServerClient(getattr(server, protocol)) as client:
        client.register_system_shared_memory(region.name, region.key, 4, headers=bearer("operator"))
        with pytest.raises(module.InferenceServerException) as refused:
            infer_in_region(module, client, region, "reader", where)
        text = "'reader' may not use the API 'shared-memory' of model 'add_a'"
        assert refused.value.message() == text
        assert region.numpy(np.float32, [1])[0] == 7
        # It does not matter whether there is such a region.
        with pytest.raises(module.InferenceServerException, match="may not use the API 'shared-memory'"):
            infer_in_region(module, client, type("Other", (), {"name": "none"}), "reader", where)
        for who in ("dev", "operator"):
            result = infer_in_region(module, client, region, who, where)
            seen = result.as_numpy("OUT") if where == "input" else region.numpy(np.float32, [1])
            assert seen[0] == (7 if where == "input" else 5)
            region.fill(np.array([7], np.float32))


def test_messages_of_a_stream_that_name_a_region_need_the_right(repository, guarded, region):
    repository.add("add_a", IDENTITY, SIMPLE)
    server = guarded()
    region.fill(np.array([7], np.float32))
    answers = []
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.register_system_shared_memory(region.name, region.key, 4, headers=bearer("operator"))
        client.start_stream(lambda result, error: answers.append((result, error)), headers=bearer("reader"))
        for inside in (False, True, False):
            tensor = triton_grpc.InferInput("IN", [1], "FP32")
            if inside:
                tensor.set_shared_memory(region.name, 4)
            else:
                tensor.set_data_from_numpy(np.array([3], np.float32))
            client.async_stream_infer("add_a", [tensor])
        wait_until(lambda: len(answers) == 3, 30, "three answers")
        client.stop_stream()
    errors = [error.message() for _, error in answers if error]
    assert errors == ["'reader' may not use the API 'shared-memory' of model 'add_a'"]
    assert [result.as_numpy("OUT")[0] for result, _ in answers if result] == [3, 3]


# ---- the whole server -----------------------------------------------------------------------------


def test_rules_with_models_reach_nothing_of_the_whole_server(repository, guarded):
    repository.add("add_a", IDENTITY, SIMPLE)
    server = guarded()
    asked = [
        ("http", "GET", "/v2/logging", "logging"),
        ("http", "POST", "/v2/logging", "logging"),
        ("http", "GET", "/v2/trace/setting", "trace"),
        ("metrics", "GET", "/metrics", "metrics"),
        ("metrics", "GET", "/console/api/overview", "statistics"),
        ("metrics", "GET", "/console/api/history", "statistics"),
    ]
    for port, method, path, api in asked:
        body = "{}" if method == "POST" else None
        address = getattr(server, port)
        status, _, answer = server.request(method, path, body, bearer("dev"), address=address)
        assert (status, json.loads(answer)["error"]) == (403, f"'dev' may not use the API '{api}' of all models"), path
        assert server.request(method, path, body, bearer("operator"), address=address)[0] == 200, path
    # The console's page is served to all of them: it learns here which actions they may use.
    _, _, answer = server.request("GET", "/console/api/models", headers=bearer("dev"), address=server.metrics)
    seen = json.loads(answer)
    assert [model["name"] for model in seen["models"]] == ["add_a"]
    assert (seen["may"], seen["manage_how"]) == ({"infer": True, "manage": True, "log": True, "trace": True}, "load")
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.LogSettings(service_pb2.LogSettingsRequest(), metadata=list(bearer("dev").items()))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        stub.LogSettings(service_pb2.LogSettingsRequest(), metadata=list(bearer("operator").items()))


# ---- secrets --------------------------------------------------------------------------------------


def test_no_model_is_handed_a_credential(repository, serve, tmp_path):
    repository.add("headers", HEADERS, config(None, [("IN", "FP32", [1])], [("OUT", "STRING", [1])]))
    (tmp_path / "tokens").write_text("dev d-token\n")
    (tmp_path / "tokens").chmod(0o600)
    server = serve(
        repository,
        "--http-header-forward-pattern=.*",
        "--grpc-header-forward-pattern=.*",
        "--http-restricted-api=statistics:X-Admin-Key=k",
        "--grpc-restricted-protocol=statistics:other-key=k",
        f"--token-file={tmp_path / 'tokens'}",
    )
    sent = {**bearer("dev"), "x-admin-key": "k", "triton-grpc-protocol-other-key": "k", "x-user": "u"}
    for module, address in ((triton_http, server.http), (triton_grpc, server.grpc)):
        tensor = module.InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.array([5], np.float32))
        with module.InferenceServerClient(address) as client:
            text = client.infer("headers", [tensor], headers=dict(sent)).as_numpy("OUT")[0]
        seen = {name.lower(): value for name, value in json.loads(text).items()}
        assert seen["x-user"] == "u"
        assert "token" not in json.dumps(list(seen.values()))
        assert {"authorization", "x-admin-key", "triton-grpc-protocol-other-key"} & set(seen) == set()
