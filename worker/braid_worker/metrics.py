"""Custom metrics of models: families and their series. The values live in the server.

An object here is a reference to a family or series that the server keeps for all models. Changes of a value are sent
without an answer, in order with the responses. So a client that has a response sees the changes before it.
"""

import enum
import json
import math
import os
import weakref

import _braid_worker
from _braid_worker import TritonModelException

from braid_worker import arguments

_TOPIC = 4  # AskTopic::kMetric


class MetricKind(enum.IntEnum):
    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


COUNTER = MetricKind.COUNTER
GAUGE = MetricKind.GAUGE
HISTOGRAM = MetricKind.HISTOGRAM

_DELETED = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object must "
    "be kept for as long as its 'Metric' objects are used."
)


class MetricFamily:
    """Metrics of one name. Deleting the object deletes the metrics that it has created."""

    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind):
        name = arguments.text(name, "name")
        description = arguments.text(description, "description")
        arguments.check_type(kind, MetricKind, "kind")
        self._fields = {"do": "family", "name": name, "description": description, "kind": int(kind)}
        self._kind = kind
        self._reference = _Reference("family", self._create)
        self._reference.id()

    def Metric(self, labels: dict | None = None, buckets: list | None = None) -> "Metric":  # noqa: N802 -- the name that models use
        """Returns the series with these labels. `buckets` are the ascending upper bounds of a histogram."""
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if self._kind == HISTOGRAM and buckets is None:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        if self._kind != HISTOGRAM and buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        texts = {}
        for key, value in (labels or {}).items():
            if not isinstance(key, str | bytes) or not isinstance(value, str | bytes):
                raise _failure("Error when creating Metric: ", "attempt to access JSON non-string as string")
            texts[arguments.text(key, "labels")] = arguments.text(value, "labels")
        fields = {"do": "metric", "labels": texts}
        if buckets is not None:
            fields["buckets"] = [_to_float("Metric", bound) for bound in buckets]
            if not all(map(math.isfinite, fields["buckets"])):
                raise _failure(
                    "Error when creating Metric: ", "Histogram buckets must be finite and strictly ascending"
                )
        metric = object.__new__(Metric)
        metric._start(self, fields)
        return metric

    def _create(self) -> int:
        return int(_ask("Error when creating MetricFamily: ", self._fields))

    def __del__(self):
        if "_reference" in self.__dict__:
            self._reference.drop()


class Metric:
    """One series of a family; made by MetricFamily.Metric()."""

    def __init__(self):
        raise TypeError("c_python_backend_utils.Metric: No constructor defined!")

    def _start(self, family: MetricFamily, fields: dict) -> None:
        self._family = weakref.ref(family)
        self._kind = family._kind
        self._fields = fields
        self._reference = _Reference("metric", self._create)
        self._reference.id()

    def _create(self) -> int:
        return int(
            _ask("Error when creating Metric: ", {**self._fields, "family": self._living_family()._reference.id()})
        )

    def increment(self, value: float) -> None:
        number = _to_float("increment", value)
        prefix = "Failed to increment metric value: "
        if self._kind == HISTOGRAM:
            raise _failure(prefix, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment")
        if self._kind == COUNTER and not number >= 0:
            raise _failure(
                prefix,
                "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.",
            )
        self._change("increment", number)

    def set(self, value: float) -> None:
        number = _to_float("set", value)
        self._require("Set", "Failed to set metric value: ", GAUGE)
        self._change("set", number)

    def observe(self, value: float) -> None:
        number = _to_float("observe", value)
        self._require("Observe", "Failed to observe metric value: ", HISTOGRAM)
        self._change("observe", number)

    def value(self) -> float:
        prefix = "Failed to get metric value: "
        if self._kind == HISTOGRAM:
            raise _failure(prefix, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value")
        self._living_family()
        return float(_ask(prefix, {"do": "value", "metric": self._reference.id()}))

    def _require(self, what: str, prefix: str, kind: MetricKind) -> None:
        if self._kind != kind:
            raise _failure(prefix, f"TRITONSERVER_METRIC_KIND_{self._kind.name} does not support {what}")

    def _change(self, what: str, number: float) -> None:
        self._living_family()
        operation = {"do": what, "metric": self._reference.id()}
        # JSON has no infinity and no NaN.
        operation["value"] = number if math.isfinite(number) else str(number)
        _braid_worker.ask(_TOPIC, json.dumps(operation), wait=False)

    def _living_family(self) -> MetricFamily:
        family = self._family()
        if family is None:
            raise TritonModelException(_DELETED)
        return family

    def __del__(self):
        # Deleting a family deletes its metrics.
        if "_reference" in self.__dict__ and self._family() is not None:
            self._reference.drop()


class _Reference:
    """The server's id of a family or series, for this process. A forked child counts as another process: it gets its
    own id on first use."""

    def __init__(self, kind: str, create):
        self._kind = kind
        self._create = weakref.WeakMethod(create)
        self._pid = 0
        self._id = 0

    def id(self) -> int:
        if self._pid != os.getpid():
            self._id = self._create()()
            self._pid = os.getpid()
        return self._id

    def drop(self) -> None:
        if self._pid != os.getpid():
            return
        self._pid = 0
        try:
            _braid_worker.ask(_TOPIC, json.dumps({"do": f"drop_{self._kind}", self._kind: self._id}), wait=False)
        except Exception:
            # The process is ending, and the server then drops the reference.
            pass


def _ask(prefix: str, operation: dict) -> str:
    try:
        return _braid_worker.ask(_TOPIC, json.dumps(operation))
    except TritonModelException as error:
        raise _failure(prefix, str(error)) from None


def _failure(prefix: str, cause: str) -> TritonModelException:
    instance = _braid_worker.instance_name()
    return TritonModelException(f"{prefix}Failed to process the request for model '{instance}', message: {cause}")


def _to_float(function: str, value) -> float:
    # float() would also accept text.
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{function}(): incompatible function arguments: expected a number, not {type(value).__name__}")
    return float(value)
