"""Names of models: valid names, and the errors for others, over every interface."""

import os

import grpc
import pytest
from harness.clients import strings
from harness.repository import IDENTITY, config, per_request
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
NO_TEXT = "', model name must be UTF-8 text without control characters"
BLANK = "Model name cannot be empty. Please enter a valid name to deploy."

# A model that asks the server for a load, and returns the result.
LOADER = per_request(
    """
    try:
        pb_utils.load_model(get(request, 'NAME')[0].decode())
        text = 'loaded'
    except Exception as error:
        text = str(error)
    return respond(TEXT=np.array([text.encode()], dtype=np.object_))
    """
)


@pytest.fixture
def explicit(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    for name in ["...", "..my_model", "model..1"]:
        repository.add(name, IDENTITY, SIMPLE)
    repository.add("loader", LOADER, config(None, [("NAME", "STRING", [1])], [("TEXT", "STRING", [1])]))
    return serve(repository, "--model-control-mode=explicit", "--load-model=loader")


@pytest.mark.parametrize("action", ["load", "unload"])
def test_bytes_that_are_no_text_are_refused(explicit, action):
    path = f"/v2/repository/models/m%FF/{action}"
    status, body = explicit.json("POST", path)
    assert status == 400
    assert "UTF-8" in body["error"]
    # The server survives, and still does the same.
    status, body = explicit.json("POST", f"/v2/repository/models/m/{action}")
    assert status == 200, body


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("%20", BLANK),
        ("%09", BLANK),
        ("a%0Ab", "invalid model name 'a\\nb" + NO_TEXT),
        ("a%C2%9Bb", "invalid model name 'a\\u009bb" + NO_TEXT),
        ("..", "invalid model name '..', model name must not contain path traversal characters"),
        (".", "invalid model name '.', model name must not contain path traversal characters"),
        ("%20..", "invalid model name ' ..', model name must not contain path traversal characters"),
        ("..%2Fm", "invalid model name '../m', model name must not contain path traversal characters"),
        ("model%5Ctest", "Invalid stub name: contains invalid characters"),
    ],
)
def test_what_is_no_name(explicit, path, error):
    assert explicit.json("POST", f"/v2/repository/models/{path}/load") == (400, {"error": error})


def test_a_path_is_no_model_to_unload(explicit):
    for path in ("..", "%20..", "..%2Fm"):
        assert explicit.json("POST", f"/v2/repository/models/{path}/unload")[0] == 200


def test_what_is_no_name_over_grpc(explicit, connect):
    client = connect("grpc", explicit)
    for name, text in [("", BLANK), ("  ", BLANK), ("a\nb", "invalid model name 'a\\nb" + NO_TEXT)]:
        with client.fails("INVALID_ARG", text):
            client.raw.load_model(name)
        with client.fails("INVALID_ARG", text):
            client.raw.unload_model(name)


def test_what_is_no_name_for_a_model_that_loads_others(explicit, connect):
    client = connect("grpc", explicit)
    for name, text in [("a\x7fb", "invalid model name 'a\\x7fb" + NO_TEXT), (" ", BLANK), ("m", "loaded")]:
        assert client.infer("loader", {"NAME": strings(name)}).as_numpy("TEXT")[0].decode().endswith(text)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", ["...", "..my_model", "model..1"])
def test_names_with_dots(explicit, connect, protocol, name):
    client = connect(protocol, explicit)
    client.raw.load_model(name)
    assert client.raw.is_model_ready(name)
    client.raw.unload_model(name)
    wait_until(lambda: not client.raw.is_model_ready(name), 10, "the end of the model")


def test_folders_that_no_model_can_be_are_skipped(repository, serve):
    repository.add("m", IDENTITY, SIMPLE)
    for name in [b"caf\xe9", b"two\nlines"]:
        folder = os.path.join(os.fsencode(repository.path), name, b"1")
        os.makedirs(folder)
    server = serve(repository)
    status, index = server.json("POST", "/v2/repository/index")
    assert status == 200
    assert [model["name"] for model in index] == ["m"]
    log = server.log
    assert "skipping a folder of the model repository: invalid model name 'caf\\xe9" + NO_TEXT in log
    assert "skipping a folder of the model repository: invalid model name 'two\\nlines" + NO_TEXT in log


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/models/m%FF"),
        ("GET", "/v2/models/m%FF/ready"),
        ("POST", "/v2/models/m%FF/infer"),
        ("GET", "/v2/models/m%FF/stats"),
        ("POST", "/v2/models/m%FF/trace/setting"),
        ("POST", "/v2/systemsharedmemory/region/r%FF/register"),
        ("GET", "/v2/systemsharedmemory/region/r%FF/status"),
        ("GET", "/v1/models/m%FF"),
        ("POST", "/v1/models/m%FF:predict"),
    ],
)
def test_paths_are_utf8(explicit, method, path):
    status, body = explicit.json(method, path, {} if method == "POST" else None)
    assert status == 400
    assert body["error"]
    assert explicit.request("GET", "/v2/health/live")[0] == 200


def test_bodies_are_utf8(explicit):
    for path in ["/v2/models/loader/infer", "/v2/trace/setting", "/v2/logging", "/v2/repository/index"]:
        status, _, body = explicit.request("POST", path, b'{"id":"\xff"}')
        assert 400 <= status <= 500, path
        assert body.decode()


def test_messages_are_utf8(explicit, connect):
    client = connect("grpc", explicit)
    # A field of type string without valid UTF-8, as a client without checks may send it.
    request = service_pb2.ModelInferRequest(model_name="loader", id="xx").SerializeToString()
    call = client.raw._channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=lambda message: message,
        response_deserializer=lambda message: message,
    )
    with pytest.raises(grpc.RpcError) as failure:
        call(request.replace(b"xx", b"\xff\xfe"))
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "malformed ModelInferRequest" in failure.value.details()
