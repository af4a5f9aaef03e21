"""CUDA shared memory of clients (KServe extension), on the stand-in for NVIDIA's driver."""

import base64
import contextlib
import os
import pathlib
import queue
import subprocess
import sys
import threading

import numpy as np
import pytest
from harness.access import access
from harness.clients import Client
from harness.gpus import Gpus, uuid
from harness.repository import config, per_request
from harness.waiting import wait_until

VECTOR = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
SUM = per_request("return respond(OUT=get(request, 'A') + get(request, 'B'))")
REPEAT = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            for number in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array + number)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COUNTING = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.seen = []

    def execute(self, requests):
        answers = []
        for request in requests:
            self.seen.append(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0, 0])
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.seen], np.float32))]))
        return answers
"""


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    gpus = Gpus(tmp_path_factory.mktemp("standin") / "gpus")
    yield gpus
    gpus.assert_nothing_left()


@pytest.fixture(scope="module")
def server(gpus, module_repository, module_serve):
    add = module_repository.add
    module_repository.add_identity("identity")
    module_repository.add_identity("text", "STRING", [-1])
    add("sum", SUM, config("sum", [("A", "FP32", [-1]), ("B", "FP32", [-1])], VECTOR["outputs"]))
    decoupled = "model_transaction_policy { decoupled: true }"
    add("repeat", REPEAT, config("repeat", **VECTOR, extra=decoupled))
    sequences = "sequence_batching { direct {} }"
    add("counting", COUNTING, config("counting", **VECTOR, max_batch_size=1, extra=sequences))
    return module_serve(module_repository, env=gpus.env)


@pytest.fixture
def user(gpus):
    with gpus.process() as user:
        yield user


@pytest.fixture(params=["http", "grpc"])
def client(request, server, connect, user, gpus):
    client = connect(request.param, server)
    yield client
    gpus.fail()
    gpus.delay(0)
    client.raw.unregister_cuda_shared_memory()
    wait_until(lambda: not open_memory(gpus, server), 20.0, "the server to close all handles")


def open_memory(gpus, server):
    """Returns the memory that the server has opened and not closed."""
    opened = []
    for _, (what, name) in gpus.calls("open", "close", pid=server.process.pid):
        opened.append(name) if what == "open" else opened.remove(name)
    return opened


def register(client, name, handle, size, gpu=0):
    client.raw.register_cuda_shared_memory(name, base64.b64encode(handle), gpu, size)


def place_input(client, name, shape, datatype, region, size, offset=0):
    tensor = client.module.InferInput(name, shape, datatype)
    tensor.set_shared_memory(region, size, offset)
    return tensor


def place_output(client, name, region, size, offset=0):
    tensor = client.module.InferRequestedOutput(name)
    tensor.set_shared_memory(region, size, offset)
    return tensor


def ask_aside(protocol, server):
    """Starts a thread that sends "identity" a request with 10 numbers of region "r"; returns the queue for its answer."""
    answers = queue.Queue()

    def ask():
        with contextlib.closing(Client(protocol, server)) as client:
            asked = [place_input(client, "IN", [10], "FP32", "r", 40)]
            answers.put(client.infer("identity", asked).as_numpy("OUT"))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, answers


def status_of(client, name=""):
    status = client.raw.get_cuda_shared_memory_status(name)
    if client.protocol == "http":
        return {region["name"]: (region["device_id"], region["byte_size"]) for region in status}
    return {name: (region.device_id, region.byte_size) for name, region in status.regions.items()}


def test_a_region_is_registered_told_and_let_go(client, user, gpus, server):
    assert status_of(client) == {}
    first, second = user.allocate(64), user.allocate(128, gpu=1)
    register(client, "a", user.handle(first), 64)
    register(client, "b", user.handle(second), 100, gpu=1)
    assert status_of(client) == {"a": (0, 64), "b": (1, 100)}
    assert status_of(client, "b") == {"b": (1, 100)}
    with client.fails("ALREADY_EXISTS", "shared memory region 'a' already in manager"):
        register(client, "a", user.handle(first), 64)
    # Each kind has its own registrations.
    client.raw.unregister_system_shared_memory()
    assert status_of(client) == {"a": (0, 64), "b": (1, 100)}
    assert not (client.raw.get_system_shared_memory_status() if client.protocol == "http" else [])
    client.raw.unregister_cuda_shared_memory("a")
    client.raw.unregister_cuda_shared_memory("a")
    assert status_of(client) == {"b": (1, 100)}
    with client.fails("NOT_FOUND", "Unable to find cuda shared memory region: 'a'"):
        status_of(client, "a")
    client.raw.unregister_cuda_shared_memory()
    assert status_of(client) == {}
    wait_until(lambda: not open_memory(gpus, server), 20.0, "the handles to be closed")


@contextlib.contextmanager
def closing_takes_a_while(gpus):
    gpus.hang("cuIpcCloseMemHandle")
    back = threading.Timer(0.3, gpus.hang)
    back.start()
    yield
    back.join()


def test_what_is_let_go_is_closed_when_the_client_hears_of_it(client, user, gpus, server):
    """When unregistering returns, the memory is closed, so the client may free it."""
    register(client, "r", user.handle(user.allocate(40)), 40)
    with closing_takes_a_while(gpus):
        client.raw.unregister_cuda_shared_memory("r")
        assert not open_memory(gpus, server)
    with closing_takes_a_while(gpus):
        with client.fails("INVALID_ARG", contains="expected 41 bytes, got 40"):
            register(client, "r", user.handle(user.allocate(40)), 41)
        assert not open_memory(gpus, server)


def test_the_first_region_makes_a_context_and_the_last_ends_it(client, user, gpus, server):
    def contexts():
        calls = [words[0] for _, words in gpus.calls("context", "no-context", pid=server.process.pid)]
        return calls.count("context") - calls.count("no-context")

    wait_until(lambda: contexts() == 0, 20.0, "no context")
    address = user.allocate(64)
    register(client, "a", user.handle(address), 64)
    assert contexts() == 1
    client.raw.unregister_cuda_shared_memory()
    wait_until(lambda: contexts() == 0, 20.0, "no context")


@pytest.mark.parametrize(
    ("size", "gpu", "text"),
    [
        (65, 0, "expected 65 bytes, got 64"),
        (64, 1, "failed to open CUDA IPC handle: cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE (invalid argument)"),
        (64, 9, "GPU 9 not found"),
        (0, 0, "invalid args"),
    ],
)
def test_what_is_no_region_is_refused(client, user, size, gpu, text):
    address = user.allocate(64)
    with client.fails("INVALID_ARG", f"failed to register CUDA shared memory region: 'a': {text}"):
        register(client, "a", user.handle(address), size, gpu)
    assert status_of(client) == {}


def test_wrong_handles_are_refused(client, user, server):
    with client.fails(
        "INVALID_ARG",
        "failed to register CUDA shared memory region: 'a': 'raw_handle' must have 64 bytes, got 6",
    ):
        register(client, "a", b"handle", 10)
    with client.fails("INVALID_ARG", contains="failed to open CUDA IPC handle"):
        register(client, "a", b"x" * 64, 10)
    handle = {"b64": base64.b64encode(user.handle(user.allocate(8))).decode()}
    for body, text in [
        ({"device_id": 0, "byte_size": 8}, "Shared memory register request has no 'raw_handle' field"),
        ({"raw_handle": handle, "byte_size": 8}, "Shared memory register request has no 'device_id' field"),
        ({"raw_handle": handle, "device_id": 0}, "Shared memory register request has no 'byte_size' field"),
        ({"raw_handle": {"b64": "?"}, "device_id": 0, "byte_size": 8}, "'raw_handle' must have base64 in 'b64'"),
    ]:
        status, answer = server.json("POST", "/v2/cudasharedmemory/region/a/register", body)
        assert (status, answer["error"]) == (400, text)


def test_inputs_and_outputs_on_a_device(client, user, gpus):
    """Inputs and outputs on a device are read only once they are there; copies are late on purpose."""
    gpus.delay(30)
    sent = np.arange(1000, dtype=np.float32)
    address = user.allocate(12000, np.zeros(1000, np.float32).tobytes() + sent.tobytes())
    register(client, "r", user.handle(address), 12000)
    inputs = [
        place_input(client, "A", [1000], "FP32", "r", 4000, 4000),
        client.input("B", np.full(1000, 2, np.float32)),
    ]
    result = client.infer("sum", inputs)
    np.testing.assert_array_equal(result.as_numpy("OUT"), sent + 2)
    result = client.infer("sum", inputs, outputs=[place_output(client, "OUT", "r", 4000, 8000)])
    if client.protocol == "http":
        assert "data" not in result.get_output("OUT")
    else:
        assert not any(result.get_response().raw_output_contents)
    assert user.read(address + 8000, 4000) == (sent + 2).tobytes()
    assert user.read(address, 4000) == bytes(4000)


def test_an_output_alone_on_a_device(client, user):
    address = user.allocate(40)
    register(client, "r", user.handle(address), 40)
    sent = np.arange(10, dtype=np.float32)
    client.infer("identity", {"IN": sent}, outputs=[place_output(client, "OUT", "r", 40)])
    assert user.read(address, 40) == sent.tobytes()
    with client.fails("INTERNAL", contains="should be at least 40 bytes to hold the results"):
        client.infer("identity", {"IN": sent}, outputs=[place_output(client, "OUT", "r", 36)])


def test_copies_are_from_and_to_pinned_memory(client, user, gpus, server):
    """Copies use pinned memory as long as the server has a context on the device."""
    address = user.allocate(400_000, np.arange(100_000, dtype=np.float32).tobytes())
    register(client, "r", user.handle(address), 400_000)
    before = len(gpus.calls("from-device", "to-device", pid=server.process.pid))
    asked = [place_input(client, "IN", [50_000], "FP32", "r", 200_000)]
    client.infer("identity", asked, outputs=[place_output(client, "OUT", "r", 200_000, 200_000)])
    copies = gpus.calls("from-device", "to-device", pid=server.process.pid)[before:]
    assert [words for _, words in copies] == [["from-device", "200000", "pinned"], ["to-device", "200000", "pinned"]]
    values = server.metric_values()
    assert values["nv_pinned_memory_pool_total_bytes"] == 256 << 20
    assert 200_000 < values["nv_pinned_memory_pool_used_bytes"] < 2_000_000
    client.raw.unregister_cuda_shared_memory()
    wait_until(lambda: server.metric_values()["nv_pinned_memory_pool_used_bytes"] == 0, 20.0, "the context to be gone")
    assert user.read(address + 200_000, 200_000) == user.read(address, 200_000)


def test_texts_on_a_device(client, user):
    content = b"".join(len(text).to_bytes(4, "little") + text for text in (b"one", b"", b"three"))
    address = user.allocate(64, content)
    register(client, "r", user.handle(address), 64)
    result = client.infer("text", [place_input(client, "IN", [3], "BYTES", "r", len(content))])
    assert result.as_numpy("OUT").tolist() == [b"one", b"", b"three"]
    # Errors in the content are found after the copy.
    user.write(address, b"\xff\xff\xff\x7f")
    with client.fails("INVALID_ARG"):
        client.infer("text", [place_input(client, "IN", [3], "BYTES", "r", len(content))])


def test_parts_that_do_not_lie_in_the_region(client, user):
    register(client, "r", user.handle(user.allocate(40)), 40)
    with client.fails("INVALID_ARG", "Invalid offset + byte size for shared memory region: 'r'"):
        client.infer("identity", [place_input(client, "IN", [10], "FP32", "r", 40, 4)])
    with client.fails("NOT_FOUND", "Unable to find shared memory region: 'other'"):
        client.infer("identity", [place_input(client, "IN", [10], "FP32", "other", 40)])


def test_a_device_that_fails_costs_the_request(client, user, gpus):
    address = user.allocate(40)
    register(client, "r", user.handle(address), 40)
    asked = [place_input(client, "IN", [10], "FP32", "r", 40)]
    gpus.fail("cuStreamSynchronize 719")
    text = "CUDA shared memory region 'r': cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"
    with client.fails("INTERNAL", text):
        client.infer("identity", asked)
    with client.fails("INTERNAL", text):
        sent = {"IN": np.zeros(10, np.float32)}
        client.infer("identity", sent, outputs=[place_output(client, "OUT", "r", 40)])
    gpus.fail()
    np.testing.assert_array_equal(client.infer("identity", asked).as_numpy("OUT"), np.zeros(10, np.float32))


def test_a_device_that_is_slow_holds_up_nobody_else(client, user, gpus, connect, server):
    register(client, "r", user.handle(user.allocate(40)), 40)
    gpus.delay(1500)
    asking, done = ask_aside(client.protocol, server)
    others = connect(client.protocol, server)
    sent = np.ones(3, np.float32)
    for _ in range(20):
        np.testing.assert_array_equal(others.infer("identity", {"IN": sent}).as_numpy("OUT"), sent)
    assert done.empty()
    np.testing.assert_array_equal(done.get(timeout=30), np.zeros(10, np.float32))
    asking.join()


def test_a_region_that_is_let_go_stays_for_requests_that_have_named_it(client, user, gpus, server):
    address = user.allocate(40, np.full(10, 3, np.float32).tobytes())
    register(client, "r", user.handle(address), 40)
    gpus.delay(4000)  # longer than unregistering waits for it
    before = len(gpus.calls("from-device", pid=server.process.pid))
    asking, answers = ask_aside(client.protocol, server)
    wait_until(lambda: len(gpus.calls("from-device", pid=server.process.pid)) > before, 20.0, "the copy to begin")
    client.raw.unregister_cuda_shared_memory()
    assert answers.empty()
    np.testing.assert_array_equal(answers.get(timeout=30), np.full(10, 3, np.float32))
    asking.join()


def test_a_device_that_is_lost_and_comes_back(client, user, gpus):
    handle = user.handle(user.allocate(40))
    register(client, "r", handle, 40)
    asked = [place_input(client, "IN", [10], "FP32", "r", 40)]
    gpus.fail("* 719")
    with client.fails("INTERNAL", contains="CUDA_ERROR_LAUNCH_FAILED"):
        client.infer("identity", asked)
    with client.fails("INVALID_ARG", contains="CUDA_ERROR_LAUNCH_FAILED"):
        register(client, "other", handle, 40)
    sent = np.ones(3, np.float32)
    np.testing.assert_array_equal(client.infer("identity", {"IN": sent}).as_numpy("OUT"), sent)
    gpus.fail()
    np.testing.assert_array_equal(client.infer("identity", asked).as_numpy("OUT"), np.zeros(10, np.float32))


CLIENT = """
import base64, os, sys, time
sys.path.insert(0, sys.argv[1])
from harness.gpus import User
user = User()
print(base64.b64encode(user.handle(user.allocate(40, bytes(range(40))))).decode(), flush=True)
time.sleep(600)
"""


def test_a_client_that_is_killed_keeps_its_region_until_it_is_let_go(client, gpus, server):
    tests = pathlib.Path(__file__).parent
    other = subprocess.Popen(
        [sys.executable, "-c", CLIENT, tests], env={**os.environ, **gpus.env}, stdout=subprocess.PIPE, text=True
    )
    try:
        handle = base64.b64decode(other.stdout.readline())
        register(client, "r", handle, 40)
    finally:
        other.kill()
        other.wait()
    got = client.infer("identity", [place_input(client, "IN", [10], "FP32", "r", 40)]).as_numpy("OUT")
    assert got.tobytes() == bytes(range(40))
    client.raw.unregister_cuda_shared_memory("r")
    wait_until(lambda: not [name for name in gpus.memory() if f".{other.pid}." in name], 20.0, "its memory to be gone")


# ---- a device that hangs ----


@pytest.fixture
def hanging(gpus, repository, serve, connect, user):
    """A server that waits 300 ms for a device, a client with region "r" of 40 bytes there, and the address."""
    repository.add_identity("identity")
    server = serve(repository, "--gpu-timeout-ms", "300", env=gpus.env)
    client = connect("http", server)
    address = user.allocate(80)
    register(client, "r", user.handle(address), 40)
    yield server, client, address
    gpus.hang()
    server.stop()


HANGS = "GPU 0 has not answered for 300 ms (--gpu-timeout-ms)"


@pytest.mark.parametrize("function", ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"])
def test_inputs_do_not_wait_for_a_device_that_hangs(hanging, gpus, user, function):
    server, client, address = hanging
    asked = [place_input(client, "IN", [10], "FP32", "r", 40)]
    user.write(address, np.full(10, 5, np.float32).tobytes())
    gpus.hang(function)
    for _ in range(3):
        with client.fails("UNAVAILABLE", f"CUDA shared memory region 'r': {HANGS}"):
            client.infer("identity", asked)
    # Only one device hangs, once.
    sent = np.ones(3, np.float32)
    np.testing.assert_array_equal(client.infer("identity", {"IN": sent}).as_numpy("OUT"), sent)
    assert f"{HANGS}; requests that need it fail until it does" in server.log
    stalls = {series: value for series, value in server.metric_values().items() if "gpu_stalls" in series}
    assert stalls == {f'braid_gpu_stalls_total{{gpu_uuid="{uuid(number)}"}}': 1 - number for number in range(2)}
    gpus.hang()
    wait_until(lambda: "GPU 0 answers again" in server.log, 20.0, "the device to come back")
    np.testing.assert_array_equal(client.infer("identity", asked).as_numpy("OUT"), np.full(10, 5, np.float32))


def test_outputs_do_not_wait_for_a_device_that_hangs(hanging, gpus, user):
    server, client, address = hanging
    gpus.hang("cuMemcpyHtoDAsync_v2")
    sent = {"IN": np.ones(10, np.float32)}
    for _ in range(2):
        with client.fails("UNAVAILABLE", f"CUDA shared memory region 'r': {HANGS}"):
            client.infer("identity", sent, outputs=[place_output(client, "OUT", "r", 40)])
    gpus.hang()
    wait_until(lambda: "GPU 0 answers again" in server.log, 20.0, "the device to come back")
    client.infer("identity", sent, outputs=[place_output(client, "OUT", "r", 40)])
    assert user.read(address, 40) == sent["IN"].tobytes()


def test_many_requests_for_a_device_that_hangs_end_together(hanging, gpus):
    server, _, _ = hanging
    gpus.hang("cuMemcpyDtoHAsync_v2")
    texts = queue.Queue()

    def ask():
        with contextlib.closing(Client("grpc", server)) as client:
            with client.fails("UNAVAILABLE", f"CUDA shared memory region 'r': {HANGS}"):
                client.infer("identity", [place_input(client, "IN", [10], "FP32", "r", 40)])
            texts.put("failed")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts.qsize() == 8
    # They waited for one copy in parallel, not in sequence.
    assert server.log.count(HANGS + "; requests that need it") == 1


def test_registering_does_not_wait_for_a_device_that_hangs(hanging, gpus, user):
    server, client, address = hanging
    gpus.hang("cuIpcOpenMemHandle_v2")
    text = f"failed to register CUDA shared memory region: 'other': {HANGS}"
    with client.fails("UNAVAILABLE", text):
        register(client, "other", user.handle(address), 40)
    assert list(status_of(client)) == ["r"]
    gpus.hang()
    wait_until(lambda: "GPU 0 answers again" in server.log, 20.0, "the device to come back")
    register(client, "other", user.handle(address), 40)


def test_a_region_can_be_let_go_while_a_device_hangs(hanging, gpus):
    server, client, _ = hanging
    gpus.hang("cuIpcCloseMemHandle")
    client.raw.unregister_cuda_shared_memory("r")
    assert status_of(client) == {}
    assert len(open_memory(gpus, server)) == 1
    gpus.hang()
    wait_until(lambda: not open_memory(gpus, server), 20.0, "the server to close it")


def test_a_server_ends_while_a_device_hangs(hanging, gpus):
    server, client, _ = hanging
    gpus.hang("cuMemcpyDtoHAsync_v2")
    with client.fails("UNAVAILABLE", contains=HANGS):
        client.infer("identity", [place_input(client, "IN", [10], "FP32", "r", 40)])
    server.stop()


# ---- streams ----


def stream(connect, server):
    client = connect("grpc", server)
    answers = queue.Queue()
    client.raw.start_stream(lambda result, error: answers.put((result, error)))
    return client, answers


def test_decoupled_outputs_on_a_device(connect, server, user, gpus):
    gpus.delay(20)
    client, answers = stream(connect, server)
    address = user.allocate(80, np.arange(10, dtype=np.float32).tobytes())
    register(client, "r", user.handle(address), 80)
    client.raw.async_stream_infer(
        "repeat",
        [place_input(client, "IN", [10], "FP32", "r", 40)],
        outputs=[place_output(client, "OUT", "r", 40, 40)],
    )
    for _ in range(3):
        _, error = answers.get(timeout=20)
        assert error is None
    client.raw.stop_stream()
    assert user.read(address + 40, 40) == (np.arange(10, dtype=np.float32) + 2).tobytes()
    gpus.delay(0)
    client.raw.unregister_cuda_shared_memory()


def test_messages_of_a_stream_stay_in_order(connect, server, user, gpus):
    """A message whose input is copied from a device is not overtaken by the next one of its sequence, which is not."""
    gpus.delay(100)
    client, answers = stream(connect, server)
    address = user.allocate(16, np.arange(4, dtype=np.float32).tobytes())
    register(client, "r", user.handle(address), 16)
    for turn in range(6):
        if turn % 2 == 0:
            tensor = place_input(client, "IN", [1, 1], "FP32", "r", 4, 4 * (turn // 2))
        else:
            tensor = client.input("IN", np.array([[10 + turn]], np.float32))
        client.raw.async_stream_infer(
            "counting", [tensor], sequence_id=7, sequence_start=turn == 0, sequence_end=turn == 5
        )
    for _ in range(6):
        result, error = answers.get(timeout=20)
        assert error is None
    client.raw.stop_stream()
    assert result.as_numpy("OUT").tolist() == [[0, 11, 1, 13, 2, 15]]
    gpus.delay(0)
    client.raw.unregister_cuda_shared_memory()


# ---- the rest ----


def test_can_be_refused(gpus, repository, serve, connect, user):
    repository.add_identity("identity")
    server = serve(repository, "--allow-client-shm=false", env=gpus.env)
    client = connect("http", server)
    with client.fails("UNSUPPORTED", contains="--allow-client-shm=false"):
        register(client, "r", user.handle(user.allocate(8)), 8)
    assert not gpus.calls("context", pid=server.process.pid)


def test_a_server_that_stops_closes_what_it_has_open(gpus, repository, serve, connect, user):
    repository.add_identity("identity")
    server = serve(repository, env=gpus.env)
    register(connect("http", server), "r", user.handle(user.allocate(8)), 8)
    assert open_memory(gpus, server)
    server.stop()
    assert not open_memory(gpus, server)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_region_needs_the_right_where_it_is_used(repository, serve, connect, user, gpus, tmp_path, protocol):
    repository.add_identity("identity")
    rules = [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["reader"], "apis": ["inference"]},
        {"identities": ["operator"], "apis": ["*"]},
    ]
    server = serve(repository, *access(tmp_path, "reader r-token\noperator o-token\n", rules), env=gpus.env)
    memory = user.allocate(40)
    client = connect(protocol, server)
    operator, reader = ({"authorization": f"Bearer {name}-token"} for name in "or")
    handle = base64.b64encode(user.handle(memory))
    client.raw.register_cuda_shared_memory("r", handle, 0, 40, headers=operator)
    for inputs, outputs in (
        ([place_input(client, "IN", [10], "FP32", "r", 40)], []),
        ([client.input("IN", np.zeros(10, np.float32))], [place_output(client, "OUT", "r", 40)]),
    ):
        with client.fails("PERMISSION_DENIED", "'reader' may not use the API 'shared-memory' of model 'identity'"):
            client.infer("identity", inputs, outputs=outputs or None, headers=reader)
        client.infer("identity", inputs, outputs=outputs or None, headers=operator)
    client.raw.unregister_cuda_shared_memory(headers=operator)
    wait_until(lambda: not open_memory(gpus, server), 20.0, "the server to close all handles")
