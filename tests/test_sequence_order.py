"""Clients that send the next request of a sequence before the last answer get the same answers as in strict order, even
with encoded images or pipeline nodes in between."""

import json
import queue
import struct

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import pipelines
from harness import sequences as many
from harness.graphs import config
from harness.pictures import png
from harness.pipelines import node
from harness.repository import Repository, per_request
from harness.repository import config as model_config
from harness.server import Server
from harness.stateful_models import running_sum_model, stateful_entry
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

SHAPE, PICTURE = (1, 4), [1, 2, 2, 3]
SEQUENCES, STEPS = 5, 40
MISSING = "Sequence with provided ID does not exist"


def pipeline(name, *nodes):
    return pipelines.pipeline(name, *nodes, source="x", result="y")


# Takes a varying time per request, so that requests of one client could finish in any order.
UNEVEN = per_request("""
    x = get(request, "x")
    time.sleep(abs(float(x[0, 0])) % 0.008)
    return respond(y=x)
""")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequence-order")
    repository = Repository(folder / "repository")
    x, y = ("x", "FP32", [1, 4]), ("y", "FP32", [1, 4])
    several = "instance_group [ { count: 4 kind: KIND_CPU } ]"
    repository.add("uneven", UNEVEN, model_config("uneven", [x], [y], extra=several))
    entries = [
        stateful_entry("sum", running_sum_model(), folder, allow_in_pipelines=True, nireq=4),
        stateful_entry("sum2", running_sum_model(), folder, allow_in_pipelines=True, nireq=4),
        stateful_entry(
            "pictures", running_sum_model(shape=PICTURE), folder, layout="NHWC", allow_in_pipelines=True, nireq=2
        ),
        stateful_entry(
            "pictures2", running_sum_model(shape=PICTURE), folder, layout="NHWC", allow_in_pipelines=True, nireq=2
        ),
    ]
    entries_of_pipelines = [
        pipeline("two", node("a", "sum", "request/x"), node("u", "uneven", "a/y"), node("b", "sum2", "u/y")),
        pipeline("seen", node("a", "pictures", "request/x"), node("b", "pictures2", "a/y")),
    ]
    path = folder / "config.json"
    path.write_text(json.dumps(config(models=entries, pipeline_config_list=entries_of_pipelines)))
    with Server([repository.path], "--config_path", path, workdir=folder) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


def ask(client, model, sequence, x, *, start=False, end=False):
    tensor = grpcclient.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    return client.infer(model, [tensor], sequence_id=sequence, sequence_start=start, sequence_end=end).as_numpy("y")


def encoded(message, picture):
    """Returns the request with a picture's file instead of its numbers."""
    [tensor] = message.inputs
    tensor.datatype = "BYTES"
    tensor.shape[:] = [1]
    message.raw_input_contents[0] = struct.pack("<I", len(picture)) + picture
    return message


def send_all(server, model, inputs, first_id, make=many.request, streams=1):
    """Sends all steps of all sequences without waiting, in an order drawn from a seed. Returns the answers of each
    sequence.

    A sequence stays on one stream, which keeps its order.
    """
    count, steps = inputs.shape[:2]
    order = np.random.default_rng(first_id).permutation(np.repeat(np.arange(count), steps))
    replies = queue.SimpleQueue()
    sent = [0] * count
    answers = np.full(inputs.shape, np.nan, np.float32)
    with many.streams(server.grpc, streams, replies) as opened:
        for which in order:
            step = sent[which]
            sent[which] += 1
            message = make(
                model, first_id + which, inputs[which, step], step == 0, step == steps - 1, request_id=f"{which} {step}"
            )
            opened[which % streams].send(message)
        for _ in order:
            name, answer = replies.get(timeout=120)
            assert isinstance(answer, dict), (name, answer)
            which, step = map(int, name.split())
            answers[which, step] = np.frombuffer(answer["y"], np.float32).reshape(inputs.shape[2:])
    return answers


def one_by_one(client, model, inputs, first_id):
    """The same, but each step waits for the previous answer."""
    steps = len(inputs[0])
    return np.array(
        [
            [
                ask(client, model, first_id + which, x, start=step == 0, end=step == steps - 1)
                for step, x in enumerate(row)
            ]
            for which, row in enumerate(inputs)
        ]
    )


@pytest.mark.parametrize("streams", [1, 3])
def test_a_pipeline_with_two_stateful_nodes(server, client, streams):
    inputs = np.random.default_rng(streams).standard_normal((SEQUENCES, STEPS, *SHAPE)).astype(np.float32)
    expected = one_by_one(client, "two", inputs, 100)
    np.testing.assert_array_equal(send_all(server, "two", inputs, 1000 * streams, streams=streams), expected)
    for name in ("sum", "sum2"):
        counts = many.sequence_counts(server, name)
        assert (counts["active"], counts["rejected"], counts["lost"]) == (0, 0, 0)


def test_calls_of_their_own(server, client):
    """Separate calls without a stream keep the order: each is sent once the server's metrics show the previous one."""
    before = many.sequence_counts(server, "sum")["started"]
    answers = queue.SimpleQueue()

    def send(x, **flags):
        tensor = grpcclient.InferInput("x", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        client.async_infer("two", [tensor], lambda result, error: answers.put(error or result), sequence_id=50, **flags)

    x = np.ones(SHAPE, np.float32)
    send(x, sequence_start=True)
    wait_until(lambda: many.sequence_counts(server, "sum")["started"] > before, 30, "the start of the sequence")
    send(x, sequence_end=True)
    results = [answers.get(timeout=60) for _ in range(2)]
    np.testing.assert_array_equal([result.as_numpy("y")[0, 0] for result in results], [1, 1 + 2])


def pictures_of(rng, count, steps):
    """Returns pictures [count, steps, 1, 2, 2, 3], each of one colour, so that resizing does not change it."""
    colours = rng.integers(0, 256, (count, steps, 1, 1, 1, 3))
    return np.broadcast_to(colours, (count, steps, 1, 2, 2, 3)).astype(np.float32)


@pytest.mark.parametrize("model", ["pictures", "seen"])
def test_images_of_all_sizes(server, model):
    """Images that take long to decode are not overtaken by small ones, or by numbers."""
    rng = np.random.default_rng(7)
    inputs = pictures_of(rng, 4, 40)
    sizes = rng.choice([0, 2, 900], inputs.shape[:2], p=[0.3, 0.5, 0.2])
    expected = np.cumsum(inputs, axis=1)
    if model == "seen":
        expected = np.cumsum(expected, axis=1)

    def make(name, sequence, x, *args, request_id):
        message = many.request(name, sequence, x, *args, request_id=request_id)
        which, step = map(int, request_id.split())
        size = sizes[which, step]
        if size == 0:
            return message
        # Files are red, green, blue; the model sees blue, green, red.
        return encoded(message, png(np.broadcast_to(x[0, 0, 0, ::-1], (size, size, 3)).astype(np.uint8)))

    first = 3000 if model == "pictures" else 4000
    np.testing.assert_array_equal(send_all(server, model, inputs, first, make), expected)


def test_what_fails_in_between_lets_the_others_go_on(server):
    replies = queue.SimpleQueue()
    inputs = pictures_of(np.random.default_rng(8), 1, 5)[0]
    with many.streams(server.grpc, 1, replies) as [stream]:
        for step, x in enumerate(inputs):
            message = many.request("seen", 300, x, step == 0, step == 4, request_id=str(step))
            if step == 1:
                message = encoded(message, png(np.zeros((900, 900, 3), np.uint8))[:-100])
            if step == 2:
                message = encoded(message, b"no image")
            stream.send(message)
        answers = dict(replies.get(timeout=60) for _ in inputs)
    assert "Image parsing failed" in answers["1"]
    assert "Image parsing failed" in answers["2"]
    sums = np.cumsum(inputs[[0, 3, 4]], axis=0)
    # The second model sums the first one's sums.
    for name, expected in zip("034", np.cumsum(sums, axis=0), strict=True):
        np.testing.assert_array_equal(np.frombuffer(answers[name]["y"], np.float32), expected.ravel())


def test_clients_that_vanish_end_what_they_have_ended(server, client):
    """After its client has disconnected, an end still waits for earlier requests, and still takes effect."""
    before = {name: many.sequence_counts(server, name)["active"] for name in ("sum", "sum2")}
    sequences, steps = range(400, 420), 10
    x = np.ones(SHAPE, np.float32)
    replies = queue.SimpleQueue()
    gone = many.Stream(server.grpc, replies)
    for sequence in sequences:
        gone.send(many.request("two", sequence, x, start=True))
        for _ in range(steps):
            gone.send(many.request("two", sequence, x))
        gone.send(many.request("two", sequence, x, end=True))
    # The server has read all of the first sequences, but has run hardly any of it.
    replies.get(timeout=60)
    gone.vanish()
    # New requests run after all requests that the server has read from the stream.
    for sequence in sequences:
        try:
            ask(client, "two", sequence, x)
        except InferenceServerException as fault:
            assert MISSING in fault.message()
        else:
            ask(client, "two", sequence, x, end=True)
    after = {name: many.sequence_counts(server, name)["active"] for name in ("sum", "sum2")}
    assert after == before


SELF_CALLER = per_request("""
    call = pb_utils.InferenceRequest(
        model_name="loop", inputs=[pb_utils.Tensor("x", get(request, "x"))], requested_output_names=["y"],
        correlation_id=request.correlation_id() + int(get(request, "x")[0, 0]), flags=request.flags(),
    )
    if get(request, "x")[0, 0] == 2:
        return respond(y=get(request, "x"))
    answer = call.exec()
    if answer.has_error():
        raise pb_utils.TritonModelException(answer.error().message())
    return respond(y=answer.output_tensors()[0].as_numpy())
""")


def test_a_node_that_calls_its_own_sequence(tmp_path):
    repository = Repository(tmp_path / "repository")
    x, y = ("x", "FP32", [1, 4]), ("y", "FP32", [1, 4])
    repository.add("caller", SELF_CALLER, model_config("caller", [x], [y]))
    entries = [stateful_entry("sum", running_sum_model(), tmp_path, allow_in_pipelines=True)]
    loop = pipeline("loop", node("c", "caller", "request/x"), node("a", "sum", "c/y"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config(models=entries, pipeline_config_list=[loop])))
    with (
        Server([repository.path], "--config_path", path, workdir=tmp_path) as server,
        grpcclient.InferenceServerClient(server.grpc) as client,
    ):
        with pytest.raises(InferenceServerException) as caught:
            ask(client, "loop", 7, np.zeros(SHAPE, np.float32), start=True)
        text = "the call to model 'loop' would wait for itself: loop (sequence 7) -> caller_0 -> loop"
        assert text in caught.value.message()
        # No state is left behind.
        np.testing.assert_array_equal(
            ask(client, "loop", 7, np.full(SHAPE, 2, np.float32), start=True), np.full(SHAPE, 2)
        )
