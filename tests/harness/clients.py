"""The public clients of both protocols under common names, and their expected errors."""

import contextlib

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

HTTP_CODES = {
    "UNKNOWN": "400",
    "INTERNAL": "500",
    "NOT_FOUND": "404",
    "INVALID_ARG": "400",
    "UNAVAILABLE": "503",
    "UNSUPPORTED": "501",
    "ALREADY_EXISTS": "400",
    "CANCELLED": "400",
    "PERMISSION_DENIED": "403",
}
GRPC_CODES = {
    "UNKNOWN": "StatusCode.UNKNOWN",
    "INTERNAL": "StatusCode.INTERNAL",
    "NOT_FOUND": "StatusCode.NOT_FOUND",
    "INVALID_ARG": "StatusCode.INVALID_ARGUMENT",
    "UNAVAILABLE": "StatusCode.UNAVAILABLE",
    "UNSUPPORTED": "StatusCode.UNIMPLEMENTED",
    "ALREADY_EXISTS": "StatusCode.ALREADY_EXISTS",
    "CANCELLED": "StatusCode.CANCELLED",
    "PERMISSION_DENIED": "StatusCode.PERMISSION_DENIED",
}

WIRE_TYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}


def wire_type(array):
    for name, kind in WIRE_TYPES.items():
        if array.dtype == kind:
            return name
    raise AssertionError(f"no wire type for {array.dtype}")


class Client:
    """tritonclient for one protocol. `raw` is its client, `module` its module."""

    def __init__(self, protocol, server, **options):
        self.protocol = protocol
        self.module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[protocol]
        self.raw = self.module.InferenceServerClient(getattr(server, protocol), **options)

    def close(self):
        self.raw.close()

    def input(self, name, array, datatype=None, shape=None, **binary):
        tensor = self.module.InferInput(
            name, list(array.shape if shape is None else shape), datatype or wire_type(array)
        )
        tensor.set_data_from_numpy(array, **(binary if self.protocol == "http" else {}))
        return tensor

    def output(self, name, **binary):
        return self.module.InferRequestedOutput(name, **(binary if self.protocol == "http" else {}))

    def infer(self, model, inputs, outputs=None, **more):
        """Sends a request; `inputs` are {name: array} or prepared inputs. Returns the client's result."""
        if isinstance(inputs, dict):
            inputs = [self.input(name, array) for name, array in inputs.items()]
        if outputs is not None:
            outputs = [self.output(name) if isinstance(name, str) else name for name in outputs]
        return self.raw.infer(model, inputs, outputs=outputs, **more)

    def code(self, kind):
        return {"http": HTTP_CODES, "grpc": GRPC_CODES}[self.protocol][kind]

    @contextlib.contextmanager
    def fails(self, kind, text=None, contains=None):
        """The block must fail with a status of this kind, and with exactly this text (or one that contains `contains`)."""
        try:
            yield
        except InferenceServerException as error:
            if text is not None:
                assert error.message() == text
            if contains is not None:
                assert contains in error.message()
            assert error.status() == self.code(kind), error
        else:
            raise AssertionError(f"no error; expected {kind} {text or contains!r}")


def strings(*texts):
    """Returns a BYTES array of one dimension."""
    return np.array([t.encode() if isinstance(t, str) else t for t in texts], dtype=np.object_)
