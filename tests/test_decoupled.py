"""Decoupled models over gRPC streams and the generate routes, and further guarantees of streams."""

import contextlib
import http.client
import itertools
import json
import queue
import socket
import threading

import grpc
import numpy as np
import pytest
from harness.clients import strings
from harness.repository import config
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

# Each request contains its own script, a JSON list of steps. A script whose first step is "thread" runs in parallel to
# execute.
SCRIPTED = """
import json, os, signal, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
        self.threads = []

    def execute(self, requests):
        for request in requests:
            steps = json.loads(pb_utils.get_input_tensor_by_name(request, "SCRIPT").as_numpy().reshape(-1)[0])
            if steps[0] == ["thread"]:
                thread = threading.Thread(target=self.run, args=(request, request.get_response_sender(), steps[1:]))
                self.threads.append(thread)
                thread.start()
            else:
                self.run(request, request.get_response_sender(), steps)

    def note(self, name):
        open(os.path.join(self.folder, name), "w").close()

    def run(self, request, sender, steps):
        for step, *args in steps:
            if step == "send":
                sender.send(self.text(args[0]))
            elif step == "last":
                sender.send(self.text(args[0]), FINAL)
            elif step == "error" or step == "last_error":
                error = pb_utils.TritonError(args[0], getattr(pb_utils.TritonError, args[1]))
                sender.send(pb_utils.InferenceResponse(error=error), FINAL if step == "last_error" else 0)
            elif step == "end":
                sender.send(flags=FINAL)
            elif step == "many":
                for number in range(args[0]):
                    sender.send(self.text(str(number)))
            elif step == "parameters":
                sender.send(self.text(request.parameters()))
            elif step == "flood":
                block = "x" * (1 << 20)
                for _ in range(args[0]):
                    sender.send(self.text(block))
            elif step == "note":
                self.note(args[0])
            elif step == "work":
                time.sleep(args[0])
            elif step == "wait":
                self.wait(lambda: os.path.exists(os.path.join(self.folder, args[0])))
            elif step == "wait_cancelled":
                self.wait(sender.is_cancelled)
                self.note(args[0])
            elif step == "raise":
                raise ValueError(args[0])
            elif step == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            elif step == "numbers":
                tensor = pb_utils.Tensor("NUMBERS", np.array(args[0], dtype=np.float32))
                sender.send(pb_utils.InferenceResponse([tensor]))

    def text(self, text):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text.encode()], dtype=object))])

    def wait(self, condition):
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.001)

    def finalize(self):
        for thread in self.threads:
            thread.join()
"""
INPUTS = [("SCRIPT", "STRING", [1])]
OUTPUTS = [("OUT", "STRING", [1]), ("NUMBERS", "FP32", [-1])]
FLAGS = itertools.count()
DECOUPLED = "model_transaction_policy { decoupled: true }"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    for name in ("many", "victim"):
        module_repository.add(name, SCRIPTED, config(name, INPUTS, OUTPUTS, extra=DECOUPLED))
    for name in ("once", "other"):
        module_repository.add(name, SCRIPTED, config(name, INPUTS, OUTPUTS))
    return module_serve(module_repository)


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture
def flag(module_repository):
    """flag(model, name) is the path of a file that scripts of the model wait for or create."""
    return lambda model, name: module_repository.path / model / f"{name}-{next(FLAGS)}"


def request(model, *steps, id="", empty_final=False):
    message = service_pb2.ModelInferRequest(model_name=model, id=id)
    tensor = message.inputs.add(name="SCRIPT", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(json.dumps(steps).encode())
    if empty_final:
        message.parameters["triton_enable_empty_final_response"].bool_param = True
    return message


class Stream:
    """A ModelStreamInfer call that is fed by a queue."""

    def __init__(self, stub, metadata=None):
        self._queue = queue.SimpleQueue()
        self.call = stub.ModelStreamInfer(iter(self._queue.get, None), metadata=metadata, timeout=60)

    def send(self, *messages):
        for message in messages:
            self._queue.put(message)

    def take(self, count=1):
        return [Answer(next(self.call)) for _ in range(count)]

    def finish(self):
        """Closes the client's side; the remaining responses of the server end the call successfully."""
        self._queue.put(None)
        rest = [Answer(message) for message in self.call]
        assert self.call.code() == grpc.StatusCode.OK
        return rest

    def abandon(self):
        self._queue.put(None)
        self.call.cancel()


class Answer:
    def __init__(self, message):
        response = message.infer_response
        self.error = message.error_message
        self.id = response.id
        self.model = (response.model_name, response.model_version)
        self.final = response.parameters["triton_final_response"].bool_param
        self.says_final = "triton_final_response" in message.infer_response.parameters
        self.outputs = [output.name for output in response.outputs]
        raw = list(response.raw_output_contents)
        self.text = raw[0][4:].decode() if self.outputs == ["OUT"] else None


@pytest.fixture
def stream(stub):
    stream = Stream(stub)
    yield stream
    stream.abandon()


# ---- how many responses ----------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [[], [["thread"]]], ids=["execute", "thread"])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_responses_of_one_request(stream, count, thread):
    stream.send(request("many", *thread, ["many", count], ["end"], id="n"))
    answers = stream.take(count)
    assert [a.text for a in answers] == [str(n) for n in range(count)]
    assert all(a.id == "n" and a.error == "" and a.says_final and not a.final for a in answers)
    assert all(a.model == ("many", "1") for a in answers)
    assert stream.finish() == []


def test_last_response_may_say_so(stream):
    stream.send(request("many", ["send", "a"], ["last", "b"]))
    assert [(a.text, a.final) for a in stream.take(2)] == [("a", False), ("b", True)]
    assert stream.finish() == []


def test_no_response_at_all(stream):
    stream.send(request("many", ["end"]))
    assert stream.finish() == []


@pytest.mark.parametrize("count", [0, 3])
def test_empty_final_response_on_request(stream, count):
    stream.send(request("many", ["many", count], ["end"], id="e", empty_final=True))
    *answers, last = stream.take(count + 1)
    assert [a.final for a in answers] == [False] * count
    assert (last.final, last.id, last.model, last.outputs, last.error) == (True, "e", ("many", "1"), [], "")
    assert stream.finish() == []


def test_no_empty_final_response_after_a_final_one(stream):
    stream.send(request("many", ["last", "a"], empty_final=True))
    assert [(a.text, a.final) for a in stream.finish()] == [("a", True)]


def test_empty_finals_through_the_public_client(server, connect):
    client = connect("grpc", server).raw
    answers = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    module = __import__("tritonclient.grpc", fromlist=["InferInput"])
    tensor = module.InferInput("SCRIPT", [1], "BYTES")
    tensor.set_data_from_numpy(strings(json.dumps([["many", 2], ["end"]])))
    client.async_stream_infer("many", [tensor], request_id="p", enable_empty_final_response=True)
    texts = []
    while True:
        result, error = answers.get(timeout=20)
        assert error is None
        response = result.get_response()
        if response.parameters["triton_final_response"].bool_param:
            break
        texts.append(result.as_numpy("OUT")[0].decode())
    assert texts == ["0", "1"]
    assert response.id == "p"
    client.stop_stream()


# ---- order and concurrency -------------------------------------------------------------------------


def test_decoupled_requests_overtake_each_other(stream, flag):
    go = flag("many", "go")
    stream.send(request("many", ["thread"], ["send", "a1"], ["wait", go.name], ["last", "a2"], id="a"))
    assert [a.text for a in stream.take()] == ["a1"]
    stream.send(request("many", ["thread"], ["send", "b1"], ["last", "b2"], id="b"))
    assert [(a.id, a.text) for a in stream.take(2)] == [("b", "b1"), ("b", "b2")]
    go.touch()
    assert [(a.id, a.text, a.final) for a in stream.finish()] == [("a", "a2", True)]


def test_decoupled_responses_pass_those_that_keep_their_order(stream, flag):
    go = flag("once", "go")
    stream.send(request("once", ["thread"], ["wait", go.name], ["last", "first"], id="1"))
    stream.send(request("other", ["last", "second"], id="2"))
    stream.send(request("many", ["many", 3], ["end"], id="d"))
    assert [a.id for a in stream.take(3)] == ["d"] * 3
    go.touch()
    assert [(a.id, a.text, a.final) for a in stream.finish()] == [("1", "first", True), ("2", "second", True)]


def test_many_requests_of_one_stream(stream):
    for number in range(50):
        stream.send(request("many", ["thread"], ["many", 20], ["end"], id=f"d{number}"))
        stream.send(request("once", ["last", str(number)], id=f"o{number}"))
    answers = stream.finish()
    assert [a.id for a in answers if a.id.startswith("o")] == [f"o{n}" for n in range(50)]
    for number in range(50):
        assert [a.text for a in answers if a.id == f"d{number}"] == [str(n) for n in range(20)]


# ---- errors ----------------------------------------------------------------------------------------


def test_errors_between_responses(stream):
    stream.send(request("many", ["send", "a"], ["error", "not so good", "NOT_FOUND"], ["send", "b"], ["end"], id="e"))
    a, error, b = stream.take(3)
    assert (a.text, b.text) == ("a", "b")
    assert (error.error, error.id, error.model, error.final) == ("not so good", "e", ("many", "1"), False)
    assert error.outputs == []
    assert stream.finish() == []


def test_error_after_responses_ends_the_request(stream):
    stream.send(request("many", ["send", "a"], ["last_error", "the end", "INTERNAL"], id="e"))
    a, error = stream.take(2)
    assert (a.text, a.final) == ("a", False)
    assert (error.error, error.id, error.model, error.final) == ("the end", "e", ("many", "1"), True)
    assert stream.finish() == []


def test_execute_that_raises_fails_what_is_open(stream):
    stream.send(request("many", ["send", "a"], ["raise", "Intentional Error"], id="open"))
    a, error = stream.take(2)
    assert a.text == "a"
    assert "Intentional Error" in error.error
    assert error.error.startswith("Failed to process the request(s) for model 'many_0', message: ValueError: ")
    assert (error.id, error.final) == ("open", True)
    stream.send(request("many", ["last", "a"], ["raise", "too late"], id="closed"))
    assert [(a.text, a.final) for a in stream.take()] == [("a", True)]
    for number in range(10):
        stream.send(request("many", ["raise", "Intentional Error"], id=str(number)))
    assert [a.id for a in stream.take(10)] == [str(n) for n in range(10)]
    stream.send(request("many", ["last", "still here"]))
    assert [a.text for a in stream.finish()] == ["still here"]


def test_errors_before_a_model_has_the_request(stream):
    stream.send(request("nope", ["end"], id="unknown"))
    wrong = request("many", ["end"], id="wrong")
    wrong.inputs[0].name = "TYPO"
    stream.send(wrong, request("many", ["last", "good"], id="good"))
    unknown, wrong, good = sorted(stream.take(3), key=lambda a: ["unknown", "wrong", "good"].index(a.id))
    assert unknown.error == "Request for unknown model: 'nope' is not found"
    assert wrong.error == "unexpected inference input 'TYPO' for model 'many'"
    assert good.text == "good"
    assert stream.finish() == []


def test_error_mode_ends_the_call_and_cancels_the_rest(server, stub, flag):
    cancelled = flag("many", "cancelled")
    stream = Stream(stub, [("triton_grpc_error", "true")])
    # This one sends and ends long after the call has ended.
    late = [["send", "late"], ["error", "late", "INTERNAL"], ["end"]]
    stream.send(request("many", ["thread"], ["send", "a"], ["wait_cancelled", cancelled.name], *late))
    assert [a.text for a in stream.take()] == ["a"]
    stream.send(request("many", ["thread"], ["send", "b"], ["error", "as asked", "INTERNAL"], ["end"]))
    assert [a.text for a in stream.take()] == ["b"]
    with pytest.raises(grpc.RpcError) as error:
        stream.take()
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.INTERNAL, "as asked")
    wait_until(cancelled.exists, 10, "the cancellation of the other request")
    stream.abandon()
    after = Stream(stub)
    after.send(request("many", ["last", "fine"]))
    assert [a.text for a in after.finish()] == ["fine"]


def test_worker_killed_in_the_middle_of_a_stream(server, stream, flag):
    go = flag("many", "go")
    stream.send(request("many", ["thread"], ["send", "a1"], ["wait", go.name], ["last", "a2"], id="a"))
    assert [a.text for a in stream.take()] == ["a1"]
    stream.send(request("victim", ["thread"], ["send", "v1"], ["die"], id="v"))
    v1, error = stream.take(2)
    assert (v1.id, v1.text) == ("v", "v1")
    assert (error.id, error.final) == ("v", True)
    assert "victim_0" in error.error
    assert "signal 9" in error.error or "SIGKILL" in error.error
    go.touch()
    assert [(a.id, a.text) for a in stream.finish()] == [("a", "a2")]
    wait_until(lambda: server.request("GET", "/v2/models/victim/ready")[0] == 200, 20, "the instance to be back")


# ---- ends ------------------------------------------------------------------------------------------


def test_half_close_waits_for_decoupled_requests(stream, flag):
    go = flag("many", "go")
    stream.send(request("many", ["thread"], ["wait", go.name], ["many", 5], ["end"]))
    threading.Timer(0.1, go.touch).start()
    assert [a.text for a in stream.finish()] == list("01234")


def test_cancelled_stream_cancels_all_its_requests(stub, flag):
    marks = [flag("many", "cancelled") for _ in range(3)]
    stream = Stream(stub)
    for mark in marks:
        stream.send(request("many", ["thread"], ["send", "a"], ["wait_cancelled", mark.name], ["send", "b"], ["end"]))
    stream.take(3)
    stream.call.cancel()
    with pytest.raises(grpc.RpcError) as error:
        stream.take()
    assert error.value.code() == grpc.StatusCode.CANCELLED
    for mark in marks:
        wait_until(mark.exists, 10, "the cancellation")
    stream.abandon()


def test_client_that_does_not_read_is_cut_off(server, stub, flag):
    mark = flag("many", "cancelled")
    stream = Stream(stub)
    stream.send(request("many", ["thread"], ["flood", 400], ["wait_cancelled", mark.name], ["end"]))
    wait_until(mark.exists, 30, "the cancellation")
    server.wait_for_log("stream ended: the client does not read")
    stream.abandon()


# ---- models that answer once -----------------------------------------------------------------------


def test_model_that_answers_once_has_one_response_on_a_stream(stream):
    stream.send(request("once", ["send", "a"], ["end"], id="1"))
    stream.send(request("once", ["last", "b"], id="2"))
    assert [(a.id, a.text, a.final) for a in stream.finish()] == [("1", "a", True), ("2", "b", True)]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_answer_does_not_wait_for_the_final_flag(server, connect, flag, protocol):
    go = flag("once", "go")
    script = [["thread"], ["send", "at once"], ["wait", go.name], ["end"]]
    try:
        result = connect(protocol, server).infer("once", {"SCRIPT": strings(json.dumps(script))})
        assert result.as_numpy("OUT")[0] == b"at once"
    finally:
        go.touch()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_unary_requests_do_not_reach_decoupled_models(server, connect, protocol):
    text = {
        "http": "HTTP end point doesn't support models with decoupled transaction policy",
        "grpc": "ModelInfer RPC doesn't support models with decoupled transaction policy",
    }[protocol]
    client = connect(protocol, server)
    with client.fails("UNSUPPORTED", text):
        client.infer("many", {"SCRIPT": strings("[]")})


# ---- statistics ------------------------------------------------------------------------------------


def test_response_statistics(repository, serve, connect):
    repository.add("many", SCRIPTED, config("many", INPUTS, OUTPUTS, extra=DECOUPLED))
    server = serve(repository)
    with grpc.insecure_channel(server.grpc) as channel:
        stream = Stream(service_pb2_grpc.GRPCInferenceServiceStub(channel))
        stream.send(request("many", ["send", "a"], ["send", "b"], ["end"]))
        stream.send(request("many", ["send", "a"], ["last_error", "x", "INTERNAL"]))
        assert len(stream.finish()) == 4
    _, answer = server.json("GET", "/v2/models/many/stats")
    (stats,) = answer["model_stats"]
    assert stats["inference_stats"]["success"]["count"] == 1
    assert stats["inference_stats"]["fail"]["count"] == 1
    responses = stats["response_stats"]
    assert sorted(responses) == ["0", "1", "2"]
    kinds = ("compute_infer", "compute_output", "success", "fail", "empty_response", "cancel")
    counts = {index: [responses[index][kind]["count"] for kind in kinds] for index in responses}
    assert counts == {"0": [2, 2, 2, 0, 0, 0], "1": [2, 2, 1, 1, 0, 0], "2": [0, 0, 0, 0, 1, 0]}
    assert responses["0"]["success"]["ns"] > 0
    (same,) = connect("grpc", server).raw.get_inference_statistics("many").model_stats
    assert {i: [getattr(r, kind).count for kind in kinds] for i, r in same.response_stats.items()} == counts


def test_models_that_answer_once_have_no_response_statistics(server):
    _, answer = server.json("GET", "/v2/models/other/stats")
    assert answer["model_stats"][0]["response_stats"] == {}


# ---- HTTP: clients that disconnect -----------------------------------------------------------------


def http_request(path, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def open_socket(server):
    host, _, port = server.http.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def infer_body(*steps):
    return {"inputs": [{"name": "SCRIPT", "shape": [1], "datatype": "BYTES", "data": [json.dumps(steps)]}]}


def test_queued_request_of_a_client_that_goes_away_is_dropped(server, flag):
    running, go, never = flag("other", "running"), flag("other", "go"), flag("other", "never")

    def cancelled():
        name = 'nv_inference_request_failure{model="other",reason="CANCELED",version="1"}'
        values = server.metric_values()
        assert name in values, [key for key in values if "failure" in key]
        return values[name]

    before = cancelled()
    with contextlib.closing(open_socket(server)) as first, contextlib.closing(open_socket(server)) as second:
        # An execution of some milliseconds: the server gives no other request ahead to its instance.
        steps = [["work", 0.01], ["note", running.name], ["wait", go.name], ["last", "1"]]
        first.sendall(http_request("/v2/models/other/infer", infer_body(*steps)))
        wait_until(running.exists, 10, "the first request to run")
        second.sendall(http_request("/v2/models/other/infer", infer_body(["note", never.name], ["last", "2"])))
        pending = 'nv_inference_pending_request_count{model="other",version="1"}'
        wait_until(lambda: server.metric_values()[pending] >= 1, 10, "the second request to wait")
        assert cancelled() == before
        second.close()
        wait_until(lambda: cancelled() == before + 1, 5, "the cancellation")
        go.touch()
        assert b"200 OK" in first.recv(65536)
    assert not never.exists()


def test_running_request_of_a_client_that_goes_away_is_cancelled(server, flag):
    running, mark = flag("once", "running"), flag("once", "cancelled")
    with contextlib.closing(open_socket(server)) as client:
        steps = [["thread"], ["note", running.name], ["wait_cancelled", mark.name], ["last", "1"]]
        client.sendall(http_request("/v2/models/once/infer", infer_body(*steps)))
        wait_until(running.exists, 10, "the request to run")
    wait_until(mark.exists, 5, "the cancellation")


# ---- generate --------------------------------------------------------------------------------------


def script(*steps, **more):
    return {"SCRIPT": json.dumps(steps), **more}


def generate(server, model, *steps, **more):
    return server.json("POST", f"/v2/models/{model}/generate", script(*steps, **more))


@pytest.mark.parametrize("model", ["many", "once"])
def test_generate(server, model):
    assert generate(server, model, ["last", "hello"]) == (
        200,
        {"model_name": model, "model_version": "1", "OUT": "hello"},
    )
    assert generate(server, model, ["send", "a"], ["end"], id="7")[1] == {
        "model_name": model,
        "model_version": "1",
        "id": "7",
        "OUT": "a",
    }
    status, answer = server.json("POST", f"/v2/models/{model}/versions/1/generate", script(["last", "v"]))
    assert (status, answer["OUT"]) == (200, "v")


@pytest.mark.parametrize(("values", "expected"), [([1.5], 1.5), ([], []), ([1, 2], [1.0, 2.0])])
def test_generate_writes_outputs_by_their_size(server, values, expected):
    assert generate(server, "many", ["numbers", values], ["end"])[1]["NUMBERS"] == expected


def test_generate_passes_parameters_on(server):
    _, answer = generate(
        server, "many", ["parameters"], ["end"], parameters={"seed": 1, "x": 0.5}, stream=False, name="n"
    )
    assert json.loads(answer["OUT"]) == {"seed": 1, "x": 0.5, "stream": False, "name": "n"}


def test_generate_answers_at_once_for_a_model_that_answers_once(server, flag):
    go = flag("once", "go")
    try:
        assert generate(server, "once", ["thread"], ["send", "a"], ["wait", go.name], ["end"])[0] == 200
    finally:
        go.touch()


@pytest.mark.parametrize("steps", [[["end"]], [["many", 2], ["end"]], [["send", "a"], ["last_error", "x", "INTERNAL"]]])
def test_generate_wants_one_response(server, steps):
    status, answer = generate(server, "many", *steps)
    assert status == 400
    assert answer == {
        "error": "generate expects model to produce exactly 1 response, use generate stream for model that generates "
        "various number of responses"
    }


def test_generate_cancels_what_nobody_will_see(server, flag):
    mark = flag("many", "cancelled")
    steps = [["thread"], ["many", 2], ["wait_cancelled", mark.name], ["end"]]
    assert generate(server, "many", *steps)[0] == 400
    wait_until(mark.exists, 5, "the cancellation")


@pytest.mark.parametrize("model", ["many", "once"])
def test_generate_passes_errors_of_the_model_on(server, model):
    assert generate(server, model, ["last_error", "as asked", "NOT_FOUND"]) == (404, {"error": "as asked"})


INVALID_TYPE = "has invalid type. It should be either 'int', 'bool', or 'string'."


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ('{"SCRIPT": 1}', 500, "attempt to access JSON non-string as string"),
        ('{"SCRIPT": [["a"]]}', 500, "attempt to access JSON non-string as string"),
        ('{"SCRIPT": {"a": 1}}', 500, "attempt to access JSON non-string as string"),
        ('{"SCRIPT": "a", "id": 7}', 500, "attempt to access JSON non-string as string"),
        ('{"SCRIPT": "a", "SCRIPT": "b"}', 400, "input 'SCRIPT' already exists in request"),
        ('{"SCRIPT": "a", "parameters": 1}', 400, "Expected JSON object for keyword: 'parameters'"),
        (
            '{"SCRIPT": "a", "parameters": {"p": [1]}}',
            400,
            f"Converting keyword: 'parameters': parameter 'p' {INVALID_TYPE}",
        ),
        ('{"SCRIPT": "a", "p": {"q": 1}}', 400, f"parameter 'p' {INVALID_TYPE}"),
        ('{"SCRIPT": "a", "p": null}', 400, f"parameter 'p' {INVALID_TYPE}"),
        ('{"SCRIPT": ["a", "b"]}', 400, "The schema can not convert input 'SCRIPT' to tensor with proper shape"),
        (
            '{"SCRIPT": "a", "triton_x": 1}',
            400,
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
        ),
        ('{"x": 1}', 400, None),
        ("{", 500, None),
        ("", 500, None),
        ("[]", 500, None),
    ],
)
@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_generate_says_what_is_wrong(server, route, body, status, text):
    got, headers, answer = server.request("POST", f"/v2/models/many/{route}", body)
    assert got == status, answer
    assert headers["Content-Type"] == "application/json"
    error = json.loads(answer)["error"]
    assert error if text is None else error == text


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_generate_of_an_unknown_model(server, route):
    status, answer = server.json("POST", f"/v2/models/nope/{route}", {})
    assert (status, answer) == (404, {"error": "Request for unknown model: 'nope' is not found"})
    assert server.request("GET", f"/v2/models/many/{route}")[0] == 405


# ---- generate_stream -------------------------------------------------------------------------------


class Events:
    """One generate_stream request, read event by event."""

    def __init__(self, server, model, *steps, connection=None, **more):
        self.connection = connection or server.connection(timeout=30)
        self.connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(script(*steps, **more)))
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        line = self.response.readline()
        if not line:
            return None
        assert line.startswith(b"data: "), line
        assert self.response.readline() == b"\n"
        return json.loads(line[6:])

    def rest(self):
        return list(iter(self.next, None))


def test_generate_stream_sends_events(server):
    events = Events(server, "many", ["many", 5], ["end"], id="s")
    assert events.status == 200
    assert events.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    assert events.response.getheader("Transfer-Encoding") == "chunked"
    assert events.rest() == [{"model_name": "many", "model_version": "1", "id": "s", "OUT": str(n)} for n in range(5)]


def test_generate_stream_sends_each_event_at_once(server, flag):
    go = flag("many", "go")
    events = Events(server, "many", ["thread"], ["send", "a"], ["wait", go.name], ["send", "line\nend"], ["end"])
    assert events.next()["OUT"] == "a"
    go.touch()
    assert events.next()["OUT"] == "line\nend"
    assert events.next() is None


def test_connection_is_kept_after_a_stream(server):
    connection = server.connection()
    for _ in range(3):
        assert len(Events(server, "many", ["many", 3], ["end"], connection=connection).rest()) == 3
    assert Events(server, "many", ["end"], connection=connection).rest() == []
    connection.request("GET", "/v2/health/live")
    assert connection.getresponse().status == 200
    connection.close()


def test_generate_stream_of_a_model_that_answers_once(server, flag):
    go = flag("once", "go")
    try:
        events = Events(server, "once", ["thread"], ["send", "a"], ["wait", go.name], ["end"])
        assert [e["OUT"] for e in events.rest()] == ["a"]
    finally:
        go.touch()


def test_generate_stream_without_responses(server):
    events = Events(server, "many", ["end"])
    assert events.status == 200
    assert events.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    assert events.rest() == []


def test_first_response_gives_the_status(server):
    events = Events(server, "many", ["error", "no such thing", "NOT_FOUND"], ["send", "a"], ["end"])
    assert events.status == 404
    assert events.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    first, second = events.rest()
    assert first == {"error": "no such thing"}
    assert second["OUT"] == "a"


def test_errors_within_a_stream_are_events(server):
    events = Events(server, "many", ["send", "a"], ["error", "oh", "INTERNAL"], ["raise", "broken"])
    assert events.status == 200
    a, oh, broken = events.rest()
    assert a["OUT"] == "a"
    assert oh == {"error": "oh"}
    assert "ValueError: broken" in broken["error"]


def test_closing_the_connection_cancels_a_silent_stream(server, flag):
    mark = flag("many", "cancelled")
    events = Events(server, "many", ["thread"], ["send", "a"], ["wait_cancelled", mark.name], ["send", "b"], ["end"])
    assert events.next()["OUT"] == "a"
    events.connection.sock.shutdown(socket.SHUT_RDWR)
    events.connection.close()
    wait_until(mark.exists, 5, "the cancellation")


def test_closing_the_connection_cancels_before_the_first_response(server, flag):
    running, mark = flag("many", "running"), flag("many", "cancelled")
    with contextlib.closing(open_socket(server)) as client:
        steps = [["thread"], ["note", running.name], ["wait_cancelled", mark.name], ["end"]]
        client.sendall(http_request("/v2/models/many/generate_stream", script(*steps)))
        wait_until(running.exists, 10, "the request to run")
    wait_until(mark.exists, 5, "the cancellation")


def test_reader_for_whom_too_much_waits_is_cut_off(server, flag):
    mark = flag("many", "cancelled")
    with contextlib.closing(open_socket(server)) as client:
        steps = [["thread"], ["flood", 120], ["wait_cancelled", mark.name], ["end"]]
        client.sendall(http_request("/v2/models/many/generate_stream", script(*steps)))
        wait_until(mark.exists, 30, "the cancellation")
    server.wait_for_log("generate_stream request cancelled: the client does not read")


def test_old_client_gets_a_stream_without_chunks(server):
    with contextlib.closing(open_socket(server)) as client:
        body = http_request("/v2/models/many/generate_stream", script(["many", 2], ["end"]))
        client.sendall(body.replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, events = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert [json.loads(e[6:])["OUT"] for e in events.split(b"\n\n") if e] == ["0", "1"]


def test_worker_killed_in_the_middle_of_events(server):
    wait_until(lambda: server.request("GET", "/v2/models/victim/ready")[0] == 200, 20, "the victim")
    events = Events(server, "victim", ["send", "a"], ["die"])
    assert events.next()["OUT"] == "a"
    assert "victim_0" in events.next()["error"]
    assert events.next() is None
    wait_until(lambda: server.request("GET", "/v2/models/victim/ready")[0] == 200, 20, "the instance to be back")


def test_generate_is_of_the_inference_api(repository, serve):
    repository.add("many", SCRIPTED, config("many", INPUTS, OUTPUTS, extra=DECOUPLED))
    server = serve(repository, "--http-restricted-api=inference:admin=secret")
    for route in ("generate", "generate_stream"):
        body = json.dumps(script(["last", "a"]))
        status, _, _ = server.request("POST", f"/v2/models/many/{route}", body)
        assert status == 403
        status, _, answer = server.request("POST", f"/v2/models/many/{route}", body, {"admin": "secret"})
        assert status == 200, answer


def test_streams_end_when_the_server_stops(repository, serve):
    repository.add("many", SCRIPTED, config("many", INPUTS, OUTPUTS, extra=DECOUPLED))
    server = serve(repository, "--exit-timeout-secs=1")
    events = Events(server, "many", ["thread"], ["send", "a"], ["wait_cancelled", "cancelled"], ["end"])
    assert events.next()["OUT"] == "a"
    server.stop()
    with contextlib.suppress(http.client.HTTPException, OSError):
        assert all("error" in event for event in events.rest())


def test_batching_model_generates_one_row(repository, serve):
    source = SCRIPTED.replace("np.array([text.encode()]", "np.array([[text.encode()]]")
    text = config("rows", INPUTS, OUTPUTS, max_batch_size=4, extra=DECOUPLED + " dynamic_batching { }")
    repository.add("rows", source, text)
    server = serve(repository)
    assert generate(server, "rows", ["last", "a"])[1]["OUT"] == "a"
    assert [e["OUT"] for e in Events(server, "rows", ["many", 2], ["end"]).rest()] == ["0", "1"]
    assert np.float32(generate(server, "rows", ["numbers", [[0.5]]], ["end"])[1]["NUMBERS"]) == 0.5
