"""Tensors of Python models on a device, on the stand-in for NVIDIA's driver."""

import json
import pathlib
import queue

import numpy as np
import pytest
from harness.clients import strings
from harness.gpus import Gpus
from harness.repository import config, per_request
from harness.waiting import wait_until

ARRAYS = (pathlib.Path(__file__).parent / "harness" / "device_arrays.py").read_text()
VECTOR = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
TEXT = {"inputs": [("IN", "STRING", [1])], "outputs": [("OUT", "STRING", [1])]}

HEADER = """
import gc, os, sys
sys.path.insert(0, os.path.dirname(__file__))
import device_arrays as arrays
"""
# Makes doubles on the device.
MAKER = HEADER + per_request(
    """
    array = arrays.Array([2 * value for value in get(request, "IN")], int(self.args["model_instance_device_id"]))
    tensor = pb_utils.Tensor.from_dlpack("OUT", array)
    assert not tensor.is_cpu()
    return pb_utils.InferenceResponse([tensor])
    """
)
NUMBA = HEADER + per_request(
    """
    array = arrays.CudaArray([2 * value for value in get(request, "IN")], 1)
    tensor = pb_utils.Tensor.from_dlpack("OUT", array)
    assert (tensor.is_cpu(), tensor.__dlpack_device__()) == (False, (2, 1))
    return pb_utils.InferenceResponse([tensor])
    """
)
# A capsule has no stream, so the worker waits for the default stream, and for the streams that it waits for.
CAPSULE = HEADER + per_request(
    """
    array = arrays.Array([2 * value for value in get(request, "IN")], blocking=True)
    return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", array.__dlpack__())])
    """
)
REPEAT = (
    HEADER
    + """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            for number in range(3):
                array = arrays.Array(list(values + number))
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", array)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
)
CALLER = HEADER + per_request(
    """
    sent = pb_utils.Tensor.from_dlpack("IN", arrays.Array(list(get(request, "IN"))))
    preferred = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0)
    call = pb_utils.InferenceRequest(
        model_name="maker", inputs=[sent], requested_output_names=["OUT"], preferred_memory=preferred
    )
    answer = call.exec()
    if answer.has_error():
        return pb_utils.InferenceResponse(error=answer.error())
    got = pb_utils.get_output_tensor_by_name(answer, "OUT")
    return respond(OUT=got.as_numpy() + 1)
    """
)
# Inspects tensors, and returns the findings.
LOOKER = HEADER + per_request(
    """
    def look():
        array = arrays.Array([1, 2, 3], 1)
        tensor = pb_utils.Tensor.from_dlpack("T", array)
        found = {"cpu": tensor.is_cpu(), "device": tensor.__dlpack_device__(), "shape": tensor.shape()}
        found["type"] = tensor.triton_dtype() == 11
        found["asked"] = [type(stream).__name__ for stream in array.asked]
        kind, gpu, address, shape = arrays.look(tensor.to_dlpack())
        found["capsule"] = [kind, gpu, address == array.address.value, shape]
        again = pb_utils.Tensor.from_dlpack("U", tensor)
        found["again"] = [again.is_cpu(), arrays.look(again.to_dlpack())[2] == array.address.value]
        try:
            tensor.as_numpy()
        except pb_utils.TritonModelException as error:
            found["numpy"] = str(error)
        return found

    def order():
        # A consumer's stream sees what the producer's has under way.
        tensor = pb_utils.Tensor.from_dlpack("T", arrays.Array([4, 5, 6]))
        stream = arrays.make_stream()
        address = arrays.look(tensor.__dlpack__(stream=stream.value))[2]
        ordered = arrays.read(address, 3, stream)
        tensor = pb_utils.Tensor.from_dlpack("T", arrays.Array([7, 8, 9]))
        address = arrays.look(tensor.__dlpack__(stream=-1))[2]
        return [ordered, arrays.read(address, 3, stream)]

    def wrong():
        found = []
        for more in (
            {"data": None},
            {"shape": [3]},
            {"typestr": ">f4"},
            {"typestr": "|O8"},
            {"strides": (8,)},
            {"shape": (1 << 62, 8)},
            {"data": (1, False)},
        ):
            try:
                pb_utils.Tensor.from_dlpack("T", arrays.CudaArray([1, 2, 3], **more))
            except pb_utils.TritonModelException as error:
                found.append(str(error).removeprefix("__cuda_array_interface__: "))
        taken = pb_utils.Tensor.from_dlpack("T", arrays.CudaArray([1, 2, 3], strides=(4,)))
        return [*found, taken.shape()]

    def memory():
        array = arrays.Array([1])
        tensor = pb_utils.Tensor.from_dlpack("T", array)
        other = pb_utils.Tensor.from_dlpack("U", tensor.to_dlpack())
        arrays.freed.clear()
        del array
        gc.collect()
        freed = [len(arrays.freed)]
        del tensor
        gc.collect()
        freed.append(len(arrays.freed))
        del other
        gc.collect()
        return [*freed, len(arrays.freed)]

    result = {"look": look, "order": order, "memory": memory, "wrong": wrong}[get(request, "IN")[0].decode()]()
    return respond(OUT=np.array([json.dumps(result)], np.object_))
    """
)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    gpus = Gpus(tmp_path_factory.mktemp("standin") / "gpus")
    yield gpus
    gpus.assert_nothing_left()


@pytest.fixture(scope="module")
def server(gpus, module_repository, module_serve):
    def add(name, source, text, extra=""):
        module_repository.add(name, source, config(name, **text, extra=extra), files={"1/device_arrays.py": ARRAYS})

    first = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"
    add("maker", MAKER, VECTOR, first)
    add("second", MAKER, VECTOR, "instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]")
    add("capsule", CAPSULE, VECTOR, first)
    add("numba", NUMBA, VECTOR, first)
    add("repeat", REPEAT, VECTOR, first + " model_transaction_policy { decoupled: true }")
    add("caller", CALLER, VECTOR, first)
    add("looker", LOOKER, TEXT, first)
    return module_serve(module_repository, "--cuda-memory-pool-byte-size=0:0", env=gpus.env)


@pytest.fixture(params=["http", "grpc"])
def client(request, server, connect, gpus):
    yield connect(request.param, server)
    gpus.fail()
    gpus.delay(0)
    # Models have released their answers.
    wait_until(lambda: not gpus.memory(), 20.0, "the memory to be given back")


def ask(client, text):
    return json.loads(client.infer("looker", {"IN": strings(text)}).as_numpy("OUT")[0])


@pytest.mark.parametrize("count", [10, 100_000])
@pytest.mark.parametrize("model", ["maker", "second", "capsule", "numba"])
def test_outputs_on_a_device_reach_clients(client, gpus, server, model, count):
    """Outputs on a device reach clients, each copied once. Streams are late on purpose: an early read sees no data."""
    gpus.delay(30)
    sent = np.arange(count, dtype=np.float32)
    before = len(gpus.calls("from-device"))
    np.testing.assert_array_equal(client.infer(model, {"IN": sent}).as_numpy("OUT"), 2 * sent)
    copies = gpus.calls("from-device")[before:]
    assert [words[1] for _, words in copies] == [str(4 * count)]
    assert copies[0][0] != server.process.pid


def test_outputs_are_copied_to_pinned_memory(client, gpus):
    """Outputs are copied to memory that is pinned in place, once."""
    sent = np.arange(100_000, dtype=np.float32)
    client.infer("second", {"IN": sent})
    before = len(gpus.calls("pin", "from-device"))
    for _ in range(3):
        np.testing.assert_array_equal(client.infer("second", {"IN": sent}).as_numpy("OUT"), 2 * sent)
    assert [words for _, words in gpus.calls("pin", "from-device")[before:]] == [
        ["from-device", "400000", "pinned"]
    ] * 3


@pytest.mark.parametrize(("option", "fails"), [("500000", ""), ("0", ""), ("1000000", "cuMemHostRegister_v2 801")])
def test_what_cannot_be_pinned_is_copied_all_the_same(repository, serve, connect, gpus, option, fails):
    """Memory beyond the option's limit, or which the driver does not pin, is copied all the same."""
    extra = "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"
    repository.add("maker", MAKER, config("maker", **VECTOR, extra=extra), files={"1/device_arrays.py": ARRAYS})
    server = serve(repository, f"--pinned-memory-pool-byte-size={option}", env=gpus.env)
    client = connect("grpc", server)
    gpus.fail(fails)
    before = len(gpus.calls("from-device"))
    for count in (100_000, 200_000):
        sent = np.arange(count, dtype=np.float32)
        np.testing.assert_array_equal(client.infer("maker", {"IN": sent}).as_numpy("OUT"), 2 * sent)
    pinned = ["pinned" in words for _, words in gpus.calls("from-device")[before:]]
    gpus.fail()
    assert pinned == [option == "500000", False]
    server.stop()


def test_decoupled_outputs_on_a_device(server, connect, gpus):
    gpus.delay(10)
    client = connect("grpc", server)
    answers = queue.Queue()
    client.raw.start_stream(lambda result, error: answers.put((result, error)))
    client.raw.async_stream_infer("repeat", [client.input("IN", np.array([1, 2], np.float32))])
    for number in range(3):
        result, error = answers.get(timeout=20)
        assert error is None
        assert result.as_numpy("OUT").tolist() == [1 + number, 2 + number]
    client.raw.stop_stream()
    gpus.delay(0)


def test_a_tensor_on_a_device_says_so(client):
    assert ask(client, "look") == {
        "cpu": False,
        "device": [2, 1],
        "shape": [3],
        "type": True,
        "asked": ["int"],
        "capsule": [2, 1, True, [3]],
        "again": [False, True],
        "numpy": "Tensor is stored in GPU and cannot be converted to NumPy.",
    }


def test_arrays_that_are_no_tensors_are_refused(client):
    assert ask(client, "wrong") == [
        "it has no 'data'",
        "it has no 'shape'",
        "its 'typestr' is not a tensor type",
        "its 'typestr' is not a tensor type",
        "only contiguous arrays that are stored in C-Order are supported",
        f"it has an invalid shape [{1 << 62},8]",
        "cuPointerGetAttribute: CUDA_ERROR_INVALID_VALUE (invalid argument)",
        [3],
    ]


def test_streams_of_consumers_wait_for_producers_unless_they_do_not_want_to(client, gpus):
    gpus.delay(100)
    ordered, unordered = ask(client, "order")
    assert ordered == [4, 5, 6]
    assert unordered == [0, 0, 0]


def test_memory_lives_as_long_as_tensors_and_capsules(client):
    assert ask(client, "memory") == [0, 0, 1]


def test_a_call_takes_tensors_on_a_device(client, gpus):
    gpus.delay(20)
    sent = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(client.infer("caller", {"IN": sent}).as_numpy("OUT"), 2 * sent + 1)


def test_a_device_that_fails_costs_the_request(client, gpus):
    sent = {"IN": np.ones(1000, np.float32)}
    client.infer("maker", sent)
    gpus.fail("cuStreamSynchronize 719")
    text = "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"
    with client.fails("INTERNAL", text):
        client.infer("maker", sent)
    with client.fails("INTERNAL", text):
        client.infer("caller", sent)
    gpus.fail("cuEventRecord 719")
    with client.fails("INTERNAL", contains="cuEventRecord"):
        client.infer("maker", sent)
    gpus.fail()
    np.testing.assert_array_equal(client.infer("maker", sent).as_numpy("OUT"), np.full(1000, 2, np.float32))


def test_a_worker_that_is_killed_leaves_no_memory(repository, serve, connect, gpus):
    source = HEADER + per_request(
        """
        self.kept = arrays.Array([1, 2, 3])
        if get(request, "IN")[0] == 0:
            os.kill(os.getpid(), 9)
        return respond(OUT=get(request, "IN"))
        """
    )
    repository.add("m", source, config("m", **VECTOR), files={"1/device_arrays.py": ARRAYS})
    server = serve(repository, env=gpus.env)
    client = connect("http", server)
    client.infer("m", {"IN": np.ones(1, np.float32)})
    assert gpus.memory()
    with client.fails("INTERNAL", contains="is not healthy"):
        client.infer("m", {"IN": np.zeros(1, np.float32)})
    wait_until(lambda: not gpus.memory(), 20.0, "the memory to be gone")
    client.infer("m", {"IN": np.ones(1, np.float32)})
