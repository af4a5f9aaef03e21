"""Public programs that serve beside Braid in a test."""

import signal
import subprocess

from harness.public_clients import environment
from harness.server import listening_ports
from harness.waiting import wait_until


class Program:
    """A program that listens on a free port. Use as a context manager; `port` is its first one."""

    def __init__(self, command, folder):
        self._name = command[0].name
        self._log = (folder / f"{self._name}.log").open("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, cwd=folder, env=environment()
        )

    def __enter__(self):
        try:
            self.port = wait_until(self._find_port, 30.0, f"a port of {self._name}")
            wait_until(self.is_ready, 30.0, f"readiness of {self._name}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def is_ready(self):
        """Whether it answers requests; it may listen earlier."""
        return True

    def _find_port(self):
        if self.process.poll() is not None:
            self._log.seek(0)
            raise AssertionError(f"{self._name} ended with {self.process.returncode}:\n{self._log.read()}")
        return next(iter(listening_ports(self.process.pid)), None)
