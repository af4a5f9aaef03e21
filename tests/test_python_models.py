"""The environment of Python models: the module's API, argument errors, execution, and failures."""

import json
import re

import numpy as np
import pytest
from harness.clients import strings
from harness.repository import config, per_request

# Runs a snippet inside execute, and returns its `result` or its exception as JSON.
PROBE = per_request(
    """
    code = get(request, "CODE")[0].decode()
    names = {"pb_utils": pb_utils, "np": np, "json": json, "sys": sys, "os": os, "request": request, "model": self}
    try:
        exec(code, names)
        answer = {"result": names.get("result")}
    except Exception as error:
        answer = {
            "error": type(error).__name__,
            "bases": [base.__name__ for base in type(error).__mro__],
            "text": str(error),
        }
    return respond(RESULT=np.array([json.dumps(answer).encode()], dtype=object))
    """
)

# The request chooses the return value of `execute`.
RETURNS = """
import threading, sys, os
import numpy as np
import triton_python_backend_utils as pb_utils


class Odd(Exception):
    pass


class TritonPythonModel:
    def execute(self, requests):
        mode = pb_utils.get_input_tensor_by_name(requests[0], "MODE").as_numpy().reshape(-1)[0].decode()
        good = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([b"ok"], dtype=object))])
        sender = requests[0].get_response_sender()
        if mode == "tuple":
            return (good,)
        if mode == "two":
            return [good, good]
        if mode == "int":
            return [3]
        if mode == "nothing":
            return {}
        if mode == "raise":
            raise ValueError("a value is wrong")
        if mode == "odd":
            raise Odd("odd things")
        if mode == "model_exception":
            raise pb_utils.TritonModelException("the model says no")
        if mode == "exit":
            sys.exit(3)
        if mode == "error":
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("bare text"))]
        if mode.startswith("error-"):
            code = getattr(pb_utils.TritonError, mode.removeprefix("error-"))
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("bare text", code))]
        if mode == "error_and_tensors":
            tensor = pb_utils.Tensor("OUT", np.array([b"x"], dtype=object))
            return [pb_utils.InferenceResponse([tensor], pb_utils.TritonError("only the error counts"))]
        if mode == "wrong_name":
            return [pb_utils.InferenceResponse([pb_utils.Tensor("NOT_CONFIGURED", np.zeros(1))])]
        if mode == "no_outputs":
            return [pb_utils.InferenceResponse([])]
        if mode == "other_type":
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.arange(6, dtype=np.int64).reshape(2, 3))])]
        if mode == "sender_then_none":
            sender.send(good)
            return None
        if mode == "sender_then_list_of_none":
            sender.send(good, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return [None]
        if mode == "sender_from_thread":
            threading.Thread(target=lambda: sender.send(good)).start()
            return [None]
        if mode == "sender_without_final_then_final":
            sender.send(good)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        if mode == "sender_errors":
            texts = []
            for call in (
                lambda: sender.send(good, flags=5),
                lambda: sender.send(),
                lambda: sender.send(flags=1),
                lambda: sender.send(good),
                lambda: sender.send(good),
                lambda: sender.send(flags=1),
                lambda: sender.send(good),
                lambda: sender.send(flags=1),
            ):
                try:
                    call()
                    texts.append("")
                except pb_utils.TritonModelException as error:
                    texts.append(str(error))
            self.texts = texts
            return None
        if mode == "texts":
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(self.texts, dtype=object))])]
        if mode == "send_and_return":
            sender.send(good)
            return [good]
        return [good]
"""

NO_EXECUTE = """
class TritonPythonModel:
    pass
"""

ASYNC = """
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(3)))
        if pb_utils.get_input_tensor_by_name(requests[0], "MODE").as_numpy()[0] == b"raise":
            raise ValueError("from a coroutine")
        tensor = pb_utils.Tensor("OUT", np.array([b"awaited"], dtype=object))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
"""

IDENTITY_OF_MODULE = per_request(
    """
    import sibling
    from . import sibling as relative
    import model as second
    facts = {
        "name": __name__,
        "sibling": sibling.VALUE,
        "relative": relative.VALUE,
        "second": second.__name__,
        "path": sys.path,
        "dir": pb_utils.get_model_dir(),
        "cwd": os.getcwd(),
        "args": self.args,
        "environment": os.environ.get("MY_ENV"),
    }
    return respond(RESULT=np.array([json.dumps(facts).encode()], dtype=object))
    """
)

WRITES = per_request(
    """
    array = get(request, "IN")
    array += 1
    return respond(OUT=array)
    """
)

MODE = [("MODE", "STRING", [-1])]
OUT = [("OUT", "STRING", [-1])]


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    add = module_repository.add
    add("probe", PROBE, config("probe", [("CODE", "STRING", [1])], [("RESULT", "STRING", [1])]))
    add("returns", RETURNS, config("returns", MODE, OUT))
    add("no_execute", NO_EXECUTE, config("no_execute", MODE, OUT))
    add("asynchronous", ASYNC, config("asynchronous", MODE, OUT))
    add(
        "module",
        IDENTITY_OF_MODULE,
        config(
            "module",
            [("IN", "INT32", [1], "optional: true")],
            [("RESULT", "STRING", [1])],
            extra='parameters { key: "k" value: { string_value: "v" } } instance_group [ { count: 1 kind: KIND_CPU } ]',
        ),
        versions=(3,),
        files={"3/sibling.py": "VALUE = 7\n"},
    )
    add("writes", WRITES, config("writes", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    # Configured with another file name.
    add(
        "renamed",
        None,
        config("renamed", MODE, OUT, extra='default_model_filename: "other.py"'),
        files={"1/other.py": ASYNC},
    )
    return module_serve(module_repository, env={"MY_ENV": "inherited"})


@pytest.fixture
def probe(server, connect):
    """probe(code) returns the JSON value that the code leaves in `result`, or the exception as a dictionary."""
    client = connect("grpc", server)

    def run(code):
        answer = json.loads(client.infer("probe", {"CODE": strings(code)}).as_numpy("RESULT")[0])
        return answer if "error" in answer else answer["result"]

    return run


# ---- 1: the surface ------------------------------------------------------------------------------

NAMES = [
    "Tensor",
    "InferenceRequest",
    "InferenceResponse",
    "TritonError",
    "TritonModelException",
    "Logger",
    "MetricFamily",
    "ModelConfig",
    "PreferredMemory",
    "get_input_tensor_by_name",
    "get_output_tensor_by_name",
    "get_input_config_by_name",
    "get_output_config_by_name",
    "using_decoupled_model_transaction_policy",
    "triton_to_numpy_type",
    "numpy_to_triton_type",
    "triton_string_to_numpy",
    "serialize_byte_tensor",
    "deserialize_bytes_tensor",
    "get_model_dir",
    "load_model",
    "unload_model",
    "is_model_ready",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_MEMORY_CPU",
    "TRITON_STRING_TO_NUMPY",
    "np",
    "json",
    "struct",
]


def test_module_has_every_name(probe):
    assert probe(f"result = [n for n in {NAMES!r} if not hasattr(pb_utils, n)]") == []


def test_constants(probe):
    assert probe(
        "p = pb_utils; result = [p.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, p.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,"
        "p.TRITONSERVER_RESPONSE_COMPLETE_FINAL, p.TRITONSERVER_REQUEST_RELEASE_ALL,"
        "p.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE]"
    ) == [1, 2, 1, 1, 2]


def test_native_module_can_be_imported(probe):
    assert probe("import c_python_backend_utils as c; result = hasattr(c, 'InferenceResponseSender')") is True


def test_tensor_gives_back_the_array_it_was_made_of(probe):
    assert probe("a = np.arange(3); result = pb_utils.Tensor('x', a).as_numpy() is a") is True


def test_tensor_accessors(probe):
    assert probe(
        "t = pb_utils.Tensor('x', np.zeros((2, 3), dtype=np.float32)); s = t.shape();"
        "result = [t.name(), s, type(s).__name__, t.is_cpu()]"
    ) == ["x", [2, 3], "list", True]


def test_tensor_takes_no_keywords(probe):
    assert probe("pb_utils.Tensor(name='x', array=np.zeros(1))")["error"] == "TypeError"


def test_tensor_of_strided_array_is_contiguous(probe):
    assert probe(
        "t = pb_utils.Tensor('x', np.arange(6).reshape(2, 3).T); a = t.as_numpy();"
        "result = [a.flags['C_CONTIGUOUS'], a.tolist()]"
    ) == [True, [[0, 3], [1, 4], [2, 5]]]


def test_tensor_of_objects_becomes_bytes_on_the_way_out(server, connect):
    # int and str elements become text; bytes are unchanged.
    client = connect("http", server)
    code = "result = None; model.made = pb_utils.Tensor('RESULT', np.array([b'\\x00x', 'ü', 5], dtype=object))"
    assert json.loads(client.infer("probe", {"CODE": strings(code)}).as_numpy("RESULT")[0]) == {"result": None}


@pytest.mark.parametrize("dtype", ["'<U3'", "np.complex64", "'datetime64[s]'"])
def test_tensor_refuses_types_without_a_wire_form(probe, dtype):
    answer = probe(f"pb_utils.Tensor('x', np.zeros(2, dtype={dtype}))")
    assert answer["error"] == "TritonModelException"
    assert answer["text"] == "NumPy dtype is not supported."


def test_received_arrays_can_be_written(server, connect):
    client = connect("grpc", server)
    sent = np.arange(4, dtype=np.float32)
    assert client.infer("writes", {"IN": sent}).as_numpy("OUT").tolist() == [1, 2, 3, 4]
    assert client.infer("writes", {"IN": sent}).as_numpy("OUT").tolist() == [1, 2, 3, 4]


def test_dlpack_goes_there_and_back(probe):
    assert probe(
        "t = pb_utils.Tensor('x', np.arange(6, dtype=np.int32).reshape(2, 3));"
        "u = pb_utils.Tensor.from_dlpack('y', t.to_dlpack()); v = pb_utils.Tensor.from_dlpack('z', t);"
        "w = pb_utils.Tensor.from_dlpack('w', np.arange(3, dtype=np.float32));"
        "result = [u.name(), u.as_numpy().tolist(), v.as_numpy().tolist(), w.as_numpy().tolist(),"
        "list(t.__dlpack_device__()), np.from_dlpack(t).tolist()]"
    ) == ["y", [[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]], [0, 1, 2], [1, 0], [[0, 1, 2], [3, 4, 5]]]


def test_dlpack_keeps_the_producer_alive(probe):
    assert probe(
        "import gc\n"
        "t = pb_utils.Tensor.from_dlpack('y', pb_utils.Tensor('x', np.arange(100000)).to_dlpack())\n"
        "gc.collect()\n"
        "result = int(t.as_numpy().sum())"
    ) == sum(range(100000))


def test_dlpack_capsule_holds_one_reference(probe):
    assert probe(
        "t = pb_utils.Tensor('x', np.zeros(2)); n = [sys.getrefcount(t)]; c = t.to_dlpack();"
        "n.append(sys.getrefcount(t)); del c; n.append(sys.getrefcount(t)); result = [x - n[0] for x in n]"
    ) == [0, 1, 0]


def test_dlpack_refuses_what_is_not_contiguous(probe):
    answer = probe("pb_utils.Tensor.from_dlpack('x', np.arange(6).reshape(2, 3).T)")
    assert answer["error"] == "TritonModelException"
    assert answer["text"] == (
        "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
    )


def test_dlpack_of_strings_is_refused(probe):
    answer = probe("pb_utils.Tensor('x', np.array([b'a'], dtype=object)).to_dlpack()")
    assert (answer["error"], answer["text"]) == (
        "TritonModelException",
        "DLPack does not have support for string tensors.",
    )


def test_request_accessors(probe):
    assert probe(
        "o = request.requested_output_names(); result = [type(request.inputs()).__name__, request.inputs()[0].name(),"
        "type(o).__name__, sorted(o), request.request_id(), request.correlation_id(), request.flags(),"
        "request.timeout(), request.parameters(), request.is_cancelled(),"
        "[hasattr(request, n) for n in ('model_name', 'model_version', 'preferred_memory')]]"
    ) == ["list", "CODE", "set", ["RESULT"], "", 0, 0, 0, "{}", False, [False] * 3]


def test_response_accessors(probe):
    assert probe(
        "r = pb_utils.InferenceResponse(); e = pb_utils.InferenceResponse(error=pb_utils.TritonError('m'));"
        "result = [r.output_tensors(), r.has_error(), r.error() is None, e.has_error(), e.error().message(),"
        "int(e.error().code())]"
    ) == [[], False, True, True, "m", 1]


def test_error_codes(probe):
    assert probe(
        "E = pb_utils.TritonError; result = [int(getattr(E, n)) for n in ('UNKNOWN', 'INTERNAL', 'NOT_FOUND',"
        "'INVALID_ARG', 'UNAVAILABLE', 'UNSUPPORTED', 'ALREADY_EXISTS', 'CANCELLED')]"
    ) == list(range(8))


def test_model_exception_derives_from_exception_alone(probe):
    assert probe("raise pb_utils.TritonModelException('m')")["bases"] == [
        "TritonModelException",
        "Exception",
        "BaseException",
        "object",
    ]


def test_helper_functions(probe):
    assert probe(
        "c = {'input': [{'name': 'a', 'x': 1}], 'output': [{'name': 'b'}]}; p = pb_utils;"
        "r = p.InferenceResponse([p.Tensor('t', np.zeros(1))]);"
        "result = [p.get_input_config_by_name(c, 'a'), p.get_input_config_by_name(c, 'z'),"
        "p.get_output_config_by_name(c, 'b'), p.get_output_config_by_name(c, 'a'),"
        "p.get_input_tensor_by_name(request, 'NOPE'), p.get_output_tensor_by_name(r, 't').name(),"
        "p.get_output_tensor_by_name(r, 'u'), p.using_decoupled_model_transaction_policy(c),"
        "p.using_decoupled_model_transaction_policy({'model_transaction_policy': {'decoupled': True}})]"
    ) == [{"name": "a", "x": 1}, None, {"name": "b"}, None, None, "t", None, False, True]


def test_type_helpers(probe):
    assert probe(
        "p = pb_utils; result = [np.dtype(p.triton_to_numpy_type(n)).name for n in range(1, 14)] +"
        "[p.triton_to_numpy_type(14), p.numpy_to_triton_type(np.float32), p.numpy_to_triton_type(np.dtype('int8')),"
        "p.numpy_to_triton_type(np.bytes_), p.numpy_to_triton_type(np.complex64),"
        "p.triton_string_to_numpy('TYPE_BOOL') is bool, p.triton_string_to_numpy('TYPE_STRING') is np.object_]"
    ) == [
        *[
            "bool",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "object",
        ],
        None,
        11,
        6,
        13,
        None,
        True,
        True,
    ]
    assert probe("pb_utils.triton_string_to_numpy('TYPE_BF16')")["error"] == "KeyError"


def test_serialisation_helpers(probe):
    assert probe(
        "p = pb_utils; a = np.array([b'ab', b''], dtype=object); b = p.serialize_byte_tensor(a);"
        "b = b.item() if hasattr(b, 'item') else b;"
        "result = [bytes(b).hex(), [x.decode() for x in p.deserialize_bytes_tensor(bytes(b))],"
        "p.serialize_byte_tensor(np.empty((0,), dtype=object)) == (), p.serialize_byte_tensor(np.zeros(1)) is None]"
    ) == ["02000000616200000000", ["ab", ""], True, True]


# ---- 2: argument errors --------------------------------------------------------------------------

TYPE_ERRORS = [
    "pb_utils.Tensor(None, np.zeros(1))",
    "pb_utils.Tensor('x', None)",
    "pb_utils.Tensor('', None)",
    "pb_utils.Tensor('x', [1])",
    "pb_utils.InferenceRequest()",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[])",
    "pb_utils.InferenceRequest(inputs=None, requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=None, model_name='m')",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[None], model_name='m')",
    "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name=None)",
    "pb_utils.InferenceRequest(request_id=None, inputs=[], requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(correlation_id=None, inputs=[], requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(model_version=None, inputs=[], requested_output_names=[], model_name='m')",
    "pb_utils.InferenceRequest(flags=None, inputs=[], requested_output_names=[], model_name='m')",
    "pb_utils.InferenceResponse(output_tensors=None)",
    "pb_utils.InferenceResponse(error='text')",
    "pb_utils.TritonError()",
    "pb_utils.TritonError('m', 3)",
    "pb_utils.Logger.log('m', None)",
    "pb_utils.Logger.log('m', 1)",
    "pb_utils.Logger.log_info(None)",
    "pb_utils.Logger.log_warn(None)",
    "pb_utils.Logger.log_error(None)",
    "pb_utils.Logger.log_verbose(None)",
    "pb_utils.PreferredMemory(None)",
]


@pytest.mark.parametrize("code", TYPE_ERRORS)
def test_wrong_argument_is_a_type_error(probe, code):
    assert probe(code)["error"] == "TypeError"


REQUEST = "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name='m', "
MODEL_EXCEPTIONS = [
    ("pb_utils.Tensor('', np.zeros(1))", "Tensor name cannot be an empty string."),
    ("pb_utils.Tensor.from_dlpack('', np.zeros(1))", "Tensor name cannot be an empty string."),
    (
        "pb_utils.InferenceRequest(request_id='r', inputs=[None], requested_output_names=[], model_name='m')",
        "Input tensor for request with id 'r' and model name 'm' should not be empty.",
    ),
    (
        "pb_utils.InferenceRequest(inputs=[], requested_output_names=[''], model_name='m')",
        "Requested output name for request with id '' and model name 'm' should not be empty.",
    ),
    (REQUEST + "correlation_id=1.5)", "Correlation ID must be integer or string"),
    ("pb_utils.InferenceResponse([None])", "Output tensor for inference response should not be empty."),
    (REQUEST + "parameters={1: 2})", "Expect parameters keys to have type str, found type <class 'int'>"),
    (
        REQUEST + "parameters={'a': 1.5})",
        "Expect parameters values to have type bool/int/str, found type <class 'float'>",
    ),
    (
        REQUEST + "parameters={'a': None})",
        "Expect parameters values to have type bool/int/str, found type <class 'NoneType'>",
    ),
]


@pytest.mark.parametrize(("code", "text"), MODEL_EXCEPTIONS)
def test_wrong_value_is_a_model_exception(probe, code, text):
    answer = probe(code)
    assert (answer["error"], answer["text"]) == ("TritonModelException", text)


def test_from_dlpack_of_something_else(probe):
    for value in ("None", "object()", "[1]"):
        answer = probe(f"pb_utils.Tensor.from_dlpack('x', {value})")
        assert answer["error"] == "TritonModelException"
        assert answer["text"].startswith("Provided tensor is not supported. Tensor must be a DLPack capsule")


def test_parameters_must_be_a_dictionary(probe):
    assert ", got <class 'list'>" in probe(REQUEST + "parameters=[1])")["text"]


def test_negative_correlation_id_is_a_runtime_error(probe):
    assert probe(REQUEST + "correlation_id=-1)")["error"] == "RuntimeError"


# ---- 3.1: the module and its arguments -----------------------------------------------------------


def test_module_knows_where_it_is(server, connect, module_repository):
    folder = module_repository.path / "module"
    facts = json.loads(connect("http", server).infer("module", {}).as_numpy("RESULT")[0])
    assert facts["name"] == "3.model"
    assert (facts["sibling"], facts["relative"], facts["second"]) == (7, 7, "model")
    assert facts["path"][-3:-1] == [str(folder / "3"), str(folder)]
    assert facts["dir"] == str(folder / "3")
    assert facts["cwd"] == str(server.workdir)
    assert facts["environment"] == "inherited"
    args = facts["args"]
    assert set(args) == {
        "model_config",
        "model_instance_kind",
        "model_instance_name",
        "model_instance_device_id",
        "model_repository",
        "model_version",
        "model_name",
    }
    assert all(isinstance(value, str) for value in args.values())
    assert args["model_repository"] == str(folder)
    assert args["model_version"] == "3"
    assert args["model_name"] == "module"
    assert args["model_instance_name"] == "module_0_0"
    assert args["model_instance_kind"] == "CPU"
    assert args["model_instance_device_id"] == "0"


def test_config_argument_is_the_whole_normalised_configuration(server, connect):
    facts = json.loads(connect("http", server).infer("module", {}).as_numpy("RESULT")[0])
    model_config = json.loads(facts["args"]["model_config"])
    assert model_config["name"] == "module"
    assert model_config["backend"] == "python"
    assert model_config["max_batch_size"] == 0
    assert model_config["version_policy"] == {"latest": {"num_versions": 1}}
    assert model_config["input"][0] == {
        "name": "IN",
        "data_type": "TYPE_INT32",
        "format": "FORMAT_NONE",
        "dims": [1],
        "is_shape_tensor": False,
        "allow_ragged_batch": False,
        "optional": True,
        "is_non_linear_format_io": False,
    }
    assert model_config["output"][0] == {
        "name": "RESULT",
        "data_type": "TYPE_STRING",
        "dims": [1],
        "label_filename": "",
        "is_shape_tensor": False,
        "is_non_linear_format_io": False,
    }
    assert model_config["parameters"] == {"k": {"string_value": "v"}}
    assert model_config["instance_group"][0]["name"] == "module_0"
    assert model_config["default_model_filename"] == "model.py"
    assert "dynamic_batching" not in model_config
    assert "model_transaction_policy" not in model_config


def test_instance_of_a_model_without_groups_is_named_after_the_model(probe):
    assert probe("result = model.args['model_instance_name']") == "probe_0"


def test_model_file_can_have_another_name(server, connect):
    result = connect("http", server).infer("renamed", {"MODE": strings("x")})
    assert result.as_numpy("OUT").tolist() == [b"awaited"]


# ---- 3.2: return values ---------------------------------------------------------------------------


def ask(client, mode):
    return client.infer("returns", {"MODE": strings(mode)})


def test_output_that_is_not_configured_is_dropped(client):
    result = ask(client, "wrong_name")
    assert result.as_numpy("NOT_CONFIGURED") is None
    assert result.as_numpy("OUT") is None


def test_response_without_outputs_is_fine(server):
    tensor = {"name": "MODE", "shape": [1], "datatype": "BYTES", "data": ["no_outputs"]}
    status, body = server.json("POST", "/v2/models/returns/infer", {"inputs": [tensor]})
    assert status == 200
    assert body["outputs"] == []


def test_type_and_shape_of_outputs_are_not_compared_with_the_configuration(client):
    answer = ask(client, "other_type").as_numpy("OUT")
    assert answer.dtype == np.int64
    assert answer.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_error_response_has_its_own_text_and_code(client):
    for kind in (
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ):
        with client.fails(kind, "bare text"):
            ask(client, f"error-{kind}")
    with client.fails("INTERNAL", "bare text"):
        ask(client, "error")


def test_error_beside_tensors_counts_alone(client):
    with client.fails("INTERNAL", "only the error counts"):
        ask(client, "error_and_tensors")


def test_asynchronous_execute(client):
    assert client.infer("asynchronous", {"MODE": strings("x")}).as_numpy("OUT").tolist() == [b"awaited"]
    with client.fails(
        "INTERNAL",
        contains="Failed to process the request(s) for model 'asynchronous_0', message: ValueError: from a coroutine",
    ):
        client.infer("asynchronous", {"MODE": strings("raise")})


# ---- 3.3: failures -------------------------------------------------------------------------------

FAILED = "Failed to process the request(s) for model 'returns_0', message: "


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("tuple", "Expected a list in the execute return, found type '<class 'tuple'>'."),
        ("nothing", "Expected a list in the execute return, found type '<class 'dict'>'."),
        (
            "two",
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:2\n",
        ),
        (
            "int",
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'.",
        ),
    ],
)
def test_wrong_return_value(client, mode, text):
    with client.fails("INTERNAL", FAILED + text):
        ask(client, mode)


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("raise", "ValueError: a value is wrong\n\nAt:\n"),
        ("odd", "Odd: odd things\n\nAt:\n"),
        ("model_exception", "TritonModelException: the model says no\n\nAt:\n"),
        ("exit", "SystemExit: 3\n\nAt:\n"),
    ],
)
def test_exception_names_its_type_and_place(client, server, mode, text):
    with client.fails("INTERNAL", contains=FAILED + text) as _:
        ask(client, mode)
    # The process survives.
    assert ask(client, "good").as_numpy("OUT").tolist() == [b"ok"]


def test_exception_shows_frames_innermost_first(client):
    with client.fails("INTERNAL", contains="  returns/1/model.py(") as _:
        ask(client, "raise")
    with client.fails("INTERNAL", contains="): execute") as _:
        ask(client, "raise")


def test_exception_is_logged(client, server):
    with client.fails("INTERNAL"):
        ask(client, "odd")
    server.wait_for_log(r"E\d{4} .*Failed to process the request\(s\) for model 'returns_0', message: Odd: odd things")


def test_model_without_execute(client, server, module_repository):
    text = "Python model {} does not implement `execute` method."
    with client.fails("INTERNAL", contains=text.format("no_execute/1/model.py")):
        client.infer("no_execute", {"MODE": strings("x")})
    server.wait_for_log(re.escape(text.format(module_repository.path / "no_execute" / "1" / "model.py")))


# ---- 3.4: response senders in default mode -------------------------------------------------------


@pytest.mark.parametrize(
    "mode",
    ["sender_then_none", "sender_then_list_of_none", "sender_from_thread", "sender_without_final_then_final"],
)
def test_sender_answers_the_request(client, mode):
    assert ask(client, mode).as_numpy("OUT").tolist() == [b"ok"]


def test_sender_checks_in_order(client):
    ask(client, "sender_errors")
    assert [t.decode() for t in ask(client, "texts").as_numpy("OUT")] == [
        "Unable to send response. Unsupported flag provided.",
        "Inference Response object must be provided when the response flags is set to zero.",
        "Unable to send response. Non-decoupled model cannot send complete final before sending a response.",
        "",
        "Unable to send response. Non-decoupled model cannot send more than one response.",
        "",
        "Unable to send response. Non-decoupled model cannot send more than one response.",
        "Unable to send response. Response sender has been closed.",
    ]


def test_response_after_a_sent_one_is_not_delivered(client):
    assert ask(client, "send_and_return").as_numpy("OUT").tolist() == [b"ok"]
    assert ask(client, "good").as_numpy("OUT").tolist() == [b"ok"]


def test_a_response_that_is_not_as_declared_is_said_once(repository, serve, connect):
    """A response that differs from the configuration is logged once; clients get it, as in Triton."""
    ins, outs = [("IN", "INT32", [1])], [("OUT", "INT32", [1])]
    repository.add("silent", per_request("return pb_utils.InferenceResponse([])"), config("silent", ins, outs))
    other = "return respond(OUT=get(request, 'IN').astype(np.float32))"
    repository.add("floats", per_request(other), config("floats", ins, outs))
    server = serve(repository)
    client = connect("http", server)
    array = np.array([4], dtype=np.int32)
    for _ in range(3):
        assert client.infer("silent", {"IN": array}).get_response()["outputs"] == []
        assert client.infer("floats", {"IN": array}).as_numpy("OUT").dtype == np.float32
    server.wait_for_log("a response of model 'silent' lacks output 'OUT'; it is sent unchanged")
    server.wait_for_log(
        "a response of model 'floats' has output 'OUT' as TYPE_FP32 but the configuration says TYPE_INT32"
    )
    assert server.log.count("(logged once)") == 2
