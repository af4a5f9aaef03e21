"""The native names behind triton_python_backend_utils."""

import enum
from asyncio import Future
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias, overload

from numpy.typing import NDArray

# Texts of user code: UTF-8, if they are bytes.
Text: TypeAlias = str | bytes
Parameters: TypeAlias = Mapping[str, str | int | bool | float]
# Arrays of any type with a TYPE_ name; TYPE_STRING has object arrays of bytes.
Array: TypeAlias = NDArray[Any]

class TritonModelException(Exception):
    """Raised by pb_utils, and by models."""

class TritonError:
    """An error of one request, with the text and code that its client gets."""

    class __ErrorCode(enum.IntEnum):
        UNKNOWN = 0
        INTERNAL = 1
        NOT_FOUND = 2
        INVALID_ARG = 3
        UNAVAILABLE = 4
        UNSUPPORTED = 5
        ALREADY_EXISTS = 6
        CANCELLED = 7

    UNKNOWN: ClassVar[Any]
    INTERNAL: ClassVar[Any]
    NOT_FOUND: ClassVar[Any]
    INVALID_ARG: ClassVar[Any]
    UNAVAILABLE: ClassVar[Any]
    UNSUPPORTED: ClassVar[Any]
    ALREADY_EXISTS: ClassVar[Any]
    CANCELLED: ClassVar[Any]

    def __init__(self, message: Text, code: Any = ...) -> None: ...
    def message(self) -> str:
        """The text of the error."""

    def code(self) -> enum.IntEnum:
        """The kind of error: one of TritonError.UNKNOWN, .INTERNAL, ..."""

class Tensor:
    """A named tensor."""

    def __init__(self, name: Text, array: Array, /) -> None: ...
    def name(self) -> str:
        """The name of the tensor."""

    def as_numpy(self) -> Array:
        """The tensor as an array, without a copy. Raises TritonModelException on a GPU, and for BF16."""

    def triton_dtype(self) -> int:
        """The number of the element type in the model configuration."""

    def shape(self) -> list[int]:
        """The dimensions, as a list."""

    def is_cpu(self) -> bool:
        """Whether the bytes are in the machine's memory."""

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the tensor, without a copy."""

    @staticmethod
    def from_dlpack(name: Text, tensor: Any, /) -> Tensor:
        """A tensor over an object with __dlpack__(), or over its capsule, without a copy."""

    def __dlpack__(self, *, stream: Any = ..., **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class InferenceResponse:
    """The answer to a request: tensors, or an error."""

    def __init__(
        self,
        output_tensors: Sequence[Tensor] = ...,
        error: TritonError | None = None,
        parameters: Parameters | None = None,
    ) -> None: ...
    def output_tensors(self) -> list[Tensor]:
        """The output tensors, as a list."""

    def has_error(self) -> bool:
        """Whether this is an error."""

    def error(self) -> TritonError | Any:
        """The TritonError, or None."""

    def parameters(self) -> str:
        """The parameters, as the JSON text of an object."""

class ResponseIterator:
    """The responses to a call, as they arrive; a new loop iterates over them again."""

    def __iter__(self) -> Iterator[InferenceResponse]: ...
    def __next__(self) -> InferenceResponse: ...
    def cancel(self) -> None:
        """Ends the call; responses that were received can still be read. Does nothing after the end."""

class InferenceResponseSender:
    """Sends responses to one request."""

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Answers the request; any thread, also after execute has returned. Raises TritonModelException."""

    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the request."""

class InferenceTrace:
    """The trace of a request. Pass it to a model's own request to make that request part of the trace."""

    request_id: int
    def __init__(self, context: Text | None = None, request_id: int = 0) -> None: ...
    def get_context(self) -> str | None:
        """Returns the OpenTelemetry context as JSON text, or None."""

class MemoryType(enum.IntEnum):
    """The preferred memory for outputs of a call to another model."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1

TRITONSERVER_MEMORY_GPU: Final = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU: Final = MemoryType.TRITONSERVER_MEMORY_CPU

class PreferredMemory:
    """A hint for the memory of outputs."""

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None: ...

class InferenceRequest:
    """A request: one for this model, or one for another that this one makes."""

    def __init__(
        self,
        request_id: Text = "",
        correlation_id: int | Text = 0,
        inputs: Sequence[Tensor] = ...,
        requested_output_names: Sequence[Text] = ...,
        model_name: Text = ...,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = ...,
        trace: InferenceTrace = ...,
        parameters: Parameters | None = None,
    ) -> None: ...
    def inputs(self) -> list[Tensor]:
        """The input tensors, in the order of the request."""

    def request_id(self) -> str:
        """The client's name for the request."""

    def correlation_id(self) -> Any:
        """The sequence that the request belongs to; int or str."""

    def requested_output_names(self) -> set[str]:
        """The outputs that are wanted, as a set."""

    def flags(self) -> int:
        """TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END."""

    def set_flags(self, flags: int, /) -> None:
        """Sets the flags of a request."""

    def timeout(self) -> int:
        """The time-out in microseconds; 0 for none."""

    def parameters(self) -> str:
        """The parameters, as the JSON text of an object."""

    def trace(self) -> InferenceTrace:
        """The trace that the request belongs to."""

    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the request."""

    def get_response_sender(self) -> InferenceResponseSender:
        """The sender of responses to this request."""

    def set_release_flags(self, flags: int, /) -> None:
        """Sets whether the request ends, or is scheduled again, after execute."""

    @overload
    def exec(self, decoupled: Literal[False] = False) -> InferenceResponse:
        """Runs the request on another model."""

    @overload
    def exec(self, decoupled: Literal[True]) -> ResponseIterator: ...
    @overload
    def async_exec(self, decoupled: Literal[False] = False) -> Future[InferenceResponse]:
        """Runs the request on another model, awaitable."""

    @overload
    def async_exec(self, decoupled: Literal[True]) -> Future[ResponseIterator]: ...

class SharedMemory:
    """The shared memory for tensors. It has no fixed size."""

    def free_memory(self) -> int: ...

shared_memory: Final[SharedMemory]

def async_event_future_done_callback(future: Future[Any]) -> None:
    """Logs the exception of a coroutine whose result is not awaited."""

class _LogLevel(enum.IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3

class Logger:
    """Writes to the server's log, with the file and line of the caller. Used without an instance."""

    LogLevel: ClassVar[type[_LogLevel]]
    INFO: ClassVar[_LogLevel]
    WARNING: ClassVar[_LogLevel]
    ERROR: ClassVar[_LogLevel]
    VERBOSE: ClassVar[_LogLevel]

    @staticmethod
    def log(message: Text, level: _LogLevel = ...) -> None: ...
    @staticmethod
    def log_info(message: Text) -> None: ...
    @staticmethod
    def log_warn(message: Text) -> None: ...
    @staticmethod
    def log_error(message: Text) -> None: ...
    @staticmethod
    def log_verbose(message: Text) -> None: ...

class MetricKind(enum.IntEnum):
    COUNTER = ...
    GAUGE = ...
    HISTOGRAM = ...

COUNTER: Final = MetricKind.COUNTER
GAUGE: Final = MetricKind.GAUGE
HISTOGRAM: Final = MetricKind.HISTOGRAM

class Metric:
    """One time series of a MetricFamily, which creates it."""

    def increment(self, value: float) -> None: ...
    def set(self, value: float) -> None: ...
    def observe(self, value: float) -> None: ...
    def value(self) -> float: ...

class MetricFamily:
    """Metrics of one name. Their values are on the server's metrics page."""

    COUNTER: ClassVar[MetricKind]
    GAUGE: ClassVar[MetricKind]
    HISTOGRAM: ClassVar[MetricKind]

    def __init__(self, name: Text, description: Text, kind: MetricKind) -> None: ...
    def Metric(  # noqa: N802
        self, labels: Mapping[str, str] | None = None, buckets: Sequence[float] | None = None
    ) -> Metric:
        """Creates the metric of these labels, or returns the one that exists. `buckets` are for a histogram."""

def load_model(model_name: Text, config: Text = "", files: dict[str, bytes] | None = None) -> None:
    """Loads or reloads a model. `config` replaces the configuration file. `files` replaces the model's folder; the keys
    are paths in the folder. Returns when the model is loaded."""

def unload_model(model_name: Text, unload_dependents: bool = False) -> None:
    """Starts to unload a model, and its dependencies too with `unload_dependents`."""

def is_model_ready(model_name: Text, model_version: Text = "") -> bool:
    """Whether a model can be called. With version "", the version that a call would use."""
