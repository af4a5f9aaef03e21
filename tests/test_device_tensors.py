"""Tensors passed between models on a device, on the stand-in for NVIDIA's driver."""

import json
import pathlib

import numpy as np
import pytest
from harness.gpus import DRIVER, Gpus
from harness.graphs import config as json_config
from harness.graphs import write_graph
from harness.repository import config, per_request
from harness.waiting import wait_until
from test_graph_strands import step as graph_step

ARRAYS = (pathlib.Path(__file__).parent / "harness" / "device_arrays.py").read_text()
VECTOR = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
FIRST = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"
KEEPS = ' parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'

HEADER = """
import gc, os, sys
sys.path.insert(0, os.path.dirname(__file__))
import device_arrays as arrays

def place(tensor):
    kind, gpu, address, shape = arrays.look(tensor.to_dlpack())
    assert (kind, gpu) == tensor.__dlpack_device__()
    return address, shape[0]

def tensor(name, array):
    return pb_utils.Tensor.from_dlpack(name, array)
"""
# Copies its input to the device.
MAKER = HEADER + per_request(
    "return pb_utils.InferenceResponse([tensor('OUT', arrays.Array(list(get(request, 'IN'))))])"
)
# Copies data on the device within the device, and passes other data on; reports where it was.
COPIER = HEADER + per_request(
    """
    given = pb_utils.get_input_tensor_by_name(request, "IN")
    if given.is_cpu():
        assert given.as_numpy()[0] != -1
        return respond(OUT=given.as_numpy(), HERE=np.array([0], np.float32))
    copy = arrays.Copy(*place(given))
    return pb_utils.InferenceResponse(
        [tensor("OUT", copy), pb_utils.Tensor("HERE", np.array([1], np.float32))]
    )
    """
)
# Copies its input to the device, calls `self.callee` with it, and copies the answer; "memory" is the preferred memory
# of the call.
CALLER = HEADER + per_request(
    """
    callee, preferred, on_device = (json.loads(self.args["model_config"])["parameters"][key]["string_value"]
                                    for key in ("callee", "memory", "sends"))
    given = get(request, "IN")
    more = {}
    if preferred:
        more["preferred_memory"] = pb_utils.PreferredMemory(getattr(pb_utils, "TRITONSERVER_MEMORY_" + preferred), 0)
    sent = tensor("IN", arrays.Array(list(given))) if on_device == "device" else pb_utils.Tensor("IN", given)
    call = pb_utils.InferenceRequest(model_name=callee, inputs=[sent], requested_output_names=["OUT", "HERE"], **more)
    del sent
    answer = call.exec()
    if answer.has_error():
        return pb_utils.InferenceResponse(error=answer.error())
    got = pb_utils.get_output_tensor_by_name(answer, "OUT")
    here = pb_utils.get_output_tensor_by_name(answer, "HERE")
    arrays.use(0)
    # What was made on the CPU has been copied, and nothing else is to be waited for.
    here = here.as_numpy()[0] if here.is_cpu() else arrays.read(*place(here), arrays.make_stream())[0]
    if got.is_cpu():
        return respond(OUT=got.as_numpy(), HERE=np.array([here, 0], np.float32))
    copy = arrays.Copy(*place(got))
    return pb_utils.InferenceResponse(
        [tensor("OUT", copy), pb_utils.Tensor("HERE", np.array([here, 1], np.float32))]
    )
    """
)
# Writes to its input, after or before the other consumer has had time to read it.
SPOILER = HEADER + per_request(
    """
    address, count = place(pb_utils.get_input_tensor_by_name(request, "IN"))
    arrays.clear(address, count)
    return respond(OUT=np.array([1], np.float32))
    """
)
HOST = per_request("return respond(OUT=get(request, 'IN') + 1)")
WITH_PLACE = {"inputs": VECTOR["inputs"], "outputs": [*VECTOR["outputs"], ("HERE", "FP32", [-1])]}


def step(model, inputs, outputs):
    maps = [f'input_map {{ key: "{key}" value: "{value}" }}' for key, value in inputs.items()]
    maps += [f'output_map {{ key: "{key}" value: "{value}" }}' for key, value in outputs.items()]
    return f'step [ {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }} ]'


def ensemble(name, outputs, *steps):
    inputs = [("IN", "FP32", [-1])]
    tensors = [(output, "FP32", [-1]) for output in outputs]
    extra = f'platform: "ensemble" ensemble_scheduling {{ {" ".join(steps)} }}'
    return config(name, inputs, tensors, backend=None, extra=extra)


def parameters(**values):
    return "".join(
        f' parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in values.items()
    )


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    gpus = Gpus(tmp_path_factory.mktemp("standin") / "gpus")
    yield gpus
    gpus.assert_nothing_left()


def fill(repository):
    def add(name, source, text, extra=""):
        repository.add(name, source, config(name, **text, extra=extra), files={"1/device_arrays.py": ARRAYS})

    add("maker", MAKER, VECTOR, FIRST)
    add("copier", COPIER, WITH_PLACE, FIRST + KEEPS)
    add("reader", COPIER, WITH_PLACE, FIRST)  # its inputs are copied to the device
    add("spoiler", SPOILER, VECTOR, FIRST + KEEPS)
    add("host", HOST, VECTOR, "instance_group [ { kind: KIND_CPU } ]")
    for name, kind, callee, memory, sends in (
        ("device-to-device", FIRST, "copier", "GPU", "device"),
        ("by-default", FIRST, "copier", "", "device"),
        ("to-cpu", FIRST, "copier", "CPU", "device"),
        ("to-reader", FIRST, "reader", "GPU", "device"),
        ("from-host", FIRST, "copier", "GPU", "host"),
        ("cpu", "instance_group [ { kind: KIND_CPU } ]", "copier", "GPU", "host"),
        ("unknown", FIRST, "nobody", "GPU", "device"),
        ("to-ensemble", FIRST, "takes", "GPU", "device"),
    ):
        add(name, CALLER, WITH_PLACE, kind + parameters(callee=callee, memory=memory, sends=sends))
    elsewhere = FIRST + parameters(callee="copier", memory="GPU", sends="host")
    add("elsewhere", CALLER.replace("+ preferred), 0)", "+ preferred), 7)"), WITH_PLACE, elsewhere)
    chain = [step("maker", {"IN": "IN"}, {"OUT": "a"}), step("copier", {"IN": "a"}, {"OUT": "b", "HERE": "HERE"})]
    repository.add(
        "chain",
        None,
        ensemble("chain", ["OUT", "HERE"], *chain[:1], step("copier", {"IN": "a"}, {"OUT": "OUT", "HERE": "HERE"})),
    )
    repository.add(
        "to-host", None, ensemble("to-host", ["OUT", "HERE"], *chain, step("host", {"IN": "b"}, {"OUT": "OUT"}))
    )
    # Nested ensembles: one produces the input of the other.
    makes = ensemble("makes", ["OUT"], step("maker", {"IN": "IN"}, {"OUT": "OUT"}))
    takes = ensemble("takes", ["OUT", "HERE"], step("copier", {"IN": "IN"}, {"OUT": "OUT", "HERE": "HERE"}))
    repository.add("makes", None, makes)
    repository.add("takes", None, takes)
    for name, first, second in (("outer", "makes", "copier"), ("around", "maker", "takes")):
        steps = [step(first, {"IN": "IN"}, {"OUT": "a"}), step(second, {"IN": "a"}, {"OUT": "OUT", "HERE": "HERE"})]
        repository.add(name, None, ensemble(name, ["OUT", "HERE"], *steps))
    repository.add(
        "open",
        None,
        ensemble("open", ["a", "OUT", "HERE"], *chain[:1], step("copier", {"IN": "a"}, {"OUT": "OUT", "HERE": "HERE"})),
    )
    repository.add(
        "shared",
        None,
        ensemble(
            "shared",
            ["OUT", "HERE", "SPOILED"],
            *chain[:1],
            step("copier", {"IN": "a"}, {"OUT": "OUT", "HERE": "HERE"}),
            step("spoiler", {"IN": "a"}, {"OUT": "SPOILED"}),
        ),
    )


@pytest.fixture(scope="module")
def server(gpus, module_repository, module_serve):
    fill(module_repository)
    return module_serve(module_repository, "--cuda-memory-pool-byte-size=0:0", env=gpus.env)


@pytest.fixture
def client(server, connect, gpus):
    yield connect("grpc", server)
    gpus.fail()
    gpus.hang()
    gpus.delay(0)
    wait_until(lambda: not gpus.memory(), 20.0, "the memory to be given back")


def copies(gpus, before):
    """Returns the sizes in bytes of copies from devices since `before`, without HERE, which is one number."""
    return [int(words[1]) for _, words in gpus.calls("from-device")[before:] if words[1] != "4"]


@pytest.mark.parametrize("count", [2, 1000, 3_000_000])
def test_a_call_and_its_answer_stay_on_the_device(client, gpus, count):
    """The input and the answer of a call stay on the device; only the client's result is copied from it. Streams are
    late on purpose."""
    gpus.delay(20)
    sent = np.arange(1, count + 1, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    made = len(gpus.calls("to-device"))
    result = client.infer("device-to-device", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [1, 1]
    assert copies(gpus, before) == [4 * count]
    # The content of the arrays, and HERE.
    assert len({pid for pid, _ in gpus.calls("to-device")[made:]}) == 2
    assert len(gpus.calls("to-device")[made:]) == 3 * 4 + 1


@pytest.mark.parametrize(
    ("model", "where", "leaves"),
    [
        ("by-default", [1, 1], 1),  # the answer stays on the device that made it until the client gets it
        ("to-cpu", [1, 0], 1),
        ("to-reader", [0, 1], 2),  # the input does, so the answer is there and returns
        ("from-host", [0, 1], 1),
        ("elsewhere", [0, 0], 0),  # the preferred device does not exist
        ("cpu", [0, 0], 0),
    ],
)
def test_what_is_not_where_it_is_wanted_is_copied_once(client, gpus, model, where, leaves):
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer(model, {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == where
    assert copies(gpus, before) == [4000] * leaves


def test_an_answer_of_the_cpu_that_cannot_be_copied_to_the_device(client, gpus):
    """Without room on the device, the answer stays on the CPU; other errors of the driver fail the call."""
    sent = np.arange(1, 1001, dtype=np.float32)
    gpus.fail("cuMemCreate 2")
    result = client.infer("from-host", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [0, 0]
    gpus.fail("cuMemcpyHtoDAsync_v2 719")
    with client.fails("INTERNAL", contains="cuMemcpyHtoDAsync: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"):
        client.infer("from-host", {"IN": sent})
    gpus.fail()
    np.testing.assert_array_equal(client.infer("from-host", {"IN": sent}).as_numpy("OUT"), sent)
    # From there it has reached the caller's process.
    assert ["to-device", "4000", "pinned"] in [words for _, words in gpus.calls("to-device")]


TEXTS = HEADER + per_request(
    """
    call = pb_utils.InferenceRequest(
        model_name="texts-back",
        inputs=[pb_utils.Tensor("IN", get(request, "IN"))],
        requested_output_names=["OUT"],
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0),
    )
    texts = pb_utils.get_output_tensor_by_name(call.exec(), "OUT")
    assert texts.is_cpu()
    return respond(OUT=texts.as_numpy())
    """
)


def test_texts_stay_on_the_cpu(repository, serve, connect, gpus):
    texts = {"inputs": [("IN", "STRING", [-1])], "outputs": [("OUT", "STRING", [-1])]}
    files = {"1/device_arrays.py": ARRAYS}
    repository.add("texts", TEXTS, config("texts", **texts, extra=FIRST), files=files)
    back = per_request("return respond(OUT=get(request, 'IN')[::-1])")
    repository.add("texts-back", back, config("texts-back", **texts))
    server = serve(repository, env=gpus.env)
    result = connect("grpc", server).infer("texts", {"IN": np.array([b"a", b"", b"ccc"], np.object_)})
    assert result.as_numpy("OUT").tolist() == [b"ccc", b"", b"a"]
    server.stop()


def test_calls_of_what_is_not_there_fail_as_ever(client):
    with client.fails("NOT_FOUND", contains="Request for unknown model: 'nobody' is not found"):
        client.infer("unknown", {"IN": np.ones(3, np.float32)})


@pytest.mark.parametrize(("model", "leaves", "adds"), [("chain", 1, 0), ("to-host", 1, 1)])
def test_a_tensor_between_steps_stays_on_the_device(client, gpus, model, leaves, adds):
    gpus.delay(20)
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer(model, {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent + adds)
    assert result.as_numpy("HERE").tolist() == [1]
    assert copies(gpus, before) == [4000] * leaves


@pytest.mark.parametrize("model", ["outer", "around"])
def test_a_tensor_goes_into_and_out_of_an_ensemble_within_another(client, gpus, model):
    gpus.delay(20)
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer(model, {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [1]
    assert copies(gpus, before) == [4000]


def test_a_call_of_an_ensemble_stays_on_the_device(client, gpus):
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer("to-ensemble", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [1, 1]
    assert copies(gpus, before) == [4000]


def test_a_tensor_that_the_client_gets_too_is_copied_once(client, gpus):
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer("open", {"IN": sent})
    for name in ("a", "OUT"):
        np.testing.assert_array_equal(result.as_numpy(name), sent)
    assert result.as_numpy("HERE").tolist() == [0]
    assert copies(gpus, before) == [4000]


@pytest.mark.parametrize("count", [3, 1000])
def test_consumers_do_not_see_what_others_write(client, count):
    sent = np.arange(1, count + 1, dtype=np.float32)
    for _ in range(10):
        result = client.infer("shared", {"IN": sent})
        np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
        assert result.as_numpy("HERE").tolist() == [1]


def test_without_room_on_the_device_it_goes_through_the_machines_memory(client, gpus):
    sent = np.arange(1, 1001, dtype=np.float32)
    gpus.fail("cuMemCreate 2")
    result = client.infer("device-to-device", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [0, 0]


@pytest.mark.parametrize("model", ["device-to-device", "chain"])
@pytest.mark.parametrize("call", ["cuMemImportFromShareableHandle", "cuMemMap", "cuMemcpyDtoDAsync_v2"])
def test_a_device_that_fails_costs_the_request(client, gpus, model, call):
    sent = {"IN": np.ones(1000, np.float32)}
    gpus.fail(f"{call} 719")
    if call != "cuMemMap":  # a failure without the pool's memory is not an error: the data goes through host memory
        with client.fails("INTERNAL", contains="CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"):
            client.infer(model, sent)
    else:
        client.infer(model, sent)
    gpus.fail()
    np.testing.assert_array_equal(client.infer(model, sent).as_numpy("OUT"), sent["IN"])


ASYNC = HEADER + per_request(
    """
    sent = tensor("IN", arrays.Array(list(get(request, "IN"))))
    call = pb_utils.InferenceRequest(
        model_name="repeat",
        inputs=[sent],
        requested_output_names=["OUT"],
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0),
    )
    kept = []
    for answer in call.exec(decoupled=True):
        if answer.has_error():
            return pb_utils.InferenceResponse(error=answer.error())
        for got in answer.output_tensors():
            assert not got.is_cpu()
            kept.append(got)
    copies = [arrays.Copy(*place(got)) for got in kept]
    values = [arrays.read(copy.address.value, 2, copy.stream) for copy in copies]
    return respond(OUT=np.array(values, np.float32).ravel())
    """
)
REPEAT = (
    HEADER
    + """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "IN")
            assert not given.is_cpu()
            sender = request.get_response_sender()
            for _ in range(3):
                sender.send(pb_utils.InferenceResponse([tensor("OUT", arrays.Copy(*place(given)))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
)


@pytest.mark.parametrize("level", ["basic", "strict"])
def test_answers_of_a_decoupled_model_stay_on_the_device(repository, serve, connect, gpus, level):
    """Answers of a decoupled model stay on the device, even between confined processes."""
    files = {"1/device_arrays.py": ARRAYS}
    repository.add("front", ASYNC, config("front", **VECTOR, extra=FIRST), files=files)
    decoupled = FIRST + KEEPS + " model_transaction_policy { decoupled: true }"
    repository.add("repeat", REPEAT, config("repeat", **VECTOR, extra=decoupled), files=files)
    # A confined process must reach the folder of the stand-in's devices.
    paths = ["--worker-path", DRIVER, "--worker-path", f"{gpus.folder}=write"] if level == "strict" else []
    server = serve(repository, "--worker-isolation", level, *paths, env=gpus.env)
    gpus.delay(10)
    result = connect("grpc", server).infer("front", {"IN": np.array([1, 2], np.float32)})
    gpus.delay(0)
    assert result.as_numpy("OUT").tolist() == [1, 2] * 3
    server.stop()


COROUTINE = (
    HEADER
    + """
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*(self.one(request) for request in requests))

    async def one(self, request):
        values = list(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
        calls = [
            pb_utils.InferenceRequest(
                model_name="copier",
                inputs=[tensor("IN", arrays.Array([value]))],
                requested_output_names=["OUT"],
                preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0),
            ).async_exec()
            for value in values
        ]
        found = []
        for answer in await asyncio.gather(*calls):
            got = pb_utils.get_output_tensor_by_name(answer, "OUT")
            assert not got.is_cpu()
            copy = arrays.Copy(*place(got))
            found += arrays.read(copy.address.value, 1, copy.stream)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(found, np.float32))])
"""
)


def test_calls_from_a_coroutine_stay_on_the_device(repository, serve, connect, gpus):
    fill(repository)
    text = config("coroutine", **VECTOR, extra=FIRST)
    repository.add("coroutine", COROUTINE, text, files={"1/device_arrays.py": ARRAYS})
    server = serve(repository, env=gpus.env)
    sent = np.arange(1, 11, dtype=np.float32)
    result = connect("grpc", server).infer("coroutine", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    server.stop()


def test_memory_is_used_again(repository, serve, connect, gpus):
    """Blocks of the pool, and other processes' mappings of them, are reused."""
    fill(repository)
    server = serve(repository, env=gpus.env)
    client = connect("grpc", server)
    sent = {"IN": np.arange(1, 100_001, dtype=np.float32)}
    client.infer("device-to-device", sent)
    before = len(gpus.calls("create", "import"))
    for _ in range(20):
        np.testing.assert_array_equal(client.infer("device-to-device", sent).as_numpy("OUT"), sent["IN"])
    # A lent block may come back only after the next one is needed. Without reuse, each call would create and map two
    # blocks.
    assert len(gpus.calls("create", "import")) < before + 20
    assert gpus.calls("synchronize")
    server.stop()


def test_a_device_that_hangs_holds_up_no_model(client, gpus):
    """A hanging device delays only the return of its memory, and no model."""
    sent = {"IN": np.arange(1, 1001, dtype=np.float32)}
    gpus.hang("cuCtxSynchronize")
    for model in ("chain", "device-to-device", "shared") * 2:
        np.testing.assert_array_equal(client.infer(model, sent).as_numpy("OUT"), sent["IN"])
    assert gpus.memory()
    gpus.hang()


def test_a_server_ends_while_a_device_hangs(repository, serve, connect, gpus):
    fill(repository)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*", env=gpus.env)
    client = connect("grpc", server)
    sent = {"IN": np.arange(1, 1001, dtype=np.float32)}
    gpus.hang("cuCtxSynchronize")
    try:
        np.testing.assert_array_equal(client.infer("chain", sent).as_numpy("OUT"), sent["IN"])
        client.raw.unload_model("copier")
        wait_until(lambda: not client.raw.is_model_ready("copier"), 20.0, "the model to be unloaded")
        server.stop()
    finally:
        gpus.hang()


# Keeps a late copy of its first input, but not the input itself; later returns the copy's content.
LATE = HEADER + per_request(
    """
    kept = getattr(self, "kept", None)
    if kept is None:
        address, count = place(pb_utils.get_input_tensor_by_name(request, "IN"))
        self.kept = arrays.Array([0.0] * count)
        for _ in range(30):
            self.kept.write_late(self.kept.zeros)
        self.kept.copy_late(address)
        return respond(OUT=np.array([0], np.float32))
    return respond(OUT=np.array(arrays.read(kept.address.value, 3, kept.stream), np.float32))
    """
)


def test_a_consumers_own_copy_lasts_until_the_device_has_read_it(repository, serve, connect, gpus):
    fill(repository)
    text = config("late", **VECTOR, extra=FIRST + KEEPS)
    repository.add("late", LATE, text, files={"1/device_arrays.py": ARRAYS})
    steps = [
        step("maker", {"IN": "IN"}, {"OUT": "a"}),
        step("late", {"IN": "a"}, {"OUT": "OUT"}),
        step("copier", {"IN": "a"}, {"OUT": "SAME", "HERE": "HERE"}),
    ]
    repository.add("lately", None, ensemble("lately", ["OUT", "SAME", "HERE"], *steps))
    server = serve(repository, env=gpus.env)
    client = connect("grpc", server)
    gpus.delay(30)
    client.infer("lately", {"IN": np.array([1, 2, 3], np.float32)})
    result = client.infer("lately", {"IN": np.array([7, 8, 9], np.float32)})
    gpus.delay(0)
    assert result.as_numpy("OUT").tolist() == [1, 2, 3]
    assert result.as_numpy("SAME").tolist() == [7, 8, 9]
    server.stop()


PIPELINE = {
    "name": "pipeline",
    "inputs": ["IN"],
    "nodes": [
        {
            "name": "first",
            "type": "DL model",
            "model_name": "maker",
            "inputs": [{"IN": {"node_name": "request", "data_item": "IN"}}],
            "outputs": [{"data_item": "OUT", "alias": "made"}],
        },
        {
            "name": "second",
            "type": "DL model",
            "model_name": "copier",
            "inputs": [{"IN": {"node_name": "first", "data_item": "made"}}],
            "outputs": [{"data_item": "OUT", "alias": "copied"}, {"data_item": "HERE", "alias": "here"}],
        },
    ],
    "outputs": [
        {"OUT": {"node_name": "second", "data_item": "copied"}},
        {"HERE": {"node_name": "second", "data_item": "here"}},
    ],
}


def test_models_on_a_device_in_pipelines_and_graphs(repository, serve, connect, gpus, tmp_path):
    """Between nodes of a pipeline a tensor stays on the device; in a graph all tensors go through host memory."""
    fill(repository)
    text = 'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n'
    text += graph_step("one", "maker", "in", "a", "IN", "OUT") + graph_step("two", "copier", "a", "out", "IN", "OUT")
    graph = write_graph(tmp_path, "graph", text)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json_config(graph, pipeline_config_list=[PIPELINE])))
    server = serve(repository, "--config_path", path, env=gpus.env)
    client = connect("grpc", server)
    gpus.delay(20)
    sent = np.arange(1, 1001, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    result = client.infer("pipeline", {"IN": sent})
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)
    assert result.as_numpy("HERE").tolist() == [1]
    assert copies(gpus, before) == [4000]
    np.testing.assert_array_equal(client.infer("graph", {"in": sent}).as_numpy("out"), sent)
    assert copies(gpus, before) == [4000] * 2  # the second node got its input on the CPU
    gpus.delay(0)
    server.stop()


KEEPER = HEADER + per_request(
    """
    what = get(request, "WHAT")[0]
    if what == 0:  # keep
        self.kept = pb_utils.get_input_tensor_by_name(request, "IN")
        return respond(OUT=np.array([0 if self.kept.is_cpu() else 1], np.float32))
    if what == 1:  # read what was kept
        address, count = place(self.kept)
        return pb_utils.InferenceResponse([tensor("OUT", arrays.Copy(address, count))])
    if what == 2:  # let go
        self.kept = None
        return respond(OUT=np.array([0], np.float32))
    os.kill(os.getpid(), 9)
    """
)


@pytest.fixture
def keeping(repository, serve, connect, gpus):
    dying = MAKER.replace(
        "        return pb_utils.",
        "        if get(request, 'IN')[0] == -1:\n            os.kill(os.getpid(), 9)\n        return pb_utils.",
        1,
    )
    repository.add("maker", dying, config("maker", **VECTOR, extra=FIRST), files={"1/device_arrays.py": ARRAYS})
    inputs = [*VECTOR["inputs"], ("WHAT", "FP32", [-1])]
    repository.add(
        "keeper",
        KEEPER,
        config("keeper", inputs, VECTOR["outputs"], extra=FIRST + KEEPS),
        files={"1/device_arrays.py": ARRAYS},
    )
    text = ensemble(
        "kept",
        ["OUT"],
        step("maker", {"IN": "IN"}, {"OUT": "a"}),
        step("keeper", {"IN": "a", "WHAT": "WHAT"}, {"OUT": "OUT"}),
    )
    repository.add(
        "kept", None, text.replace("platform:", 'input [ { name: "WHAT" data_type: TYPE_FP32 dims: [-1] } ]\nplatform:')
    )
    client = connect("grpc", serve(repository, "--cuda-memory-pool-byte-size=0:0", env=gpus.env))
    yield client
    wait_until(lambda: not gpus.memory(), 20.0, "the memory to be given back")


def number(value):
    return np.array([value], np.float32)


def test_memory_stays_when_its_maker_is_killed(keeping, gpus):
    sent = np.arange(1, 1001, dtype=np.float32)
    assert keeping.infer("kept", {"IN": sent, "WHAT": number(0)}).as_numpy("OUT").tolist() == [1]
    with keeping.fails("INTERNAL", contains="is not healthy"):
        keeping.infer("maker", {"IN": number(-1)})
    got = keeping.infer("keeper", {"IN": number(0), "WHAT": number(1)}).as_numpy("OUT")
    np.testing.assert_array_equal(got, sent)
    keeping.infer("keeper", {"IN": number(0), "WHAT": number(2)})


def test_memory_comes_back_when_its_reader_is_killed(keeping, gpus):
    sent = np.arange(1, 1001, dtype=np.float32)
    for _ in range(3):
        assert keeping.infer("kept", {"IN": sent, "WHAT": number(0)}).as_numpy("OUT").tolist() == [1]
        with keeping.fails("INTERNAL", contains="is not healthy"):
            keeping.infer("keeper", {"IN": number(0), "WHAT": number(3)})
        wait_until(lambda: not gpus.memory(), 20.0, "the memory to be given back")


def test_memory_that_is_kept_is_not_used_for_others(keeping):
    sent = np.arange(1, 1001, dtype=np.float32)
    keeping.infer("kept", {"IN": sent, "WHAT": number(0)})
    for _ in range(5):
        keeping.infer("maker", {"IN": sent + 7})
        keeping.infer("kept", {"IN": sent + 7, "WHAT": number(1)})
    got = keeping.infer("keeper", {"IN": number(0), "WHAT": number(1)}).as_numpy("OUT")
    np.testing.assert_array_equal(got, sent)
    keeping.infer("keeper", {"IN": number(0), "WHAT": number(2)})
