"""Hosts the workers of a server in threads of this process; see braid_worker/hosting.py."""

# The worker's modules have no types.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-return"

import collections
import contextlib
import json
import os
import platform
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import _braid_worker
import numpy
import triton_python_backend_utils
from braid_worker import errors, host, hosting, model_file

_MAX_NAME = 4096
_DESCRIPTORS = 3
_CLOSE_SECONDS = 10


# The version folders of models, by the thread that hosts them.
_model_dirs: dict[int, str] = {}


def _model_dir() -> str:
    """Returns the folder of the calling thread's model; on another thread, that of the latest."""
    return _model_dirs.get(threading.get_ident()) or next(reversed(_model_dirs.values()), "")


class HostedModel(host.Host):
    """The host of a model in a thread of this process.

    Attributes:
        number: of the worker, for _braid_worker.select().
        exceptions: those that the model has raised, the latest last, each with its text for clients.
    """

    def __init__(self, exceptions: collections.deque[tuple[str, BaseException]]):
        super().__init__(apart=False)
        self.number = -1
        self.name = ""
        self.exceptions = exceptions
        self._folders: list[str] = []
        self._added: list[str] = []
        self._modules = set(sys.modules)

    @property
    def model(self) -> Any:
        """The object of the model's class; None before its creation and after its end."""
        return self._model

    def load(self, message: dict[str, Any]) -> Any:
        self.name = message["model_name"]
        return super().load({**message, "module_name": f"braid_model_{self.number}.model"})

    def load_nodes(self, message: dict[str, Any]) -> Any:
        self.name = message["model_name"]
        with self._noting(node["handler_path"] for node in json.loads(message["model_config"])["nodes"]):
            return super().load_nodes(message)

    def describe(self, exception: BaseException) -> Any:
        described = super().describe(exception)
        self.exceptions.append((described[0], exception))
        return described

    def describe_short(self, exception: BaseException, file: str) -> Any:
        described = super().describe_short(exception, file)
        self.exceptions.append((described[0], exception))
        return described

    def _told_of(self, error: BaseException) -> str:
        told = super()._told_of(error)
        self.exceptions.append((told, error))
        return told

    def _provide_model_dir(self, message: dict[str, Any]) -> None:
        _model_dirs[threading.get_ident()] = message["version_path"]
        triton_python_backend_utils.get_model_dir = _model_dir

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            _braid_worker.select(self.number)
            target()

        return super()._thread(run, name)

    def _import(self, message: dict[str, Any]) -> Any:
        with self._noting([message["model_file"]]):
            return super()._import(message)

    @contextlib.contextmanager
    def _noting(self, files: Iterable[str]) -> Iterator[None]:
        """Notes what the import of files changes, for forget_modules()."""
        before = list(sys.path)
        try:
            yield
        finally:
            self._folders = [os.path.realpath(os.path.dirname(file)) for file in files]
            self._added = [entry for entry in sys.path if entry not in before]

    def forget_modules(self) -> None:
        """Forgets the modules of the model's folder, so that another model can have modules of the same names."""
        for name in set(sys.modules) - self._modules:
            file = getattr(sys.modules.get(name), "__file__", None) or ""
            if any(os.path.realpath(file).startswith(folder + os.sep) for folder in self._folders):
                sys.modules.pop(name, None)
        for entry in self._added:
            with contextlib.suppress(ValueError):
                sys.path.remove(entry)


class HostedFunction(HostedModel):
    """The host of a model that is an object of this process. Its folder's file is not read."""

    def __init__(self, exceptions: collections.deque[tuple[str, BaseException]], model_class: type):
        super().__init__(exceptions)
        self._class = model_class

    def _import(self, message: dict[str, Any]) -> Any:
        self._model_file = message["model_file"]
        return self._class


def _refuse(name: str) -> None:
    return None


class Relay:
    """Hosts the workers of one server in threads of this process.

    Args:
        choose: returns the host for the worker of a name, which runs in a thread of this process; None leaves the
            worker to its own process.

    Attributes:
        path: of the socket.
        hosts: those that run now.
    """

    def __init__(self, choose: Callable[[str], HostedModel | None]):
        self.hosts: list[HostedModel] = []
        self._choose = choose
        self._folder = tempfile.TemporaryDirectory(prefix="braid-relay-")
        self.path = os.path.join(self._folder.name, "socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(self.path)
        self._socket.listen(64)
        self._threads: list[threading.Thread] = []
        self._accepter = threading.Thread(target=self._accept, name="braid-relay", daemon=True)
        self._accepter.start()

    def close(self) -> None:
        """Returns when all workers have ended. Call it after the server's end. Warns of a model whose code has not
        returned after 10 s; its thread stays."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._accepter.join()
        self._socket.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))
        for hosted in list(self.hosts):
            warnings.warn(f"model '{hosted.name}' still runs in this process: its code has not returned", stacklevel=2)
        self._folder.cleanup()
        self._choose = _refuse  # the other one may refer to this object

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._run, args=(connection,), name="braid-model", daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def _run(self, connection: socket.socket) -> None:
        with connection:
            hosted = self._choose(connection.recv(_MAX_NAME).decode())
            connection.send(hosting.UNWANTED if hosted is None else hosting.WANTED)
            if hosted is None:
                return
            _, descriptors, _, _ = socket.recv_fds(connection, 1, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if len(descriptors) != _DESCRIPTORS:
                return
            hosted.number = _braid_worker.host(*descriptors, platform.python_version(), numpy.__version__)
            self.hosts.append(hosted)
            try:
                _braid_worker.run(hosted)
            except RuntimeError as error:
                # The server is gone; its user learns that from the server.
                print(f"braid: model '{hosted.name}': {errors.message_of(error)}", file=sys.stderr)
            finally:
                self.hosts.remove(hosted)
                hosted.forget_modules()
                _model_dirs.pop(threading.get_ident(), None)
                _braid_worker.retire(hosted.number)


def prepare_process() -> None:
    """Prepares this process to host workers, once."""
    model_file.leave_front()
    os.register_at_fork(after_in_child=_braid_worker.after_fork_in_child)


prepare_process()
