"""Sequences (13.3): direct and oldest strategies, controls, padding, idle time, faults, implicit state."""

import functools
import json
import os
import queue
import signal

import numpy as np
import pytest
import tritonclient.grpc
from harness.repository import config, per_request
from harness.waiting import wait_until

CONTROLS = """
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } ] },
    { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: %s } ] }
  ]
"""

# Sums each sequence's values by the controls alone, and returns what it received. That is [START, END, READY, flags],
# the id by its control and by the request, and the slots of its batch, "-" for padding.
ACCUMULATE = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
        self.sums = {}

    def execute(self, requests):
        get = lambda r, n: pb_utils.get_input_tensor_by_name(r, n).as_numpy().reshape(-1)[0]
        text = lambda i: i.decode() if isinstance(i, bytes) else str(i)
        row = " ".join(text(get(r, "ID")) if get(r, "READY") else "-" for r in requests)
        responses = []
        for r in requests:
            if not get(r, "READY"):
                assert r.correlation_id() == 0 and r.flags() == 0 and get(r, "IN") == 0
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("padding is answered")))
                continue
            key, value = text(get(r, "ID")), int(get(r, "IN"))
            if get(r, "START"):
                self.sums[key] = 0
            if value == -1:
                open(os.path.join(self.folder, "STARTED"), "w").close()
                while not os.path.exists(os.path.join(self.folder, "GO")):
                    time.sleep(0.005)
            if value == -2:
                os._exit(7)
            self.sums[key] += value
            seen = [get(r, "START"), get(r, "END"), get(r, "READY"), r.flags()]
            shape = pb_utils.get_input_tensor_by_name(r, "START").shape()
            texts = [key, repr(r.correlation_id()), row, str(os.getpid()), str(list(shape))]
            lead = [1] * len(shape[:-1])
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("SUM", np.array([self.sums[key]], dtype=np.int32).reshape(lead + [1])),
                pb_utils.Tensor("SEEN", np.array(seen, dtype=np.int32).reshape(lead + [4])),
                pb_utils.Tensor("TEXTS", np.array(texts, dtype=object).reshape(lead + [5])),
            ]))
        return responses
"""
TENSORS = (
    [("IN", "INT32", [1])],
    [("SUM", "INT32", [1]), ("SEEN", "INT32", [4]), ("TEXTS", "STRING", [5])],
)


def batching(strategy="", id_type="TYPE_UINT64", idle_us=60_000_000):
    return f"sequence_batching {{ max_sequence_idle_microseconds: {idle_us} {CONTROLS % id_type} {strategy} }}\n"


def accumulator(strategy="", max_batch_size=4, extra="", **more):
    return ACCUMULATE, config(None, *TENSORS, max_batch_size=max_batch_size, extra=batching(strategy, **more) + extra)


OLDEST = "oldest { max_candidate_sequences: 4 }"
STATE = """
state [ {{ input_name: "STATE" output_name: "NEW_STATE" data_type: TYPE_INT64 dims: [ {dims} ] {initial} }} ]
"""
# Its sum lives in the server; the state grows by the size of the input.
STATEFUL = per_request("""
    state = get(request, "STATE").reshape(-1)
    value = get(request, "IN").reshape(-1)
    if value[0] == -1:
        return respond(OUT=state.reshape(1, -1))
    state = np.concatenate([state[:1] + value[0], state[1:], value]).astype(np.int64)
    if value[0] == -2:
        state = state.astype(np.float32)
    return respond(OUT=state.reshape(1, -1), NEW_STATE=state.reshape(1, -1))
""")


def stateful(initial="", dims=-1):
    text = config(
        None,
        [("IN", "INT64", [1])],
        [("OUT", "INT64", [-1])],
        max_batch_size=4,
        extra="sequence_batching { max_sequence_idle_microseconds: 60000000 "
        + STATE.format(dims=dims, initial=initial)
        + " }",
    )
    return STATEFUL, text


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add("direct", *accumulator())
    module_repository.add("oldest", *accumulator(OLDEST))
    module_repository.add("texts", *accumulator(id_type="TYPE_STRING"))
    module_repository.add("single", *accumulator(max_batch_size=0))
    module_repository.add("brief", *accumulator(max_batch_size=1, idle_us=300_000))
    module_repository.add("zero", *stateful())
    module_repository.add(
        "from_file",
        *stateful('initial_state { name: "begin" data_type: TYPE_INT64 dims: [ 2 ] data_file: "begin" }'),
        files={"initial_state/begin": np.array([1000, 7], dtype=np.int64).tobytes()},
    )
    module_repository.add("iterative", *iterative())
    module_repository.add("steps", *iterative("model_transaction_policy { decoupled: true }"))
    return module_serve(module_repository)


# Runs each request the requested number of times; with decoupled responses, it sends one per run.
ITERATIVE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.decoupled = '"decoupled":true' in args["model_config"].replace(" ", "")
        self.left = {}

    def execute(self, requests):
        answers = [self.step(request) for request in requests]
        return None if self.decoupled else answers

    def step(self, request):
        key = request.correlation_id()
        count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0, 0])
        if request.flags() == 1:
            assert key not in self.left
            self.left[key] = count
        else:
            assert request.flags() == 0
        self.left[key] -= 1
        more = self.left[key] > 0
        if more:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        response = pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUT", np.array([[self.left[key]]], dtype=np.int32)),
             pb_utils.Tensor("KEY", np.array([[str(key)]], dtype=object))]
        )
        if not more:
            del self.left[key]
        if self.decoupled:
            flags = 0 if more else pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            request.get_response_sender().send(response, flags=flags)
        return None if more else response
"""


def iterative(extra=""):
    text = "sequence_batching { iterative_sequence: true oldest { max_candidate_sequences: 4 } }\n" + extra
    outputs = [("OUT", "INT32", [1]), ("KEY", "STRING", [1])]
    return ITERATIVE, config(None, [("IN", "INT32", [1])], outputs, max_batch_size=4, extra=text)


def send(client, model, value, sequence, start=False, end=False, rows=1):
    shape = [rows, 1] if model != "single" else [1]
    values = np.full(shape, value, dtype=np.int64 if model in ("zero", "from_file") else np.int32)
    return client.infer(model, {"IN": values}, sequence_id=sequence, sequence_start=start, sequence_end=end)


def total(result):
    return int(result.as_numpy("SUM").reshape(-1)[0])


def texts(result):
    return [t.decode() for t in result.as_numpy("TEXTS").reshape(-1)]


def needs_start(sequence, model):
    return (
        f"inference request for sequence {sequence} to model '{model}' must specify the START flag on the first "
        "request of the sequence"
    )


@pytest.mark.parametrize("model", ["direct", "oldest", "texts", "single"])
def test_a_sequence_adds_up(client, model):
    values = [3, 4, 5]
    for i, value in enumerate(values):
        result = send(client, model, value, 101, start=i == 0, end=i == 2)
        assert total(result) == sum(values[: i + 1])
        seen = result.as_numpy("SEEN").reshape(-1).tolist()
        assert seen == [int(i == 0), int(i == 2), 1, (i == 0) + 2 * (i == 2)]
        assert texts(result)[:2] == ["101", "101"]
        assert texts(result)[4] == ("[1]" if model == "single" else "[1, 1]")
    with client.fails("INVALID_ARG", needs_start(101, model)):
        send(client, model, 1, 101)


def test_ids_are_texts(client):
    assert total(send(client, "texts", 3, "a sequence", start=True)) == 3
    result = send(client, "texts", 4, "a sequence", end=True)
    assert total(result) == 7
    assert texts(result)[:2] == ["a sequence", "'a sequence'"]
    with client.fails("INVALID_ARG", needs_start("gone", "texts")):
        send(client, "texts", 1, "gone")


def test_errors(client):
    with client.fails(
        "INVALID_ARG", "inference request to model 'direct' must specify a non-zero or non-empty correlation ID"
    ):
        send(client, "direct", 1, 0, start=True)
    with client.fails(
        "INVALID_ARG", "inference request to model 'texts' must specify a non-zero or non-empty correlation ID"
    ):
        send(client, "texts", 1, "", start=True)
    with client.fails("INVALID_ARG", "string correlation ID cannot be longer than 128 characters"):
        send(client, "texts", 1, "x" * 129, start=True)
    with client.fails(
        "INVALID_ARG",
        "inference request to model 'direct' must specify batch-size 1 due to requirements of sequence batcher",
    ):
        send(client, "direct", 1, 5, start=True, rows=2)
    with client.fails(
        "INVALID_ARG",
        "sequence id 'x' must be an integer: control input 'ID' of model 'direct' has data type TYPE_UINT64",
    ):
        send(client, "direct", 1, "x", start=True)
    given = {"IN": np.ones((1, 1), np.int32), "READY": np.ones((1, 1), np.bool_)}
    with client.fails("INVALID_ARG", contains="expected 1 inputs but got 2 inputs for model 'direct'"):
        client.infer("direct", given, sequence_id=5, sequence_start=True)


def test_sequences_do_not_mix(client):
    """More sequences than slots do not mix: the others wait until one ends."""
    with_slot = [201, 202, 203, 204]
    for i, sequence in enumerate(with_slot):
        assert total(send(client, "direct", i, sequence, start=True)) == i
    results = [send(client, "direct", 10, sequence) for sequence in with_slot]
    assert [total(r) for r in results] == [10, 11, 12, 13]
    assert texts(results[2])[2] == "- - 203 -", "the idle slots are padded"
    assert len({texts(r)[3] for r in results}) == 1
    for i, sequence in enumerate(with_slot):
        assert total(send(client, "direct", 100, sequence, end=True)) == 110 + i


def test_a_live_sequence_begins_anew(client):
    assert total(send(client, "oldest", 5, 301, start=True)) == 5
    assert total(send(client, "oldest", 6, 301, start=True)) == 6
    assert total(send(client, "oldest", 7, 301, end=True)) == 13


def test_an_idle_sequence_ends(client):
    assert total(send(client, "brief", 5, 401, start=True)) == 5
    # The sequence has the only slot until it times out.
    assert total(send(client, "brief", 6, 402, start=True, end=True)) == 6
    with client.fails("INVALID_ARG", needs_start(401, "brief")):
        send(client, "brief", 1, 401)


def stream(server, requests, responses=None):
    """Sends (model, value, sequence, start, end) on one stream; returns results and errors in order."""
    answers = queue.Queue()
    client = tritonclient.grpc.InferenceServerClient(server.grpc)
    try:
        client.start_stream(callback=lambda result, error: answers.put(error or result))
        for model, value, sequence, start, end in requests:
            tensor = tritonclient.grpc.InferInput("IN", [1, 1], "INT32")
            tensor.set_data_from_numpy(np.array([[value]], dtype=np.int32))
            client.async_stream_infer(
                model, [tensor], sequence_id=sequence, sequence_start=start, sequence_end=end, request_id="r"
            )
        return [answers.get(timeout=30) for _ in range(responses or len(requests))]
    finally:
        client.stop_stream()
        client.close()


@pytest.mark.parametrize("model", ["direct", "oldest"])
def test_two_sequences_on_one_stream(server, model):
    values = list(range(1, 21))
    requests = [
        (model, value * sign, 500 + sign, i == 0, i == len(values) - 1)
        for i, value in enumerate(values)
        for sign in (1, 3)
    ]
    results = stream(server, requests)
    for offset, sign in enumerate((1, 3)):
        sums = [total(r) for r in results[offset::2]]
        assert sums == [sign * sum(values[: i + 1]) for i in range(len(values))]


def test_many_sequences_of_both_strategies_and_kinds_of_id(server):
    """Twice as many sequences as slots, all sent in advance, with both strategies and kinds of ids."""
    for model in ("direct", "oldest", "texts"):
        names = [f"s{n}" if model == "texts" else 600 + n for n in range(8)]
        requests = [(model, n + 1, name, k == 0, k == 4) for k in range(5) for n, name in enumerate(names)]
        results = stream(server, requests)
        for n in range(8):
            assert [total(r) for r in results[n::8]] == [(n + 1) * (k + 1) for k in range(5)], model


def test_errors_on_a_stream_leave_it_open(server):
    bad, good = stream(server, [("direct", 1, 701, False, False), ("direct", 2, 701, True, True)])
    assert needs_start(701, "direct") in str(bad)
    assert total(good) == 2


def test_state_from_zeros(client):
    assert send(client, "zero", 5, 801, start=True).as_numpy("OUT").tolist() == [[5, 5]]
    assert send(client, "zero", 6, 801).as_numpy("OUT").tolist() == [[11, 5, 6]]
    assert send(client, "zero", 7, 802, start=True).as_numpy("OUT").tolist() == [[7, 7]]
    # Without a new state the old one stays.
    assert send(client, "zero", -1, 801).as_numpy("OUT").tolist() == [[11, 5, 6]]
    result = client.infer("zero", {"IN": np.array([[8]], dtype=np.int64)}, ["OUT"], sequence_id=801, sequence_end=True)
    assert result.as_numpy("OUT").tolist() == [[19, 5, 6, 8]]
    assert result.as_numpy("NEW_STATE") is None, "the state is not the client's"
    send(client, "zero", 1, 802, end=True)


def test_state_from_a_file(client):
    assert send(client, "from_file", 5, 811, start=True).as_numpy("OUT").tolist() == [[1005, 7, 5]]
    assert send(client, "from_file", 6, 811).as_numpy("OUT").tolist() == [[1011, 7, 5, 6]]
    assert send(client, "from_file", 1, 811, start=True, end=True).as_numpy("OUT").tolist() == [[1001, 7, 1]]


def test_a_large_state_is_kept(server, connect):
    """A state too large for a message is kept."""
    client = connect("grpc", server)
    for i in range(300):
        result = send(client, "zero", i + 1, 821, start=i == 0)
    assert result.as_numpy("OUT")[0, 0] == 300 * 301 // 2
    assert result.as_numpy("OUT")[0, 1:].tolist() == list(range(1, 301))
    send(client, "zero", 1, 821, end=True)


def test_a_state_of_another_type_is_an_error(client):
    send(client, "zero", 5, 831, start=True)
    with client.fails(
        "INTERNAL",
        "model 'zero' returned state 'NEW_STATE' as FP32 [1,3], but its configuration says INT64 [1,-1]",
    ):
        send(client, "zero", -2, 831)
    assert send(client, "zero", 1, 831, end=True).as_numpy("OUT").tolist() == [[6, 5, 1]]


def test_metadata_names_the_extension(server):
    assert "sequence" in json.loads(server.request("GET", "/v2")[2])["extensions"]


def test_statistics_count_slots_of_executions_and_rows_of_requests(repository, serve, connect):
    repository.add("direct", *accumulator())
    server = serve(repository)
    client = connect("http", server)
    for sequence in (1, 2):
        send(client, "direct", 1, sequence, start=True)
    send(client, "direct", 1, 2, end=True)
    stats = client.raw.get_inference_statistics("direct")["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (3, 3)
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in stats["batch_stats"]] == [(1, 1), (2, 2)]
    assert stats["inference_stats"]["success"]["count"] == 3
    assert stats["inference_stats"]["fail"]["count"] == 0, "nobody hears of padding"


def test_a_dead_worker_loses_its_sequences_alone(repository, serve, connect):
    repository.add("two", *accumulator(max_batch_size=1, extra="instance_group [ { count: 2 kind: KIND_CPU } ]"))
    server = serve(repository)
    client = connect("grpc", server)
    lost = texts(send(client, "two", 1, 1, start=True))[3]
    kept = texts(send(client, "two", 1, 2, start=True))[3]
    assert lost != kept
    os.kill(int(lost), signal.SIGKILL)
    text = "sequence 1 of model 'two' was lost when instance 'two_0_0' ended; restart it with the START flag"
    server.wait_for_log(r"Stub process 'two_0_0' is not healthy")
    with client.fails("UNAVAILABLE", text):
        send(client, "two", 1, 1)
    assert total(send(client, "two", 5, 2)) == 6
    # The model dies during a request: that request gets the cause, and the next one gets the loss of the sequence.
    answers = queue.Queue()
    for value in (-2, 3):
        tensor = client.input("IN", np.array([[value]], dtype=np.int32))
        client.raw.async_infer(
            "two", [tensor], sequence_id=2, callback=functools.partial(lambda result, error: answers.put(error))
        )
    errors = sorted((answers.get(timeout=30).message() for _ in range(2)), key=lambda t: "lost" in t)
    assert "exit" in errors[0]
    assert errors[1] == text.replace("sequence 1", "sequence 2").replace("two_0_0", "two_0_1")
    wait_until(lambda: server.request("GET", "/v2/models/two/ready")[0] == 200, 30, "both instances")
    assert total(send(client, "two", 9, 1, start=True, end=True)) == 9


@pytest.mark.parametrize("strategy", ["", "oldest { max_candidate_sequences: 2 }"])
def test_an_unloaded_model_runs_what_waits_for_slots(repository, serve, connect, strategy):
    repository.add("two", *accumulator(strategy, max_batch_size=2, idle_us=600_000_000))
    server = serve(repository, "--model-control-mode=explicit", "--load-model=two")
    client = connect("grpc", server)
    for sequence in (1, 2):
        send(client, "two", 5, sequence, start=True)
    answers = queue.Queue()
    for sequence in (3, 4):
        tensor = client.input("IN", np.array([[sequence]], dtype=np.int32))
        client.raw.async_infer(
            "two",
            [tensor],
            sequence_id=sequence,
            sequence_start=True,
            callback=lambda result, error: answers.put(error or total(result)),
        )
    pending = 'nv_inference_pending_request_count{model="two",version="1"}'
    wait_until(lambda: server.metric_values()[pending] == 2, what="both requests to wait")
    client.raw.unload_model("two")
    assert {answers.get(timeout=60) for _ in range(2)} == {3, 4}
    server.wait_for_log("successfully unloaded 'two' version 1")


def test_cancelling_one_request_cancels_all_that_are_queued(repository, serve, connect):
    folder = repository.add("direct", *accumulator(max_batch_size=1))
    server = serve(repository)
    client = connect("grpc", server)
    answers = queue.Queue()

    def start(value, sequence, name, **flags):
        tensor = client.input("IN", np.array([[value]], dtype=np.int32))
        return client.raw.async_infer(
            "direct",
            [tensor],
            sequence_id=sequence,
            callback=lambda result, error: answers.put((name, error.message() if error else total(result))),
            **flags,
        )

    def metrics():
        return server.request("GET", "/metrics", address=server.metrics)[2].decode()

    def pending(count):
        text = metrics()
        return f'nv_inference_pending_request_count{{model="direct",version="1"}} {count}' in text

    start(-1, 1, "runs", sequence_start=True)
    wait_until((folder / "STARTED").exists, 20, "the first request")
    start(1, 1, "queued")
    wait_until(lambda: pending(1), 10, "the second request")
    cancelled = start(2, 1, "cancelled")
    wait_until(lambda: pending(2), 10, "the third request")
    start(7, 2, "next", sequence_start=True, sequence_end=True)
    wait_until(lambda: pending(3), 10, "the next sequence")
    cancelled.cancel()
    wait_until(lambda: pending(1), 10, "the cancelled ones to leave")
    (folder / "GO").touch()
    heard = dict(answers.get(timeout=30) for _ in range(4))
    assert heard["runs"] == -1
    assert heard["next"] == 7
    assert heard["queued"] == "Request cancelled while it waited for model 'direct'"
    assert 'reason="CANCELED",version="1"} 2' in metrics()


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (
            'control_input [ { name: "IN" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]',
            "sequence batching control input 'IN' of bad must not be a model input as well: the server adds it",
        ),
        (
            "direct { minimum_slot_utilization: 2 }",
            r"sequence batching minimum slot utilization must be in range \[0.0, 1.0\] for bad",
        ),
        (
            STATE.format(
                dims=1, initial='initial_state { name: "i" data_type: TYPE_INT64 dims: [1] data_file: "none" }'
            ),
            "initial state of 'STATE' for model 'bad': file 'initial_state/none' cannot be read",
        ),
    ],
)
def test_a_bad_configuration_is_refused(repository, serve, inside, message):
    repository.add("bad", STATEFUL, config(None, *TENSORS, max_batch_size=4, extra=f"sequence_batching {{ {inside} }}"))
    serve(repository, "--exit-on-error=false", ready=False).wait_for_log(message)


def test_unloading_does_not_wait_for_open_sequences(repository, serve, connect):
    repository.add("direct", *accumulator())
    server = serve(repository, "--model-control-mode=explicit", "--load-model=direct")
    client = connect("http", server)
    send(client, "direct", 1, 1, start=True)
    client.raw.unload_model("direct")
    wait_until(lambda: not client.raw.is_model_ready("direct"), 5, "the model to go")
    client.raw.load_model("direct")
    with client.fails("INVALID_ARG", needs_start(1, "direct")):
        send(client, "direct", 1, 1)


def test_an_iterative_request_runs_until_it_is_released(client):
    before = executions(client)
    result = client.infer("iterative", {"IN": np.array([[7]], dtype=np.int32)})
    assert result.as_numpy("OUT").tolist() == [[0]]
    assert int(result.as_numpy("KEY")[0, 0]) > 0, "an id was made up"
    assert executions(client) == before + 7
    named = client.infer("iterative", {"IN": np.array([[2]], dtype=np.int32)}, sequence_id=77)
    assert named.as_numpy("KEY")[0, 0] == b"77"


def executions(client):
    options = {"as_json": True} if client.protocol == "grpc" else {}
    stats = client.raw.get_inference_statistics("iterative", **options)["model_stats"][0]
    return int(stats.get("execution_count", 0))


def test_many_iterative_requests_at_once(server):
    requests = [("iterative", 1 + n % 9, 0, False, False) for n in range(60)]
    results = stream(server, requests)
    assert {r.as_numpy("OUT")[0, 0] for r in results} == {0}
    assert len({r.as_numpy("KEY")[0, 0] for r in results}) == 60


def test_an_iterative_request_may_answer_at_each_run(server):
    answers = stream(server, [("steps", 5, 0, False, False)], responses=5)
    assert [int(a.as_numpy("OUT")[0, 0]) for a in answers] == [4, 3, 2, 1, 0]
    assert len({a.as_numpy("KEY")[0, 0] for a in answers}) == 1
