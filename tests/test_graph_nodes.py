"""Python nodes of graphs as handlers and clients see them: names, results, tensors, contents of requests, ends,
metrics."""

import json
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from harness.graphs import Stream, boundary, config, python_node, single, tensor, write_graph
from harness.ovms import OvmsServer
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

ONE = np.ones(1, np.float32)

NAMES = """
    import json
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.kwargs = kwargs
            self.calls = 0
            return "nobody looks at this"

        def execute(self, inputs):
            self.calls += 1
            told = {**self.kwargs, "seen": [t.name for t in inputs], "calls": self.calls}
            return [Tensor(self.kwargs["output_names"][0], json.dumps(told).encode())]
"""

ECHO = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            [tensor] = inputs
            return [Tensor("out", tensor, tensor.shape, tensor.datatype)]
"""

# The output is the `out` of the snippet, a text in `in`, which can use `Tensor` and numpy.
SNIPPET = """
    import numpy as np, struct, json
    from pyovms import Tensor

    class Special(Tensor):
        pass

    class Items(list):
        pass

    class OvmsPythonModel:
        def execute(self, inputs):
            names = {"np": np, "struct": struct, "Tensor": Tensor, "Special": Special, "Items": Items, "inputs": inputs,
                     "json": json, "kept": self}
            exec(bytes(inputs[0])[4:].decode(), names)
            return names.get("result", [names["out"]] if "out" in names else [])
"""

# `in` selects the outputs.
SOME = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor(name, name.encode()) for name in bytes(inputs[0])[4:].decode().split()]
"""

# Returns a list for a first input of 0 or more; otherwise a generator that never ends and yields nothing.
ENDLESS = """
    import numpy as np, time
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            value = np.array(inputs[0])
            return self.forever() if value[0] < 0 else [Tensor("out", value * 2)]

        def forever(self):
            print("begun", flush=True)
            try:
                while True:
                    time.sleep(0.01)
                    yield []
            finally:
                print("closed", flush=True)
"""

LATE = """
    import numpy as np, time
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            value = np.array(inputs[0])
            if value[0] < 0:
                raise ValueError("no")
            time.sleep(float(value[0]))
            return [Tensor("out", value)]
"""

FIRST = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", inputs[0].name.encode())]
"""

LIFE = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.name = kwargs["node_name"]
            if self.name.startswith("bad"):
                raise RuntimeError("not this one")

        def execute(self, inputs):
            return [Tensor("out", b"VERSION")]

        def finalize(self):
            print("finalized", self.name, flush=True)
            raise RuntimeError("at the end")
"""


def make_graphs(folder):
    described = python_node("names", ["Z:z", "plain", "M:1:m1", "A:0:a", "M:0:m"], ["OUT:out"])
    looped = python_node("looped", ["IN:in"], ["OUT:out"], loopback=True)
    in_options = python_node("n", ["IN:in"], ["OUT:out"]).split("node_options")[0]
    in_options += 'options { [mediapipe.PythonExecutorCalculatorOptions.ext] { handler_path: "model.py" } } }\n'
    immediate = python_node("n", ["A:a", "B:b"], ["OUT:out"],
                            more='input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }')  # fmt: skip
    twice = python_node("one", ["IN:in"], ["OUT:out1"]) + python_node("two", ["IN:in"], ["OUT:out2"])
    siblings = python_node("good", ["IN:in"], ["OUT:mid"]) + python_node("bad", ["IN:mid"], ["OUT:out"])
    graphs = [
        write_graph(folder, "names", boundary(["z", "plain", "m1", "a", "m"], ["out"]) + described, model=NAMES),
        write_graph(folder, "looped", boundary(["in"], ["out"]) + looped, model=NAMES),
        write_graph(folder, "twice", boundary(["in"], ["out1", "out2"]) + twice, model=NAMES),
        write_graph(folder, "untagged", boundary(["in"], ["out"]) + python_node("n", ["in"], ["out"]), model=ECHO),
        write_graph(folder, "indexed", boundary(["in"], ["out"]) + python_node("n", ["IN:0:in"], ["OUT:0:out"]), model=ECHO),
        write_graph(folder, "in_options", boundary(["in"], ["out"]) + in_options, model=ECHO),
        write_graph(
            folder,
            "suffix",
            boundary(["OVMS_PY_TENSOR_IMAGE:in"], ["OVMS_PY_TENSOR_RESULT:out"]) + python_node("n", ["IMAGE:in"], ["RESULT:out"]),
            model=ECHO,
        ),
        write_graph(folder, "immediate", boundary(["a", "b"], ["out"]) + immediate, model=FIRST),
        write_graph(folder, "siblings", boundary(["in"], ["out"]) + siblings, model=LIFE),
        single(folder, "snippet", SNIPPET),
        single(folder, "some", SOME, outputs=("first", "second")),
        single(folder, "endless", ENDLESS, loopback=True),
        single(folder, "late", LATE),
        single(folder, "echo", ECHO),
        single(folder, "counted", LATE),
    ]  # fmt: skip
    to_ov = 'node { calculator: "PyTensorOvTensorConverterCalculator" input_stream: "OVMS_PY_TENSOR:out" output_stream: "OVTENSOR:ov" }'
    node = python_node("snippet", ["IN:in"], ["OUT:out"])
    graphs.append(write_graph(folder, "to_ov", boundary(["in"], ["OVTENSOR:ov"]) + node + to_ov, model=SNIPPET))
    place = folder / "paths" / "deeper"
    place.mkdir(parents=True)
    (place / "neighbour.py").write_text("TEXT = 'beside'\n")
    source = "import neighbour\n" + ECHO.replace("\n    ", "\n").replace(
        "tensor, tensor.shape, tensor.datatype", "neighbour.TEXT.encode()"
    )
    (place / "handler.py").write_text(source)
    graphs.append(single(folder, "paths", "", handler="deeper/handler.py"))
    graphs.append(single(folder, "absolute", "", handler=str(place / "handler.py")))
    metrics = ["ovms_graph_error", "ovms_graph_processing_time_us", "ovms_graph_request_latency_us", "ovms_current_graphs",
               "ovms_requests_success", "ovms_requests_fail", "ovms_requests_accepted", "ovms_requests_rejected", "ovms_responses"]  # fmt: skip
    return config(*graphs, monitoring={"metrics": {"enable": True, "metrics_list": metrics}})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    with OvmsServer(make_graphs(folder), workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def told(client, graph, *names, output="out"):
    answer = client.infer(graph, [tensor(name, ONE) for name in names])
    return json.loads(answer.as_numpy(output).tobytes())


def text(value):
    return np.array([value.encode()], np.object_)


def run(client, code):
    """The response to a snippet of code."""
    return client.infer("snippet", [tensor("in", text(code))]).get_response()


def refused(call, *arguments, **more):
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **more)
    return caught.value


# --- Arguments of a handler


def test_inputs_are_ordered_by_tag_and_names_by_configuration(client):
    seen = told(client, "names", "z", "plain", "m1", "a", "m")
    assert seen.pop("base_path").endswith("/names")
    seen.pop("calls")
    seen.pop("outputs_names", None)  # as misprinted in the documentation
    assert seen == {
        "node_name": "names",
        "input_names": ["z", "plain", "m1", "a", "m"],
        "output_names": ["out"],
        "seen": ["plain", "a", "m", "z"],  # the empty tag is the first, and only index 0 is passed
    }


def test_loopback_is_among_the_names_and_not_among_the_inputs(client):
    seen = told(client, "looped", "in")
    assert seen["input_names"] == ["in", "looped_loopback"]
    assert seen["output_names"] == ["out", "looped_loopback"]
    assert seen["seen"] == ["in"]


def test_one_file_in_two_nodes_is_two_objects_for_all_requests(client):
    before = told(client, "twice", "in", output="out1")
    answer = client.infer("twice", [tensor("in", ONE)])
    one, two = (json.loads(answer.as_numpy(name).tobytes()) for name in ("out1", "out2"))
    assert (one["node_name"], two["node_name"]) == ("one", "two")
    assert one["calls"] == two["calls"] == before["calls"] + 1


@pytest.mark.parametrize("graph", ["untagged", "indexed", "in_options", "suffix", "echo"])
def test_spellings_of_nodes(client, graph):
    assert client.infer(graph, [tensor("in", ONE * 5)]).as_numpy("out").tolist() == [5]


@pytest.mark.parametrize("graph", ["paths", "absolute"])
def test_paths_of_handlers_and_their_neighbours(client, graph):
    assert client.infer(graph, [tensor("in", ONE)]).as_numpy("out").tobytes() == b"beside"


# --- Results


def test_some_of_the_outputs(server):
    with Stream(server.grpc, "some") as stream:
        stream.send(**{"in": text("second")})
        assert [stream.receive()[i] for i in (0,)] == ["second"]
        stream.send(**{"in": text("")})
        stream.send(**{"in": text("second first")})
        names = {stream.receive()[::2] for _ in range(2)}
        assert names == {("first", 2), ("second", 2)}
        assert stream.finish() == []


def test_all_outputs_are_in_a_single_answer(client):
    response = client.infer("some", [tensor("in", text("second first"))]).get_response()
    found = {each.name: raw for each, raw in zip(response.outputs, response.raw_output_contents, strict=True)}
    assert found == {"first": b"first", "second": b"second"}
    assert all(not each.HasField("contents") for each in response.outputs)


@pytest.mark.parametrize(
    ("code", "datatype", "shape", "raw"),
    [
        ("out = Tensor('out', np.arange(2))", "INT64", [2], np.arange(2).tobytes()),
        ("out = Tensor('out', np.arange(2, dtype=np.uint64))", "UINT64", [2], np.arange(2).tobytes()),
        ("out = Tensor('out', np.arange(2, dtype=np.longlong))", "INT64", [2], np.arange(2).tobytes()),
        ("out = Tensor('out', np.arange(6).reshape(2, 3).T)", "INT64", [3, 2], np.array([0, 3, 1, 4, 2, 5]).tobytes()),
        ("out = Tensor('out', np.arange(6)[::2])", "INT64", [3], np.array([0, 2, 4]).tobytes()),
        ("out = Tensor('out', np.arange(6)[::-1])", "INT64", [6], np.arange(6)[::-1].tobytes()),
        ("out = Tensor('out', data=b'ab')", "UINT8", [2], b"ab"),
        ("out = Tensor(name='out', buffer=bytearray(b'ab'))", "UINT8", [2], b"ab"),
        ("out = Tensor('out', b'abcd', shape=[2, 2], datatype='my_type')", "my_type", [2, 2], b"abcd"),
        ("out = Tensor('out', b'abcd', (1,), 'FP32')", "FP32", [1], b"abcd"),
        ("out = Tensor('out', np.float32(7))", "FP32", [], np.float32(7).tobytes()),
        ("out = Tensor('out', np.zeros((2, 0, 3), np.int8))", "INT8", [2, 0, 3], b""),
        ("out = Tensor('out', np.array('my string'))", "9w", [], np.array("my string").tobytes()),
        ("a = np.array(['x']); out = Tensor('out', a, datatype=a.dtype.str)", "<U1", [1], np.array(["x"]).tobytes()),
        ("a = np.zeros(2, np.int8); out = Tensor('out', a); a[1] = 5", "INT8", [2], b"\0\5"),
        ("out = Special('out', b'ab')", "UINT8", [2], b"ab"),
        ("result = Items([Tensor('out', b'ab')])", "UINT8", [2], b"ab"),
        ("out = Tensor('out', Tensor('other', np.array([1, 2], np.int16)))", "INT16", [2], b"\1\0\2\0"),
        ("out = Tensor('out', memoryview(b'abcd')[1:3])", "UINT8", [2], b"bc"),
        ("out = Tensor('out', struct.pack('f', 1.5), [1], 'FP32')", "FP32", [1], np.float32(1.5).tobytes()),
        ("out = Tensor('out', np.array([True, False]))", "BOOL", [2], b"\1\0"),
        ("out = Tensor('out', np.array([1, 2], np.float16))", "FP16", [2], np.array([1, 2], np.float16).tobytes()),
    ],
)  # fmt: skip
def test_tensors_of_handlers(client, code, datatype, shape, raw):
    response = run(client, code)
    [out] = response.outputs
    assert (out.name, out.datatype, list(out.shape)) == ("out", datatype, shape)
    assert list(response.raw_output_contents) == [raw]


TRIED = """
def caught(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
t = Tensor("t", np.arange(6, dtype=np.int16).reshape(2, 3), [6], "my_type")
given = inputs[0]
told = {
    "set": [caught(lambda n=n: setattr(t, n, 1)) for n in ("name", "shape", "datatype", "data", "size")],
    "write": caught(lambda: memoryview(t).__setitem__((0, 0), 1)),
    "write_given": caught(lambda: given.data.__setitem__(0, 1)),
    "no_buffer": caught(lambda: Tensor("t", 5)),
    "name": caught(lambda: Tensor(5, b"x")),
    "over": [t.shape, t.datatype, t.data.shape, t.data.format, t.data.strides, t.data.itemsize, t.size],
    "as_numpy": np.array(t).tolist(),
    "from_buffer": np.frombuffer(t, dtype=np.int16).tolist(),
    "unpacked": struct.unpack("6h", bytes(t)),
    "scalar": [Tensor("s", np.float64(1)).shape, Tensor("s", np.float64(1)).data.strides],
}
out = Tensor("out", json.dumps(told).encode())
"""


def test_tensors_in_handlers(client):
    assert json.loads(run(client, TRIED).raw_output_contents[0]) == {
        "set": ["AttributeError"] * 5,
        "write": "TypeError",
        "write_given": "TypeError",
        "no_buffer": "TypeError",
        "name": "TypeError",
        "over": [[6], "my_type", [2, 3], "h", [6, 2], 2, 12],
        "as_numpy": [[0, 1, 2], [3, 4, 5]],
        "from_buffer": [0, 1, 2, 3, 4, 5],
        "unpacked": [0, 1, 2, 3, 4, 5],
        "scalar": [[], []],
    }


def test_a_tensor_of_a_request_can_be_kept(client):
    run(client, "kept.tensor = inputs[0]; out = Tensor('out', b'')")
    for _ in range(20):
        run(client, "out = Tensor('out', b'" + "x" * 200 + "')")
    assert b"kept.tensor = inputs[0]" in run(client, "out = Tensor('out', kept.tensor)").raw_output_contents[0]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("raise SystemExit('out of here')", "SystemExit: out of here"),
        ("raise KeyboardInterrupt()", "KeyboardInterrupt"),
        ("raise ValueError('gr\u00fcn \u2713')", "ValueError: gr\u00fcn \u2713"),
        ("class Mine(Exception): pass\nraise Mine('own')", "Mine: own"),
        ("result = {}", "Expected: list or generator. Received: dict"),
        ("result = [5]", "Expected: Tensor. Received: int"),
        ("result = [Tensor('out', b'x'), None]", "Expected: Tensor. Received: NoneType"),
        ("result = [Tensor('in', b'x')]", "Tensor name: in is not a valid node output"),
    ],
)
def test_what_goes_wrong_is_told(client, code, found):
    error = refused(run, client, code)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed" in error.message()
    assert 'Calculator::Process() for node "snippet" failed: Error occurred during graph execution' in error.message()
    assert found in error.message()


def test_what_nodes_give_to_converters(client):
    """Converters use the shape and datatype of a node's tensor, not those of its buffer."""

    def ask(code):
        return client.infer("to_ov", [tensor("in", text(code))])

    response = ask("out = Tensor('out', np.arange(4, dtype=np.uint8), [2], 'INT16')").get_response()
    [out] = response.outputs
    assert (out.name, out.datatype, list(out.shape)) == ("ov", "INT16", [2])
    assert response.raw_output_contents[0] == b"\0\1\2\3"
    for code, found in (
        ("Tensor('out', b'1234', [-1], 'FP32')", "ValueError: a tensor has the negative dimension -1"),
        ("Tensor('out', b'1234', [2], 'FP32')", "python buffer size: 4; OV tensor size: 8; mismatch"),
        ("Tensor('out', b'1234', [1], 'mine')", "Undefined precision in input python tensor: mine"),
    ):
        error = refused(ask, f"out = {code}")
        assert error.status() == "StatusCode.INVALID_ARGUMENT"
        assert found in error.message()


def test_a_node_with_loopback_may_answer_a_list(server, client):
    assert client.infer("endless", [tensor("in", ONE)]).as_numpy("out").tolist() == [2]
    with Stream(server.grpc, "endless") as stream:
        for number in range(3):
            stream.send(**{"in": ONE * number})
            assert stream.receive() == ("out", [2 * number], number)


def test_the_end_of_a_stream_is_no_call_of_immediate_nodes(server):
    stream = Stream(server.grpc, "immediate")
    stream.send(b=ONE)
    assert stream.receive()[1].tobytes() == b"b"
    stream.send(a=ONE)
    assert stream.receive()[1].tobytes() == b"a"
    assert stream.finish() == []


def test_parameters_of_tritons_clients_do_no_harm(server):
    with Stream(server.grpc, "echo") as stream:
        stream.client.async_stream_infer(
            "echo", [tensor("in", ONE)], enable_empty_final_response=True, request_id="mine"
        )
        response = stream.response()
        assert (response.id, response.parameters["OVMS_MP_TIMESTAMP"].int64_param) == ("mine", 0)
        stream.send(**{"in": ONE})
        assert stream.receive()[2] == 1


# --- Contents of requests


def request(datatype, shape, graph="echo", raw=None, **contents):
    made = service_pb2.ModelInferRequest(model_name=graph)
    made.inputs.add(name="in", datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(made.inputs[0].contents, field).extend(values)
    made.raw_input_contents.extend(raw or [])
    return made


@pytest.mark.parametrize(
    ("datatype", "field", "dtype"),
    [
        ("BOOL", "bool_contents", "bool"), ("INT8", "int_contents", "int8"), ("INT16", "int_contents", "int16"),
        ("INT32", "int_contents", "int32"), ("INT64", "int64_contents", "int64"), ("UINT8", "uint_contents", "uint8"),
        ("UINT16", "uint_contents", "uint16"), ("UINT32", "uint_contents", "uint32"), ("UINT64", "uint64_contents", "uint64"),
        ("FP32", "fp32_contents", "float32"), ("FP64", "fp64_contents", "float64"),
    ],
)  # fmt: skip
def test_typed_contents(stub, datatype, field, dtype):
    values = np.array([0, 1, 1], dtype)
    response = stub.ModelInfer(request(datatype, [3], **{field: values.tolist()}))
    assert (response.outputs[0].datatype, list(response.outputs[0].shape)) == (datatype, [3])
    assert response.raw_output_contents[0] == values.tobytes()
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(request(datatype, [2], **{field: values.tolist()}))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith("Invalid number of values in tensor proto container - Expected: ")


def test_strings_in_contents(stub):
    response = stub.ModelInfer(request("BYTES", [2], bytes_contents=[b"ab", b""]))
    assert response.raw_output_contents[0] == b"\2\0\0\0ab\0\0\0\0"


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (request("my_type", [1], bytes_contents=[b"x"]), "custom datatypes are allowed only when raw_input_contents is used"),
        (request("FP16", [1], fp32_contents=[1]), "FP16"),
        (request("FP32", [1], raw=[b"1234"], fp32_contents=[1]), "Passing buffers both in"),
        (request("FP32", [1], raw=[b"1234", b"5678"]), "Size of raw_input_contents: 2 is different than number of inputs: 1"),
    ],
)  # fmt: skip
def test_contents_that_are_wrong(stub, made, found):
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(made)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
    assert found in caught.value.details()


def test_rest_json(server):
    def ask(graph, data, datatype, shape=(1,), **more):
        given = {"name": "in", "shape": shape, "datatype": datatype, "data": data}
        return server.json("POST", f"/v2/models/{graph}/infer", {"inputs": [given], **more})

    status, answer = ask("echo", [1.5], "FP16")
    assert status == 400, answer
    assert ask("snippet", ["out = Tensor('out', b'ab')"], "BYTES")[1]["outputs"][0]["data"] == [97, 98]
    framed = "out = Tensor('out', b'\\x02\\0\\0\\0ab\\x01\\0\\0\\0c', [2], 'BYTES')"
    assert ask("snippet", [framed], "BYTES")[1]["outputs"] == [
        {"name": "out", "shape": [2], "datatype": "BYTES", "data": ["ab", "c"]}
    ]
    status, answer = ask("snippet", ["out = Tensor('out', b'no frame', [1], 'BYTES')"], "BYTES")
    assert status == 500, answer
    status, answer = ask("snippet", ["out = Tensor('out', b'x', [1], 'mine')"], "BYTES")
    assert status == 400
    assert "Unsupported data precision detected" in answer["error"]
    assert ask("echo", [1], "INT32", parameters={"OVMS_MP_TIMESTAMP": 3})[1]["parameters"]["OVMS_MP_TIMESTAMP"] == 3


# --- Deadlines and clients that disconnect


def test_the_deadline_of_a_request(server, client):
    began = time.monotonic()
    error = refused(client.infer, "late", [tensor("in", ONE * 3)], client_timeout=0.3)
    assert error.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert time.monotonic() - began < 2.9
    assert client.infer("late", [tensor("in", ONE * 0)]).as_numpy("out").tolist() == [0]


def closed_after(server, act):
    closed, begun = (server.log.count(word) for word in ("closed", "begun"))
    waiting = act()
    wait_until(lambda: server.log.count("begun") == begun + 1, what="the generator's begin")
    if waiting:
        waiting()
    wait_until(lambda: server.log.count("closed") == closed + 1, what="the generator's end")


def test_a_request_that_is_cancelled(server, client):
    answers = []

    def ask():
        call = client.async_infer(
            "endless", [tensor("in", -ONE)], callback=lambda result, error: answers.append((result, error))
        )
        return call.cancel

    closed_after(server, ask)
    wait_until(lambda: answers, what="the answer")
    assert answers[0][0] is None
    assert "cancel" in str(answers[0][1]).lower()


def test_a_request_that_nobody_waits_for(server, client):
    closed_after(server, lambda: refused(client.infer, "endless", [tensor("in", -ONE)], client_timeout=0.5) and None)


def test_a_client_of_rest_that_goes(server):
    def ask():
        connection = server.connection(timeout=30)
        body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [-1]}]}
        connection.request("POST", "/v2/models/endless/infer", json.dumps(body))
        return connection.close

    closed_after(server, ask)


def test_the_deadline_of_a_stream(server):
    answers = []

    def ask():
        client = grpcclient.InferenceServerClient(server.grpc)
        client.start_stream(lambda result, error: answers.append(error), stream_timeout=0.5)
        client.async_stream_infer("endless", [tensor("in", -ONE)])
        return lambda: (wait_until(lambda: answers, what="the deadline"), client.close())

    closed_after(server, ask)
    assert answers[0].status() == "StatusCode.DEADLINE_EXCEEDED"


# --- Metrics


def graph_metrics(server):
    """Returns {(series, method or None, interface or None): value} of the graph `counted`."""
    status, _, body = server.request("GET", "/metrics")
    assert status == 200
    found = {}
    for line in body.decode().splitlines():
        if 'name="counted"' in line and "_bucket" not in line:
            name, _, rest = line.partition("{")
            labels = dict(each.split("=") for each in rest.partition("}")[0].split(","))
            key = (
                name.removeprefix("ovms_"),
                labels.get("method", "").strip('"'),
                labels.get("interface", "").strip('"'),
            )
            found[key] = float(line.rpartition(" ")[2])
    return found


def test_metrics(server, client):
    before = graph_metrics(server)
    for _ in range(3):
        client.infer("counted", [tensor("in", ONE * 0)])
    for _ in range(2):
        refused(client.infer, "counted", [tensor("in", -ONE)])
    refused(client.infer, "counted", [tensor("nobody", ONE)])
    with httpclient.InferenceServerClient(server.http) as rest:
        rest.infer("counted", [tensor("in", ONE * 0, module=httpclient)])
    with Stream(server.grpc, "counted") as stream:
        for _ in range(4):
            stream.send(**{"in": ONE * 0})
            stream.receive()
        stream.send(nobody=ONE)
        stream.error()
        assert graph_metrics(server)[("current_graphs", "", "")] == 1
    wait_until(lambda: graph_metrics(server)[("current_graphs", "", "")] == 0, what="the end of the run")
    after = graph_metrics(server)
    grown = {key: value - before.get(key, 0) for key, value in after.items() if not key[0].endswith("_sum")}
    assert {key: value for key, value in grown.items() if value} == {
        ("requests_success", "ModelInfer", "gRPC"): 3,
        ("requests_fail", "ModelInfer", "gRPC"): 3,
        ("requests_success", "ModelInfer", "REST"): 1,
        ("requests_success", "ModelInferStream", "gRPC"): 1,
        # Each message of a stream counts; messages that are not an input of the graph were not accepted.
        ("requests_accepted", "ModelInfer", "gRPC"): 5,
        ("requests_rejected", "ModelInfer", "gRPC"): 1,
        ("requests_accepted", "ModelInfer", "REST"): 1,
        ("requests_accepted", "ModelInferStream", "gRPC"): 4,
        ("requests_rejected", "ModelInferStream", "gRPC"): 1,
        ("responses", "ModelInfer", "gRPC"): 3,
        ("responses", "ModelInfer", "REST"): 1,
        ("responses", "ModelInferStream", "gRPC"): 4,
        ("graph_error", "", ""): 2,
        ("graph_processing_time_us_count", "ModelInfer", ""): 6,
        ("graph_processing_time_us_count", "ModelInferStream", ""): 1,
        ("graph_request_latency_us_count", "ModelInfer", ""): 7,
        ("graph_request_latency_us_count", "ModelInferStream", ""): 1,
    }


# --- Ends


def test_finalize_of_siblings_of_one_that_fails(server, client):
    assert not client.is_model_ready("siblings")
    for text in ("finalized good", "finalized bad"):
        server.wait_for_log(text)
        assert server.log.count(text) == 1
    assert "not this one" in server.log


def test_finalize_on_reload_and_when_a_graph_is_retired(tmp_path):
    entry = write_graph(
        tmp_path / "graphs", "life", boundary(["in"], ["out"]) + python_node("one", ["IN:in"], ["OUT:out"]),
        model=LIFE.replace("VERSION", "first"),
    )  # fmt: skip
    other = single(tmp_path / "graphs", "other", ECHO)
    handler = tmp_path / "graphs" / "life" / "model.py"
    with OvmsServer(config(entry, other), workdir=tmp_path) as server:
        with grpcclient.InferenceServerClient(server.grpc) as client:

            def ask():
                return client.infer("life", [tensor("in", ONE)]).as_numpy("out").tobytes()

            assert ask() == b"first"
            assert server.reload()[0] == 200
            assert server.log.count("finalized one") == 0
            handler.write_text(handler.read_text().replace("first", "second"))
            assert server.reload()[0] == 201
            assert ask() == b"second"
            wait_until(lambda: server.log.count("finalized one") == 1, what="finalize")
            server.write_config(config(other))
            assert server.reload()[0] == 201
            wait_until(lambda: server.log.count("finalized one") == 2, what="finalize")
            error = refused(ask)
            assert (error.status(), error.message()) == ("StatusCode.NOT_FOUND", "Mediapipe is retired")
            wait_until(lambda: server.states("life") == {1: "END"}, what="the end of the graph")
            assert not client.is_model_ready("life")
            server.write_config(config(entry, other))
            assert server.reload()[0] == 201
            assert ask() == b"second"
            assert server.states("life") == {1: "AVAILABLE"}
        server.stop()
        assert server.log.count("finalized one") == 3
