"""The Python nodes of a graph, from load to unload."""

import contextlib
import importlib.machinery
import inspect
import json
import os
import sys

import _braid_worker
import pyovms

from braid_worker import errors, model_file

_LOG_INFO = 0
_CLASS = "OvmsPythonModel"


class NodeError(Exception):
    """A node that cannot be loaded: a text for clients, and a full one for the log."""

    def __init__(self, name: str, file: str, what: str, error: BaseException | None = None):
        told, logged = errors.describe(error) if error is not None else ("", "")
        super().__init__(f"{_node(name, file)}: {what}{told}")
        self.file = file
        self.line = errors.line_in(error, file) if error is not None else 0
        self.logged = f"{_node(name, file)}: {what}{logged}"


class Nodes:
    """The node objects of one graph. Its methods are called on the main thread, one at a time."""

    def __init__(self, config: dict):
        self._config = config["nodes"]
        self._modules = {}  # by file path
        self._folders = []  # the handlers' folders on sys.path
        self._objects = []  # [(object, name, file)], including those whose initialize() has failed

    def load(self) -> bool:
        """Creates and initializes all objects, and passes them to the native side. Returns whether nodes keep state for
        each run of the graph. Raises NodeError; then too, finalize() must be called."""
        wants_sessions = False
        for node in self._config:
            name, file = node["name"], node["handler_path"]
            model = self._make(name, file)
            self._objects.append((model, name, file))
            self._initialize(model, node)
            takes_session = _takes_session(model.execute)
            has_end_session = hasattr(model, "end_session")
            wants_sessions |= takes_session or has_end_session
            loops = node.get("loopback", False)
            _braid_worker.add_node(
                node=model,
                name=name,
                file=file,
                outputs=node["output_names"],
                # The only stream that a node may both read and write.
                loopback=[output for output in node["output_names"] if loops and output in node["input_names"]],
                exported=node.get("exported", []),
                kept=node.get("kept", []),
                takes_session=takes_session,
                has_end_session=has_end_session,
                loops=loops,
            )
        return wants_sessions

    def finalize(self) -> None:
        """Finalizes each object once. Their exceptions are only logged."""
        objects, self._objects = self._objects, []
        for model, name, file in objects:
            try:
                if hasattr(model, "finalize"):
                    model.finalize()
            except BaseException as error:
                logged = f"{_node(name, file)}: finalize: {errors.describe(error)[1]}"
                _braid_worker.log(_LOG_INFO, file, errors.line_in(error, file), logged)

    def _make(self, name: str, file: str):
        if not os.path.isfile(file):
            raise NodeError(name, file, "no such file")
        try:
            module = self._import(file)
        except BaseException as error:
            raise NodeError(name, file, "the file cannot be imported: ", error) from error
        model_class = getattr(module, _CLASS, None)
        if not isinstance(model_class, type):
            raise NodeError(name, file, f"the file has no class {_CLASS}")
        if not callable(getattr(model_class, "execute", None)):
            raise NodeError(name, file, f"class {_CLASS} has no method execute")
        try:
            return model_class()
        except BaseException as error:
            raise NodeError(name, file, f"{_CLASS}() failed: ", error) from error

    def _initialize(self, model, node: dict) -> None:
        if not hasattr(model, "initialize"):
            return
        try:
            model.initialize(
                {
                    "node_name": node["name"],
                    "input_names": list(node["input_names"]),
                    "output_names": list(node["output_names"]),
                    "outputs_names": list(node["output_names"]),  # the name in OpenVINO Model Server's documentation
                    "base_path": os.path.dirname(node["handler_path"]),
                }
            )
        except BaseException as error:
            raise NodeError(node["name"], node["handler_path"], "initialize failed: ", error) from error

    def _import(self, file: str):
        """Imports each file as a separate module, so files of the same name in two folders do not conflict."""
        module = self._modules.get(file)
        if module is None:
            self._prefer_folder(os.path.dirname(file))
            stem = os.path.splitext(os.path.basename(file))[0].replace(".", "_")
            with _hidden(self._neighbours_of_others(os.path.dirname(file))):
                module = model_file.load(file, f"node_file_{len(self._modules)}_{stem}")
            self._modules[file] = module
        return module

    def _prefer_folder(self, folder: str) -> None:
        """Moves the folder in front of other handlers' folders, so that imports find the handler's own neighbours
        first."""
        if folder in self._folders:
            sys.path.remove(folder)
            self._folders.remove(folder)
        place = len(sys.path) - len(self._folders)
        sys.path.insert(place, folder)
        self._folders.insert(0, folder)

    def _neighbours_of_others(self, folder: str) -> list[str]:
        """Returns imported modules from other handlers' folders whose name also exists in this folder; the handler
        means its own."""
        names = {}
        for name in sys.modules:
            top = name.partition(".")[0]
            if top not in names:
                others = _folder_of(sys.modules.get(top)) in self._folders[1:]
                names[top] = others and importlib.machinery.PathFinder.find_spec(top, [folder]) is not None
        return [name for name in sys.modules if names[name.partition(".")[0]]]


def _folder_of(module) -> str | None:
    """Returns the folder in which the import system has found a module."""
    path = getattr(module, "__path__", None)
    try:
        return os.path.dirname(next(iter(path)) if path else module.__file__)
    except (AttributeError, StopIteration, TypeError):
        return None


@contextlib.contextmanager
def _hidden(names: list[str]):
    hidden = {name: sys.modules.pop(name) for name in names}
    try:
        yield
    finally:
        sys.modules.update(hidden)


def _node(name: str, file: str) -> str:
    return f"Python node '{name}' ({file})"


def _takes_session(execute) -> bool:
    try:
        parameters = list(inspect.signature(execute).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(parameters) > 1 and parameters[1].name == "session" and parameters[1].kind in positional


def make_session(session: int, parameters_json: str) -> pyovms.Session:
    return pyovms.Session(session, json.loads(parameters_json) if parameters_json else {})
