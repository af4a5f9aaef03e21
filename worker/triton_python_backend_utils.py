"""The API that Python models import as `pb_utils`.

get_model_dir() is added when a model is initialized or completes its configuration.
"""

# ruff: noqa: F401 -- models use what is imported here, `json` and `struct` included.
import json
import struct

import numpy as np
from _braid_worker import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    TritonError,
    TritonModelException,
    deserialize_bytes_tensor,
    get_input_tensor_by_name,
    get_output_tensor_by_name,
    serialize_byte_tensor,
)
from braid_worker import arguments
from braid_worker.model_config import ModelConfig
from braid_worker.shared_arrays import shared_arrays
from c_python_backend_utils import (
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    Logger,
    MetricFamily,
    PreferredMemory,
    is_model_ready,
    load_model,
    unload_model,
)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

# By the type's number in the model configuration.
_TRITON_TO_NUMPY = {
    1: np.bool_,
    2: np.uint8,
    3: np.uint16,
    4: np.uint32,
    5: np.uint64,
    6: np.int8,
    7: np.int16,
    8: np.int32,
    9: np.int64,
    10: np.float16,
    11: np.float32,
    12: np.float64,
    13: np.object_,
}
_NUMPY_TO_TRITON = {numpy_type: number for number, numpy_type in _TRITON_TO_NUMPY.items()}
_NUMPY_TO_TRITON[np.bytes_] = 13


def triton_to_numpy_type(data_type):
    """Returns the numpy type for a type number of the model configuration; None if there is none."""
    return _TRITON_TO_NUMPY.get(data_type)


def numpy_to_triton_type(data_type):
    """Returns the type number of the model configuration for a numpy dtype or type; None if there is none."""
    return _NUMPY_TO_TRITON.get(data_type.type if isinstance(data_type, np.dtype) else data_type)


def triton_string_to_numpy(triton_type_string):
    """Returns the numpy type for a name such as "TYPE_FP32". Raises KeyError for others."""
    if isinstance(triton_type_string, bytes):
        triton_type_string = arguments.text(triton_type_string, "triton_type_string")
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def get_input_config_by_name(model_config, name):
    """Returns the configuration of the input of that name, or None."""
    if isinstance(name, bytes):
        name = arguments.text(name, "name")
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    """Returns the configuration of the output of that name, or None."""
    if isinstance(name, bytes):
        name = arguments.text(name, "name")
    return _config_by_name(model_config, "output", name)


def _config_by_name(model_config, kind, name):
    for properties in model_config.get(kind, ()):
        if properties["name"] == name:
            return properties
    return None


def using_decoupled_model_transaction_policy(model_config):
    """Whether the model may send any number of responses to a request."""
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)
