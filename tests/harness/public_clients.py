"""Public clients that are not Python packages; scripts/public-clients installs them."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, json_format
from tritonclient.grpc import model_config_pb2, service_pb2

from harness.repository import config, per_request
from harness.server import ROOT

INSTALLED = ROOT / ".cache" / "public-clients"
SOURCES = ROOT / "tests" / "public_clients"
# Variables that would redirect the clients from the local server, or add output.
LEFT_OUT = re.compile(r"(?i)(https?|grpc|all|no)_proxy|grpc_.*|node_.*|_?java_.*|jdk_java_options")


def environment(**more):
    """Returns the environment of a client's process."""
    return {**{name: value for name, value in os.environ.items() if not LEFT_OUT.fullmatch(name)}, **more}


def need(client, *programs):
    """Returns the folder of a client; skips the test if it, or a program that it needs, is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{client} needs `{program}` on the PATH; install it, then run scripts/public-clients")
    if not (INSTALLED / client).exists():
        pytest.skip(f"{client} is not there; run scripts/public-clients, which says what it needs")
    return INSTALLED / client


class Result:
    """The result of a call: `code` and `details`, the responses before that, and the duration in milliseconds."""

    def __init__(self, values, response):
        self.code = values["code"]
        self.details = values["details"]
        self.ms = values["ms"]
        self.responses = [json_format.ParseDict(each, response()) for each in values.get("responses", [])]

    @property
    def response(self):
        """Returns the only response of a successful call."""
        assert (self.code, len(self.responses)) == ("OK", 1), (self.code, self.details, len(self.responses))
        return self.responses[0]


def call(method, *requests, **more):
    """A call for GrpcProgram.calls: for a unary method one call per request, all at once; otherwise one stream."""
    messages = [json_format.MessageToDict(each, preserving_proto_field_name=True) for each in requests]
    return {"method": method, "requests": messages, **more}


class GrpcProgram:
    """A program that makes the given calls with its language's gRPC client (tests/public_clients/)."""

    def __init__(self, command, env, **given):
        self._command = command
        self._env = env
        self._given = given

    def calls(self, address, *calls, **options):
        """Returns the results of each call: a list for a call with several requests and no stream.

        The calls are made one after the other on one channel. Options: `ca`, `compressed`, `keepalive_ms`.
        """
        given = json.dumps({"address": address, "calls": calls, **self._given, **options})
        ran = subprocess.run(self._command, input=given.encode(), env=self._env, capture_output=True, timeout=100)
        assert ran.returncode == 0, ran.stderr.decode()
        found = []
        for asked, results in zip(calls, json.loads(ran.stdout), strict=True):
            kind = "ModelStreamInferResponse" if asked["method"] == "ModelStreamInfer" else f"{asked['method']}Response"
            made = [Result(each, getattr(service_pb2, kind)) for each in results]
            found.append(made[0] if len(made) == 1 else made)
        return found


def grpc_js():
    """Returns gRPC's client for Node."""
    folder = need("grpc-js", "node")
    env = environment(NODE_PATH=str(folder / "node_modules"))
    proto = ROOT / "protos" / "grpc_service.proto"
    return GrpcProgram(["node", SOURCES / "grpc-js" / "client.js"], env, proto=str(proto))


def grpc_java(workdir):
    """Returns gRPC's client for Java; its program is compiled into `workdir`."""
    folder = need("grpc-java", "javac", "java")
    # Only the jars with known checksums.
    jars = [line.split()[1] for line in (SOURCES / "grpc-java" / "jars.sha256").read_text().splitlines()]
    path = ":".join(str(folder / jar) for jar in jars)
    source = SOURCES / "grpc-java" / "Client.java"
    subprocess.run(["javac", "-cp", path, "-d", workdir, source], env=environment(), check=True)
    files = descriptor_pb2.FileDescriptorSet()
    for module in (model_config_pb2, service_pb2):
        files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    descriptors = workdir / "descriptors.pb"
    descriptors.write_bytes(files.SerializeToString())
    # A small Java machine, because each test starts a new one.
    small = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData"]
    command = ["java", *small, f"-Djava.io.tmpdir={workdir}", "-cp", f"{path}:{workdir}", "Client"]
    return GrpcProgram(command, environment(), descriptors=str(descriptors))


# ---- the requests ----------------------------------------------------------------------------------

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# Runs until a file ends it, or its request is cancelled; writes files that report its progress.
PATIENT = per_request(
    """
    place = self.args["model_repository"]
    name = get(request, "IN")[0].decode()
    open(os.path.join(place, name + "-started"), "w").close()
    deadline = time.monotonic() + 30
    while not request.is_cancelled() and time.monotonic() < deadline:
        if os.path.exists(os.path.join(place, name + "-end")):
            break
        time.sleep(0.005)
    if request.is_cancelled():
        open(os.path.join(place, name + "-cancelled"), "w").close()
    return respond(OUT=get(request, "IN"))
    """
)
# Takes many times as long as these clients wait before they send a keepalive ping.
SLOW = per_request("time.sleep(0.5)\nreturn respond(OUT=get(request, 'IN'))")
# HTTP/2 does not allow blanks at the ends of a field's value; they are as difficult as other characters than ASCII.
ERROR = ' as asked: 100 % of "äöü"\nand a second line '
FAILING = per_request(
    f"return pb_utils.InferenceResponse(error=pb_utils.TritonError({ERROR!r}, pb_utils.TritonError.NOT_FOUND))"
)
HEADERS = per_request("return respond(OUT=np.array([request.parameters().encode()], dtype=object))")
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            times = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            for number in range(times):
                text = np.array([b"%d " % number + b"x" * 5000], dtype=object)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def add_models(repository):
    """Writes the models for these clients."""
    shutil.copytree(ROOT / "examples" / "models" / "add_sub", repository.path / "add_sub")
    repository.add_identity("echo")
    for name, source in (("patient", PATIENT), ("slow", SLOW), ("failing", FAILING), ("headers", HEADERS)):
        repository.add(name, source, config(name, TEXT, OUT))
    decoupled = "model_transaction_policy { decoupled: true }"
    repository.add("repeat", REPEAT, config("repeat", TEXT, OUT, extra=decoupled))
    return repository


def text_request(model, text, **fields):
    message = service_pb2.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="IN", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text.encode())
    return message


def array_request(array, **fields):
    message = service_pb2.ModelInferRequest(model_name="echo", **fields)
    message.inputs.add(name="IN", datatype="FP32", shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    return message


def text_of(response):
    return response.raw_output_contents[0][4:].decode()


def add_sub_request(**fields):
    message = service_pb2.ModelInferRequest(model_name="add_sub", **fields)
    for name, values in (("INPUT0", [1, 2, 3, 4]), ("INPUT1", [10, 20, 30, 40])):
        message.inputs.add(name=name, datatype="FP32", shape=[4])
        message.raw_input_contents.append(np.array(values, np.float32).tobytes())
    return message
