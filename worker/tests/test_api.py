"""The types of pb_utils, without a server."""

import gc
import json
import re
import sys

import worker_harness  # noqa: F401, isort: skip, sets the path

import c_python_backend_utils as native
import numpy as np
import pyovms
import pytest
import triton_python_backend_utils as pb_utils
from triton_python_backend_utils import (
    InferenceRequest,
    InferenceResponse,
    Logger,
    MetricFamily,
    ModelConfig,
    PreferredMemory,
    Tensor,
    TritonError,
    TritonModelException,
)

ARRAY = np.arange(6, dtype=np.float32)
NAMES = """
    Tensor InferenceRequest InferenceResponse TritonError TritonModelException Logger MetricFamily
    ModelConfig PreferredMemory get_input_tensor_by_name get_output_tensor_by_name
    get_input_config_by_name get_output_config_by_name using_decoupled_model_transaction_policy
    triton_to_numpy_type numpy_to_triton_type triton_string_to_numpy serialize_byte_tensor
    deserialize_bytes_tensor load_model unload_model is_model_ready np json struct
    TRITON_STRING_TO_NUMPY
"""
NATIVE_NAMES = """
    InferenceResponseSender ResponseIterator InferenceTrace Metric MetricKind MemoryType COUNTER
    GAUGE HISTOGRAM SharedMemory shared_memory async_event_future_done_callback
"""


def raises(text):
    return pytest.raises(TritonModelException, match="^" + re.escape(text))


def test_all_names_are_there():
    for name in NAMES.split():
        assert hasattr(pb_utils, name), name
    assert not hasattr(pb_utils, "get_model_dir")
    assert pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START == 1
    assert pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END == 2
    assert pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL == 1
    assert pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL == 1
    assert pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE == 2
    assert (pb_utils.TRITONSERVER_MEMORY_GPU, pb_utils.TRITONSERVER_MEMORY_CPU) == (0, 1)
    for name in NATIVE_NAMES.split():
        assert hasattr(native, name), name
    assert native.shared_memory.free_memory() > 0


class TestTensor:
    def test_is_the_array_that_it_was_made_from(self):
        for array in (ARRAY, ARRAY.reshape(2, 3), np.array(3.0), np.zeros((0, 4)), np.array([b"a"], dtype=object)):
            tensor = Tensor("x", array)
            assert tensor.as_numpy() is array
            assert tensor.name() == "x"
            assert tensor.shape() == list(array.shape)
            assert tensor.is_cpu()

    def test_copies_what_is_not_in_c_order(self):
        for array in (ARRAY.reshape(2, 3).T, ARRAY[::2], ARRAY[::-1], np.asfortranarray(ARRAY.reshape(2, 3))):
            got = Tensor("x", array).as_numpy()
            assert got.flags.c_contiguous
            assert got is not array
            np.testing.assert_array_equal(got, array)

    def test_converts_another_byte_order(self):
        got = Tensor("x", ARRAY.astype(">f4")).as_numpy()
        assert got.dtype == np.float32
        assert got.dtype.isnative
        np.testing.assert_array_equal(got, ARRAY)

    @pytest.mark.parametrize(("number", "dtype"), [(i, pb_utils.triton_to_numpy_type(i)) for i in range(1, 13)])
    def test_knows_its_type(self, number, dtype):
        assert Tensor("x", np.zeros(2, dtype)).triton_dtype() == number

    def test_knows_types_by_other_names(self):
        assert Tensor("x", np.zeros(2, np.longlong)).triton_dtype() == 9
        assert Tensor("x", np.zeros(2, "S3")).triton_dtype() == 13

    @pytest.mark.parametrize("dtype", ["U4", "complex64", "datetime64[s]", "longdouble", [("a", "f4")], "V2"])
    def test_refuses_other_types(self, dtype):
        with raises("NumPy dtype is not supported."):
            Tensor("x", np.zeros(2, dtype))

    @pytest.mark.parametrize(
        "args", [(None, ARRAY), ("x", None), ("", None), ("x", [1]), ("x", 1.0), ("x",), (), ("x", ARRAY, 1)]
    )
    def test_refuses_wrong_arguments(self, args):
        with pytest.raises(TypeError):
            Tensor(*args)

    def test_has_no_keywords(self):
        with pytest.raises(TypeError):
            Tensor(name="x", array=ARRAY)

    def test_has_a_name(self):
        with raises("Tensor name cannot be an empty string."):
            Tensor("", ARRAY)
        with raises("Tensor name cannot be an empty string."):
            Tensor.from_dlpack("", ARRAY)

    def test_can_be_a_base_class(self):
        class Mine(Tensor):
            def __init__(self, name):
                super().__init__(name, ARRAY)

        assert Mine("y").as_numpy() is ARRAY

    def test_text_of_an_element_may_raise(self):
        class Bad:
            def __str__(self):
                raise KeyError("no text")

        with pytest.raises(KeyError):
            Tensor("x", np.array([Bad()], dtype=object))


class TestDlpack:
    @pytest.mark.parametrize("number", [*range(1, 13)])
    def test_goes_to_numpy_and_back(self, number):
        array = np.arange(6).reshape(2, 3).astype(pb_utils.triton_to_numpy_type(number))
        tensor = Tensor("x", array)
        if array.dtype != np.bool_ or np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            seen = np.from_dlpack(tensor)
            assert np.shares_memory(seen, array)
        again = Tensor.from_dlpack("y", tensor)
        assert again.name() == "y"
        assert again.triton_dtype() == number
        assert np.shares_memory(again.as_numpy(), array)
        np.testing.assert_array_equal(again.as_numpy(), array)

    def test_capsules_hold_one_reference(self):
        tensor = Tensor("x", ARRAY)
        count = sys.getrefcount(tensor)
        capsule = tensor.to_dlpack()
        assert sys.getrefcount(tensor) == count + 1
        del capsule
        assert sys.getrefcount(tensor) == count
        again = Tensor.from_dlpack("y", tensor.__dlpack__(stream=None))
        assert sys.getrefcount(tensor) == count + 1
        del again
        assert sys.getrefcount(tensor) == count

    def test_takes_arrays_of_numpy_and_keeps_them(self):
        array = np.arange(4.0)
        count = sys.getrefcount(array)
        tensor = Tensor.from_dlpack("x", array)
        view = tensor.as_numpy()
        assert np.shares_memory(view, array)
        assert sys.getrefcount(array) > count
        del tensor
        gc.collect()
        assert view[3] == 3.0
        assert sys.getrefcount(array) > count
        del view
        assert sys.getrefcount(array) == count

    def test_capsules_are_taken_once(self):
        capsule = Tensor("x", ARRAY).to_dlpack()
        assert "used" not in repr(capsule)
        Tensor.from_dlpack("y", capsule)
        assert "used_dltensor" in repr(capsule)
        with pytest.raises(TritonModelException):
            Tensor.from_dlpack("y", capsule)

    def test_views_keep_the_memory(self):
        view = np.from_dlpack(Tensor("x", np.full(10_000, 7.0)))
        gc.collect()
        assert view.sum() == 70_000

    def test_refusals(self):
        with raises("DLPack does not have support for string tensors."):
            Tensor("x", np.array([b"a"], dtype=object)).to_dlpack()
        with raises("Provided tensor is not supported. Tensor must be a DLPack capsule"):
            Tensor.from_dlpack("x", None)
        with raises("DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order"):
            Tensor.from_dlpack("x", ARRAY.reshape(2, 3).T)
        with raises("DLPack tensor is not contiguous."):
            Tensor.from_dlpack("x", ARRAY[::2])
        with raises("DLPack data type"):
            Tensor.from_dlpack("x", np.zeros(2, np.complex64))

    def test_strides_of_single_elements_say_nothing(self):
        array = np.lib.stride_tricks.as_strided(np.zeros(100, np.float32), (2, 1, 3), (12, 200, 4))
        assert Tensor.from_dlpack("x", array).shape() == [2, 1, 3]

    @pytest.mark.parametrize(
        ("shape", "strides"), [((2, 0), (4, 4)), ((0, 0), (4, 4)), ((2, 0, 2), (8, 8, 4)), ((3, 2, 0), (8, 4, 4))]
    )
    def test_strides_without_elements_say_nothing(self, shape, strides):
        # As torch returns them.
        array = np.lib.stride_tricks.as_strided(np.zeros(0, np.float32), shape, strides)
        assert Tensor.from_dlpack("x", array).shape() == list(shape)

    def test_device(self):
        assert Tensor("x", ARRAY).__dlpack_device__() == (1, 0)


class TestInferenceRequest:
    TENSOR = Tensor("x", ARRAY)

    def test_defaults(self):
        request = InferenceRequest(inputs=[], requested_output_names=[], model_name="m")
        assert (request.request_id(), request.correlation_id(), request.flags(), request.timeout()) == ("", 0, 0, 0)
        assert request.inputs() == []
        assert request.requested_output_names() == set()
        assert request.parameters() == "{}"
        assert not request.is_cancelled()
        assert request.trace().get_context() is None
        for name in ("model_name", "model_version", "preferred_memory"):
            assert not hasattr(request, name)

    def test_everything(self):
        request = InferenceRequest(
            "id", "seq", [self.TENSOR], ["B", "A", "B"], "m", 3, 1, 11_000_000_000,
            PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU), native.InferenceTrace(), {"a": True, "b": 1, "c": "x"},
        )  # fmt: skip
        assert request.inputs()[0] is self.TENSOR
        assert request.requested_output_names() == {"A", "B"}
        assert (request.request_id(), request.correlation_id()) == ("id", "seq")
        assert (request.flags(), request.timeout()) == (1, 11_000_000_000)
        assert json.loads(request.parameters()) == {"a": True, "b": 1, "c": "x"}
        request.set_flags(2)
        assert request.flags() == 2

    @pytest.mark.parametrize("missing", ["inputs", "requested_output_names", "model_name"])
    def test_needs(self, missing):
        arguments = {"inputs": [], "requested_output_names": [], "model_name": "m"}
        with pytest.raises(TypeError):
            InferenceRequest(**{**arguments, missing: None})
        del arguments[missing]
        with pytest.raises(TypeError):
            InferenceRequest(**arguments)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"request_id": None}, {"correlation_id": None}, {"model_version": None}, {"flags": None},
            {"requested_output_names": [None]}, {"inputs": [1]}, {"timeout": "x"}, {"nonsense": 1},
        ],
    )  # fmt: skip
    def test_wrong_types(self, wrong):
        with pytest.raises(TypeError):
            InferenceRequest(**{"inputs": [], "requested_output_names": [], "model_name": "m", **wrong})

    @pytest.mark.parametrize(
        ("wrong", "text"),
        [
            ({"inputs": [None]}, "Input tensor for request with id 'r' and model name 'm' should not be empty."),
            (
                {"requested_output_names": [""]},
                "Requested output name for request with id 'r' and model name 'm' should not be empty.",
            ),
            ({"correlation_id": 1.5}, "Correlation ID must be integer or string"),
            ({"parameters": {1: 2}}, "Expect parameters keys to have type str, found type <class 'int'>"),
            (
                {"parameters": {"a": 1.5}},
                "Expect parameters values to have type bool/int/str, found type <class 'float'>",
            ),
            (
                {"parameters": {"a": None}},
                "Expect parameters values to have type bool/int/str, found type <class 'NoneType'>",
            ),
        ],
    )
    def test_wrong_values(self, wrong, text):
        with raises(text):
            InferenceRequest(
                **{"request_id": "r", "inputs": [], "requested_output_names": [], "model_name": "m", **wrong}
            )

    def test_parameters_are_a_dict(self):
        with pytest.raises(TritonModelException, match=", got <class 'list'>"):
            InferenceRequest(inputs=[], requested_output_names=[], model_name="m", parameters=[])

    def test_negative_ids(self):
        for wrong in ({"correlation_id": -1}, {"correlation_id": 2**64}, {"flags": -1}, {"timeout": -1}):
            with pytest.raises(RuntimeError):
                InferenceRequest(inputs=[], requested_output_names=[], model_name="m", **wrong)

    def test_calls_are_refused(self):
        request = InferenceRequest(inputs=[], requested_output_names=[], model_name="m")
        with raises("BLS is only supported during the 'execute' function."):
            request.exec()
        with pytest.raises(RuntimeError, match="no running event loop"):
            request.async_exec(decoupled=True)
        with pytest.raises(TritonModelException):
            request.set_release_flags(2)
        with raises("Unable to send response. Response sender has no reference to the decoupled state of the model."):
            request.get_response_sender().send(InferenceResponse())


class TestInferenceResponse:
    def test_defaults(self):
        response = InferenceResponse()
        assert response.output_tensors() == []
        assert not response.has_error()
        assert response.error() is None
        assert response.parameters() == "{}"

    def test_everything(self):
        tensor = Tensor("x", ARRAY)
        error = TritonError("no", TritonError.NOT_FOUND)
        response = InferenceResponse([tensor], error, {"a": 1})
        assert response.output_tensors()[0] is tensor
        assert response.has_error()
        assert response.error() is error
        assert response.parameters() == '{"a":1}'
        assert pb_utils.get_output_tensor_by_name(response, "x") is tensor
        assert pb_utils.get_output_tensor_by_name(response, "y") is None

    def test_refusals(self):
        for wrong in ({"output_tensors": None}, {"output_tensors": [1]}, {"error": "text"}):
            with pytest.raises(TypeError):
                InferenceResponse(**wrong)
        with raises("Output tensor for inference response should not be empty."):
            InferenceResponse([None])
        with pytest.raises(TritonModelException, match=", got <class 'list'>"):
            InferenceResponse([], parameters=[])


class TestTritonError:
    def test_codes(self):
        names = [
            "UNKNOWN",
            "INTERNAL",
            "NOT_FOUND",
            "INVALID_ARG",
            "UNAVAILABLE",
            "UNSUPPORTED",
            "ALREADY_EXISTS",
            "CANCELLED",
        ]
        for number, name in enumerate(names):
            code = getattr(TritonError, name)
            assert int(code) == number
            assert type(code).__name__ == "__ErrorCode"
            assert TritonError("m", code).code() == code
        assert TritonError("m").code() == TritonError.INTERNAL
        assert TritonError("m").message() == "m"
        assert TritonError(message="m", code=TritonError.UNKNOWN).message() == "m"

    def test_refusals(self):
        for args in ((), (None,), (1,), ("m", 1), ("m", "INTERNAL")):
            with pytest.raises(TypeError):
                TritonError(*args)


class TestTexts:
    """Bytes are accepted as the text with that UTF-8, because elements of a TYPE_STRING tensor are bytes."""

    def test_bytes_are_texts(self):
        name = "n\u00fc"
        wire = np.array([name.encode()], dtype=object)[0]
        assert Tensor(wire, ARRAY).name() == name
        assert Tensor.from_dlpack(wire, ARRAY).name() == name
        assert pyovms.Tensor(wire, ARRAY).name == name
        assert pyovms.Tensor("x", ARRAY, None, b"FP32").datatype == "FP32"
        request = InferenceRequest(
            wire, wire, [Tensor(wire, ARRAY)], [wire, name, np.bytes_(b"x")], wire, parameters={wire: wire, "b": b"c"}
        )
        assert request.request_id() == request.correlation_id() == name
        assert request.requested_output_names() == {name, "x"}
        assert json.loads(request.parameters()) == {name: name, "b": "c"}
        assert pb_utils.get_input_tensor_by_name(request, wire) is request.inputs()[0]
        with raises(f"Requested output name for request with id '{name}' and model name 'm' should not be empty."):
            InferenceRequest(wire, 0, [], [b""], b"m")
        response = InferenceResponse(request.inputs(), None, {wire: b"v"})
        assert json.loads(response.parameters()) == {name: "v"}
        assert pb_utils.get_output_tensor_by_name(response, wire) is request.inputs()[0]
        assert TritonError(wire).message() == name
        assert native.InferenceTrace(b"{}").get_context() == "{}"
        config = {"input": [{"name": name}], "output": [{"name": name}]}
        assert pb_utils.get_input_config_by_name(config, wire) is config["input"][0]
        assert pb_utils.get_output_config_by_name(config, wire) is config["output"][0]
        assert pb_utils.triton_string_to_numpy(b"TYPE_FP32") is np.float32
        model = ModelConfig('{"name": "m"}')
        model.add_input({"name": wire, "data_type": b"TYPE_FP32", "dims": [1]})
        assert model.as_dict()["input"] == [{"name": name, "data_type": "TYPE_FP32", "dims": [1]}]
        with raises("Tensor name cannot be an empty string."):
            Tensor(b"", ARRAY)

    def test_bytes_are_logged_as_their_text(self, capfd):
        for log in (Logger.log, Logger.log_info, Logger.log_warn, Logger.log_error, Logger.log_verbose):
            log("\u00fc".encode())
        lines = capfd.readouterr().err.splitlines()
        assert [line.rpartition("] ")[2] for line in lines] == ["\u00fc"] * 5

    @pytest.mark.parametrize("wrong", [b"caf\xe9", "\udcff"])
    def test_what_is_no_utf8_is_named(self, wrong):
        def request(**arguments):
            return InferenceRequest(**{"inputs": [], "requested_output_names": [], "model_name": "m", **arguments})

        families = object.__new__(MetricFamily)
        families._kind = MetricFamily.COUNTER
        tensors = InferenceResponse([Tensor("x", ARRAY)])
        calls = {
            "name": [
                lambda: Tensor(wrong, ARRAY),
                lambda: Tensor.from_dlpack(wrong, ARRAY),
                lambda: pyovms.Tensor(wrong, ARRAY),
                lambda: MetricFamily(wrong, "d", MetricFamily.COUNTER),
                lambda: pb_utils.get_output_tensor_by_name(tensors, wrong),
            ],
            "datatype": [lambda: pyovms.Tensor("x", ARRAY, None, wrong)],
            "request_id": [lambda: request(request_id=wrong)],
            "correlation_id": [lambda: request(correlation_id=wrong)],
            "requested_output_names": [lambda: request(requested_output_names=["a", wrong])],
            "model_name": [
                lambda: request(model_name=wrong),
                lambda: pb_utils.load_model(wrong),
                lambda: pb_utils.unload_model(wrong),
                lambda: pb_utils.is_model_ready(wrong),
            ],
            "model_version": [lambda: pb_utils.is_model_ready("m", wrong)],
            "config": [lambda: pb_utils.load_model("m", wrong)],
            "file path": [lambda: pb_utils.load_model("m", "{}", {wrong: b""})],
            "parameters": [
                lambda: request(parameters={wrong: 1}),
                lambda: InferenceResponse([], None, {"a": wrong}),
            ],
            "message": [lambda: TritonError(wrong)],
            "description": [lambda: MetricFamily("n", wrong, MetricFamily.COUNTER)],
            "labels": [lambda: families.Metric({wrong: "v"}), lambda: families.Metric({"k": wrong})],
            "context": [lambda: native.InferenceTrace(wrong)],
        }
        if isinstance(wrong, bytes):
            calls["message"] += [lambda: Logger.log(wrong), lambda: Logger.log_error(wrong)]
            calls["name"] += [
                lambda: pb_utils.get_input_config_by_name({}, wrong),
                lambda: pb_utils.get_output_config_by_name({}, wrong),
                lambda: ModelConfig('{"name": "m"}').add_output({"name": wrong}),
            ]
            calls["triton_type_string"] = [lambda: pb_utils.triton_string_to_numpy(wrong)]
        for argument, wrong_calls in calls.items():
            for call in wrong_calls:
                with pytest.raises(ValueError, match=rf"{argument}.* must be UTF-8, which .* is not$"):
                    call()


def test_model_exception():
    assert TritonModelException.__bases__ == (Exception,)
    assert str(TritonModelException("m")) == "m"


def test_logger_without_a_server(capfd):
    Logger.log("one")
    Logger.log("two", Logger.WARNING)
    Logger.log_verbose("three")
    assert (Logger.INFO, Logger.WARNING, Logger.ERROR, Logger.VERBOSE) == (0, 1, 2, 3)
    assert Logger.LogLevel.ERROR is Logger.ERROR
    lines = capfd.readouterr().err.splitlines()
    assert [line[0] for line in lines] == ["I", "W", "V"]
    assert "test_api.py:" in lines[0]
    assert lines[0].endswith("] one")
    for wrong in (
        lambda: Logger.log("m", None),
        lambda: Logger.log("m", 1),
        lambda: Logger.log_info(None),
        lambda: Logger.log_warn(1),
        lambda: Logger.log_error(None),
        lambda: Logger.log_verbose(None),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_what_is_to_come():
    with pytest.raises(TypeError):
        MetricFamily()
    with pytest.raises(TypeError):
        MetricFamily("n", "d", 0)
    with pytest.raises(TritonModelException, match="This process has no channel to a server"):
        MetricFamily("n", "d", MetricFamily.COUNTER)
    for call in (pb_utils.load_model, pb_utils.unload_model, pb_utils.is_model_ready):
        with pytest.raises(TritonModelException, match="This process has no channel to a server"):
            call("m")
    with pytest.raises(TypeError):
        PreferredMemory(None)
    PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 1)


class TestHelpers:
    CONFIG = {"input": [{"name": "a"}, {"name": "b", "x": 1}], "output": [{"name": "c"}]}

    def test_config(self):
        assert pb_utils.get_input_config_by_name(self.CONFIG, "b")["x"] == 1
        assert pb_utils.get_input_config_by_name(self.CONFIG, "c") is None
        assert pb_utils.get_output_config_by_name(self.CONFIG, "c") == {"name": "c"}
        assert pb_utils.get_output_config_by_name({}, "c") is None
        assert pb_utils.using_decoupled_model_transaction_policy(self.CONFIG) is False
        assert pb_utils.using_decoupled_model_transaction_policy({"model_transaction_policy": {"decoupled": True}})

    def test_types(self):
        assert pb_utils.triton_to_numpy_type(11) is np.float32
        assert pb_utils.triton_to_numpy_type(13) is np.object_
        assert pb_utils.triton_to_numpy_type(14) is None
        assert pb_utils.triton_to_numpy_type(0) is None
        for number in range(1, 14):
            kind = pb_utils.triton_to_numpy_type(number)
            assert pb_utils.numpy_to_triton_type(kind) == number
            assert pb_utils.numpy_to_triton_type(np.dtype(kind)) == number
        assert pb_utils.numpy_to_triton_type(np.bytes_) == 13
        assert pb_utils.numpy_to_triton_type(np.complex64) is None
        assert pb_utils.triton_string_to_numpy("TYPE_BOOL") is bool
        assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
        for wrong in ("TYPE_BF16", "FP32"):
            with pytest.raises(KeyError):
                pb_utils.triton_string_to_numpy(wrong)

    def test_tensors_by_name(self):
        first, second = Tensor("x", ARRAY), Tensor("x", ARRAY)
        request = InferenceRequest(inputs=[first, second], requested_output_names=[], model_name="m")
        assert pb_utils.get_input_tensor_by_name(request, "x") is first
        assert pb_utils.get_input_tensor_by_name(request, "y") is None

        class Duck:
            def inputs(self):
                return [second]

        assert pb_utils.get_input_tensor_by_name(Duck(), "x") is second

    def test_bytes(self):
        array = np.array([[b"ab", "\u00fc"], [3, b""]], dtype=object)
        wire = b"\2\0\0\0ab\2\0\0\0\xc3\xbc\1\0\0\x003\0\0\0\0"
        assert pb_utils.serialize_byte_tensor(array) == wire
        assert pb_utils.serialize_byte_tensor(array.T) == b"\2\0\0\0ab\1\0\0\x003\2\0\0\0\xc3\xbc\0\0\0\0"
        got = pb_utils.deserialize_bytes_tensor(wire)
        assert got.dtype == np.object_
        assert got.tolist() == [b"ab", b"\xc3\xbc", b"3", b""]
        assert pb_utils.serialize_byte_tensor(np.array([b"ab"])) == wire[:6]
        assert pb_utils.serialize_byte_tensor(np.zeros(0, object)) == ()
        assert pb_utils.serialize_byte_tensor(ARRAY) is None
        assert pb_utils.serialize_byte_tensor(np.array(["a"])) is None
        assert pb_utils.deserialize_bytes_tensor(b"").shape == (0,)
        with raises("Invalid bytes tensor data: incomplete length field"):
            pb_utils.deserialize_bytes_tensor(b"\1\0")
        with raises("Invalid bytes tensor data: string extends beyond buffer"):
            pb_utils.deserialize_bytes_tensor(b"\5\0\0\0ab")


class TestModelConfig:
    def make(self, **fields):
        return ModelConfig(json.dumps({"name": "m", "max_batch_size": 4, "input": [], "output": [], **fields}))

    def refuses(self, text):
        return pytest.raises(ValueError, match="^" + re.escape(text) + "$")

    def test_completes(self):
        config = self.make()
        given = {"name": "a", "data_type": "TYPE_FP32", "dims": [4], "optional": True}
        config.add_input(given)
        config.add_input(given)
        config.add_output({"name": "b", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(8)
        config.set_dynamic_batching()
        config.set_dynamic_batching()
        config.set_model_transaction_policy({"decoupled": True})
        assert config.as_dict() == {
            "name": "m",
            "max_batch_size": 8,
            "input": [given],
            "output": [{"name": "b", "data_type": "TYPE_FP32", "dims": [-1]}],
            "dynamic_batching": {},
            "model_transaction_policy": {"decoupled": True},
        }

    def test_fills_gaps(self):
        config = self.make(input=[{"name": "a", "data_type": "TYPE_INVALID", "dims": []}])
        config.add_input({"name": "a", "data_type": "TYPE_INT8", "dims": [2]})
        assert config.as_dict()["input"] == [{"name": "a", "data_type": "TYPE_INT8", "dims": [2]}]

    def test_refusals(self):
        config = self.make(
            sequence_batching={},
            model_transaction_policy={"decoupled": False},
            input=[{"name": "a", "data_type": "TYPE_FP32", "dims": [4], "optional": False}],
        )
        with self.refuses(
            "configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' "
            "specified max_batch_size 3"
        ):
            config.set_max_batch_size(3)
        with self.refuses(
            "Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config function "
            "for model 'm' tries to set scheduling_choice as 'dynamic_batching'"
        ):
            config.set_dynamic_batching()
        with self.refuses(
            "input 'x' in auto-complete-config function for model 'm' contains property other than 'name', "
            "'data_type', 'dims' and 'optional'."
        ):
            config.add_input({"name": "x", "extra": 1})
        with self.refuses(
            "output 'x' in auto-complete-config function for model 'm' contains property other than 'name', "
            "'data_type' and 'dims'."
        ):
            config.add_output({"name": "x", "optional": True})
        with self.refuses("input in auto-complete-config function for model 'm' is missing 'name' property."):
            config.add_input({"data_type": "TYPE_FP32", "dims": [1]})
        with self.refuses("output 'x' in auto-complete-config function for model 'm' is missing 'data_type' property."):
            config.add_output({"name": "x", "dims": [1]})
        with self.refuses("input 'x' in auto-complete-config function for model 'm' is missing 'dims' property."):
            config.add_input({"name": "x", "data_type": "TYPE_FP32"})
        with self.refuses(
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'a', model provides TYPE_INT8"
        ):
            config.add_input({"name": "a", "data_type": "TYPE_INT8", "dims": [4]})
        with self.refuses(
            "model 'm', tensor 'a': the model expects dims [5] but the model configuration specifies dims [4]"
        ):
            config.add_input({"name": "a", "data_type": "TYPE_FP32", "dims": [5]})
        with self.refuses(
            "model 'm', tensor 'a': the model expects optional True but the model configuration specifies optional "
            "False"
        ):
            config.add_input({"name": "a", "data_type": "TYPE_FP32", "dims": [4], "optional": True})
        with self.refuses(
            "model transaction property in auto-complete-config function for model 'm' contains property other "
            "than 'decoupled'."
        ):
            config.set_model_transaction_policy({"coupled": True})
        with self.refuses(
            "trying to change decoupled property in auto-complete-config for model 'm', which is already set to "
            "'False'."
        ):
            config.set_model_transaction_policy({"decoupled": True})
        with pytest.raises(KeyError):
            config.add_input({"extra": 1})
