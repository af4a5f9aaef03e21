"""Loaded models and their requests."""

# The worker's modules have no types.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"

import inspect
import itertools
import json
import os
import pathlib
import tempfile
import threading
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from braid import _client, _program
from braid._client import DTYPES, InferenceError
from braid._server import Server, ServerError

_program.import_worker()

import _braid_worker  # noqa: E402
import triton_python_backend_utils as pb_utils  # noqa: E402
from braid_worker import hosting  # noqa: E402

from braid.testing import _relay  # noqa: E402

# The model in whose name this process sends its requests.
_CLIENT = "braid_testing_client"
_TIMEOUT = 60.0
IN_PROCESS_VARIABLE = "BRAID_TESTING_IN_PROCESS"

_STATUSES = {
    "NOT_FOUND": 404,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
    "UNSUPPORTED": 501,
}
_NUMPY_TYPES = {**DTYPES, "BYTES": np.dtype(object)}

Inputs = Mapping[str, Any]
Outputs = dict[str, np.ndarray]
Function = Callable[[dict[str, np.ndarray]], Any]


class Model:
    """A model, ensemble, pipeline or graph that is loaded. Close it, or use it in a `with` statement.

    Attributes:
        name: its name.
        config: the completed configuration; empty if it is not from a config.pbtxt.

        inputs, outputs: names and types ("FP32"); an empty type is any.
        decoupled: whether execute() returns an iterator.
        server: the server, for its addresses.
    """

    def __init__(self, site: "_Site", name: str):
        self._site = site
        self.name = name
        self.server = site.server
        path = "/v2/models/" + urllib.parse.quote(name, safe="")
        metadata = site.get(path)
        self.inputs = _types(metadata["inputs"])
        self.outputs = _types(metadata["outputs"])
        try:
            self.config: dict[str, Any] = site.get(path + "/config")
        except InferenceError:
            self.config = {}
        self.decoupled: bool = self.config.get("model_transaction_policy", {}).get("decoupled", False)
        self._sequences = itertools.count(1)

    @property
    def log(self) -> str:
        """The server's log so far, with the model's prints unless it runs in this process."""
        return self.server.log

    @property
    def instance(self) -> Any:
        """The model's object, an instance of its TritonPythonModel.

        Raises:
            RuntimeError: the model does not run in this process.
        """
        found = [each.model for each in self._site.relay.hosts if each.name == self.name and each.model is not None]
        if not found:
            raise RuntimeError(f"model '{self.name}' does not run in this process; load it with in_process=True")
        return found[0]

    def execute(
        self,
        inputs: Inputs,
        outputs: Iterable[str] | None = None,
        *,
        request_id: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends one request.

        Args:
            inputs: arrays by name. Other values are converted to arrays of the input's type, texts to BYTES.
            outputs: the requested outputs; None: all.

            request_id: seen by the model.
            parameters: of the request: str, int or bool values.

            timeout: seconds to wait for each response; None: 60, or unlimited if the model runs in this process.

        Returns:
            The outputs by name, BYTES as object arrays of `bytes`. If the model is decoupled, an iterator of them,
            as stream() does.

        Raises:
            InferenceError: the text and HTTP status that a client would get. If the model has raised an exception
                in this process, that is its cause.
            TimeoutError: the model did not respond in time.
        """
        request = self._request(inputs, outputs, request_id, parameters, 0, 0)
        return self._send(request, self.decoupled, timeout)

    def stream(
        self,
        inputs: Inputs,
        outputs: Iterable[str] | None = None,
        *,
        request_id: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Iterator[Outputs]:
        """Sends one request, and yields the outputs of each response. Closing the iterator cancels the request.
        Arguments and errors are those of execute()."""
        responses: Iterator[Outputs] = self._send(
            self._request(inputs, outputs, request_id, parameters, 0, 0), True, timeout
        )
        return responses

    def sequence(self, correlation_id: int | str | None = None) -> "Sequence":
        """Begins a sequence, with an id of its own unless one is given."""
        return Sequence(self, next(self._sequences) if correlation_id is None else correlation_id)

    def close(self) -> None:
        """Unloads the model, and ends its server. Can be called again."""
        self._site.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<braid.testing.Model '{self.name}'>"

    def _send(self, request: Any, streams: bool, timeout: float | None) -> Any:
        if not streams:
            return self._site.outputs(self._site.call(request.exec, timeout))
        return self._responses(self._site.call(lambda: request.exec(decoupled=True), timeout), timeout)

    def _responses(self, responses: Any, timeout: float | None) -> Iterator[Outputs]:
        try:
            while True:
                response = self._site.call(lambda: next(responses, None), timeout, responses.cancel)
                if response is None:
                    return
                # The end of a request alone is a response without tensors.
                found = self._site.outputs(response)
                if found:
                    yield found
        finally:
            responses.cancel()

    def _request(
        self,
        inputs: Inputs,
        outputs: Iterable[str] | None,
        request_id: str,
        parameters: Mapping[str, Any] | None,
        correlation_id: int | str,
        flags: int,
    ) -> Any:
        wanted = list(self.outputs) if outputs is None else list(outputs)
        tensors = [pb_utils.Tensor(name, to_array(value, self.inputs.get(name, ""))) for name, value in inputs.items()]
        return pb_utils.InferenceRequest(
            request_id=request_id,
            correlation_id=correlation_id,
            inputs=tensors,
            requested_output_names=wanted,
            model_name=self.name,
            flags=flags,
            parameters=dict(parameters or {}),
        )


class Sequence:
    """Requests to one state of a model, in order."""

    def __init__(self, model: Model, correlation_id: int | str):
        self.model = model
        self.correlation_id = correlation_id
        self._steps = 0

    def step(
        self,
        inputs: Inputs,
        outputs: Iterable[str] | None = None,
        *,
        end: bool = False,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends the next request of the sequence; the first one starts it, and one with `end` ends it. A request with an
        error does not count as a step. Other arguments and results are those of Model.execute()."""
        flags = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START if self._steps == 0 else 0
        flags |= pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END if end else 0
        request = self.model._request(inputs, outputs, "", parameters, self.correlation_id, flags)
        result = self.model._send(request, self.model.decoupled, timeout)
        self._steps = 0 if end else self._steps + 1
        return result


def load_model(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    calls: Mapping[str, Function | Model | str | os.PathLike[str]] | None = None,
    in_process: bool | None = None,
    options: Iterable[str] = (),
    start_timeout: float = 120,
) -> Model:
    """Loads a model.

    Args:
        path: one of
            - a model's folder in Triton's layout. The other models of its repository are loaded when they are called.
            - a folder with a graph.pbtxt, or such a file.
            - a config.json, with `name` for one of its models, pipelines or graphs.

        name: the name of the model; None: that of the folder.

        calls: answers to the model's calls to other models, by name. Each is
            - a function from a dict of arrays to a dict of outputs. A generator function makes a decoupled model. Its
              exceptions are errors of the called model.
            - a loaded Model.
            - the folder of a model, which is loaded too.

        in_process: runs the models' Python in threads of this process. None: if the variable BRAID_TESTING_IN_PROCESS
            is "1", which `pytest --braid-in-process` sets.

        options: more options of `braid serve`.
        start_timeout: limit for loading, in seconds.

    Returns:
        The loaded model.

    Raises:
        ServerError: it cannot be loaded; the text ends with the log. If it has raised an exception in this process,
            that is its cause.
        FileNotFoundError: there is nothing at `path`.
    """
    source = pathlib.Path(path).absolute()
    if not source.exists():
        raise FileNotFoundError(f"there is no model at '{source}'")

    def add(site: _Site) -> str:
        added = site.add(source, name)
        for other, answer in (calls or {}).items():
            site.add_call(other, answer)
        return added

    return _load(add, in_process, options, start_timeout)


def _load(
    add: Callable[["_Site"], str], in_process: bool | None, options: Iterable[str], start_timeout: float
) -> Model:
    """Starts a site. `add` adds a model or graph to it, and returns its name."""
    if in_process is None:
        in_process = os.environ.get(IN_PROCESS_VARIABLE) == "1"
    site = _Site(in_process)
    name = "the model"
    try:
        name = add(site)
        site.start(name, options, start_timeout)
        return Model(site, name)
    except InferenceError as error:
        log = "\n".join(site.server.log.splitlines()[-40:])
        site.close()
        raise ServerError(f"'{name}' is not loaded: {error}\n{log}") from error
    except BaseException:
        site.close()
        raise


def load_node(
    path: str | os.PathLike[str],
    inputs: Iterable[str],
    outputs: Iterable[str],
    *,
    loopback: bool = False,
    in_process: bool | None = None,
    options: Iterable[str] = (),
    start_timeout: float = 120,
) -> Model:
    """Loads one Python node, as the only one of a graph.

    Args:
        path: the handler's file, with a class OvmsPythonModel.
        inputs, outputs: the names of the node's streams.

        loopback: whether the node has a LOOPBACK stream, for execute() as a generator.

        in_process, options, start_timeout: as for load_model().

    Returns:
        The graph as a model. Use stream() if it sends several responses.

    Raises:
        ServerError, FileNotFoundError: as load_model().
    """
    file = pathlib.Path(path).absolute()
    if not file.is_file():
        raise FileNotFoundError(f"there is no node at '{file}'")
    graph = _node_graph(file, list(inputs), list(outputs), loopback)
    return _load(lambda site: site.add_node(graph, file.stem), in_process, options, start_timeout)


def _node_graph(file: pathlib.Path, inputs: list[str], outputs: list[str], loopback: bool) -> str:
    lines = [f'input_stream: "OVMS_PY_TENSOR{i}:{name}"' for i, name in enumerate(inputs)]
    lines += [f'output_stream: "OVMS_PY_TENSOR{i}:{name}"' for i, name in enumerate(outputs)]
    lines += [
        "node {",
        f'  name: "{file.stem}"',
        '  calculator: "PythonExecutorCalculator"',
        '  input_side_packet: "PYTHON_NODE_RESOURCES:py"',
    ]
    lines += [f'  input_stream: "IN{i}:{name}"' for i, name in enumerate(inputs)]
    lines += [f'  output_stream: "OUT{i}:{name}"' for i, name in enumerate(outputs)]
    if loopback:
        lines += [
            '  input_stream: "LOOPBACK:loopback"',
            '  output_stream: "LOOPBACK:loopback"',
            '  input_stream_info: { tag_index: "LOOPBACK:0", back_edge: true }',
            "  input_stream_handler {",
            '    input_stream_handler: "SyncSetInputStreamHandler"',
            '    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }',
            "  }",
        ]
    handler = json.dumps(str(file))
    lines += [
        "  node_options: {",
        "    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {",
        f"      handler_path: {handler}",
        "    }",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _types(tensors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["datatype"] if each["datatype"] in _NUMPY_TYPES else "" for each in tensors}


def to_array(value: Any, datatype: str) -> np.ndarray:
    """Returns a value as an array of the type "FP32"; arrays keep their type, except that texts become bytes."""
    if isinstance(value, np.ndarray) or datatype not in _NUMPY_TYPES:
        array = np.asarray(value)
    else:
        array = np.asarray(value, dtype=_NUMPY_TYPES[datatype])
    if array.dtype.kind not in "SUO":
        return array
    elements = [each.encode() if isinstance(each, str) else bytes(each) for each in array.ravel().tolist()]
    texts = np.empty(len(elements), dtype=object)
    texts[:] = elements
    return texts.reshape(array.shape)


class _Site:
    """A server with the models of one load_model(), and its relay."""

    def __init__(self, in_process: bool):
        self.server: Any = None
        self.exceptions: deque[tuple[str, BaseException]] = deque(maxlen=32)
        self.relay = _relay.Relay(self._choose)
        self._in_process = in_process
        self._functions: dict[str, type] = {_CLIENT: _Client}
        self._client: _relay.HostedModel | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="braid-testing-")
        self._repository = pathlib.Path(self._folder.name) / "models"
        self._repository.mkdir()
        self._config: list[str] = []
        self._explicit: list[str] = []
        self._write_model(_CLIENT, decoupled=False)

    def add(self, source: pathlib.Path, name: str | None) -> str:
        """Adds what load_model() is to load. Returns its name."""
        if source.suffix == ".json":
            if name is None:
                raise ValueError(f"'{source}' may have several models; expected `name`")
            self._config = ["--config_path", str(source)]
            return name
        graph = source / "graph.pbtxt" if source.is_dir() else source
        if graph.suffix == ".pbtxt" and graph.is_file() and graph.name != "config.pbtxt":
            return self._add_graph(graph, name or graph.parent.name)
        if not source.is_dir():
            raise ValueError(f"'{source}' is no model; expected a folder, a graph.pbtxt or a config.json")
        name = name or source.name
        for neighbour in source.parent.iterdir():
            if neighbour.is_dir():
                self._link(neighbour.name, neighbour)
        self._link(name, source)
        self._explicit.append(name)
        return name

    def add_call(self, name: str, answer: Any) -> None:
        """Adds an answer to calls to a model."""
        if isinstance(answer, (str, os.PathLike)):
            folder = pathlib.Path(answer).absolute()
            if not folder.is_dir():
                raise FileNotFoundError(f"calls['{name}']: there is no model at '{folder}'")
            self._link(name, folder)
        elif callable(answer) or isinstance(answer, Model):
            decoupled = answer.decoupled if isinstance(answer, Model) else inspect.isgeneratorfunction(answer)
            function = answer.execute if isinstance(answer, Model) else answer
            (self._repository / name).unlink(missing_ok=True)
            self._write_model(name, decoupled)
            self._functions[name] = _model_class(function, decoupled)
        else:
            raise TypeError(f"calls['{name}'] is {type(answer).__name__}; expected a function, a Model or a path")
        self._explicit.append(name)

    def start(self, name: str, options: Iterable[str], timeout: float) -> None:
        command = ["--model-repository", str(self._repository), *self._config]
        command += ["--model-control-mode", "explicit", "--load-on-demand"]
        for each in [_CLIENT, *self._explicit]:
            command += ["--load-model", each]
        # Only forked workers of this level can be hosted.
        command += ["--worker-isolation", "none", *options]
        environment = {**os.environ, hosting.SOCKET_VARIABLE: self.relay.path}
        try:
            self.server = Server(options=command, start_timeout=timeout, environment=environment)
        except ServerError as error:
            raise error from (self.exceptions[-1][1] if self.exceptions else None)
        if self._client is None:
            raise ServerError("the server did not start the worker of this process:\n" + self.server.log)

    def call(self, function: Callable[[], Any], timeout: float | None, cancel: Callable[[], None] | None = None) -> Any:
        """Calls a function that sends requests, in the name of the client."""
        if timeout is None and not self._in_process:
            timeout = _TIMEOUT
        if self._client is None:
            raise RuntimeError("the model is closed")
        number = self._client.number
        if timeout is None:
            before = _braid_worker.select(number)
            try:
                return function()
            finally:
                _braid_worker.select(before)
        results: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            _braid_worker.select(number)
            try:
                results.append(function())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="braid-request", daemon=True)
        thread.start()
        thread.join(timeout)
        if errors:
            raise errors[0]
        if results:
            return results[0]
        if cancel is not None:
            cancel()
        raise TimeoutError(f"no response within {timeout:g} s")

    def outputs(self, response: Any) -> Outputs:
        if response.has_error():
            self._raise(response.error())
        return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}

    def get(self, path: str) -> Any:
        return _client.get(self.server.http, path, _TIMEOUT)

    def close(self) -> None:
        if self.server is not None:
            self.server.stop()
        self._client = None
        self.relay.close()
        self._folder.cleanup()

    def _raise(self, error: Any) -> None:
        text = error.message()
        cause = next((each for told, each in reversed(self.exceptions) if told and told in text), None)
        raise InferenceError(text, _STATUSES.get(error.code().name, 400)) from cause

    def _choose(self, name: str) -> _relay.HostedModel | None:
        """Chooses the host of the worker of an instance, such as "other_0"."""
        model = name if name in self._functions else name.rpartition("_")[0]
        if model in self._functions:
            hosted = _relay.HostedFunction(self.exceptions, self._functions[model])
            if model == _CLIENT:
                self._client = hosted
            return hosted
        return _relay.HostedModel(self.exceptions) if self._in_process else None

    def _link(self, name: str, folder: pathlib.Path) -> None:
        link = self._repository / name
        link.unlink(missing_ok=True)
        link.symlink_to(folder.resolve())

    def add_node(self, graph: str, name: str) -> str:
        """Adds a graph by its text, whose paths are absolute. Returns its name."""
        file = pathlib.Path(self._folder.name) / "graph.pbtxt"
        file.write_text(graph)
        return self._add_graph(file, name)

    def _add_graph(self, graph: pathlib.Path, name: str) -> str:
        config = pathlib.Path(self._folder.name) / "config.json"
        entry = {"name": name, "base_path": str(graph.parent), "graph_path": str(graph)}
        config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [entry]}))
        self._config = ["--config_path", str(config)]
        return name

    def _write_model(self, name: str, decoupled: bool) -> None:
        folder = self._repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text("")
        policy = "model_transaction_policy { decoupled: true }\n" if decoupled else ""
        (folder / "config.pbtxt").write_text(
            f'backend: "python"\n{policy}parameters {{ key: "ANY_TENSORS" value {{ string_value: "true" }} }}\n'
        )


class _Client:
    """The model in whose name this process sends its requests."""

    def execute(self, requests: list[Any]) -> None:
        raise pb_utils.TritonModelException("this model only sends requests")


def _model_class(function: Function, decoupled: bool) -> type:
    """Returns the class of a model that calls the function."""

    def response(outputs: Mapping[str, Any]) -> Any:
        if not isinstance(outputs, Mapping):
            raise TypeError(f"the function returned {type(outputs).__name__}; expected a dict of outputs")
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, to_array(value, "")) for name, value in outputs.items()]
        )

    def arrays(request: Any) -> dict[str, np.ndarray]:
        return {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}

    class Answers:
        def execute(self, requests: list[Any]) -> list[Any] | None:
            if not decoupled:
                return [response(function(arrays(request))) for request in requests]
            for request in requests:
                sender = request.get_response_sender()
                try:
                    for outputs in function(arrays(request)):
                        if sender.is_cancelled():
                            break
                        sender.send(response(outputs))
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(text)))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None

    return Answers
