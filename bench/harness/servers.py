"""Servers under measurement: a fresh one for each round, workload and side, completely removed afterwards."""

import contextlib
import dataclasses
import http.client
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import typing

from harness import processes

READY_LIMIT_S = 90
STOP_LIMIT_S = 20
START_ATTEMPTS = 3
# Braid's, for CommandSide.
SUBJECT_COMMAND = (
    "build/braid serve --model-repository {repo} --http-port {http} --grpc-port {grpc} --metrics-port {metrics} "
    "--host 127.0.0.1 --python {python}"
)


class ServerError(Exception):
    """The server did not start or did not become ready; the text ends with the end of its log."""


@dataclasses.dataclass(frozen=True)
class Request:
    """An HTTP request: a GET, or a POST of `body`. `right` says whether the bytes of an answer are those that are expected."""

    path: str
    body: bytes | None = None
    headers: tuple = ()  # of (name, value)
    right: typing.Callable = lambda body: True


def free_ports(count):
    """Returns free ports of the system. All are bound before the first is released, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def copy_models(source, repository, models):
    """Fills a model repository; a model is a folder of `source`, or COPY=FOLDER."""
    for model in models:
        name, _, folder = model.partition("=")
        shutil.copytree(
            source / (folder or name), repository / name, ignore=shutil.ignore_patterns("__pycache__", ".gitkeep")
        )


@contextlib.contextmanager
def repository(source, models):
    """A temporary model repository with these models."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        copy_models(source, pathlib.Path(folder), models)
        yield folder


class Side:
    """The start command of one side's server. `name` is "peer", "subject" or "floor"."""

    # The cores on which the server runs, as `taskset -c` takes them; "": all.
    cores = ""

    def __init__(self, name, python):
        self.name = name
        self.python = python

    def command(self, repository, http, grpc, metrics, tag):
        raise NotImplementedError

    def environment(self):
        """Returns the environment; None: the inherited one."""
        return None

    def probes(self, models):
        """Returns the requests that a server answers with 200 once it serves `models`."""
        return [Request("/v2/health/ready"), *(Request(f"/v2/models/{model}/ready") for model in models)]

    def clean_up(self, tag):
        """Removes what a killed server left outside of its processes."""


class PeerSide(Side):
    """The peer of harness/peer.py, also used as subject for a run of the peer against itself."""

    def __init__(self, name, installed):
        super().__init__(name, installed.python)
        self._installed = installed

    def command(self, repository, http, grpc, metrics, tag):
        return self._installed.command(repository, http, grpc, metrics, tag)

    def environment(self):
        return self._installed.environment()

    def clean_up(self, tag):
        # Named shared memory outlives a server that had to be killed.
        for left in pathlib.Path("/dev/shm").glob(f"{tag}*"):
            left.unlink(missing_ok=True)


class CommandSide(Side):
    """A server started by a command line with the placeholders {repo}, {http}, {grpc}, {metrics} and {python}."""

    def __init__(self, name, template, python):
        super().__init__(name, python)
        self._words = shlex.split(template)
        self.command("", 0, 0, 0, "")  # reports an unknown placeholder now

    def command(self, repository, http, grpc, metrics, tag):
        values = {"repo": repository, "http": http, "grpc": grpc, "metrics": metrics, "python": self.python}
        return [word.format(**values) for word in self._words]


class FloorSide(Side):
    """bench/floor. It serves the only model of its repository, without reading its files."""

    def __init__(self, name, program, python):
        super().__init__(name, python)
        self._program = program

    def command(self, repository, http, grpc, metrics, tag):
        (model,) = pathlib.Path(repository).iterdir()
        return [str(self._program), model.name, str(grpc), str(http), str(self.python)]


class Server:
    """A running server, as a context manager that waits until it is ready and always ends it.

    The limits are seconds for the start until all models are ready, and for the end.
    """

    def __init__(self, side, repository, models, folder, ready_limit_s=READY_LIMIT_S, stop_limit_s=STOP_LIMIT_S):
        self._side = side
        self._repository = repository
        self._models = [model.partition("=")[0] for model in models]
        self._folder = folder  # where the server runs
        self._ready_limit_s = ready_limit_s
        self._stop_limit_s = stop_limit_s
        self._process = None
        self._log = None
        self._tag = ""
        self.http_port = 0
        self.grpc_port = 0
        self.ready_s = 0.0
        self.killed = 0  # processes that did not end by themselves

    @property
    def pid(self):
        return self._process.pid

    def __enter__(self):
        for attempt in range(START_ATTEMPTS):
            try:
                self._start()
                self._wait_ready()
                return self
            except ServerError:
                # Another process may take a port between its choice and its use.
                self._stop()
                if attempt + 1 == START_ATTEMPTS:
                    raise
            except BaseException:
                self._stop()
                raise
        raise AssertionError("unreachable")

    def __exit__(self, *_):
        self._stop()

    def _start(self):
        self.http_port, self.grpc_port, metrics_port = free_ports(3)
        self._tag = f"braid-bench-{self.http_port}-{time.monotonic_ns()}"
        command = self._side.command(self._repository, self.http_port, self.grpc_port, metrics_port, self._tag)
        if self._side.cores:
            command = ["taskset", "-c", self._side.cores, *command]
        self._log = tempfile.TemporaryFile(prefix="braid-bench-")
        self._started = time.monotonic()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=self._side.environment(),
                cwd=self._folder,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"{self._side.name}: cannot start {command[0]}: {error}") from error

    def _wait_ready(self):
        probes = self._side.probes(self._models)
        while probes:
            if self._process.poll() is not None:
                raise ServerError(f"{self._side.name} exited with {self._process.returncode}: {self._log_end()}")
            if self.answers(probes[0]):
                probes.pop(0)
                continue
            if time.monotonic() - self._started > self._ready_limit_s:
                raise ServerError(f"{self._side.name} is not ready in {self._ready_limit_s} s: {self._log_end()}")
            time.sleep(0.005)
        self.ready_s = time.monotonic() - self._started

    def answers(self, request):
        """Whether the server answers with 200. Raises ServerError when that answer is wrong."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            method = "GET" if request.body is None else "POST"
            connection.request(method, request.path, request.body, dict(request.headers))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if response.status == 200 and not request.right(body):
            raise ServerError(f"{self._side.name}: wrong answer to {request.path}: {body[:200]!r}")
        return response.status == 200

    def _log_end(self):
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        return " / ".join(line.strip() for line in lines[-12:] if line.strip())

    def _stop(self):
        if self._process is not None:
            family = processes.family(self._process.pid)
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                try:
                    self._process.wait(self._stop_limit_s)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                    self.killed += 1
            self.killed += processes.end(family, patience_s=5)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
        self._side.clean_up(self._tag)
