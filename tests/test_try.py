"""`braid try` against a real server: its requests, its output, and its errors."""

import json
import re
import struct
import subprocess

import numpy as np
import pytest
from harness import graphs
from harness.chat_models import add_chat
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import BINARY
from harness.waiting import wait_until

SUM = per_request(
    """
    start, end = (get(request, name).reshape(-1)[0] for name in ("START", "END"))
    self.sum = (0 if start else self.sum) + get(request, "IN")
    return respond(OUT=self.sum)
    """
)
CONTROLS = """
sequence_batching {
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] }
  ]
}
"""
COUNT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    cancelled = add_chat(module_repository)
    module_repository.add_identity("echo", "FP32", dims=(3,))
    module_repository.add_identity("any", "INT64", dims=(-1, 2), max_batch_size=4)
    module_repository.add_identity("text", "STRING", dims=(-1,))
    module_repository.add(
        "sum", SUM, config("sum", [("IN", "INT32", [1])], [("OUT", "INT32", [1])], max_batch_size=1, extra=CONTROLS)
    )
    module_repository.add(
        "count",
        COUNT,
        config("count", [("IN", "INT32", [1])], [("OUT", "INT32", [1])])
        + "model_transaction_policy { decoupled: true }",
    )
    server = module_serve(module_repository)
    server.cancelled = cancelled
    return server


def attempt(server, protocol, *arguments, text=True):
    return subprocess.run(
        [BINARY, "try", *map(str, arguments), "-u", getattr(server, protocol), "-i", protocol],
        capture_output=True,
        text=text,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def outputs(done):
    """Returns the outputs of each response of --json."""
    assert done.returncode == 0, done.stderr
    return [{each["name"]: each for each in json.loads(line)["outputs"]} for line in done.stdout.splitlines()]


protocols = pytest.mark.parametrize("protocol", ["http", "grpc"])


@protocols
def test_shows_what_was_sent_and_answered(server, protocol):
    done = attempt(server, protocol, "echo", "-d", "IN=[1, 2.5, -3]")
    assert done.returncode == 0, done.stderr
    assert "> IN FP32[3]  1, 2.5, -3\n" in done.stdout
    assert "< OUT FP32[3]  1, 2.5, -3\n" in done.stdout


@protocols
def test_values_at_random_are_the_same_for_one_seed(server, protocol):
    one, two, other = (
        outputs(attempt(server, protocol, "echo", "--json", "--seed", seed))[0]["OUT"] for seed in (1, 1, 2)
    )
    assert one == two != other
    assert all(0 <= value < 1 for value in one["data"])


@protocols
def test_shapes_and_batches(server, protocol):
    done = attempt(server, protocol, "any")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "braid try: IN has the shape [-1,2]: using [1,2]; change it with --shape IN:...\n"
    assert "> IN INT64[1,1,2]  " in done.stdout
    assert outputs(attempt(server, protocol, "any", "-d", "IN=7", "--json"))[0]["OUT"]["data"] == [7, 7]
    output = outputs(attempt(server, protocol, "any", "--shape", "IN:3,2", "-b", 2, "--json"))[0]["OUT"]
    assert output["shape"] == [2, 3, 2]
    output = outputs(attempt(server, protocol, "any", "-d", "IN=[[1,2],[3,4],[5,6]]", "--json"))[0]["OUT"]
    assert (output["shape"], output["data"]) == ([1, 3, 2], [1, 2, 3, 4, 5, 6])


@protocols
def test_text_and_files(server, tmp_path, protocol):
    assert outputs(attempt(server, protocol, "text", "-d", "IN=héllo", "--json"))[0]["OUT"]["data"] == ["héllo"]
    assert outputs(attempt(server, protocol, "text", "-d", 'IN=["a", "b"]', "--json"))[0]["OUT"]["data"] == ["a", "b"]
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\xff")
    raw = attempt(server, protocol, "text", "-d", f"IN=@{tmp_path}/picture.png", "--raw", text=False)
    assert raw.stdout == struct.pack("<I", 6) + b"\x89PNG\0\xff"
    array = np.array([[[1, 2], [3, 4]]], dtype=np.int64)
    np.save(tmp_path / "array.npy", array)
    raw = attempt(server, protocol, "any", "-d", f"IN=@{tmp_path}/array.npy", "--raw", text=False)
    assert raw.stdout == array.tobytes()
    np.save(tmp_path / "float.npy", array.astype(np.float64))
    refused = attempt(server, protocol, "any", "-d", f"IN=@{tmp_path}/float.npy")
    assert refused.returncode == 2
    assert "it has elements of FP64, but input IN needs INT64" in refused.stderr
    (tmp_path / "values.json").write_text("[[7, 8]]")
    assert outputs(attempt(server, protocol, "any", "-d", f"IN=@{tmp_path}/values.json", "--json"))[0]["OUT"][
        "data"
    ] == [7, 8]


@protocols
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("values.txt", b"1 2\n3 4\n"),
        ("values.csv", b"1,2\r\n3,4\r\n"),
        ("list.txt", b"[1, 2, 3, 4]\n"),
        ("values.bin", np.array([1, 2, 3, 4], np.int64).tobytes()),
    ],
    ids=["lines", "csv", "json", "bytes"],
)
def test_a_file_for_numbers_is_read_as_numbers(server, tmp_path, protocol, name, content):
    (tmp_path / name).write_bytes(content)
    output = outputs(attempt(server, protocol, "any", "-d", f"IN=@{tmp_path / name}", "--json"))[0]["OUT"]
    assert (output["shape"], output["data"]) == ([1, 2, 2], [1, 2, 3, 4])


def test_a_file_for_numbers_that_holds_none_is_refused(server, tmp_path):
    for content, why in [
        (b"1 two 3", "7 bytes are not a whole number of INT64"),
        (bytes(24), "IN of shape [1,2] needs 2 elements, got 3"),
    ]:
        (tmp_path / "file").write_bytes(content)
        refused = attempt(server, "http", "any", "-d", f"IN=@{tmp_path}/file")
        assert refused.returncode == 2
        assert refused.stderr == (
            f"braid try: -d IN: {tmp_path}/file: it is not an image, a .npy file or a list of numbers, and does not fit "
            f"as bytes of INT64: {why}\n"
        )
    # A server decodes the bytes of an image.
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\2\0\0\0")
    assert '"datatype":"BYTES"' in attempt(server, "http", "any", "-d", f"IN=@{tmp_path}/image", "--curl").stdout


NODE = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", inputs[0].data, inputs[0].shape, inputs[0].datatype)]
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    with OvmsServer(graphs.config(graphs.single(folder, "same", NODE)), workdir=folder) as server:
        yield server


@protocols
def test_a_graph_is_asked_with_the_datatype_of_the_values(graph, tmp_path, protocol):
    for data, datatype, values in [
        ("[1, 2]", "INT64", [1, 2]),
        ("2.5", "FP32", [2.5]),
        ("hello", "BYTES", ["hello"]),
    ]:
        done = attempt(graph, protocol, "same", "-d", f"in={data}", "--json")
        output = outputs(done)[0]["out"]
        assert (output["datatype"], output["shape"], output["data"]) == (datatype, [len(values)], values)
        assert (
            done.stderr
            == f"braid try: in is sent as {datatype} because of its values; change it with --datatype in:...\n"
        )
    array = np.array([[1, 2], [3, 4]], np.int16)
    np.save(tmp_path / "array.npy", array)
    output = outputs(attempt(graph, protocol, "same", "-d", f"in=@{tmp_path}/array.npy", "--json"))[0]["out"]
    assert (output["datatype"], output["shape"], output["data"]) == ("INT16", [2, 2], [1, 2, 3, 4])


@protocols
def test_a_graph_is_asked_with_a_datatype_of_ones_own(graph, protocol):
    done = attempt(graph, protocol, "same", "-d", "in=[1, 2]", "--datatype", "in:FP32")
    assert done.returncode == 0, done.stderr
    assert "< out FP32[2]  1, 2\n" in done.stdout
    assert done.stderr == ""
    done = attempt(graph, protocol, "same", "--datatype", "in:FP32", "--shape", "in:2,3", "--zero")
    assert "< out FP32[2,3]  0, 0, 0, 0, 0, 0\n" in done.stdout
    refused = attempt(graph, protocol, "same")
    assert refused.returncode == 2
    assert "the metadata has no datatype for in" in refused.stderr
    assert "--datatype in:FP32" in refused.stderr


@protocols
def test_sequences(server, protocol):
    done = attempt(server, protocol, "sum", "-d", "IN=5", "--steps", 3, "--sequence-id", 77, "--json")
    assert [each["OUT"]["data"] for each in outputs(done)] == [[5], [10], [15]]


def test_decoupled_models_answer_as_often_as_they_do(server):
    done = attempt(server, "grpc", "count", "-d", "IN=3", "--json")
    assert [each["OUT"]["data"] for each in outputs(done)] == [[0], [1], [2]]
    assert "3 responses in" in attempt(server, "grpc", "count", "-d", "IN=3").stdout
    assert "0 responses in" in attempt(server, "grpc", "count", "-d", "IN=0").stdout
    refused = attempt(server, "http", "count")
    assert refused.returncode == 1
    assert "add -i grpc" in refused.stderr


def test_curl_asks_the_same(server):
    command = attempt(server, "http", "text", "-d", "IN=it's", "--curl").stdout
    answer = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(answer.stdout)["outputs"][0]["data"] == ["it's"]


def test_a_chat_shows_its_text_and_its_pace(server):
    done = attempt(server, "http", "chat", "--chat", "hello\tyou\nand\x1b[1m")
    assert done.returncode == 0, done.stderr
    number = r"[\d.]+"
    pace = rf"  6 tokens in {number} ms, {number}/s, the first after {number} ms\n"
    assert re.fullmatch(rf"message 1 was: hello you and\\x1b\[1m \n{pace}", done.stdout), done.stdout
    done = attempt(server, "http", "chat", "--chat", "hello", "-p", "max_tokens=2", "--raw")
    assert (done.returncode, done.stdout) == (0, "message 1 ")


def test_a_chat_shows_its_text_as_it_comes(server):
    command = [BINARY, "try", "chat", "-u", server.http, "--chat", "forever"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout.read(45).startswith(b"message 1 was: forever tick tick")
    finally:
        process.kill()
        process.communicate()
    wait_until(server.cancelled.exists, 20, "the end of the model's answer")


def test_a_chat_shows_errors_as_text(server):
    done = attempt(server, "http", "chat", "--chat", "fail")
    assert (done.returncode, done.stdout) == (1, "message 1 was: fail \n")
    assert done.stderr == "braid try: out of words\n"
    done = attempt(server, "http", "chat", "--chat", "hello", "-p", "n=2")
    assert done.returncode == 1
    assert done.stderr.startswith("braid try: HTTP 400: ")
    assert "{" not in done.stderr
    done = attempt(server, "http", "nope", "--chat", "hello")
    assert done.returncode == 1
    assert done.stderr == "braid try: model nope is not served by OpenAI's API; served: chat\n"


def test_a_chat_as_a_curl_command(server):
    command = attempt(server, "http", "chat", "--chat", "it's", "--curl").stdout
    answer = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=True).stdout
    assert "it's" in answer
    assert answer.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("protocol", "arguments", "text"),
    [
        ("grpc", [], "--chat needs HTTP: remove -i grpc"),
        ("http", ["-d", "IN=1"], "--data excludes --chat"),
        ("http", ["--json"], "--json excludes --chat"),
    ],
)
def test_a_chat_refuses_what_it_does_not_send(server, protocol, arguments, text):
    done = attempt(server, protocol, "chat", "--chat", "hello", *arguments)
    assert done.returncode == 2
    assert text in done.stderr


@protocols
def test_what_is_not_there(server, protocol):
    done = attempt(server, protocol, "nope")
    assert done.returncode == 1
    assert "ready models: any, chat, count, echo, sum, text" in done.stderr
    done = attempt(server, protocol, "echo", "-d", "NO=1")
    assert done.returncode == 2
    assert "model echo has no input NO; it has IN" in done.stderr
    done = attempt(server, protocol, "echo", "-d", "IN=[1]")
    assert done.returncode == 2
    assert "IN of shape [3] needs 3 elements, got 1" in done.stderr
    done = attempt(server, protocol, "echo", "-x", "9")
    assert done.returncode == 1


def test_the_other_protocols_port_and_none(server):
    done = subprocess.run(
        [BINARY, "try", "echo", "-u", server.grpc], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "-i grpc" in done.stderr
    done = subprocess.run(
        [BINARY, "try", "echo", "-u", "127.0.0.1:9"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:9" in done.stderr
