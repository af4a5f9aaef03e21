"""OpenAI's API over models and graphs, as it looks on the wire. test_openai_clients.py has the public clients."""

import contextlib
import itertools
import json
import random
import socket
import struct
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness.graphs import boundary, python_node, write_graph
from harness.graphs import config as graph_config
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import descriptors
from harness.waiting import wait_until

DECOUPLED = "model_transaction_policy { decoupled: true }"
PROMPT = ("text_input", "STRING", [1])
TEXT = ("text_output", "STRING", [1])

# Streams the words of its prompt. The word "die" kills it, "fail" is an error, "hang" waits for its cancellation.
WRITER = """
import os, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.threads = []

    def execute(self, requests):
        for request in requests:
            thread = threading.Thread(target=self.write, args=(request, request.get_response_sender()))
            thread.start()
            self.threads.append(thread)

    def write(self, request, sender):
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().item().decode()
        for word in text.split(" "):
            if sender.is_cancelled():
                break
            if word == "fail":
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("it failed")), FINAL)
                return
            if word == "die":
                os._exit(1)
            if word == "hang":
                while not sender.is_cancelled():
                    time.sleep(0.001)
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([word.encode()], object))]))
        if sender.is_cancelled():
            print("cancelled", flush=True)
        sender.send(flags=FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
"""

# Answers with all that it got, as JSON.
MIRROR = per_request(
    """
    told = {t.name(): t.as_numpy().reshape(-1).tolist() for t in request.inputs()}
    told = {name: [v.decode() if isinstance(v, bytes) else v for v in value] for name, value in told.items()}
    told["parameters"] = json.loads(request.parameters())
    told["id"] = request.request_id()
    shape = get(request, "text_input").shape
    return respond(text_output=np.full(shape, json.dumps(told).encode(), object))
    """
)

EMBEDDER = per_request(
    """
    texts = get(request, "text_input").reshape(-1)
    return respond(embedding=np.array([[len(text), text[0]] for text in texts], np.float32))
    """
)

RAW = per_request(
    """
    asked = json.loads(get(request, "openai_request").item())
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": json.dumps(asked)}}]}
    return respond(openai_response=np.array([json.dumps(reply).encode()], object))
    """
)

TEMPLATE = """{% if messages[0].role == "assistant" %}{{ raise_exception("an assistant cannot begin") }}{% endif %}
{%- for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}end"""

# Counts its streams: the prompt "count" asks for [begun, ended]. Each stream has a hundred pieces.
COUNTER = """
import json, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.lock = threading.Lock()
        self.counts = [0, 0]

    def count(self, which):
        with self.lock:
            self.counts[which] += 1

    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().item()
            sender = request.get_response_sender()
            if text == b"count":
                sender.send(self.text(json.dumps(self.counts)), FINAL)
                continue
            self.count(0)
            threading.Thread(target=self.write, args=(request, sender)).start()

    def write(self, request, sender):
        try:
            for number in range(100):
                if sender.is_cancelled():
                    break
                sender.send(self.text(f"{number} "))
                time.sleep(0.0001)
            sender.send(flags=FINAL)
        finally:
            self.count(1)

    def text(self, text):
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([text.encode()], object))])
"""

GRAPH_NODE = """
    import json
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            [tensor] = inputs
            asked = json.loads(bytes(tensor))
            assert tensor.datatype == "HTTP_REQUEST_PAYLOAD", tensor.datatype
            if asked["stream"]:
                return self.pieces(asked["body"]["messages"][0]["content"])
            return [Tensor("output", json.dumps(asked).encode())]

        def pieces(self, text):
            try:
                for word in text.split(" "):
                    if word == "fail":
                        raise ValueError("it failed")
                    yield [Tensor("output", f"data: {json.dumps(word)}".encode() if word == "framed" else word.encode())]
                    while word == "hang":
                        yield []
            finally:
                print("closed", flush=True)
"""


def writer_config(name, *more, **kwargs):
    return config(name, [PROMPT, *more], [TEXT], **kwargs)


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    add = module_repository.add
    add("writer", WRITER, writer_config("writer", extra=DECOUPLED), files={"chat_template.jinja": TEMPLATE})
    add("plain", MIRROR, writer_config("plain"))
    optional = [
        ("max_tokens", "INT32", [1], "optional: true"),
        ("temperature", "FP32", [1], "optional: true"),
        ("stop_words", "STRING", [-1], "optional: true"),
        ("messages", "STRING", [1], "optional: true"),
        ("stream", "BOOL", [1], "optional: true"),
    ]
    add("mirror", MIRROR, writer_config("mirror", *optional, max_batch_size=4))
    add("embedder", EMBEDDER, config("embedder", [PROMPT], [("embedding", "FP32", [2])], max_batch_size=2))
    add("raw", RAW, config("raw", [("openai_request", "STRING", [1])], [("openai_response", "STRING", [1])]))
    add("counter", COUNTER, writer_config("counter", extra=DECOUPLED))
    off = 'parameters { key: "openai" value { string_value: "off" } }'
    add("off", MIRROR, writer_config("off", extra=off))
    add("identity", config_text=config("identity", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    return module_serve(module_repository)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    streams = (["HTTP_REQUEST_PAYLOAD:input"], ["HTTP_RESPONSE_PAYLOAD:output"])
    node = python_node("node", ["IN:input"], ["OUT:output"], loopback=True)
    entry = write_graph(folder, "graph", boundary(*streams) + node, model=GRAPH_NODE)
    with OvmsServer(graph_config(entry), workdir=folder) as running:
        yield running


def post(server, path, body, headers=None):
    """Returns (status, parsed body)."""
    status, _, answer = server.request("POST", path, json.dumps(body), headers)
    return status, json.loads(answer)


def chat(model, *contents, **fields):
    return {"model": model, "messages": [{"role": "user", "content": content} for content in contents], **fields}


def told(server, body, path="/v1/chat/completions"):
    """Returns what a mirror was told."""
    status, reply = post(server, path, body)
    assert status == 200, reply
    choice = reply["choices"][0]
    return json.loads(choice["text"] if "text" in choice else choice["message"]["content"])


def events(server, path, body):
    """Returns the events of a stream: parsed, but for [DONE]."""
    status, headers, answer = server.request("POST", path, json.dumps(body))
    assert status == 200, answer
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    lines = answer.decode().split("\n\n")
    assert lines.pop() == ""
    texts = [line.removeprefix("data: ") for line in lines]
    return [text if text == "[DONE]" else json.loads(text) for text in texts]


@contextlib.contextmanager
def begun(server, body):
    """Opens a stream, and yields its socket once the first event has arrived."""
    host, port = server.http.rsplit(":", 1)
    text = json.dumps({**body, "stream": True})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n"
    with socket.create_connection((host, int(port)), 20) as client:
        client.sendall((head + text).encode())
        assert b"200 OK" in client.recv(65536)
        yield client


def test_the_models_that_it_serves(server):
    _, listed = server.json("GET", "/v1/models")
    assert [model["id"] for model in listed["data"]] == ["counter", "embedder", "mirror", "plain", "raw", "writer"]
    assert set(listed["data"][0]) == {"id", "object", "created", "owned_by"}
    for path in ("/v3/models/writer", "/v3/v1/models/writer"):
        assert server.json("GET", path)[1]["object"] == "model"
    # One object for clients of both APIs.
    _, both = server.json("GET", "/v1/models/writer")
    assert both["id"] == "writer"
    assert both["model_version_status"][0]["state"] == "AVAILABLE"
    _, tensorflow = server.json("GET", "/v1/models/identity")
    assert list(tensorflow) == ["model_version_status"]


def test_a_chat_is_rendered_in_the_models_process(server):
    status, reply = post(server, "/v1/chat/completions", chat("writer", "one", [{"type": "text", "text": "two"}]))
    assert status == 200
    assert reply["choices"][0]["message"]["content"] == "useroneusertwoend"
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["id"].startswith("chatcmpl-")
    streamed = events(server, "/v3/chat/completions", chat("writer", "one", stream=True))
    deltas = [event["choices"][0]["delta"] for event in streamed[:-1]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "user"},
        {"content": "one"},
        {"content": "end"},
        {},
    ]
    assert [event["choices"][0]["finish_reason"] for event in streamed[:-1]] == [None, None, None, None, "stop"]
    assert streamed[-1] == "[DONE]"


def test_errors_of_templates(server):
    body = {"model": "writer", "messages": [{"role": "assistant", "content": "x"}]}
    status, reply = post(server, "/v1/chat/completions", body)
    assert status == 400
    assert reply["error"]["message"] == "model 'writer': an assistant cannot begin"
    status, reply = post(server, "/v1/chat/completions", chat("plain", "x"))
    assert status == 400
    assert reply["error"]["message"].startswith(
        "model 'plain': it has no chat template: add an input 'messages', a file"
    )
    # The model still answers.
    assert told(server, {"model": "plain", "prompt": "x"}, "/v1/completions")["text_input"] == ["x"]


def test_inputs_and_parameters(server):
    fields = {"max_completion_tokens": 5, "temperature": 0.5, "stop": ["a", "b"], "top_k": 3, "user": "u"}
    got = told(server, chat("mirror", "first", "last", **fields))
    assert got["text_input"] == ["last"]
    assert got["max_tokens"] == [5]
    assert got["temperature"] == [0.5]
    assert got["stop_words"] == ["a", "b"]
    assert got["stream"] == [False]
    assert [message["content"] for message in json.loads(got["messages"][0])] == ["first", "last"]
    assert got["parameters"] == {"top_k": 3}


def test_fields_that_a_model_cannot_honour(server):
    for field, value in {"n": 2, "temperature": 0.5, "logprobs": 1, "max_tokens": 5}.items():
        status, reply = post(server, "/v1/completions", {"model": "plain", "prompt": "x", field: value})
        assert (status, reply["error"]["param"], reply["error"]["type"]) == (400, field, "invalid_request_error")


def test_the_servers_cuts(server):
    prompt = {"model": "writer", "prompt": "a b c d e"}
    _, reply = post(server, "/v1/completions", {**prompt, "stop": "cd"})
    assert reply["choices"][0] == {"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop"}
    _, reply = post(server, "/v1/completions", {**prompt, "max_tokens": 3})
    assert (reply["choices"][0]["text"], reply["choices"][0]["finish_reason"]) == ("abc", "length")
    # The model stops, too.
    _, reply = post(server, "/v1/completions", {"model": "writer", "prompt": "a b hang", "max_tokens": 2})
    assert reply["choices"][0]["text"] == "ab"


def test_errors_in_the_middle_of_a_stream(server):
    streamed = events(server, "/v1/completions", {"model": "writer", "prompt": "a fail", "stream": True})
    assert streamed[0]["choices"][0]["text"] == "a"
    error = {"message": "it failed", "type": "server_error", "param": None, "code": None}
    assert streamed[1:] == [{"error": error}, "[DONE]"]
    # Before the first event, the status tells.
    status, reply = post(server, "/v1/completions", {"model": "writer", "prompt": "fail", "stream": True})
    assert (status, reply["error"]) == (500, error)


def test_a_model_that_dies(server):
    streamed = events(server, "/v1/completions", {"model": "writer", "prompt": "a die", "stream": True})
    assert "error" in streamed[-2]
    assert streamed[-1] == "[DONE]"
    wait_until(lambda: post(server, "/v1/completions", {"model": "writer", "prompt": "a"})[0] == 200, 20, "its restart")


def test_a_client_that_leaves_cancels_the_model(server):
    before = server.log.count("cancelled")
    with begun(server, chat("writer", "x hang")):
        pass
    wait_until(lambda: server.log.count("cancelled") > before, 10, "the cancellation")


def test_request_ids(server):
    body = json.dumps({"model": "plain", "prompt": "x"})
    _, headers, answer = server.request("POST", "/v1/completions", body, {"x-request-id": "mine"})
    assert headers["x-request-id"] == "mine"
    assert json.loads(json.loads(answer)["choices"][0]["text"])["id"] == "mine"
    _, headers, answer = server.request("POST", "/v1/completions", body)
    assert headers["x-request-id"] == json.loads(answer)["id"]


def test_embeddings(server):
    status, reply = post(server, "/v1/embeddings", {"model": "embedder", "input": ["a", "bb", "ccc"]})
    assert status == 200
    assert [row["embedding"] for row in reply["data"]] == [[1, 97], [2, 98], [3, 99]]
    _, reply = post(server, "/v1/embeddings", {"model": "embedder", "input": "a", "encoding_format": "base64"})
    assert reply["data"][0]["embedding"] == "AACAPwAAwkI="


def test_a_raw_model_gets_the_whole_request(server):
    headers = {"X-Mark": "1", "Authorization": "Bearer secret", "Cookie": "a=b"}
    body = chat("raw", "x", anything={"goes": 1})
    status, reply = post(server, "/v1/chat/completions", body, headers)
    assert status == 200
    asked = json.loads(reply["choices"][0]["message"]["content"])
    assert asked["path"] == "/v1/chat/completions"
    assert asked["body"] == body
    assert asked["headers"]["x-mark"] == "1"
    assert not {"authorization", "cookie"} & set(asked["headers"])
    assert (reply["object"], reply["model"]) == ("chat.completion", "raw")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/chat/completions", chat("absent", "x"), 404, "model_not_found"),
        ("/v1/completions", {"model": "off", "prompt": "x"}, 400, None),
        ("/v1/embeddings", {"model": "writer", "input": "x"}, 400, None),
        ("/v1/chat/completions", {"model": "writer"}, 400, None),
        ("/v3/absent", {}, 404, None),
    ],
)
def test_refusals(server, path, body, status, code):
    got, reply = post(server, path, body)
    assert (got, reply["error"]["code"]) == (status, code)


def test_the_times_of_tokens_are_metrics(server):
    def counts():
        values = server.metric_values()
        names = ("braid_openai_time_to_first_token_seconds", "braid_openai_inter_token_seconds")
        return [values.get(f'{name}_count{{model="writer",version="1"}}', 0) for name in names]

    first, between = counts()
    events(server, "/v1/completions", {"model": "writer", "prompt": "a b c", "stream": True})
    assert counts() == [first + 1, between + 2]


def test_other_protocols_do_not_render(server):
    """A model with a chat template is a usual model for KServe."""
    client = grpcclient.InferenceServerClient(server.grpc)
    tensor = grpcclient.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([b'{"messages": []}'], object))
    with contextlib.closing(client):
        text = client.infer("plain", [tensor]).as_numpy("text_output").item()
    assert json.loads(text)["text_input"] == ['{"messages": []}']


def test_models_that_are_loaded_on_demand(repository, serve):
    repository.add("plain", MIRROR, writer_config("plain"))
    server = serve(repository, "--model-control-mode=explicit", "--load-on-demand")
    assert told(server, {"model": "plain", "prompt": "x"}, "/v1/completions")["text_input"] == ["x"]


def test_a_graph_answers(graphs):
    status, reply = post(graphs, "/v3/chat/completions", chat("graph", "x"), {"X-Mark": "1"})
    assert status == 200
    assert reply["uri"] == "/v3/chat/completions"
    assert reply["body"] == chat("graph", "x")
    assert reply["headers"]["x-mark"] == "1"
    assert [model["id"] for model in graphs.json("GET", "/v3/models")[1]["data"]] == ["graph"]


def test_a_graph_streams(graphs):
    body = chat("graph", "1 framed 2", stream=True)
    assert events(graphs, "/v3/chat/completions", body) == [1, "framed", 2, "[DONE]"]
    failed = events(graphs, "/v3/chat/completions", chat("graph", "1 fail", stream=True))
    assert failed[0] == 1
    assert "it failed" in failed[1]["error"]["message"]
    status, reply = post(graphs, "/v3/chat/completions", chat("graph", "fail", stream=True))
    assert status == 400
    assert "it failed" in reply["error"]["message"]


def test_a_client_that_leaves_closes_the_generator(graphs):
    with begun(graphs, chat("graph", "1 hang")):
        pass
    graphs.wait_for_log("closed")


def test_many_streams_at_once(server):
    """Each stream gets its own words, in order."""
    results = {}

    def run(number):
        words = " ".join(f"{number}.{i}," for i in range(20))
        streamed = events(server, "/v1/completions", {"model": "writer", "prompt": words, "stream": True})
        results[number] = "".join(
            event["choices"][0]["text"] for event in itertools.islice(streamed, len(streamed) - 1)
        )

    threads = [threading.Thread(target=run, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: "".join(f"{number}.{i}," for i in range(20)) for number in range(32)}


@pytest.mark.parametrize("streams", [300, pytest.param(10_000, marks=pytest.mark.campaign)])
def test_clients_that_leave_at_every_point(server, streams):
    """Some leave within the request, some within a stream, and some read all. No stream stays open in the model."""

    def counts():
        _, reply = post(server, "/v1/completions", {"model": "counter", "prompt": "count"})
        return json.loads(reply["choices"][0]["text"])

    host, port = server.http.rsplit(":", 1)
    text = json.dumps({"model": "counter", "prompt": "x", "stream": True})
    request = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

    def run(seed):
        chance = random.Random(seed)
        for _ in range(streams // 10):
            with socket.create_connection((host, int(port)), 20) as client:
                if chance.random() < 0.5:  # an RST instead of a FIN
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if chance.random() < 0.1:
                    client.sendall(request[: chance.randrange(len(request))])
                    continue
                client.sendall(request)
                left = chance.choice([0, 1, 100, 1000, 5000, 20_000, 1 << 20])
                while left > 0 and b"[DONE]" not in (got := client.recv(min(left, 65536))) and got:
                    left -= len(got)

    def sockets():
        return sum(target.startswith("socket:") for target in descriptors(server.process.pid).values())

    began, before = counts(), sockets()
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: (now := counts())[0] == now[1], 30, "the end of all streams")
    now = counts()
    assert now[0] - began[0] >= streams * 0.7  # the others left before their request was whole
    wait_until(lambda: sockets() <= before, 20, "the end of all connections")
    values = server.metric_values()
    assert values['nv_inference_pending_request_count{model="counter",version="1"}'] == 0
