"""grpcurl, which learns the services through reflection.

As in gRPC's own C++ servers, reflection gives fields only the names of the .proto files, so grpcurl prints those.
"""

import base64
import json
import subprocess

import numpy as np
import pytest
from harness.public_clients import ERROR, add_models, environment, need
from harness.server import BINARY


@pytest.fixture(scope="module")
def program():
    return need("grpcurl") / "grpcurl"


@pytest.fixture(scope="module")
def models(program, module_repository):
    return add_models(module_repository)


@pytest.fixture(scope="module")
def server(models, module_serve):
    return module_serve(models, "--grpc-header-forward-pattern=x-forward-.*")


@pytest.fixture
def grpcurl(program, server):
    """grpcurl(*arguments, data=[message, ...]) calls the server, and returns its output.

    `fails`: the gRPC code with which it must end; then its error is returned.
    """

    def run(*arguments, data=(), address=server.grpc, options=("-plaintext",), fails=None):
        if data:
            options = [*options, "-d", "@"]
        ran = subprocess.run(
            [program, *options, address, *arguments],
            input="\n".join(map(json.dumps, data)),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if fails is not None:
            assert ran.returncode == 64 + fails, ran.stderr
            return ran.stderr
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def messages(text):
    """Returns the messages of a stream, which grpcurl prints one after the other."""
    decoder = json.JSONDecoder()
    found = []
    while text := text.lstrip():
        message, end = decoder.raw_decode(text)
        found.append(message)
        text = text[end:]
    return found


def array(values):
    return base64.b64encode(np.array(values, np.float32).tobytes()).decode()


def add_sub(tensors, **more):
    inputs = [{"name": f"INPUT{n}", "datatype": "FP32", "shape": [4], **each} for n, each in enumerate(tensors)]
    return {"model_name": "add_sub", "inputs": inputs, **more}


def text(model, value, **more):
    tensor = {"name": "IN", "datatype": "BYTES", "shape": [1], "contents": {"bytes_contents": [encoded(value)]}}
    return {"model_name": model, "inputs": [tensor], **more}


def encoded(value):
    return base64.b64encode(value.encode()).decode()


def value_of(response):
    return base64.b64decode(response["raw_output_contents"][0])[4:].decode()


def check_add_sub(answer):
    assert answer["model_name"] == "add_sub"
    assert answer["model_version"] == "1"
    assert answer["outputs"] == [
        {"name": "OUTPUT0", "datatype": "FP32", "shape": ["4"]},
        {"name": "OUTPUT1", "datatype": "FP32", "shape": ["4"]},
    ]
    assert answer["raw_output_contents"] == [array([11, 22, 33, 44]), array([-9, -18, -27, -36])]


def test_list(grpcurl):
    services = grpcurl("list").split()
    assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(services)
    methods = grpcurl("list", "inference.GRPCInferenceService").split()
    assert {f"inference.GRPCInferenceService.{n}" for n in ("ServerLive", "ModelInfer", "RepositoryIndex")} <= set(
        methods
    )


def test_describe(grpcurl):
    assert (
        "rpc ModelStreamInfer ( stream .inference.ModelInferRequest ) "
        "returns ( stream .inference.ModelStreamInferResponse );"
    ) in grpcurl("describe", "inference.GRPCInferenceService")
    message = grpcurl("describe", ".inference.ModelInferRequest")
    assert "repeated bytes raw_input_contents = 7;" in message
    assert "map<string, .inference.InferParameter> parameters = 4;" in message


@pytest.mark.parametrize("service", ["tensorflow.serving.PredictionService", "grpc.health.v1.Health"])
def test_every_service_that_is_listed_can_be_described(grpcurl, service):
    assert service in grpcurl("list").split()
    assert f"service {service.rpartition('.')[2]} {{" in grpcurl("describe", service)


def test_live_ready_and_metadata(grpcurl):
    service = "inference.GRPCInferenceService"
    assert json.loads(grpcurl(f"{service}/ServerLive")) == {"live": True}
    assert json.loads(grpcurl(f"{service}/ModelReady", data=[{"name": "echo"}])) == {"ready": True}
    assert json.loads(grpcurl("grpc.health.v1.Health/Check")) == {"status": "SERVING"}
    metadata = json.loads(grpcurl(f"{service}/ModelMetadata", data=[{"name": "echo"}]))
    assert metadata["inputs"] == [{"name": "IN", "datatype": "FP32", "shape": ["-1"]}]


def test_inference_of_raw_contents(grpcurl):
    request = add_sub([{}, {}], id="raw", raw_input_contents=[array([1, 2, 3, 4]), array([10, 20, 30, 40])])
    answer = json.loads(grpcurl("inference.GRPCInferenceService/ModelInfer", data=[request]))
    assert answer["id"] == "raw"
    check_add_sub(answer)


def test_inference_of_typed_contents(grpcurl):
    values = [[1, 2, 3, 4], [10, 20, 30, 40]]
    request = add_sub([{"contents": {"fp32_contents": each}} for each in values])
    check_add_sub(json.loads(grpcurl("inference.GRPCInferenceService/ModelInfer", data=[request])))


def test_metadata_that_a_model_sees(grpcurl):
    headers = ["-H", "x-forward-text: a b", "-H", f"x-forward-bin: {encoded('äöü')}"]
    printed = grpcurl(
        "inference.GRPCInferenceService/ModelInfer", data=[text("headers", "x")], options=["-plaintext", *headers]
    )
    assert json.loads(value_of(json.loads(printed))) == {"x-forward-text": "a b", "x-forward-bin": "äöü"}


def test_errors(grpcurl):
    infer = "inference.GRPCInferenceService/ModelInfer"
    assert f"Code: NotFound\n  Message: {ERROR}\n" in grpcurl(infer, data=[text("failing", "x")], fails=5)
    unknown = grpcurl(infer, data=[text("nope", "x")], fails=5)
    assert "Code: NotFound\n  Message: Request for unknown model: 'nope' is not found" in unknown
    wrong = grpcurl(infer, data=[add_sub([{}, {}], raw_input_contents=[array([1]), array([1])])], fails=3)
    assert "Code: InvalidArgument\n" in wrong
    assert "input byte size mismatch for input 'INPUT" in wrong
    late = grpcurl(infer, data=[text("patient", "late")], options=["-plaintext", "-max-time", "0.5"], fails=4)
    assert "Code: DeadlineExceeded\n" in late


def test_a_stream(grpcurl):
    requests = [text("headers", "x", id=str(number)) for number in range(5)]
    requests.insert(2, text("failing", "x", id="failing"))
    answers = messages(grpcurl("inference.GRPCInferenceService/ModelStreamInfer", data=requests))
    assert [each["infer_response"]["id"] for each in answers] == [each["id"] for each in requests]
    assert [each.get("error_message", "") for each in answers] == ["", "", ERROR, "", "", ""]


def test_a_stream_of_many_answers(grpcurl):
    printed = grpcurl("inference.GRPCInferenceService/ModelStreamInfer", data=[text("repeat", "50")])
    answers = [value_of(each["infer_response"]) for each in messages(printed)]
    assert answers == [f"{number} " + "x" * 5000 for number in range(50)]


def test_a_large_message(grpcurl):
    values = np.arange(2**20, dtype=np.float32)
    request = {"model_name": "echo", "inputs": [{"name": "IN", "datatype": "FP32", "shape": [values.size]}]}
    request["raw_input_contents"] = [array(values)]
    options = ["-plaintext", "-max-msg-sz", str(8 * 2**20)]
    answer = json.loads(grpcurl("inference.GRPCInferenceService/ModelInfer", data=[request], options=options))
    assert answer["raw_output_contents"] == request["raw_input_contents"]


def test_tls(grpcurl, models, serve, tmp_path):
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    options = [f"--grpc-server-cert={tmp_path}/server.pem", f"--grpc-server-key={tmp_path}/server.key"]
    server = serve(models, "--grpc-use-ssl-mutual", f"--grpc-root-cert={tmp_path}/root.pem", *options)
    shown = ["-cacert", tmp_path / "root.pem", "-cert", tmp_path / "client.pem", "-key", tmp_path / "client.key"]
    request = add_sub([{}, {}], raw_input_contents=[array([1, 2, 3, 4]), array([10, 20, 30, 40])])
    infer = "inference.GRPCInferenceService/ModelInfer"
    check_add_sub(json.loads(grpcurl(infer, data=[request], address=server.grpc, options=shown)))
