"""The native names behind triton_python_backend_utils."""

import enum
import json
import os
import sys
import time

import _braid_worker
from _braid_worker import (
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    ResponseIterator,
    Tensor,
    TritonError,
    TritonModelException,
)
from braid_worker import arguments
from braid_worker.metrics import COUNTER, GAUGE, HISTOGRAM, Metric, MetricFamily, MetricKind

__all__ = [
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "PreferredMemory",
    "ResponseIterator",
    "SharedMemory",
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "async_event_future_done_callback",
    "is_model_ready",
    "load_model",
    "shared_memory",
    "unload_model",
]


class MemoryType(enum.IntEnum):
    """The preferred memory for outputs of a call to another model."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU


class PreferredMemory:
    """A hint for the memory of outputs."""

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0):
        arguments.check_type(preferred_memory_type, MemoryType, "preferred_memory_type")
        arguments.check_type(preferred_device_id, int, "preferred_device_id")
        self._type = preferred_memory_type
        self._device_id = preferred_device_id


class InferenceTrace:
    """The trace of a request. Pass it to a model's own request to make that request part of the trace."""

    def __init__(self, context: str | None = None, request_id: int = 0):
        self._context = None if context is None else arguments.text(context, "context")
        self.request_id = request_id  # the server's id of the request

    def get_context(self) -> str | None:
        """Returns the OpenTelemetry context as JSON text, or None."""
        return self._context


class SharedMemory:
    """The shared memory for tensors. It has no fixed size."""

    def free_memory(self) -> int:
        return 1 << 40


shared_memory = SharedMemory()


def async_event_future_done_callback(future) -> None:
    """Logs the exception of a coroutine whose result is not awaited."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        Logger.log_error(f"{type(error).__name__}: {error}")


class LogLevel(enum.IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


class Logger:
    """Writes to the server's log, with the file and line of the caller. Used without an instance."""

    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str, level: LogLevel = LogLevel.INFO) -> None:
        arguments.check_type(level, LogLevel, "level")
        _log(level, message)

    @staticmethod
    def log_info(message: str) -> None:
        _log(LogLevel.INFO, message)

    @staticmethod
    def log_warn(message: str) -> None:
        _log(LogLevel.WARNING, message)

    @staticmethod
    def log_error(message: str) -> None:
        _log(LogLevel.ERROR, message)

    @staticmethod
    def log_verbose(message: str) -> None:
        _log(LogLevel.VERBOSE, message)


def _log(level: LogLevel, message: str) -> None:
    if not isinstance(message, str):
        message = arguments.text(message, "message")
    caller = sys._getframe(2)
    file = caller.f_code.co_filename
    if _braid_worker.is_connected():
        _braid_worker.log(level, file, caller.f_lineno, message)
        return
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    moment = time.strftime("%m%d %H:%M:%S", time.gmtime(seconds))
    place = f"{os.getpid()} {file.rpartition('/')[2]}:{caller.f_lineno}]"
    print(f"{'IWEV'[level]}{moment}.{nanoseconds // 1000:06d} {place} {message}", file=sys.stderr, flush=True)


_LOAD_MODEL, _UNLOAD_MODEL, _IS_MODEL_READY = 1, 2, 3  # topics of ask()


def load_model(model_name: str, config: str = "", files: dict | None = None) -> None:
    """Loads or reloads a model. `config` replaces the configuration file. `files` replaces the model's folder; the keys
    are paths in the folder. Returns when the model is loaded."""
    model_name = arguments.text(model_name, "model_name")
    config = arguments.text(config, "config")
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
        )
    attachments = {}
    for path, content in (files or {}).items():
        arguments.check_type(content, bytes, "file content")
        attachments[arguments.text(path, "file path")] = content
    _ask("load model", _LOAD_MODEL, {"model_name": model_name, "config": config}, attachments or None)


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Starts to unload a model, and its dependencies too with `unload_dependents`."""
    model_name = arguments.text(model_name, "model_name")
    arguments.check_type(unload_dependents, bool, "unload_dependents")
    _ask("unload model", _UNLOAD_MODEL, {"model_name": model_name, "unload_dependents": unload_dependents})


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a model can be called. With version "", the version that a call would use."""
    model_name = arguments.text(model_name, "model_name")
    model_version = arguments.text(model_version, "model_version")
    text = {"model_name": model_name, "model_version": model_version}
    return _ask("check model readiness", _IS_MODEL_READY, text) == "true"


def _ask(what: str, topic: int, text: dict, attachments: dict | None = None) -> str:
    try:
        return _braid_worker.ask(topic, json.dumps(text), attachments)
    except TritonModelException as error:
        raise TritonModelException(
            f"Failed to {what}: Failed to process the request for model '{_braid_worker.instance_name()}', "
            f"message: {error}"
        ) from None
