"""Streams to graphs with Python nodes: times, missing inputs, generators, faults, and many concurrent streams."""

import asyncio
import contextlib
import os
import pathlib
import signal
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness.graphs import TIMESTAMP, Stream, boundary, config, python_node, single, tensor, write_graph
from harness.ovms import OvmsServer
from harness.server import children
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

ADD_ONE = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.output = kwargs["output_names"][0]

        def execute(self, inputs):
            value = np.array(inputs[0])
            if value[0] < 0:
                raise ValueError(f"{value[0]} is below zero")
            return [Tensor(self.output, value + 1)]
"""

# Each present input is returned under its own name.
PARTIAL = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            assert inputs, "called without inputs"
            return [Tensor("out_" + tensor.name[-1], np.array(tensor)) for tensor in inputs]
"""

SUM = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            total = sum(np.array(tensor) for tensor in inputs)
            return [Tensor("out", np.append(total, np.float32(len(inputs))))]
"""

# in = [count, event, item of the event]: 1 raises, 2 yields an invalid value, 3 waits for ever.
COUNT = """
    import time
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            count, what, where = (int(each) for each in np.array(inputs[0]))
            try:
                for i in range(count):
                    if i == where and what == 1:
                        raise ValueError(f"no item {i}")
                    if i == where and what == 2:
                        yield Tensor("out", b"no list")
                    if i == where and what == 3:
                        time.sleep(0.3)
                    yield [Tensor("out", np.array([i], np.int64))]
            except GeneratorExit:
                print("closed at", i, "of", count)
                raise
"""

MEET = """
    import threading
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.all_here = threading.Barrier(8)

        def execute(self, inputs):
            self.all_here.wait(timeout=20)
            return [Tensor("out", b"met")]
"""

SESSION = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs, session):
            session.total = getattr(session, "total", 0) + np.array(inputs[0])
            return [Tensor("out", session.total + session.parameters.get("start", 0))]

        def end_session(self, session):
            print(f"ended with {int(session.total[0])}\\n", end="")  # two may end at once
"""

BLOB = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            for i in range(int(np.array(inputs[0])[0])):
                print("made", i)
                yield [Tensor("out", np.full(1 << 18, i % 256, np.uint8))]
"""

IMMEDIATE = 'input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }'


def make_graphs(folder):
    chain = boundary(["in"], ["out"])
    for i, (before, after) in enumerate([("in", "a"), ("a", "b"), ("b", "out")]):
        chain += python_node(f"node{i}", [f"I:{before}"], [f"O:{after}"])
    two = ["A:in_a", "B:in_b"], ["A:out_a", "B:out_b"]
    return [
        write_graph(folder, "chain", chain, model=ADD_ONE),
        single(folder, "one", ADD_ONE),
        write_graph(
            folder,
            "partial",
            boundary(["in_a", "in_b"], ["out_a", "out_b"]) + python_node("partial", *two, more=IMMEDIATE),
            model=PARTIAL,
        ),
        write_graph(
            folder, "sum", boundary(["in_a", "in_b"], ["out"]) + python_node("sum", two[0], ["OUT:out"]), model=SUM
        ),
        single(folder, "count", COUNT, loopback=True),
        single(folder, "meet", MEET),
        single(folder, "session", SESSION),
        single(folder, "blob", BLOB, loopback=True),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    with OvmsServer(config(*make_graphs(folder)), workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


def floats(*values):
    return np.array(values, np.float32)


def counts(count, what=0, where=0):
    return {"in": np.array([count, what, where], np.int64)}


def worker_of(server, graph):
    """Returns the process of a graph's Python nodes."""
    for pid in children(server.process.pid):
        with contextlib.suppress(OSError):  # it may have just ended
            folder = pathlib.Path(f"/proc/{pid}")
            if graph in (folder / "cmdline").read_text(errors="replace") + (folder / "comm").read_text():
                return pid
    raise AssertionError(f"no process of graph {graph}")


STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


# --- Times


def test_times_are_given_in_order(server):
    with Stream(server.grpc, "chain") as stream:
        for value in range(5):
            stream.send(**{"in": floats(value)})
        assert [stream.receive() for _ in range(5)] == [("out", [value + 3], value) for value in range(5)]


def test_times_of_the_client(server):
    with Stream(server.grpc, "one") as stream:
        for at in (None, 10, None, -3 + 20, 10**15, None):
            stream.send(timestamp=at, **{"in": floats(0)})
        assert [stream.receive()[2] for _ in range(6)] == [0, 10, 11, 17, 10**15, 10**15 + 1]


@pytest.mark.parametrize("at", [4, 5])
def test_a_time_that_does_not_rise_ends_the_stream(server, at):
    stream = Stream(server.grpc, "one")
    stream.send(timestamp=5, **{"in": floats(0)})
    assert stream.receive()[2] == 5
    stream.send(timestamp=at, **{"in": floats(0)})
    error = stream.error()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Mediapipe execution failed. MP status - " in error.message()
    assert f"Current minimum expected timestamp is 6 but received {at}" in error.message()
    stream.finish()


def test_a_time_that_is_none_is_told_within_the_stream(server):
    with Stream(server.grpc, "one") as stream:
        stream.send(timestamp=2**63 - 1, **{"in": floats(0)})
        assert stream.error().message() == (
            "Malformed packet timestamp - Timestamp::Done(); partial deserialization of first request"
        )
        stream.send(parameters={TIMESTAMP: "soon"}, **{"in": floats(0)})
        assert "Should be int64; partial deserialization of subsequent requests" in stream.error().message()
        stream.send(**{"in": floats(1)})
        assert stream.receive()[1] == [2]


def test_ids_follow_their_messages(server):
    with Stream(server.grpc, "chain") as stream:
        for name in ("first", "", "third"):
            stream.send(request_id=name, **{"in": floats(0)})
        assert [stream.response().id for _ in range(3)] == ["first", "", "third"]


# --- Inputs that arrive alone


def test_inputs_that_come_alone(server):
    with Stream(server.grpc, "partial") as stream:
        stream.send(in_b=floats(1))
        assert stream.receive() == ("out_b", [1], 0)
        stream.send(in_a=floats(2))
        assert stream.receive() == ("out_a", [2], 1)
        stream.send()
        stream.send(in_a=floats(3))
        assert stream.receive() == ("out_a", [3], 3)
    # The end does not cause a call without inputs.
    with Stream(server.grpc, "partial") as stream:
        stream.send(in_a=floats(4), in_b=floats(5))
        assert sorted(stream.receive()[:2] for _ in range(2)) == [("out_a", [4]), ("out_b", [5])]
        assert stream.finish() == []


def test_a_node_waits_for_all_inputs_of_a_time(server):
    with Stream(server.grpc, "sum") as stream:
        stream.send(timestamp=3, in_a=floats(1))
        stream.send(timestamp=3, in_b=floats(10))
        name, value, at = stream.receive()
        assert (name, value.tolist(), at) == ("out", [11, 2], 3)
        # A set completed by a later time has only the present inputs.
        stream.send(timestamp=4, in_a=floats(2))
        stream.send(timestamp=5, in_a=floats(3), in_b=floats(30))
        assert [stream.receive()[1].tolist() for _ in range(2)] == [[2, 1], [33, 2]]
        # So does a set completed by the end.
        stream.send(timestamp=6, in_b=floats(40))
        [(last, error)] = stream.finish()
        assert error is None
        assert last.as_numpy("out").tolist() == [40, 1]


# --- Invalid messages


def test_messages_that_are_wrong_leave_the_stream_open(server):
    short = tensor("in", b"xyz", "FP32")
    with Stream(server.grpc, "one") as stream:
        stream.send(nonexisting=floats(1))
        assert stream.error().message() == (
            "Unexpected input - nonexisting is unexpected; partial deserialization of first request"
        )
        stream.send(**{"in": short})
        assert stream.error().message() == (
            "Invalid content size of tensor proto - Invalid Python tensor buffer size. Actual: 3; Expected: 4; "
            "partial deserialization of subsequent requests"
        )
        stream.send(model="chain", **{"in": floats(1)})
        assert (
            stream.error().message() == "Subsequent request with incorrect servable name; validate subsequent requests"
        )
        stream.send(version="2", **{"in": floats(1)})
        assert (
            stream.error().message()
            == "Subsequent request with incorrect servable version; validate subsequent requests"
        )
        for version in ("", "0", "1"):
            stream.send(version=version, **{"in": floats(1)})
            assert stream.receive()[1] == [2]


def test_an_unknown_graph_ends_the_stream(server):
    stream = Stream(server.grpc, "nobody")
    stream.send(**{"in": floats(1)})
    error = stream.error()
    assert error.status() == "StatusCode.NOT_FOUND"
    assert error.message() == "Mediapipe graph definition with requested name is not found"
    stream.finish()


def test_a_stream_without_a_message(server):
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.stream_stream(
            STREAM,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )(iter(()))
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    assert caught.value.details() == "Client disconnected during reading first streaming request"


# --- Nodes that fail


@pytest.mark.parametrize("position", [0, 3, 9])
@pytest.mark.parametrize("graph", ["one", "chain"])
def test_a_node_that_raises_ends_its_stream_at_once(server, graph, position):
    step = 3 if graph == "chain" else 1
    with Stream(server.grpc, graph) as other:
        stream = Stream(server.grpc, graph)
        for value in range(position):
            stream.send(**{"in": floats(value)})
            assert stream.receive()[1] == [value + step]
        stream.send(**{"in": floats(-7)})
        error = stream.error()  # no further message was needed
        assert error.status() == "StatusCode.INVALID_ARGUMENT"
        assert "Mediapipe execution failed" in error.message()
        assert "Error occurred during graph execution - ValueError: -7.0 is below zero" in error.message()
        stream.finish()
        other.send(**{"in": floats(1)})
        assert other.receive()[1] == [1 + step]


# --- Generators


def test_a_generator(server):
    with Stream(server.grpc, "count") as stream:
        stream.send(**counts(50))
        assert [stream.receive() for _ in range(50)] == [("out", [i], i) for i in range(50)]
        stream.send(**counts(3))
        assert [stream.receive()[1][0] for _ in range(3)] == [0, 1, 2]


def test_a_generator_starts_at_the_time_of_its_input(server):
    stream = Stream(server.grpc, "count")
    stream.send(timestamp=1000, request_id="mine", **counts(4))
    answers = [result.get_response() for result, error in stream.finish()]
    assert [each.parameters[TIMESTAMP].int64_param for each in answers] == [1000, 1001, 1002, 1003]
    assert answers[0].id == "mine"


def test_a_generator_runs_to_its_end_after_the_client_has_said_all(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(500))
    assert [result.as_numpy("out")[0] for result, _ in stream.finish()] == list(range(500))


def test_a_generator_that_yields_nothing(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(0))
    assert stream.finish() == []


@pytest.mark.parametrize("where", [0, 1, 20])
def test_what_was_yielded_comes_before_the_error(server, where):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(30, 1, where))
    assert [stream.receive()[1][0] for _ in range(where)] == list(range(where))
    error = stream.error()
    assert f"Error occurred during graph execution - ValueError: no item {where}" in error.message()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    stream.finish()


def test_a_generator_that_yields_something_else(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(5, 2, 1))
    assert stream.receive()[1] == [0]
    assert "Error occurred during graph execution" in stream.error().message()
    stream.finish()


def test_an_input_while_a_generator_runs(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(1000, 3, 1))
    assert stream.receive()[1] == [0]
    stream.send(**counts(1))
    while True:
        result, error = stream.next()
        if error is not None:
            break
    assert "Node is already processing data. Create new stream for another request." in error.message()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    stream.finish()


def test_an_input_of_a_later_time_waits_for_the_generator(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(20, 3, 1))
    assert stream.receive()[1] == [0]
    stream.send(timestamp=10**6, **counts(2))
    left = [result.get_response() for result, _ in stream.finish()]
    assert [each.parameters[TIMESTAMP].int64_param for each in left] == [*range(1, 20), 10**6, 10**6 + 1]


def test_a_single_request_to_a_generator_ends(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        answer = client.infer("count", [tensor("in", np.array([20, 0, 0], np.int64))])
        assert answer.as_numpy("out").tolist() == [0]


def test_a_generator_is_closed_when_its_client_goes(server):
    stream = Stream(server.grpc, "count")
    stream.send(**counts(10**9))
    for i in range(10):
        assert stream.receive()[1] == [i]
    stream.client.stop_stream(cancel_requests=True)
    stream.client.close()
    server.wait_for_log(r"closed at \d+ of 1000000000\n")


def test_a_slow_client_slows_its_generator(server):
    """Few items of 256 KiB are made if no client reads. gRPC's own window is small against 1,000 of them."""
    credentials = [("grpc.max_receive_message_length", -1)]
    request = service_pb2.ModelInferRequest(model_name="blob")
    given = tensor("in", np.array([1000], np.int64))
    request.inputs.append(given._get_tensor())
    request.raw_input_contents.append(given._get_content())
    before = server.log.count("made ")
    done = threading.Event()

    def requests():
        yield request
        done.wait(60)

    with grpc.insecure_channel(server.grpc, options=credentials) as channel:
        call = channel.stream_stream(
            STREAM,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )(requests())
        first = next(call)
        assert not first.error_message
        time.sleep(2)
        made = server.log.count("made ") - before
        assert made < 500, made
        done.set()
        assert sum(1 for _ in call) == 999


# --- State of a stream


def test_each_stream_has_a_session(server):
    with Stream(server.grpc, "session") as first, Stream(server.grpc, "session") as second:
        first.send(parameters={"start": 100}, **{"in": floats(1)})
        second.send(**{"in": floats(5)})
        assert (first.receive()[1], second.receive()[1]) == ([101], [5])
        first.send(**{"in": floats(2)})
        second.send(**{"in": floats(6)})
        assert (first.receive()[1], second.receive()[1]) == ([103], [11])
    server.wait_for_log("ended with 3")
    server.wait_for_log("ended with 11")


# --- Many concurrent streams


def test_streams_are_inside_execute_together(server):
    streams = [Stream(server.grpc, "meet") for _ in range(8)]
    for stream in streams:
        stream.send(**{"in": floats(1)})
    assert [stream.receive()[1].tobytes() for stream in streams] == [b"met"] * 8
    for stream in streams:
        stream.finish()


def count_request(*values):
    request = service_pb2.ModelInferRequest(model_name="count")
    given = tensor("in", np.array(values, np.int64))
    request.inputs.append(given._get_tensor())
    request.raw_input_contents.append(given._get_content())
    return request


def item(message):
    return np.frombuffer(message.infer_response.raw_output_contents[0], np.int64)[0]


def generate(stub, count):
    """Returns all items of a generator on one stream."""
    return [item(each) for each in stub(iter([count_request(count, 0, 0)]))]


@pytest.mark.timeout(300)
def test_a_thousand_streams(server):
    """All streams are open before the first may end: the clients read the first item each, then the rest."""

    async def all_of(call):
        messages = []
        while (message := await call.read()) is not grpc.aio.EOF:
            messages.append(message)
        return messages

    async def run():
        async with grpc.aio.insecure_channel(server.grpc) as channel:
            stub = channel.stream_stream(
                STREAM,
                request_serializer=service_pb2.ModelInferRequest.SerializeToString,
                response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
            )
            calls = [stub() for _ in range(1000)]
            for call in calls:
                await call.write(count_request(20, 0, 0))
            firsts = [item(await call.read()) for call in calls]
            for call in calls:
                await call.done_writing()
            rest = [[item(message) for message in await all_of(call)] for call in calls]
            return firsts, rest, [await call.code() for call in calls]

    firsts, rest, codes = asyncio.run(run())
    assert firsts == [0] * 1000
    assert rest == [list(range(1, 20))] * 1000
    assert codes == [grpc.StatusCode.OK] * 1000


def test_clients_that_vanish(server):
    """Some clients cancel before an answer, some in the middle, some after all; other clients are unaffected."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = channel.stream_stream(
            STREAM,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )
        for reads in [0, 1, 5, 50] * 10:
            call = stub(iter([count_request(10**9, 0, 0)]))
            for _ in range(reads):
                next(call)
            call.cancel()
        assert generate(stub, 20) == list(range(20))
    pid = worker_of(server, "count")

    def cpu():
        with open(f"/proc/{pid}/stat") as file:
            return sum(int(each) for each in file.read().rpartition(")")[2].split()[11:13])

    def idle():
        before = cpu()
        time.sleep(0.3)
        return cpu() == before

    wait_until(idle, what="the generators' end")


# --- The worker dies


def test_a_worker_that_is_killed(tmp_path):
    folder = tmp_path / "graphs"
    graphs = config(single(folder, "count", COUNT, loopback=True), single(folder, "other", ADD_ONE))
    with OvmsServer(graphs, workdir=tmp_path) as server:
        with Stream(server.grpc, "other") as other:
            stream = Stream(server.grpc, "count")
            stream.send(**counts(10**9))
            assert stream.receive()[1] == [0]
            os.kill(worker_of(server, "count"), signal.SIGKILL)
            while True:
                result, error = stream.next()
                if error is not None:
                    break
            assert error.status() == "StatusCode.INVALID_ARGUMENT"
            assert "is not healthy" in error.message() or "signal 9" in error.message()
            stream.finish()
            other.send(**{"in": floats(1)})
            assert other.receive()[1] == [2]
        with grpcclient.InferenceServerClient(server.grpc) as client:
            wait_until(lambda: client.is_model_ready("count"), what="the new worker")
        stream = Stream(server.grpc, "count")
        stream.send(**counts(3))
        assert [result.as_numpy("out")[0] for result, _ in stream.finish()] == [0, 1, 2]
        server.stop()
        server.assert_nothing_left()


# --- Reload


def test_an_open_stream_stays_with_its_graph(tmp_path):
    folder = tmp_path / "graphs"
    entry = single(folder, "one", ADD_ONE)
    with OvmsServer(config(entry), workdir=tmp_path) as server:
        with Stream(server.grpc, "one") as old:
            old.send(**{"in": floats(1)})
            assert old.receive()[1] == [2]
            model = folder / "one" / "model.py"
            model.write_text(model.read_text().replace("value + 1", "value + 100"))
            assert server.reload()[0] == 201
            old.send(**{"in": floats(2)})
            assert old.receive()[1] == [3]
            with Stream(server.grpc, "one") as new:
                new.send(**{"in": floats(2)})
                assert new.receive()[1] == [102]
        # A graph that does not load leaves the running one in place.
        model.write_text("class OvmsPythonModel:\n    pass\n")
        status, told = server.reload()
        assert status >= 400, told
        with Stream(server.grpc, "one") as stream:
            stream.send(**{"in": floats(2)})
            assert stream.receive()[1] == [102]
        server.write_config(config())
        assert server.reload()[0] == 201
        stream = Stream(server.grpc, "one")
        stream.send(**{"in": floats(2)})
        error = stream.error()
        assert (error.status(), error.message()) == ("StatusCode.NOT_FOUND", "Mediapipe is retired")
        stream.finish()
        with pytest.raises(InferenceServerException):
            stream.send(**{"in": floats(2)})
