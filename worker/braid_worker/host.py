"""The infrequent work of the main loop: load a model, run a coroutine, finalize. The loop itself is native."""

import asyncio
import inspect
import json
import os
import sys
import threading

import _braid_worker

from braid_worker import chat, debugging, errors, fork_safety, futures, model_file, nodes, sequences

_OK = 0
_INTERNAL = 2
_UNSUPPORTED = 6
_LOG_INFO = 0
_LOG_ERROR = 2
_LOG_VERBOSE = 3
# Time for user code's tasks to end once the model is finalized.
_CANCEL_SECONDS = 5


def _arguments(message: dict) -> dict[str, str]:
    """Returns the `args` of initialize()."""
    return {
        "model_config": message["model_config"],
        "model_instance_kind": message["instance_kind"],
        "model_instance_name": message["instance_name"],
        "model_instance_device_id": message["instance_device_id"],
        "model_repository": message["model_path"],
        "model_version": message["model_version"],
        "model_name": message["model_name"],
    }


class Host:
    """Called by _braid_worker.run(), on the main thread."""

    def __init__(self, apart: bool):
        self._apart = apart
        self._model = None
        self._model_file = ""
        self._model_name = ""
        self._template = False
        self._chat = None
        self._nodes = None
        self._node_threads = []
        self._loop = None
        self._tasks = set()
        _braid_worker.set_futures(futures.CallFuture, futures.settle)

    def load(self, message: dict) -> tuple[int, str, str, bool]:
        """Imports, constructs and initializes a model. Returns a status code with its text, an empty configuration, and
        whether the model has a readiness hook."""
        self._hide()
        _braid_worker.set_process_name(message["instance_name"])
        self._configure_errors(message)
        try:
            debugging.listen(message["debugger"])
            model_class = self._import(message)
            self._model = model_class()
            self._set_model(message)
            self._provide_model_dir(message)
            self._chat = chat.Template.of(message)
            self._call("initialize", _arguments(message))
        except BaseException as error:
            return _INTERNAL, self._told_of(error), "", False
        return _OK, "", "", hasattr(self._model, "is_ready")

    def load_template(self, message: dict) -> tuple[int, str, str, bool]:
        """Like load(), in a template. The status is UNSUPPORTED if the process cannot be forked afterwards."""
        before = fork_safety.Snapshot()
        answer = self.load(message)
        if answer[0] != _OK:
            return answer
        try:
            self._call("prepare_fork")
        except BaseException as error:
            return _INTERNAL, self._told_of(error), "", False
        obstacles = before.obstacles()
        if obstacles:
            return _UNSUPPORTED, "; ".join(obstacles), "", False
        self._template = True
        return answer

    def load_forked(self, message: dict) -> tuple[int, str, str, bool]:
        """Makes a fork of a template an instance. Returns as load() does."""
        self._hide()
        self._template = False
        _braid_worker.set_process_name(message["instance_name"])
        try:
            self._set_model(message)
            self._call("initialize_instance", _arguments(message))
        except BaseException as error:
            return _INTERNAL, self._told_of(error), "", False
        return _OK, "", "", hasattr(self._model, "is_ready")

    def is_template(self) -> bool:
        return self._template

    def _set_model(self, message: dict) -> None:
        config = json.loads(message["model_config"])
        decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self._model_name = message["model_name"]
        _braid_worker.set_model(
            model=self._model,
            model_file=self._model_file,
            instance_name=message["instance_name"],
            outputs=frozenset(output["name"] for output in config.get("output", ())),
            decoupled=decoupled,
            iterative=config.get("sequence_batching", {}).get("iterative_sequence", False),
            coroutine=inspect.iscoroutinefunction(getattr(self._model, "execute", None)),
            saves_sequences=message["keeps_sequences"] and sequences.saves(type(self._model), decoupled),
        )

    def _call(self, name: str, *arguments) -> None:
        """Calls an optional method of the model, which may be a coroutine function."""
        if hasattr(self._model, name):
            result = getattr(self._model, name)(*arguments)
            if inspect.iscoroutine(result):
                self.run_coroutine(result)

    def render_chat(self, document: bytes) -> bytes | str:
        """Renders a chat by the model's template. Returns the prompt as one element of a BYTES tensor, or the error as
        text for the client."""
        try:
            prompt = self._chat.render(json.loads(document)).encode()
        except Exception as error:
            return errors.for_clients(f"model '{self._model_name}': {error}")
        return len(prompt).to_bytes(4, "little") + prompt

    def load_sequence(self, correlation_id: int | str, state: bytes) -> None:
        """Passes a restored sequence to the model. Raises an error that names the model, the function and the sequence."""
        try:
            self._model.load_sequence(correlation_id, state)
        except BaseException as error:
            failure = sequences.SequenceError("load_sequence", self._model_name, correlation_id, error)
            raise failure.with_traceback(error.__traceback__) from None

    def save_sequence(self, correlation_id: int | str) -> bytes:
        """Returns the model's state of a sequence. Raises as load_sequence() does."""
        try:
            state = self._model.save_sequence(correlation_id)
            if not isinstance(state, bytes):
                raise TypeError(f"it returned {type(state).__name__}, not bytes")
        except BaseException as error:
            failure = sequences.SequenceError("save_sequence", self._model_name, correlation_id, error)
            raise failure.with_traceback(error.__traceback__) from None
        return state

    def load_nodes(self, message: dict) -> tuple[int, str, str, bool]:
        """Imports, constructs and initializes the Python nodes of a graph. Returns as load() does, but the last value
        says whether nodes keep state for each run of the graph."""
        self._hide()
        _braid_worker.set_process_name(message["model_name"])
        model_file.leave_front()
        config = json.loads(message["model_config"])
        folders = {os.path.dirname(node["handler_path"]) for node in config["nodes"]}
        errors.configure([os.path.dirname(folder) for folder in sorted(folders)], message["verbose_errors"])
        self._nodes = nodes.Nodes(config)
        try:
            debugging.listen(message["debugger"])
        except Exception as error:
            return _INTERNAL, errors.for_clients(str(error)), "", False
        try:
            wants_sessions = self._nodes.load()
        except nodes.NodeError as error:
            self._nodes.finalize()
            _braid_worker.log(_LOG_ERROR, error.file, error.line, error.logged)
            return _INTERNAL, errors.for_clients(str(error)), "", False
        return _OK, "", "", wants_sessions

    def start_node_thread(self, number: int) -> None:
        """Starts a thread that runs nodes until the connection closes. It does not keep the process alive."""
        thread = self._thread(lambda: _braid_worker.serve_nodes(number), f"node-{number}")
        thread.start()
        self._node_threads.append(thread)

    def _thread(self, target, name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def has_threads(self) -> bool:
        """Whether threads still run user code of nodes; they cannot be ended."""
        return any(thread.is_alive() for thread in self._node_threads)

    def make_session(self, session: int, parameters_json: str):
        return nodes.make_session(session, parameters_json)

    def auto_complete(self, message: dict) -> tuple[int, str, str, bool]:
        """Lets a model complete its own configuration. Returns as load() does, with the configuration as JSON. The JSON
        is empty if the model has no such function."""
        self._hide()
        from braid_worker.model_config import ModelConfig

        self._configure_errors(message)
        try:
            model_class = self._import(message)
            if not hasattr(model_class, "auto_complete_config"):
                return _OK, "", "", False
            self._provide_model_dir(message)
            config = model_class.auto_complete_config(ModelConfig(message["model_config"]))
            if not isinstance(config, ModelConfig):
                return (
                    _INTERNAL,
                    f"auto_complete_config function in model '{message['model_name']}' must return a valid "
                    "pb.ModelConfig object.",
                    "",
                    False,
                )
            return _OK, "", json.dumps(config.as_dict()), False
        except BaseException as error:
            return _INTERNAL, self._told_of(error), "", False

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the model's event loop on the main thread. The first call creates it; from then on the main loop
        sleeps in it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            self._loop.add_reader(_braid_worker.wake_fd(), _braid_worker.on_wake)
            _braid_worker.set_loop(self._loop)
        return self._loop

    def run_coroutine(self, coroutine):
        """Runs a coroutine of the model to its end, outside of executions."""
        return self.make_loop().run_until_complete(coroutine)

    def set_timer(self, seconds: float) -> None:
        self._loop.call_later(seconds, _braid_worker.on_timer)

    def keep_task(self, task: asyncio.Task) -> None:
        """Keeps a reference to a task whose execution the server regards as finished; the loop holds only a weak one."""
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log(_LOG_ERROR, error)

    def check_ready(self, check: int) -> None:
        """Calls the model's readiness hook, in parallel to executions. Does not wait for it."""
        hook = self._model.is_ready
        if self._loop is not None and inspect.iscoroutinefunction(hook):
            asyncio.run_coroutine_threadsafe(self._check_ready(check, hook), self._loop)
            return
        thread = self._thread(
            lambda: (
                asyncio.run(self._check_ready(check, hook))
                if inspect.iscoroutinefunction(hook)
                else self._report(check, hook)
            ),
            "brd-ready",
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system may refuse more threads
            _braid_worker.report_readiness(check, False, self._not_ready(error))

    async def _check_ready(self, check: int, hook) -> None:
        try:
            answer = await hook()
        except BaseException as error:
            _braid_worker.report_readiness(check, False, self._not_ready(error))
        else:
            self._report(check, lambda: answer)

    def _report(self, check: int, hook) -> None:
        try:
            ready = hook()
            reason = ""
            if not isinstance(ready, bool):
                ready, reason = False, "is_ready() must return a boolean value"
            elif not ready:
                reason = f"Model '{_braid_worker.instance_name()}' is not ready (user-defined check failed)."
        except BaseException as error:
            ready, reason = False, self._not_ready(error)
        _braid_worker.report_readiness(check, ready, reason)

    def _not_ready(self, error: BaseException) -> str:
        return self._log(_LOG_VERBOSE, error, "is_ready: ")

    def _log(self, level: int, error: BaseException, prefix: str = "") -> str:
        """Logs an exception of the model's code; returns its text for clients."""
        told, logged = errors.describe(error)
        _braid_worker.log(level, self._model_file, errors.line_in(error, self._model_file), prefix + logged)
        return told

    def describe(self, exception: BaseException) -> tuple[str, str, int]:
        """Returns the text for clients, the text for the log, and the line in the model's file."""
        return (*errors.describe(exception), errors.line_in(exception, self._model_file))

    def describe_short(self, exception: BaseException, file: str) -> tuple[str, str, int]:
        """Like describe() for a node's file, but clients get only the message."""
        return (*errors.describe_short(exception), errors.line_in(exception, file))

    def for_clients(self, text: str) -> str:
        return errors.for_clients(text)

    def finalize(self) -> None:
        """Ends the model. Exceptions of the model are only logged."""
        if self._nodes is not None:
            self._nodes.finalize()
            self._nodes = None
        try:
            self._call("finalize")
        except BaseException as error:
            self._log(_LOG_INFO, error)
        if self._loop is not None:
            self._close_loop()
        self._model = None

    def _close_loop(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCEL_SECONDS))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
        except BaseException as error:
            self._log(_LOG_INFO, error)

    def _import(self, message: dict):
        self._model_file = message["model_file"]
        if not os.path.isfile(self._model_file):
            raise FileNotFoundError(self._model_file)
        model_file.extend_path(self._model_file)
        module = model_file.load(self._model_file, message["module_name"])
        return module.TritonPythonModel

    def _hide(self) -> None:
        # Not earlier: by now the server has opened the files of this process that it needs.
        if self._apart:
            _braid_worker.hide_process()

    def _configure_errors(self, message: dict) -> None:
        # The second one is for a backend's file, which is not in the model's folder.
        folders = [message["model_path"], os.path.dirname(message["model_file"])]
        errors.configure([os.path.dirname(folder) for folder in folders], message["verbose_errors"])

    def _told_of(self, error: BaseException) -> str:
        # Logs why the model cannot be loaded; returns the text for clients. Only a FileNotFoundError for the model's
        # file itself is special.
        if isinstance(error, FileNotFoundError) and error.args == (self._model_file,):
            logged = f"Python model file not found in '{self._model_file}'"
            _braid_worker.log(_LOG_ERROR, self._model_file, 0, logged)
            return errors.for_clients(logged)
        return self._log(_LOG_ERROR, error)

    def _provide_model_dir(self, message: dict) -> None:
        """Adds get_model_dir(); models cannot use it earlier."""
        module = sys.modules.get("triton_python_backend_utils")
        if module is None:
            import triton_python_backend_utils as module
        version_path = message["version_path"]
        module.get_model_dir = lambda: version_path
