"""Features only of HTTP: routes, connections, compression, limits, restrictions."""

import gzip
import json
import socket
import zlib

import numpy as np
import pytest
from harness.ovms import OvmsServer
from harness.repository import config, per_request

BODY = {"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
TEXT = json.dumps(BODY).encode()
PATH = "/v2/models/echo/infer"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("echo")
    module_repository.add_identity("a b%", dims=[1])
    module_repository.add(
        "headers",
        per_request("return respond(OUT=np.array([request.parameters().encode()], dtype=object))"),
        config("headers", [("IN", "FP32", [-1])], [("OUT", "STRING", [1])]),
    )
    return module_serve(
        module_repository, "--http-max-input-size=1048576", "--http-header-forward-pattern=x-forward-.*"
    )


class Wire:
    """A socket for exact bytes."""

    def __init__(self, server):
        host, port = server.http.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def response(self):
        """Returns (status, headers, body) of the next response."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            headers[name.strip().lower().decode()] = value.strip().decode()
        return status, headers, self.file.read(int(headers.get("content-length", 0)))


def post(body, *headers, path=PATH, length=True):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


# ---- routes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v2/nope", "/v2/models/echo/versions/abc", "/v2/models/echo/nope"])
def test_unknown_path(server, path):
    assert server.json("GET", path) == (404, {"error": "Not Found"})


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def front(server, port="http", **headers):
    """Returns the document at /."""
    status, got, body = server.request("GET", "/", headers=headers, address=getattr(server, port))
    assert (status, got["Content-Type"]) == (200, "application/json"), body
    return json.loads(body)


@pytest.mark.parametrize("port", ["http", "metrics"])
def test_the_front_page_names_what_there_is(server, port):
    address = getattr(server, port)
    document = front(server, port)
    console = f"http://{server.metrics}/console/"
    assert (document["name"], document["openapi"], document["console"]) == ("Braid", "/openapi.json", console)
    assert document["version"] == server.json("GET", "/v2")[1]["version"]
    described = json.loads(server.request("GET", "/openapi.json", address=address)[2])["paths"]
    named = {(each["method"].lower(), each["path"]) for each in document["routes"]}
    assert named == {
        (method, path)
        for path, item in described.items()
        for method in item
        if "/versions/" not in path and "/labels/" not in path and path != "/openapi.json"
    }
    assert "echo" not in json.dumps(document)
    status, headers, body = server.request("GET", "/", headers=BROWSER, address=address)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    page = body.decode()
    assert f'<a href="{console}">' in page
    assert '<a href="/openapi.json">' in page
    assert all(f">{path}<" in page for _, path in named)
    assert server.request("GET", console.partition(server.metrics)[2], address=server.metrics)[0] == 200
    # Other requests are still unknown to this port.
    assert server.request("POST", "/", "{}", address=address)[0] == 404
    assert server.request("HEAD", "/", address=address)[::2] == (200, b"")


def test_the_front_page_names_what_its_reader_may_use(repository, serve, tmp_path):
    repository.add_identity("secret_name")
    (tmp_path / "tokens").write_text("operator o-token\n")
    (tmp_path / "tokens").chmod(0o600)
    rules = [{"identities": ["anonymous"], "apis": ["health"]}, {"identities": ["operator"], "apis": ["*"]}]
    (tmp_path / "policy.json").write_text(json.dumps({"rules": rules}))
    server = serve(repository, f"--token-file={tmp_path / 'tokens'}", f"--policy-file={tmp_path / 'policy.json'}")
    document = front(server)
    assert {each["path"] for each in document["routes"]} == {
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/{model}/ready",
    }
    assert not {"version", "openapi"} & set(document)
    assert document["console"] == f"http://{server.metrics}/console/"
    whole = front(server, Authorization="Bearer o-token")
    assert whole["openapi"] == "/openapi.json"
    assert "/v2/models/{model}/infer" in {each["path"] for each in whole["routes"]}
    assert "secret_name" not in json.dumps([document, whole])


def test_the_front_page_of_a_config(tmp_path):
    with OvmsServer({"model_config_list": []}, "--allow-console=false", workdir=tmp_path) as server:
        document = front(server)
        assert "/v1/config" in {each["path"] for each in document["routes"]}
        assert "console" not in document
        assert server.json("POST", "/", {}) == (400, {"error": "Invalid request URL"})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/health/live"),
        ("GET", PATH),
        ("PUT", PATH),
        ("DELETE", "/v2"),
        ("GET", "/v2/repository/index"),
        ("GET", "/v2/repository/models/echo/load"),
    ],
)
def test_wrong_method(server, method, path):
    assert server.json(method, path) == (405, {"error": "Method Not Allowed"})


def test_health(server):
    for path, answer in [("/v2/health/live", {"live": True}), ("/v2/health/ready", {"ready": True})]:
        status, headers, body = server.request("GET", path)
        assert (status, json.loads(body)) == (200, answer)
        assert headers["Content-Type"] == "application/json"
    for path in ("/v2/models/echo/ready", "/v2/models/echo/versions/1/ready"):
        assert server.request("GET", path)[::2] == (200, b"")


def test_what_is_read_can_be_asked_for_without_its_body(server):
    paths = ["/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/echo", "/v2/models/echo/ready"]
    paths += ["/v2/models/echo/config", "/v2/models/nope", "/v2/logging", "/v2/trace/setting", "/v1/models/echo"]
    for path in paths:
        status, headers, _ = server.request("GET", path)
        assert server.request("HEAD", path)[::2] == (status, b""), path
        assert server.request("HEAD", path)[1].items() == headers.items()
    status, headers, body = server.request("HEAD", "/metrics", address=server.metrics)
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000
    assert server.request("HEAD", PATH)[0] == 405


def test_errors_are_json(server):
    status, headers, body = server.request("GET", "/v2/models/nope")
    assert status == 404
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"error": "Request for unknown model: 'nope' is not found"}


def test_unknown_version(server):
    assert server.json("GET", "/v2/models/echo/versions/9") == (
        404,
        {"error": "Request for unknown model: 'echo' version 9 is not found"},
    )


def test_names_in_the_path_are_percent_decoded(server):
    assert server.json("GET", "/v2/models/%65cho")[1]["name"] == "echo"


def test_query_does_not_change_the_route(server):
    assert server.request("GET", "/v2/health/live?x=1")[0] == 200


# ---- connections ---------------------------------------------------------------------------------


def test_connection_is_kept(server):
    with Wire(server) as wire:
        for _ in range(5):
            wire.send(post(TEXT))
            assert wire.response()[0] == 200


def test_pipelined_requests_are_answered_in_order(server):
    def with_id(number):
        return post(json.dumps({**BODY, "id": str(number)}).encode())

    with Wire(server) as wire:
        wire.send(b"".join(with_id(n) for n in range(20)))
        assert [json.loads(wire.response()[2])["id"] for _ in range(20)] == [str(n) for n in range(20)]


def test_error_keeps_the_connection(server):
    with Wire(server) as wire:
        wire.send(post(b"{nonsense"))
        assert wire.response()[0] == 500
        wire.send(post(TEXT))
        assert wire.response()[0] == 200


def test_connection_close_is_honoured(server):
    with Wire(server) as wire:
        wire.send(post(TEXT, "Connection: close"))
        assert wire.response()[0] == 200
        assert wire.file.read() == b""


def test_http_1_0(server):
    with Wire(server) as wire:
        wire.send(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert wire.response()[0] == 200
        assert wire.file.read() == b""


def test_expect_continue(server):
    with Wire(server) as wire:
        wire.send(
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {len(TEXT)}\r\n\r\n".encode()
        )
        assert wire.response()[0] == 100
        wire.send(TEXT)
        assert wire.response()[0] == 200


def test_chunked_upload(server):
    with Wire(server) as wire:
        wire.send(post(b"", "Transfer-Encoding: chunked", length=False))
        for start in range(0, len(TEXT), 10):
            piece = TEXT[start : start + 10]
            wire.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        wire.send(b"0\r\n\r\n")
        status, _, body = wire.response()
        assert status == 200
        assert json.loads(body)["outputs"][0]["data"] == [1, 2]


def test_fields_behind_a_body_say_nothing_of_the_request(server):
    body = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1]}]})
    for front in ("x-forward-a: front\r\n", ""):
        with Wire(server) as wire:
            head = f"POST /v2/models/headers/infer HTTP/1.1\r\nHost: localhost\r\n{front}Transfer-Encoding: chunked\r\n\r\n"
            trailers = "x-forward-a: behind\r\nx-forward-b: behind\r\nInference-Header-Content-Length: 3\r\n"
            wire.send(f"{head}{len(body):x}\r\n{body}\r\n0\r\n{trailers}\r\n".encode())
            status, _, answer = wire.response()
            assert status == 200, answer
            parameters = json.loads(json.loads(answer)["outputs"][0]["data"][0])
            assert parameters.get("x-forward-a") == ("front" if front else None)
            assert "x-forward-b" not in parameters


def test_a_request_says_whom_it_is_for_and_who_asks_once(server):
    for head in (
        "GET /v2 HTTP/1.1\r\n",
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        "POST /v2/models/echo/infer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ):
        with Wire(server) as wire:
            wire.send(f"{head}\r\n".encode())
            assert wire.response()[0] == 400
            assert wire.file.read() == b""


def test_slow_client_does_not_hold_up_others(server):
    with Wire(server) as slow:
        slow.send(post(TEXT)[:50])
        for _ in range(5):
            assert server.request("POST", PATH, TEXT)[0] == 200
        slow.send(post(TEXT)[50:])
        assert slow.response()[0] == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\1\2\3\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /v2 HTTP/9.9\r\n\r\n",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 50000 + b"\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_garbage_is_refused_and_the_server_lives(server, garbage):
    try:
        with Wire(server) as wire:
            wire.send(garbage)
            wire.socket.shutdown(socket.SHUT_WR)
            answer = wire.file.readline()
            assert answer == b"" or answer.split()[1].startswith(b"4") or answer.split()[1].startswith(b"5")
    except ConnectionError:
        pass
    assert server.request("POST", PATH, TEXT)[0] == 200


# ---- compression ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_request(server, name, compress):
    status, _, body = server.request("POST", PATH, compress(TEXT), {"Content-Encoding": name})
    assert status == 200, body
    assert json.loads(body)["outputs"][0]["data"] == [1, 2]


def test_compressed_request_with_binary_data(server):
    description = {"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]}
    head = json.dumps(description).encode()
    body = gzip.compress(head + np.array([3, 4], dtype=np.float32).tobytes())
    status, _, answer = server.request(
        "POST", PATH, body, {"Content-Encoding": "gzip", "Inference-Header-Content-Length": str(len(head))}
    )
    assert status == 200
    assert json.loads(answer)["outputs"][0]["data"] == [3, 4]


@pytest.mark.parametrize(("name", "extract"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
def test_compressed_response(server, name, extract):
    status, headers, body = server.request("POST", PATH, TEXT, {"Accept-Encoding": name})
    assert status == 200
    assert headers["Content-Encoding"] == name
    assert json.loads(extract(body))["outputs"][0]["data"] == [1, 2]


def test_unknown_compression(server):
    status, headers, body = server.request("POST", PATH, TEXT, {"Content-Encoding": "br"})
    assert (status, json.loads(body)["error"]) == (501, "Unsupported compression type")
    assert headers["Accept-Encoding"] == "gzip, deflate"


def test_broken_compression(server):
    for broken in (b"nonsense", gzip.compress(TEXT)[:-10], b""):
        assert server.request("POST", PATH, broken, {"Content-Encoding": "gzip"})[0] >= 400
    assert server.request("POST", PATH, TEXT)[0] == 200


def test_compressed_bomb_is_refused(server):
    bomb = gzip.compress(b"[" + b" " * 200_000_000 + b"]")
    assert len(bomb) < 1048576
    status, _, body = server.request("POST", PATH, bomb, {"Content-Encoding": "gzip"})
    assert status in (400, 413)
    assert "exceeds the maximum allowed input size of 1048576 bytes" in json.loads(body)["error"]


# ---- limits --------------------------------------------------------------------------------------


def test_body_beyond_the_limit(server):
    status, _, body = server.request("POST", PATH, b" " * 2_000_000)
    assert status in (400, 413)
    assert (
        "exceeds the maximum allowed input size of 1048576 bytes. Use --http-max-input-size to increase the limit."
        in json.loads(body)["error"]
    )


def test_chunked_body_beyond_the_limit(server):
    with Wire(server) as wire:
        wire.send(post(b"", "Transfer-Encoding: chunked", length=False))
        try:
            for _ in range(40):
                wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
            wire.send(b"0\r\n\r\n")
            assert wire.response()[0] in (400, 413)
        except ConnectionError:
            pass
    assert server.request("POST", PATH, TEXT)[0] == 200


def test_body_below_the_limit(server):
    data = np.zeros(200_000, dtype=np.float32)
    head = json.dumps(
        {
            "inputs": [
                {"name": "IN", "shape": [200_000], "datatype": "FP32", "parameters": {"binary_data_size": 800_000}}
            ]
        }
    ).encode()
    status, _, _ = server.request(
        "POST", PATH, head + data.tobytes(), {"Inference-Header-Content-Length": str(len(head))}
    )
    assert status == 200


# ---- numbers that are not finite -----------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_answers_say_requests_may_say(repository, serve, connect, binary, kind):
    name = {np.float32: "FP32", np.float64: "FP64"}[kind]
    repository.add_identity("echo", name)
    values = np.array([np.nan, np.inf, -np.inf, 1.5, -0.0, 1e-30], kind)
    server = serve(repository)
    client = connect("http", server)
    inputs = [client.input("IN", values, binary_data=binary)]
    result = client.infer("echo", inputs, outputs=[client.output("OUT", binary_data=False)])
    np.testing.assert_array_equal(result.as_numpy("OUT"), values)
    # Also in the form of a response.
    said = b'{"inputs":[{"name":"IN","shape":[3],"datatype":"%s","data":[NaN,Infinity,-Infinity]}]}' % name.encode()
    status, _, body = server.request("POST", "/v2/models/echo/infer", said)
    assert (status, b'"data":[NaN,Infinity,-Infinity]' in body) == (200, True)
    status, _, body = server.request("POST", "/v2/models/echo/generate", b'{"IN":[NaN,-Infinity]}')
    assert (status, b"NaN,-Infinity" in body) == (200, True)


def test_integers_and_texts_are_finite(repository, serve):
    repository.add_identity("whole", "INT32")
    repository.add_identity("text", "STRING")
    server = serve(repository)
    for model, kind in (("whole", "INT32"), ("text", "BYTES")):
        said = f'{{"inputs":[{{"name":"IN","shape":[1],"datatype":"{kind}","data":[NaN]}}]}}'
        status, _, answer = server.request("POST", f"/v2/models/{model}/infer", said.encode())
        assert status >= 400
        assert b"Unable to parse 'data': attempt to access JSON non-" in answer


# ---- headers and restrictions --------------------------------------------------------------------


def test_forwarded_headers_become_parameters(server):
    status, _, body = server.request(
        "POST", "/v2/models/headers/infer", TEXT, {"X-Forward-User": "anna", "X-Other": "no"}
    )
    assert status == 200
    seen = json.loads(json.loads(body)["outputs"][0]["data"][0])
    assert {key.lower(): value for key, value in seen.items()} == {"x-forward-user": "anna"}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"p": [1]}, "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."),
        ({"p": {"q": 1}}, "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."),
        ({"p": None}, "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."),
    ],
)
def test_wrong_parameter(server, parameters, text):
    assert server.json("POST", PATH, {**BODY, "parameters": parameters}) == (400, {"error": text})


def test_restricted_api(repository, serve):
    repository.add_identity("echo")
    server = serve(
        repository,
        "--http-restricted-api=inference,model-repository:key=secret",
        "--http-restricted-api=statistics:s=t",
    )
    for headers in ({}, {"key": "wrong"}):
        status, body = server.json("POST", PATH, BODY, headers)
        assert (status, body) == (403, {"error": "This API is restricted, expecting header 'key'"})
        assert server.json("POST", "/v2/repository/index", None, headers)[0] == 403
    assert server.json("POST", PATH, BODY, {"key": "secret"})[0] == 200
    assert server.json("POST", "/v2/repository/index", None, {"key": "secret"})[0] == 200
    assert server.json("GET", "/v2/models/echo/stats")[0] == 403
    assert server.json("GET", "/v2/models/echo/stats", None, {"s": "t"})[0] == 200
    assert server.json("GET", "/v2/models/echo")[0] == 200


def test_every_route_of_a_restricted_api_is_shut(repository, serve):
    repository.add_identity("echo")
    apis = "health,metadata,inference,shared-memory,model-config,model-repository,statistics,trace,logging"
    server = serve(repository, f"--http-restricted-api={apis}:key=secret", ready=False)
    routes = [
        ("GET", "/v2"),
        ("GET", "/v2/health/live"),
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models/echo"),
        ("GET", "/v2/models/echo/versions/1"),
        ("GET", "/v2/models/echo/ready"),
        ("GET", "/v2/models/echo/config"),
        ("GET", "/v2/models/stats"),
        ("GET", "/v2/models/echo/stats"),
        ("POST", PATH),
        ("POST", "/v2/models/echo/versions/1/infer"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/echo/load"),
        ("POST", "/v2/repository/models/echo/unload"),
        ("GET", "/v2/logging"),
        ("POST", "/v2/logging"),
    ]
    for method, path in routes:
        status, body = server.json(method, path, None if method == "GET" else {})
        assert status == 403, path
        assert body == {"error": "This API is restricted, expecting header 'key'"}
