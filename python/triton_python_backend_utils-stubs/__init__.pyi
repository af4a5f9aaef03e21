"""The API that Python models import as `pb_utils`."""

import json as json
import struct as struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from c_python_backend_utils import TRITONSERVER_MEMORY_CPU as TRITONSERVER_MEMORY_CPU
from c_python_backend_utils import TRITONSERVER_MEMORY_GPU as TRITONSERVER_MEMORY_GPU
from c_python_backend_utils import Array, Text
from c_python_backend_utils import InferenceRequest as InferenceRequest
from c_python_backend_utils import InferenceResponse as InferenceResponse
from c_python_backend_utils import Logger as Logger
from c_python_backend_utils import MetricFamily as MetricFamily
from c_python_backend_utils import PreferredMemory as PreferredMemory
from c_python_backend_utils import Tensor as Tensor
from c_python_backend_utils import TritonError as TritonError
from c_python_backend_utils import TritonModelException as TritonModelException
from c_python_backend_utils import is_model_ready as is_model_ready
from c_python_backend_utils import load_model as load_model
from c_python_backend_utils import unload_model as unload_model

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START: Final = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END: Final = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL: Final = 1
TRITONSERVER_REQUEST_RELEASE_ALL: Final = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE: Final = 2
TRITON_STRING_TO_NUMPY: Final[dict[str, type[Any]]]

_Arrays = TypeVar("_Arrays", dict[str, Array], list[Array], Array)

class ModelConfig:
    """A configuration that auto_complete_config() completes. Contradictions to config.pbtxt raise ValueError."""

    def __init__(self, model_config: str) -> None: ...
    def as_dict(self) -> dict[str, Any]:
        """Returns the configuration as a dict by field names."""

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Sets the largest batch size. Raises if config.pbtxt has a larger one."""

    def set_dynamic_batching(self) -> None:
        """Turns dynamic batching on. Raises if another scheduler is configured."""

    def add_input(self, input: Mapping[str, Any]) -> None:
        """Adds an input, or completes the configured one of that name: {"name", "data_type", "dims"}."""

    def add_output(self, output: Mapping[str, Any]) -> None:
        """Adds an output, or completes the configured one of that name: {"name", "data_type", "dims"}."""

    def set_model_transaction_policy(self, transaction_policy_dict: Mapping[str, bool]) -> None:
        """Sets {"decoupled": bool}. Raises if the configuration has another value."""

# Typed as Any too, because few models have optional inputs.
def get_input_tensor_by_name(inference_request: InferenceRequest, name: Text, /) -> Tensor | Any:
    """The input of that name, or None."""

def get_output_tensor_by_name(inference_response: InferenceResponse, name: Text, /) -> Tensor | Any:
    """The output of that name, or None."""

def get_input_config_by_name(model_config: Mapping[str, Any], name: Text) -> dict[str, Any] | Any:
    """Returns the configuration of the input of that name, or None."""

def get_output_config_by_name(model_config: Mapping[str, Any], name: Text) -> dict[str, Any] | Any:
    """Returns the configuration of the output of that name, or None."""

def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Whether the model may send any number of responses to a request."""

def triton_to_numpy_type(data_type: int) -> Any:
    """Returns the numpy type for a type number of the model configuration; None if there is none."""

def numpy_to_triton_type(data_type: Any) -> int | None:
    """Returns the type number of the model configuration for a numpy dtype or type; None if there is none."""

def triton_string_to_numpy(triton_type_string: Text) -> Any:
    """Returns the numpy type for a name such as "TYPE_FP32". Raises KeyError for others."""

def serialize_byte_tensor(input_tensor: Array, /) -> Array:
    """The wire form of an array of bytes: for each element its length and its bytes."""

def deserialize_bytes_tensor(encoded_tensor: bytes, /) -> Array:
    """The one-dimensional array of bytes of a wire form."""

def shared_arrays(key: Text, loader: Callable[[], _Arrays]) -> _Arrays:
    """Returns the arrays that all models share under `key`; the first caller's `loader()` makes them."""

def get_model_dir() -> str:
    """Returns the folder of the model's version. Available in a model."""
