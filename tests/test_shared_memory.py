"""Shared memory of clients (KServe extension for system shared memory), with tritonclient's own utilities."""

import contextlib
import os
import pathlib
import queue
import threading
import uuid

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from harness.clients import Client, strings
from harness.regions import Region
from harness.repository import config, per_request
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

LARGE = 2_000_000  # FP32 values
SLOW = per_request("""
    print("it runs", flush=True)
    time.sleep(0.5)
    return respond(OUT=get(request, 'IN'))
""")
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array + 1)]), flags=1)
        return [None] * len(requests)
"""


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    repository = module_repository
    repository.add_identity("identity", "FP32", [-1])
    repository.add_identity("text", "STRING", [-1])
    repository.add("answering", REPEAT, config("answering", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    repository.add("slow", SLOW, config("slow", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    repository.add(
        "add",
        per_request("return respond(SUM=get(request, 'A') + get(request, 'B'), A=get(request, 'A'))"),
        config("add", [("A", "FP32", [-1]), ("B", "FP32", [-1])], [("SUM", "FP32", [-1]), ("A", "FP32", [-1])]),
    )
    return module_serve(repository)


@pytest.fixture(params=["http", "grpc"])
def client(request, server, connect):
    client = connect(request.param, server)
    yield client
    client.raw.unregister_system_shared_memory()


@pytest.fixture
def region():
    """region(byte_size) makes a file in /dev/shm; it has `key`, `name`, `handle` and `path`."""
    with contextlib.ExitStack() as stack:

        def make(byte_size, content=None):
            made = Region(byte_size)
            stack.callback(made.remove)
            if content is not None:
                made.fill(content)
            return made

        yield make


def place_input(client, name, shape, datatype, region, byte_size, offset=0):
    tensor = client.module.InferInput(name, shape, datatype)
    tensor.set_shared_memory(region, byte_size, offset)
    return tensor


def place_output(client, name, region, byte_size, offset=0):
    output = client.module.InferRequestedOutput(name)
    output.set_shared_memory(region, byte_size, offset)
    return output


def output_facts(client, result, name="OUT"):
    """Returns an output's parameters (only their values), and the number of its bytes in the response."""
    output = result.get_output(name)
    if client.protocol == "http":
        assert "data" not in output
        return output["parameters"]
    assert all(raw == b"" for raw in result.get_response().raw_output_contents[:1])
    return {key: value.string_param or value.int64_param for key, value in output.parameters.items()}


# ---- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 1000, LARGE])
def test_both_ways(client, region, count):
    sent = np.random.default_rng(1).random(count, np.float32)
    source = region(4 * count, sent).register(client)
    target = region(4 * count).register(client)
    for _ in range(3):
        result = client.infer(
            "identity",
            [place_input(client, "IN", [count], "FP32", source.name, 4 * count)],
            [place_output(client, "OUT", target.name, 4 * count)],
        )
        assert output_facts(client, result) == {
            "shared_memory_region": target.name,
            "shared_memory_byte_size": 4 * count,
        }
        assert list(result.get_output("OUT")["shape"] if client.protocol == "http" else result.get_output("OUT").shape)
        np.testing.assert_array_equal(target.numpy(np.float32, [count]), sent)
        sent += 1
        shm.set_shared_memory_region(source.handle, [sent])


def test_one_region_at_offsets(client, region):
    a, b = np.arange(1000, dtype=np.float32), np.full(1000, 7, np.float32)
    both = region(3 * 4000 + 100)
    shm.set_shared_memory_region(both.handle, [a, b], offset=100)
    both.register(client)
    result = client.infer(
        "add",
        [
            place_input(client, "A", [1000], "FP32", both.name, 4000, 100),
            place_input(client, "B", [1000], "FP32", both.name, 4000, 4100),
        ],
        [place_output(client, "SUM", both.name, 4000, 8100), "A"],
    )
    np.testing.assert_array_equal(both.numpy(np.float32, [1000], 8100), a + b)
    assert output_facts(client, result, "SUM")["shared_memory_offset"] == 8100
    # The other output was in the response as usual.
    np.testing.assert_array_equal(result.as_numpy("A"), a)


def test_a_region_at_an_offset_of_its_file(client, region):
    sent = np.arange(2000, dtype=np.float32)
    whole = region(20_000)
    shm.set_shared_memory_region(whole.handle, [sent], offset=12_000)
    whole.register(client, byte_size=8_000, offset=12_000)
    result = client.infer("identity", [place_input(client, "IN", [1000], "FP32", whole.name, 4000, 4000)])
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent[1000:])
    with client.fails("INVALID_ARG", f"Invalid offset + byte size for shared memory region: '{whole.name}'"):
        client.infer("identity", [place_input(client, "IN", [1001], "FP32", whole.name, 4004, 4000)])


@pytest.mark.parametrize("mixed", [["A"], ["B"]])
def test_inputs_in_the_message_and_in_a_region(client, region, mixed):
    arrays = {"A": np.arange(100, dtype=np.float32), "B": np.full(100, 3, np.float32)}
    inputs = []
    for name, array in arrays.items():
        if name in mixed:
            placed = region(400, array).register(client)
            inputs.append(place_input(client, name, [100], "FP32", placed.name, 400))
        else:
            inputs.append(client.input(name, array))
    result = client.infer("add", inputs)
    np.testing.assert_array_equal(result.as_numpy("SUM"), arrays["A"] + arrays["B"])


def test_bytes(client, region):
    sent = strings("a", "", "Grüße", b"\0\xff" * 3000)
    wire = b"".join(len(item).to_bytes(4, "little") + item for item in sent)
    source = region(len(wire), np.frombuffer(wire, np.uint8)).register(client)
    target = region(len(wire) + 1000).register(client)
    client.infer(
        "text",
        [place_input(client, "IN", [4], "BYTES", source.name, len(wire))],
        [place_output(client, "OUT", target.name, target.byte_size)],
    )
    assert target.numpy(np.uint8, [len(wire)]).tobytes() == wire
    assert target.numpy(np.object_, [4]).tolist() == sent.tolist()


def test_stream(server, connect, region):
    client = connect("grpc", server)
    sent = np.arange(5000, dtype=np.float32)
    source, target = region(20_000, sent).register(client), region(20_000).register(client)
    answers = queue.Queue()
    client.raw.start_stream(lambda result, error: answers.put((result, error)))
    for wanted in (20_000, 19_999):
        client.raw.async_stream_infer(
            "answering",
            [place_input(client, "IN", [5000], "FP32", source.name, 20_000)],
            outputs=[place_output(client, "OUT", target.name, wanted)],
        )
    result, error = answers.get(timeout=30)
    assert error is None
    assert output_facts(client, result) == {"shared_memory_region": target.name, "shared_memory_byte_size": 20_000}
    np.testing.assert_array_equal(target.numpy(np.float32, [5000]), sent + 1)
    result, error = answers.get(timeout=30)
    assert "(19999 bytes) should be at least 20000 bytes to hold the results" in error.message()
    client.raw.stop_stream()
    client.raw.unregister_system_shared_memory()


def test_many_clients_of_one_region(server, connect, region):
    count, threads = 20_000, 4
    sent = np.random.default_rng(1).random(count, np.float32)
    with contextlib.closing(Client("grpc", server)) as registering:
        source = region(4 * count, sent).register(registering)
        targets = [region(4 * count).register(registering) for _ in range(threads)]
    failures = []

    def run(protocol, target):
        with contextlib.closing(Client(protocol, server)) as client:
            for _ in range(20):
                client.infer(
                    "identity",
                    [place_input(client, "IN", [count], "FP32", source.name, 4 * count)],
                    [place_output(client, "OUT", target.name, 4 * count)],
                )
                if not np.array_equal(target.numpy(np.float32, [count]), sent):
                    failures.append(protocol)

    running = [threading.Thread(target=run, args=(("http", "grpc")[i % 2], target)) for i, target in enumerate(targets)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == []
    with contextlib.closing(Client("http", server)) as client:
        client.raw.unregister_system_shared_memory()


# ---- registering ----------------------------------------------------------------------------------


def status_of(client, name=""):
    status = client.raw.get_system_shared_memory_status(name)
    if client.protocol == "http":
        return {each["name"]: each for each in status}
    return {
        name: {"name": each.name, "key": each.key, "offset": each.offset, "byte_size": each.byte_size}
        for name, each in status.regions.items()
    }


def test_status_and_unregister(client, region):
    assert status_of(client) == {}
    a, b = region(5000), region(9000)
    a.register(client)
    b.register(client, offset=4096, byte_size=100)
    facts = {
        a.name: {"name": a.name, "key": a.key, "offset": 0, "byte_size": 5000},
        b.name: {"name": b.name, "key": b.key, "offset": 4096, "byte_size": 100},
    }
    assert status_of(client) == facts
    assert status_of(client, b.name) == {b.name: facts[b.name]}
    with client.fails("ALREADY_EXISTS", f"shared memory region '{a.name}' already in manager"):
        a.register(client)
    client.raw.unregister_system_shared_memory(a.name)
    client.raw.unregister_system_shared_memory(a.name)
    with client.fails("NOT_FOUND", f"Unable to find system shared memory region: '{a.name}'"):
        status_of(client, a.name)
    a.register(client)
    client.raw.unregister_system_shared_memory()
    assert status_of(client) == {}


def test_both_protocols_share_the_regions(server, connect, region):
    http, grpc = connect("http", server), connect("grpc", server)
    made = region(100).register(http)
    assert made.name in status_of(grpc)
    grpc.raw.unregister_system_shared_memory(made.name)
    assert status_of(http) == {}


@pytest.mark.parametrize(
    "key",
    ["/nothing_of_this_name", "/../etc/hostname", "../../etc/hostname", "/a/b", "/..", "/.", "/", "", "/" + "x" * 300],
)
def test_keys_that_lead_nowhere(client, key):
    with client.fails("INTERNAL", f"Unable to open shared memory region: '{key}'"):
        client.raw.register_system_shared_memory("r", key, 10)


def test_what_is_no_plain_file(client):
    name = f"braid_test_{uuid.uuid4().hex}"
    path = pathlib.Path("/dev/shm") / name
    for make, remove in (
        (lambda: path.symlink_to("/etc/hostname"), path.unlink),
        (lambda: os.mkfifo(path), path.unlink),
        (path.mkdir, path.rmdir),
    ):
        make()
        try:
            with client.fails("INTERNAL", f"Unable to open shared memory region: '/{name}'"):
                client.raw.register_system_shared_memory("r", f"/{name}", 1)
        finally:
            remove()


def test_regions_beyond_their_file(client, region):
    made = region(10_000)
    offset = f"Invalid offset for shared memory region: '{made.name}'"
    end = f"Invalid offset + byte size for shared memory region: '{made.name}'"
    for at, size, text in (
        (0, 10_001, end),
        (1, 10_000, end),
        (10_001, 1, offset),
        (2**63 - 1, 2**63 - 1, offset),
        (4096, 2**64 - 1, end),
        (2**64 - 1, 1, offset),
        (0, 0, f"failed to register shared memory region '{made.name}': invalid args"),
    ):
        with client.fails("INVALID_ARG", text):
            made.register(client, offset=at, byte_size=size)
    assert status_of(client) == {}


def test_fields_of_a_registration(server):
    for body, status, text in (
        ({"byte_size": 1}, 400, "Shared memory register request has no 'key' field"),
        ({"key": "/x"}, 400, "Shared memory register request has no 'byte_size' field"),
        ({"key": 3, "byte_size": 1}, 500, "Unable to parse 'key': attempt to access JSON non-string as string"),
        (
            {"key": "/x", "byte_size": -1},
            500,
            "Unable to parse 'byte_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
    ):
        answer = server.json("POST", "/v2/systemsharedmemory/region/r/register", body)
        assert answer == (status, {"error": text})


# ---- faults ---------------------------------------------------------------------------------------


def test_unknown_regions(client):
    tensor = client.input("IN", np.ones(1, np.float32))
    with client.fails("NOT_FOUND", "Unable to find shared memory region: 'none'"):
        client.infer("identity", [place_input(client, "IN", [1], "FP32", "none", 4)])
    with client.fails("NOT_FOUND", "Unable to find shared memory region: 'none'"):
        client.infer("identity", [tensor], [place_output(client, "OUT", "none", 4)])


def test_parts_beyond_the_region(client, region):
    made = region(100).register(client)
    for offset, size, text in (
        (0, 101, "offset + byte size"),
        (97, 4, "offset + byte size"),
        (101, 0, "offset"),
        (2**62, 2**62, "offset"),
        (8, 2**63 - 1, "offset + byte size"),
    ):
        text = f"Invalid {text} for shared memory region: '{made.name}'"
        with client.fails("INVALID_ARG", text):
            client.infer("identity", [place_input(client, "IN", [1], "FP32", made.name, size, offset)])
        with client.fails("INVALID_ARG", text):
            client.infer(
                "identity",
                [client.input("IN", np.ones(1, np.float32))],
                [place_output(client, "OUT", made.name, size, offset)],
            )


def test_sizes_that_do_not_fit(client, region):
    made = region(100).register(client)
    with client.fails("INVALID_ARG", contains="input byte size mismatch for input 'IN' for model 'identity'"):
        client.infer("identity", [place_input(client, "IN", [2], "FP32", made.name, 4)])
    with client.fails(
        "INTERNAL",
        "shared memory size specified with the request for output 'OUT' (7 bytes) should be at least 8 bytes to hold "
        "the results",
    ):
        client.infer(
            "identity",
            [client.input("IN", np.ones(2, np.float32))],
            [place_output(client, "OUT", made.name, 7)],
        )
    # Nothing was written to it.
    assert made.numpy(np.uint8, [100]).tobytes() == bytes(100)


def test_more_inputs_than_the_model_has(client, region):
    made = region(4).register(client)
    inputs = [place_input(client, f"I{i}", [1], "FP32", made.name, 4) for i in range(50)]
    with client.fails("INVALID_ARG", contains="identity"):
        client.infer("identity", inputs)


def test_region_and_classes(client, region):
    made = region(100).register(client)
    output = client.module.InferRequestedOutput("OUT")
    output.set_shared_memory(made.name, 100)
    if client.protocol == "http":
        output._parameters["classification"] = 1
    else:
        output._output.parameters["classification"].int64_param = 1
    with client.fails("INVALID_ARG", "Output can't set both 'shared_memory_region' and 'classification'"):
        client.infer("identity", [client.input("IN", np.ones(2, np.float32))], [output])


def test_region_and_binary_data(server):
    body = {
        "inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1]}],
        "outputs": [{"name": "OUT", "parameters": {"shared_memory_region": "r", "binary_data": True}}],
    }
    status, answer = server.json("POST", "/v2/models/identity/infer", body)
    assert (status, answer["error"]) == (400, "Output can't set both 'shared_memory_region' and 'binary_data'")
    del body["outputs"]
    body["inputs"][0]["parameters"] = {"shared_memory_region": "r"}
    status, answer = server.json("POST", "/v2/models/identity/infer", body)
    assert status == 400
    assert answer["error"].endswith("But both 'data' and 'shared_memory_region' are set")
    del body["inputs"][0]["data"]
    status, answer = server.json("POST", "/v2/models/identity/infer", body)
    assert status == 400
    assert answer["error"].startswith("'shared_memory_byte_size' must be specified")


@pytest.mark.parametrize("left", [0, 3000, 5000])
def test_a_client_that_shortens_its_region(client, region, left):
    made = region(80_000, np.ones(20_000, np.float32)).register(client)
    os.truncate(made.path, left)
    short = f"shared memory region '{made.name}' has shrunk since it was registered"
    with client.fails("INVALID_ARG", short):
        client.infer("identity", [place_input(client, "IN", [20_000], "FP32", made.name, 80_000)])
    with client.fails("INVALID_ARG", short):
        client.infer(
            "identity",
            [client.input("IN", np.ones(20_000, np.float32))],
            [place_output(client, "OUT", made.name, 80_000)],
        )
    os.truncate(made.path, 80_000)
    result = client.infer("identity", [place_input(client, "IN", [20_000], "FP32", made.name, 80_000)])
    assert result.as_numpy("OUT").sum() == left // 4


def test_a_client_that_shortens_its_region_again_and_again(server, client, region):
    made = region(4 * LARGE).register(client)
    stop = threading.Event()

    def cut():
        while not stop.is_set():
            os.truncate(made.path, 4096)
            os.truncate(made.path, 4 * LARGE)

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for _ in range(30):
            with contextlib.suppress(InferenceServerException):
                client.infer(
                    "identity",
                    [place_input(client, "IN", [LARGE], "FP32", made.name, 4 * LARGE)],
                    [place_output(client, "OUT", made.name, 4 * LARGE)],
                )
    finally:
        stop.set()
        cutter.join()
    assert client.raw.is_server_live()
    assert server.process.poll() is None


def test_unregistering_what_is_in_use(server, client, region):
    count = 10_000
    sent = np.random.default_rng(1).random(count, np.float32)
    made = region(8 * count, sent).register(client)
    inputs = [place_input(client, "IN", [count], "FP32", made.name, 4 * count)]
    outputs = [place_output(client, "OUT", made.name, 4 * count, 4 * count)]
    answers = queue.Queue()
    before = server.log.count("it runs")

    def run():
        with contextlib.closing(Client(client.protocol, server)) as mine:
            answers.put(mine.infer("slow", inputs, outputs))

    asking = threading.Thread(target=run)
    asking.start()
    wait_until(lambda: server.log.count("it runs") > before, 20, "the request runs")
    with contextlib.closing(Client("grpc", server)) as other:
        other.raw.unregister_system_shared_memory()
    made.path.unlink()
    asking.join()
    result = answers.get_nowait()
    assert output_facts(client, result)["shared_memory_region"] == made.name
    np.testing.assert_array_equal(made.numpy(np.float32, [count], 4 * count), sent)
    assert status_of(client) == {}


def test_a_region_whose_file_is_removed(client, region):
    sent = np.arange(100, dtype=np.float32)
    made = region(400, sent).register(client)
    made.path.unlink()
    result = client.infer("identity", [place_input(client, "IN", [100], "FP32", made.name, 400)])
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent)


# ---- the rest -------------------------------------------------------------------------------------


def test_cuda_regions(server, connect):
    status, answer = server.json("POST", "/v2/cudasharedmemory/region/r/register", {})
    assert (status, answer["error"]) == (
        400,
        "failed to register CUDA shared memory region: 'r', GPUs not supported",
    )
    for protocol in ("http", "grpc"):
        client = connect(protocol, server)
        with client.fails("INVALID_ARG", "failed to register CUDA shared memory region: 'r', GPUs not supported"):
            client.raw.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 10)
        client.raw.unregister_cuda_shared_memory("r")
        client.raw.unregister_cuda_shared_memory()
    assert server.json("GET", "/v2/cudasharedmemory/status") == (200, [])
    assert not connect("grpc", server).raw.get_cuda_shared_memory_status().regions


def test_extensions_are_announced(server):
    assert {"system_shared_memory", "cuda_shared_memory"} <= set(server.json("GET", "/v2")[1]["extensions"])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_can_be_refused(repository, serve, connect, region, protocol):
    repository.add_identity("identity")
    server = serve(repository, "--allow-client-shm=false")
    text = "client shared memory is not allowed on this server (--allow-client-shm=false)"
    made = region(100)
    client = connect(protocol, server)
    for refused in (
        lambda: made.register(client),
        lambda: client.raw.get_system_shared_memory_status(),
        lambda: client.raw.unregister_system_shared_memory(),
        lambda: client.infer("identity", [place_input(client, "IN", [1], "FP32", made.name, 4)]),
    ):
        with client.fails("UNSUPPORTED", text):
            refused()


def test_can_be_restricted(repository, serve, connect, region):
    repository.add_identity("identity")
    server = serve(
        repository, "--http-restricted-api=shared-memory:key=secret", "--grpc-restricted-protocol=shared-memory:key=s"
    )
    made = region(100)
    status, answer = server.json("GET", "/v2/systemsharedmemory/status")
    assert (status, answer["error"]) == (403, "This API is restricted, expecting header 'key'")
    grpc = connect("grpc", server)
    with grpc.fails("UNAVAILABLE", "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"):
        made.register(grpc)
    grpc.raw.register_system_shared_memory(made.name, made.key, 100, headers={"triton-grpc-protocol-key": "s"})
    result = grpc.infer("identity", [place_input(grpc, "IN", [25], "FP32", made.name, 100)])
    assert result.as_numpy("OUT").shape == (25,)
