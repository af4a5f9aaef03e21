"""Dynamic batching (13.2): the content and order of batches, and rejected requests."""

import concurrent.futures
import queue
import time

import numpy as np
import pytest
from harness.clients import Client
from harness.repository import config, per_request

IN = [("IN", "INT32", [1])]
OUT = [("OUT", "INT32", [1]), ("BATCH", "INT32", [1]), ("CALL", "INT32", [1])]

# Each request returns its input, the rows of its batch, and the number of the call. A negative input waits for the file
# GO, and creates the file STARTED.
BATCH = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
        self.calls = 0

    def execute(self, requests):
        self.calls += 1
        inputs = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        rows = sum(len(i) for i in inputs)
        if min(i.min() for i in inputs) < 0:
            open(os.path.join(self.folder, "STARTED"), "w").close()
            while not os.path.exists(os.path.join(self.folder, "GO")):
                time.sleep(0.005)
        return [
            pb_utils.InferenceResponse(
                [
                    pb_utils.Tensor("OUT", i),
                    pb_utils.Tensor("BATCH", np.full_like(i, rows)),
                    pb_utils.Tensor("CALL", np.full_like(i, self.calls)),
                ]
            )
            for i in inputs
        ]
"""


class Model:
    """A batching model on its own server, with an instance that can be held."""

    def __init__(self, repository, serve, batching, max_batch_size=8, inputs=IN):
        self.folder = repository.add(
            "batch", BATCH, config("batch", inputs, OUT, max_batch_size=max_batch_size, extra=batching)
        )
        self.server = serve(repository)
        self.pool = concurrent.futures.ThreadPoolExecutor(64)

    def send(self, *values, protocol="grpc", **more):
        """Starts one request with one row per value. The future returns (out, batch, call), or raises."""

        def run():
            client = Client(protocol, self.server)
            try:
                rows = np.array(values, dtype=np.int32).reshape(-1, 1)
                result = client.infer("batch", {"IN": rows}, **more)
                return [result.as_numpy(n)[:, 0].tolist() for n in ("OUT", "BATCH", "CALL")]
            finally:
                client.close()

        return self.pool.submit(run)

    def hold(self):
        """Occupies the instance until release()."""
        from harness.waiting import wait_until

        self.held = self.send(-1)
        wait_until((self.folder / "STARTED").exists, 20, "the held request")

    def release(self):
        (self.folder / "GO").touch()
        self.held.result(20)

    def statistics(self):
        return self.server.json("GET", "/v2/models/batch/stats")[1]["model_stats"][0]

    def wait_pending(self, count):
        from harness.waiting import wait_until

        name = 'nv_inference_pending_request_count{model="batch",version="1"}'
        wait_until(lambda: self.server.metric_values().get(name) == count, 20, f"{count} waiting requests")


@pytest.fixture
def model(repository, serve):
    models = []

    def make(batching, **more):
        models.append(Model(repository, serve, batching, **more))
        return models[-1]

    yield make
    for one in models:
        (one.folder / "GO").touch()
        one.pool.shutdown()


def test_preferred_size_is_sent_at_once(model):
    # A wait of 12 s would be noticed.
    batch = model("dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 12000000 }")
    start = time.monotonic()
    answers = [f.result(20) for f in [batch.send(n, n + 10) for n in range(4)]]
    assert time.monotonic() - start < 6
    for number, (out, size, _) in enumerate(answers):
        assert out == [number, number + 10]
        assert size == [8, 8]
    statistics = batch.statistics()
    assert statistics["execution_count"] == 1
    assert statistics["inference_count"] == 8
    assert [s["batch_size"] for s in statistics["batch_stats"]] == [8]
    assert statistics["inference_stats"]["success"]["count"] == 4


def test_delay_ends_the_wait_for_a_full_batch(model):
    batch = model("dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 300000 }")
    start = time.monotonic()
    assert batch.send(1).result(20)[1] == [1]
    assert 0.25 < time.monotonic() - start < 5


def test_without_delay_what_waits_goes_together(model):
    batch = model("dynamic_batching { }")
    batch.hold()
    futures = [batch.send(n) for n in range(12)]
    batch.wait_pending(12)
    batch.release()
    answers = [f.result(20) for f in futures]
    assert sorted(a[1][0] for a in answers) == [4] * 4 + [8] * 8
    assert [a[0][0] for a in answers] == list(range(12))


def test_batch_never_exceeds_the_limit(model):
    batch = model("dynamic_batching { }")
    batch.hold()
    futures = [batch.send(n, n, n) for n in range(5)]  # 3 rows each: two fit into 8
    batch.wait_pending(5)
    batch.release()
    sizes = [f.result(20)[1][0] for f in futures]
    assert max(sizes) == 6
    assert sorted(sizes) == [3, 6, 6, 6, 6]


def test_requests_of_different_shapes_run_apart(model):
    batch = model("dynamic_batching { }", inputs=[("IN", "INT32", [-1])])
    batch.hold()

    def send(columns):
        def run():
            client = Client("grpc", batch.server)
            try:
                rows = np.full((1, columns), columns, dtype=np.int32)
                return client.infer("batch", {"IN": rows}).as_numpy("BATCH")[0, 0]
            finally:
                client.close()

        return batch.pool.submit(run)

    futures = []
    for count, columns in enumerate((2, 2, 3), 1):
        futures.append(send(columns))
        batch.wait_pending(count)
    batch.release()
    assert [f.result(20) for f in futures] == [2, 2, 1]


def test_no_batching_without_dynamic_batching(model):
    batch = model("")
    batch.hold()
    futures = [batch.send(n) for n in range(5)]
    batch.wait_pending(5)
    batch.release()
    assert [f.result(20)[1] for f in futures] == [[1]] * 5


def test_higher_priority_runs_first(model):
    batch = model("dynamic_batching { priority_levels: 3 default_priority_level: 2 }", max_batch_size=1)
    batch.hold()
    futures = {}
    for count, priority in enumerate((3, 0, 1), 1):
        futures[priority] = batch.send(priority, priority=priority)
        batch.wait_pending(count)
    batch.release()
    calls = {priority: f.result(20)[2][0] for priority, f in futures.items()}
    assert calls[1] < calls[0] < calls[3]


def test_priority_beyond_the_levels_is_the_default(model):
    batch = model("dynamic_batching { priority_levels: 2 default_priority_level: 1 }", max_batch_size=1)
    batch.hold()
    low = batch.send(2, priority=2)
    batch.wait_pending(1)
    beyond = batch.send(9, priority=9)
    batch.wait_pending(2)
    batch.release()
    assert beyond.result(20)[2][0] < low.result(20)[2][0]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_full_queue_turns_away(model, protocol):
    batch = model("dynamic_batching { default_queue_policy { max_queue_size: 1 } }", max_batch_size=1)
    batch.hold()
    waiting = batch.send(1)
    batch.wait_pending(1)
    client = Client(protocol, batch.server)
    with client.fails("UNAVAILABLE", contains="Exceeds maximum queue size"):
        client.infer("batch", {"IN": np.array([[2]], dtype=np.int32)})
    client.close()
    batch.release()
    assert waiting.result(20)[0] == [1]
    name = 'nv_inference_request_failure{model="batch",reason="REJECTED",version="1"}'
    assert batch.server.metric_values()[name] == 1


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_request_that_waits_too_long_is_rejected(model, protocol):
    batch = model(
        "dynamic_batching { default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 100000 } }",
        max_batch_size=1,
    )
    batch.hold()
    client = Client(protocol, batch.server)
    with client.fails("UNAVAILABLE", contains="Request timeout expired"):
        client.infer("batch", {"IN": np.array([[2]], dtype=np.int32)})
    client.close()
    batch.release()


def test_request_timeout_counts_when_it_may(model):
    batch = model("dynamic_batching { default_queue_policy { allow_timeout_override: true } }", max_batch_size=1)
    batch.hold()
    client = Client("grpc", batch.server)
    with client.fails("UNAVAILABLE", contains="Request timeout expired"):
        client.infer("batch", {"IN": np.array([[2]], dtype=np.int32)}, timeout=50000)
    client.close()
    batch.release()


def test_request_timeout_holds_behind_a_fast_model(model):
    """A request that was handed early to a busy instance would wait there past its timeout."""
    batch = model("dynamic_batching { default_queue_policy { allow_timeout_override: true } }", max_batch_size=1)
    client = Client("grpc", batch.server)
    for value in range(200):
        client.infer("batch", {"IN": np.array([[value]], dtype=np.int32)})
    answers = queue.SimpleQueue()

    def send(value, **more):
        tensor = client.input("IN", np.array([[value]], dtype=np.int32))
        client.raw.async_infer("batch", [tensor], lambda result, error: answers.put(error), **more)

    # The server expects the instance to finish soon when the other requests arrive.
    send(-1)
    for value in range(5):
        send(value, timeout=50000)
    for _ in range(5):
        assert answers.get(timeout=20).message() == "Request timeout expired"
    (batch.folder / "GO").touch()
    assert answers.get(timeout=20) is None
    client.close()


def test_request_timeout_does_not_count_otherwise(model):
    batch = model("dynamic_batching { }", max_batch_size=1)
    batch.hold()
    waiting = batch.send(5, timeout=1)
    batch.wait_pending(1)
    batch.release()
    assert waiting.result(20)[0] == [5]


def test_delayed_requests_come_after_those_in_time(model):
    batch = model(
        "dynamic_batching { default_queue_policy { timeout_action: DELAY allow_timeout_override: true } }",
        max_batch_size=1,
    )
    batch.hold()
    late = batch.send(1, timeout=1000)
    batch.wait_pending(1)
    time.sleep(0.05)  # longer than the timeout of the first request
    patient = batch.send(2)
    batch.wait_pending(2)
    batch.release()
    assert patient.result(20)[2][0] < late.result(20)[2][0]


def test_error_of_one_request_leaves_its_batch_alone(repository, serve, connect):
    source = per_request(
        """
        if get(request, "IN").min() < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("negative", pb_utils.TritonError.INVALID_ARG))
        return respond(OUT=get(request, "IN"))
        """
    )
    repository.add(
        "picky",
        source,
        config(
            "picky",
            IN,
            [("OUT", "INT32", [1])],
            max_batch_size=4,
            extra="dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 10000000 }",
        ),
    )
    server = serve(repository)

    def send(value):
        client = connect("grpc", server)
        try:
            return client.infer("picky", {"IN": np.array([[value]], dtype=np.int32)}).as_numpy("OUT")[0, 0]
        except Exception as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, [1, -1, 2, 3]))
    assert [answers[0], *answers[2:]] == [1, 2, 3]
    assert "negative" in answers[1]
    assert server.json("GET", "/v2/models/picky/stats")[1]["model_stats"][0]["execution_count"] == 1


def test_several_instances_run_at_the_same_time(repository, serve, connect):
    source = per_request(
        """
        folder = self.args["model_repository"]
        open(os.path.join(folder, f"here-{get(request, 'IN')[0]}"), "w").close()
        deadline = time.monotonic() + 10
        # Each waits for the other: alone, none would end in time.
        while not all(os.path.exists(os.path.join(folder, f"here-{n}")) for n in (0, 1)):
            if time.monotonic() > deadline:
                raise RuntimeError("alone")
            time.sleep(0.005)
        return respond(OUT=np.array([self.args["model_instance_name"].encode()], dtype=object))
        """
    )
    repository.add(
        "pair",
        source,
        config("pair", IN, [("OUT", "STRING", [1])], extra="instance_group [ { count: 2 kind: KIND_CPU } ]"),
    )
    server = serve(repository)

    def send(value):
        result = connect("http", server).infer("pair", {"IN": np.array([value], dtype=np.int32)})
        return result.as_numpy("OUT")[0].decode()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(send, [0, 1])) == ["pair_0_0", "pair_0_1"]


@pytest.mark.parametrize(
    ("batching", "text"),
    [
        (
            "dynamic_batching { preferred_batch_size: [9] }",
            "dynamic batching preferred size must be <= max batch size for",
        ),
        ("dynamic_batching { preferred_batch_size: [0] }", "dynamic batching preferred size must be "),
    ],
)
def test_wrong_batching_configuration(repository, serve, batching, text):
    repository.add("batch", BATCH, config("batch", IN, OUT, max_batch_size=8, extra=batching))
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log(text)
