"""A server as a child process."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from braid import _client, _program


class ServerError(RuntimeError):
    """The server did not start; the text ends with the last lines of its log."""


class Server:
    """`braid serve` as a child process, on free ports of the loopback interface.

    The constructor returns when all models are loaded. The server runs until stop() or the end of the `with` block.
    Models run in the environment of this interpreter, unless `options` has `--python`.

    Args:
        repositories: folders of models, in Triton's layout. Empty if `options` has `--config_path` or another source.

        options: further options of `braid serve`, such as `["--model-control-mode", "explicit"]`.
        start_timeout: limit for loading, in seconds.
        stop_timeout: seconds until a server that does not end is killed. Requests in flight have
            `--exit-timeout-secs` to end.
        environment: the variables of the server; None: those of this process.

    Attributes:
        http, grpc, metrics: `host:port` or `unix:/path`, the first of several; None when that protocol is off.
        process: the child process.

    Raises:
        ServerError: it ended, or was not ready in time.
    """

    def __init__(
        self,
        *repositories: str | os.PathLike[str],
        options: Iterable[str] = (),
        start_timeout: float = 120,
        stop_timeout: float = 60,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.stop_timeout = stop_timeout
        self.http: str | None = None
        self.grpc: str | None = None
        self.metrics: str | None = None
        # The last value of an option wins, so `options` can set other ports.
        command = ["serve", *(os.fspath(repository) for repository in repositories), "--host", "127.0.0.1"]
        command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *options]
        # Files instead of pipes, because a long log would fill a pipe and block the server.
        self._out: IO[bytes] = tempfile.TemporaryFile()
        self._log: IO[bytes] = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            _program.command(command),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._log,
            env=environment,
        )
        try:
            addresses = self._wait(time.monotonic() + start_timeout)
        except BaseException:
            self.process.kill()
            self.stop()
            raise
        self.http = addresses.get("http")
        self.grpc = addresses.get("grpc")
        self.metrics = addresses.get("metrics")

    @property
    def log(self) -> str:
        """Returns the server's log so far; also after stop()."""
        return _read(self._log)

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Iterable[str] | None = None,
        *,
        version: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout: float = 60,
    ) -> dict[str, np.ndarray]:
        """Sends one inference request over HTTP.

        Args:
            model: name of a model, ensemble, pipeline or graph.
            inputs: arrays by name, or values that numpy converts. The dtype must be the input's: float32 for FP32.
                Texts and bytes are BYTES.
            outputs: the requested outputs; None: all.
            version: "" for the model's default.
            parameters: of the request, such as `{"sequence_id": 7, "sequence_start": True}`.
            timeout: limit for the response, in seconds.

        Returns:
            The outputs by name. BYTES are arrays of `bytes` (dtype object); numeric arrays are read-only.

        Raises:
            InferenceError: with the server's text and HTTP status.
            TypeError: an array, or an output, has no type on the wire.
            OSError: the server cannot be reached, or takes too long (TimeoutError).
        """
        if self.http is None:
            raise RuntimeError("infer() needs HTTP, which is off")
        return _client.infer(self.http, model, inputs, outputs, version, parameters, timeout)

    def stop(self) -> int:
        """Ends the server as SIGTERM does: requests in flight finish first. Returns its exit status. Can be called
        again."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self.stop_timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait(self, deadline: float) -> dict[str, str]:
        """Returns the addresses, which the server writes once all models are loaded."""
        while True:
            for line in _read(self._out).splitlines(keepends=True):
                if line.startswith("listening: ") and line.endswith("\n"):
                    addresses: dict[str, str] = json.loads(line.removeprefix("listening: "))
                    return addresses
            if self.process.poll() is not None:
                raise ServerError(f"the server ended with status {self.process.returncode}:\n{self._end_of_log()}")
            if time.monotonic() > deadline:
                raise ServerError(f"the server was not ready in time:\n{self._end_of_log()}")
            time.sleep(0.01)

    def _end_of_log(self) -> str:
        return "\n".join(self.log.splitlines()[-20:])


def _read(file: IO[bytes]) -> str:
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
