"""/openapi.json is valid, describes the routes correctly, and clients can be generated from it."""

import contextlib
import copy
import importlib
import json
import re
import subprocess
import sys
from multiprocessing import shared_memory

import numpy as np
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import ROOT
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import OpenAPIV30SpecValidator

# Routes of the tables whose only answer is the error that they are not served.
REFUSED = re.compile(r":classify|:regress|/v2/repository/\{r\}/")
NAMES = {"{m}": "{model}", "{n}": "{model}", "{v}": "{version}", "{l}": "{label}", "{r}": "{region}"}


def described(server, port="http", headers=None):
    """Returns the document of a port, and asserts that it is valid."""
    status, got, body = server.request("GET", "/openapi.json", headers=headers, address=getattr(server, port))
    assert (status, got["Content-Type"]) == (200, "application/json"), body
    document = json.loads(body)
    OpenAPIV30SpecValidator(document).validate()
    return document


def resolve(document, value):
    while "$ref" in value:
        *_, kind, name = value["$ref"].split("/")
        value = document["components"][kind][name]
    return value


def operations(document):
    """Returns (method, path, operation) of each operation."""
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def operation_of(document, wanted):
    return next(each for each in operations(document) if each[2]["operationId"] == wanted)


def target(document, path, operation, **values):
    """Returns the path with the examples of its variables, or with other values."""
    for parameter in operation.get("parameters", ()):
        parameter = resolve(document, parameter)
        if parameter["in"] == "path":
            value = values.get(parameter["name"], parameter["example"])
            path = path.replace("{" + parameter["name"] + "}", str(value))
    assert "{" not in path
    return path


def examples(content):
    """Returns {name: value} of the examples of one kind of content."""
    found = {name: each["value"] for name, each in content.get("examples", {}).items()}
    return found | ({"": content["example"]} if "example" in content else {})


def validate(document, schema, value):
    OAS30Validator({"allOf": [schema], "components": document["components"]}).validate(value)


def check_answer(document, operation, status, headers, body):
    """Asserts that the document describes the answer."""
    assert str(status) in operation["responses"], (operation["operationId"], status, body)
    response = resolve(document, operation["responses"][str(status)])
    if "content" not in response:
        assert body == b""
        return
    kind = headers["Content-Type"].partition(";")[0]
    assert kind in response["content"], (operation["operationId"], status, kind)
    schema = response["content"][kind]["schema"]
    validate(document, schema, json.loads(body) if kind == "application/json" else body.decode())
    for name, header in response.get("headers", {}).items():
        assert name in headers or not resolve(document, header).get("required")


@pytest.fixture(scope="module")
def server(module_serve, module_repository):
    prompt = [("text_input", "STRING", [1])]
    echo = per_request("return respond(text_output=get(request, 'text_input'))")
    template = {"chat_template.jinja": "{{ messages[0].content }}"}
    module_repository.add("chat", echo, config("chat", prompt, [("text_output", "STRING", [1])]), files=template)
    ones = per_request("return respond(embedding=np.ones((len(get(request, 'text_input')), 2), np.float32))")
    embedding = config("embedder", prompt, [("embedding", "FP32", [2])], max_batch_size=4)
    module_repository.add("embedder", ones, embedding)
    explicit = ("--model-control-mode=explicit", "--load-model=*")
    return module_serve(ROOT / "examples" / "models", module_repository.path, *explicit)


@pytest.fixture(scope="module")
def document(server):
    return described(server)


@pytest.fixture(scope="module")
def client(document, tmp_path_factory):
    """The package that openapi-python-client generates from the document."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", folder / "openapi.json"]
    made = subprocess.run(
        [*command, "--output-path", folder / "braid_client", "--meta", "none", "--fail-on-warning"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        yield lambda name: importlib.import_module(f"braid_client.{name}")


# ---- the document ----


def test_the_document_has_every_route_of_the_tables(document):
    described = {(method, path) for method, path, _ in operations(document)}
    known = set()
    for table in ("kserve/http/service.cc", "tfs/tfs_routes.cc", "openai/routes.cc"):
        text = (ROOT / "src" / "protocols" / table).read_text()
        for method, pattern in re.findall(r'\{"(GET|POST)", "(/[^"]+)"', text):
            # The routes below /v3 are those below /v1.
            if not REFUSED.search(pattern) and not pattern.startswith("/v3/"):
                known.add((method, re.sub(r"\{.\}", lambda found: NAMES[found[0]], pattern)))
    assert len(known) > 40
    assert described == known | {("GET", "/openapi.json")}


def test_ids_are_unique_and_tags_are_told(document):
    found = [operation for _, _, operation in operations(document)]
    assert len({operation["operationId"] for operation in found}) == len(found)
    assert {tag for operation in found for tag in operation["tags"]} == {tag["name"] for tag in document["tags"]}


def test_the_version_is_the_servers(server, document):
    assert document["info"]["version"] == server.json("GET", "/v2")[1]["version"]
    assert document["servers"][0]["url"] == "/"
    assert document["security"] == []
    assert "securitySchemes" not in document["components"]


@contextlib.contextmanager
def region():
    """Shared memory with the name and size of the document's example."""
    memory = shared_memory.SharedMemory("inputs", create=True, size=64)
    try:
        yield
    finally:
        memory.close()
        memory.unlink()


def test_every_route_answers_as_the_document_says(server, document):
    """Every route answers as described, with the document's examples, in its order. Those that need another order come
    last."""
    last = ("reloadConfiguration", "unloadModel", "loadModel")
    order = sorted(
        operations(document),
        key=lambda each: last.index(each[2]["operationId"]) + 1 if each[2]["operationId"] in last else 0,
    )
    registered = ("sharedMemoryRegion", "unregisterSharedMemory")
    asked = 0
    with region():
        for method, path, operation in order:
            name = operation["operationId"]
            if name in registered:
                server.json(
                    "POST", "/v2/systemsharedmemory/region/inputs/register", {"key": "/inputs", "byte_size": 64}
                )
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for example, value in (examples(content) or {"": None}).items():
                if value is not None:
                    validate(document, content["schema"], value)
                body = None if value is None else json.dumps(value)
                status, headers, answer = server.request(method, target(document, path, operation), body)
                check_answer(document, operation, status, headers, answer)
                # This machine has no GPU.
                expected = {"reloadConfiguration": 412, "registerCudaMemory": 400, "cudaMemoryRegion": 404}.get(
                    name, 200
                )
                assert status == expected, (name, answer)
                shown = examples(operation["responses"]["200"].get("content", {}).get("application/json", {}))
                if example in shown:
                    assert json.loads(answer) == shown[example]
                asked += 1
            if name == "registerSharedMemory":
                assert server.request("POST", "/v2/systemsharedmemory/unregister")[0] == 200
    assert asked >= len(order)


def test_what_is_not_there_is_told_as_the_document_says(server, document):
    for method, path, operation in operations(document):
        if "{model}" not in path:
            continue
        body = "{}" if method == "POST" else None
        place = target(document, path, operation, model="nothing")
        status, headers, answer = server.request(method, place, body)
        check_answer(document, operation, status, headers, answer)
        assert (status >= 400) == (operation["operationId"] != "unloadModel"), place
        status, headers, answer = server.request(method, target(document, path, operation, model="%ff"), body)
        check_answer(document, operation, status, headers, answer)
        assert status == 400, place


@pytest.mark.parametrize("body", ["{", "[]", "7", '{"inputs": 7, "ready": 7, "parameters": 7, "log_info": 7}'])
def test_bodies_that_are_wrong_are_told_as_the_document_says(server, document, body):
    refused = 0
    for method, path, operation in operations(document):
        if "requestBody" in operation:
            status, headers, answer = server.request(method, target(document, path, operation), body)
            check_answer(document, operation, status, headers, answer)
            refused += status >= 400
    assert refused > 10


def test_too_much_is_told_as_the_document_says(server, document):
    for method, path, operation in operations(document):
        place = target(document, path, operation)
        status, headers, answer = server.request(method, place, headers={"X-Long": "x" * 40_000})
        check_answer(document, operation, status, headers, answer)
        assert status == 431
        if method == "POST":
            status, headers, answer = server.request(method, place, headers={"Content-Length": str(1 << 40)})
            check_answer(document, operation, status, headers, answer)
            assert status == 413


def test_bytes_behind_the_json(server, document):
    """The binary form of infer requests and responses works as the document describes."""
    _, path, operation = operation_of(document, "infer")
    name = next(p["name"] for p in operation["parameters"] if p.get("in") == "header")
    content = operation["requestBody"]["content"]["application/json"]
    request = copy.deepcopy(examples(content)["add_sub"])
    data = [np.array(each.pop("data"), np.float32).tobytes() for each in request["inputs"]]
    for each, values in zip(request["inputs"], data, strict=True):
        each["parameters"] = {"binary_data_size": len(values)}
    request["outputs"] = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]
    validate(document, content["schema"], request)
    head = json.dumps(request).encode()
    status, headers, answer = server.request(
        "POST",
        target(document, path, operation),
        head + b"".join(data),
        {name: str(len(head)), "Content-Type": "application/octet-stream"},
    )
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    length = int(headers[name])
    response = operation["responses"]["200"]
    assert name in response["headers"]
    assert headers["Content-Type"] in response["content"]
    validate(document, response["content"]["application/json"]["schema"], json.loads(answer[:length]))
    assert np.frombuffer(answer[length:], np.float32).tolist() == [5, 5, 5, 5]


def test_events_are_generate_responses(server, document):
    _, path, operation = operation_of(document, "generateStream")
    schema = {"$ref": "#/components/schemas/GenerateResponse"}
    value = examples(operation["requestBody"]["content"]["application/json"])["add_sub"]
    _, _, answer = server.request("POST", target(document, path, operation), json.dumps(value))
    event = json.loads(answer.decode().removeprefix("data: "))
    validate(document, schema, event)
    assert event["OUTPUT0"] == [5, 5, 5, 5]


# ---- clients ----


def test_a_generated_client_asks_a_model(server, client):
    infer, kinds = client("api.inference.infer"), client("models")
    with client("client").Client(base_url=f"http://{server.http}") as asking:
        inputs = [
            kinds.InferInput(name=name, shape=[4], datatype="FP32", data=data)
            for name, data in (("INPUT0", [1, 2, 3, 4]), ("INPUT1", [0.5, 0.5, 0.5, 0.5]))
        ]
        answer = infer.sync("add_sub", client=asking, body=kinds.InferRequest(inputs=inputs, id="seven"))
        assert (answer.id, answer.model_name, answer.model_version) == ("seven", "add_sub", "1")
        assert {each.name: each.data for each in answer.outputs} == {
            "OUTPUT0": [1.5, 2.5, 3.5, 4.5],
            "OUTPUT1": [0.5, 1.5, 2.5, 3.5],
        }
        answer = infer.sync("nothing", client=asking, body=kinds.InferRequest(inputs=inputs))
        assert isinstance(answer, kinds.Error)
        assert "nothing" in answer.error
        metadata = client("api.metadata.model_metadata").sync("add_sub", client=asking)
        assert [(each.name, each.datatype, each.shape) for each in metadata.outputs] == [
            ("OUTPUT0", "FP32", [4]),
            ("OUTPUT1", "FP32", [4]),
        ]
        predict = client("api.tensor_flow_serving.predict_of_version")
        body = kinds.PredictRequest(inputs={"INPUT0": [1, 2, 3, 4], "INPUT1": [4, 3, 2, 1]})
        assert predict.sync("add_sub", 1, client=asking, body=body).outputs["OUTPUT1"] == [-3, -1, 1, 3]
        statistics = client("api.statistics.model_statistics").sync("add_sub", client=asking)
        assert statistics.model_stats[0].inference_stats.success.count >= 2


def test_the_program_of_the_page(server, client, tmp_path):
    page = (ROOT / "docs" / "openapi.md").read_text()
    generator = re.search(r"openapi-python-client==\S+", page)[0]
    assert generator in (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    program = re.search(r"^```python\n(.*?)^```", page, re.M | re.S)[1].replace("localhost:8000", server.http)
    (tmp_path / "ask.py").write_text(program)
    answer = subprocess.run([sys.executable, tmp_path / "ask.py"], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert f"ask.py    # {answer.stdout.strip()}\n" in page


# ---- ports and access ----


def test_each_port_describes_what_it_serves(serve, tmp_path):
    (tmp_path / "tokens").write_text("alice a-token\n")
    options = ["--token-file", tmp_path / "tokens", "--admin-address", "127.0.0.1:0", "--allow-console=false"]
    server = serve(ROOT / "examples" / "models", *options)
    token = {"authorization": "Bearer a-token"}
    paths = {}
    for port in ("http", "metrics", "admin"):
        status, headers, _ = server.request("GET", "/openapi.json", address=getattr(server, port))
        refused = port != "metrics"  # elsewhere only health is left, which needs no token
        assert status == (401 if refused else 200)
        assert headers["WWW-Authenticate"] == ("Bearer" if refused else None)
        document = described(server, port, token)
        assert document["security"] == [{"token": []}]
        assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        for method, path, operation in operations(document):
            assert ("security" in operation) == (
                "Health" in operation["tags"] or path == "/openapi.json" and not refused
            )
            if method == "GET":
                place = target(document, path, operation)
                status, headers, answer = server.request("GET", place, headers=token, address=getattr(server, port))
                check_answer(document, operation, status, headers, answer)
                assert status < 300 or "/region/" in path
            bad = {"authorization": "Bearer nobody"}
            place = target(document, path, operation)
            status, headers, answer = server.request(method, place, headers=bad, address=getattr(server, port))
            check_answer(document, operation, status, headers, answer)
            assert status == 401
        paths[port] = set(document["paths"])
    assert paths["metrics"] == {
        "/openapi.json",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/{model}/ready",
        "/v2/models/{model}/versions/{version}/ready",
    }
    assert "/v2/models/{model}/infer" in paths["http"] - paths["admin"]
    assert {"/metrics", "/v1/config/reload", "/v2/repository/index"} <= paths["admin"] - paths["http"]


def test_metrics_are_described_where_they_are(server):
    assert "/metrics" in described(server, "metrics")["paths"]
    assert "/metrics" not in described(server)["paths"]


def test_the_port_of_the_console_describes_what_its_page_asks_for(server):
    document = described(server, "metrics")
    assert {"/v2/models/{model}/infer", "/v2/models/stats", "/v2/repository/index"} <= set(document["paths"])
    for method, path, operation in operations(document):
        if method == "GET" and "/region/" not in path:
            place = target(document, path, operation)
            status, headers, answer = server.request("GET", place, address=server.metrics)
            check_answer(document, operation, status, headers, answer)
            assert status == 200, place


def test_what_a_config_json_serves(tmp_path):
    config = {"model_config_list": [models.entry("add_sub", models.save(models.add(), tmp_path / "add"))]}
    with OvmsServer(config, "--metrics_enable", workdir=tmp_path) as server:
        document = described(server)
        for name, expected in (("metrics", 200), ("configuration", 200), ("reloadConfiguration", 200)):
            method, path, operation = operation_of(document, name)
            status, headers, answer = server.request(method, path)
            check_answer(document, operation, status, headers, answer)
            assert status == expected
        server.write_config({"model_config_list": []})
        method, path, operation = operation_of(document, "reloadConfiguration")
        status, headers, answer = server.request(method, path)
        check_answer(document, operation, status, headers, answer)
        assert status == 201
        for method, path, operation in operations(document):
            if "{model}" in path:
                place = target(document, path, operation)
                for body in ("{}", "{") if method == "POST" else (None,):
                    status, headers, answer = server.request(method, place, body)
                    check_answer(document, operation, status, headers, answer)
                    # Model states include earlier versions, and settings of tracing accept any name.
                    assert status >= 400 or operation["operationId"].startswith(
                        ("modelStatus", "modelTrace", "setModelTrace")
                    ), operation


def test_other_methods_are_refused(server):
    status, _, answer = server.request("POST", "/openapi.json", "{}")
    assert (status, json.loads(answer)) == (405, {"error": "Method Not Allowed"})
    status, headers, answer = server.request("HEAD", "/openapi.json")
    assert (status, headers["Content-Type"], answer) == (200, "application/json", b"")


def test_a_restricted_group_holds(serve):
    server = serve(ROOT / "examples" / "models", "--http-restricted-api=metadata:x-key=secret")
    assert server.request("GET", "/openapi.json")[0] == 403
    assert "/v2" in described(server, headers={"x-key": "secret"})["paths"]
