"""A real server process, with queries of its state for tests."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

from replay.recorder import Recorder

from harness.waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("BRAID_BINARY", ROOT / "build" / "braid"))
MARK = "BRAID_TEST_MARK"


def marked_processes(mark):
    """Returns the ids of processes, zombies included, that were started with this mark in their environment."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def children(pid):
    """Returns the direct children of a process, zombies included."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(folder.name))
    return found


def alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def shared_memory_in_use():
    """Returns the names in /dev/shm that a living process has mapped."""
    found = set()
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                found.update(re.findall(r" /dev/shm/(\S+)$", (folder / "maps").read_text(), re.M))
    return found


def descriptors(pid):
    """Returns {number: target} of a process's descriptors. One that is closed meanwhile is left out."""
    found = {}
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[int(link.name)] = os.readlink(link)
    return found


def listening_ports(pid):
    """Returns the TCP ports that a process listens on, IPv4."""
    sockets = set(descriptors(pid).values())
    found = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            found.append(int(fields[1].rpartition(":")[2], 16))
    return found


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the Unix socket at a path."""

    def __init__(self, path, timeout=60, context=None, host="localhost"):
        super().__init__(host, timeout=timeout)
        self._path, self._context = str(path), context

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)


class Server:
    """`braid serve` on free ports of the loopback interface. Use as a context manager, or call stop()."""

    def __init__(
        self, repositories, *options, workdir, env=None, ready=True, listening=True, start_timeout=60.0, tls=None,
        user=None, through=(),
    ):  # fmt: skip
        """Starts the server.

        `tls` is the SSLContext for HTTP and metrics, if they use TLS. The server runs as `user`, if this process may
        choose one; that user must be able to reach `workdir`. The command `through` becomes the server.
        """
        self.tls = tls
        self.mark = uuid.uuid4().hex
        self.workdir = pathlib.Path(workdir)
        self.tempdir = self.workdir / f"tmp-{self.mark[:8]}"
        self.tempdir.mkdir(parents=True)
        if user is not None:
            os.chown(self.tempdir, user, user)
        self._shared_memory_before = set(os.listdir("/dev/shm"))
        self.command = [*map(str, through), str(BINARY), "serve", *map(str, repositories)]
        self.command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--host", "127.0.0.1"]
        self.command += ["--python", sys.executable, *map(str, options)]
        self._recorder = Recorder.of_environment(repositories, options, env, self.workdir)
        # Files instead of pipes: output from before an answer can be read as soon as the answer arrives.
        self._output = {"out": tempfile.TemporaryFile("ab+"), "err": tempfile.TemporaryFile("ab+")}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._output["out"],
            stderr=self._output["err"],
            env={**os.environ, MARK: self.mark, "TMPDIR": str(self.tempdir), **(env or {})},
            cwd=self.workdir,
            **({} if user is None else {"user": user, "group": user, "extra_groups": []}),
        )
        self.http = self.grpc = self.metrics = self.admin = self._http_itself = None
        self.stopped = False
        try:
            if listening:
                self.find_ports(start_timeout)
            if ready:
                self.wait_ready(start_timeout)
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if not self.stopped:
            if kind is None:
                self.stop()
            else:
                self.kill()

    # ---- output ----------------------------------------------------------------------------------

    def _read(self, name):
        file = self._output[name].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")

    @property
    def stdout(self):
        return self._read("out")

    @property
    def stderr(self):
        return self._read("err")

    @property
    def log(self):
        return self.stderr + self.stdout

    def wait_for_log(self, pattern, seconds=20.0):
        """Returns the first match of a regular expression in the output."""
        return wait_until(lambda: re.search(pattern, self.log), seconds, f"{pattern!r} in the log:\n{self.log}")

    # ---- start and stop --------------------------------------------------------------------------

    def find_ports(self, seconds=60.0):
        """Waits for the line with the server's addresses."""

        def look():
            for line in self.stdout.splitlines(keepends=True):
                if line.startswith("listening: ") and line.endswith("\n"):
                    return json.loads(line.removeprefix("listening: "))
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
            return None

        addresses = wait_until(look, seconds, "the line of addresses")
        self._http_itself = addresses.get("http")
        if self._recorder:
            addresses = self._recorder.through(addresses)
        self.http = addresses.get("http")
        self.grpc = addresses.get("grpc")
        self.metrics = addresses.get("metrics")
        self.admin = addresses.get("admin")

    def find_open_ports(self, seconds=20.0):
        """Waits until the ports are open. The server prints the addresses only after loading."""

        def look():
            found = {}
            for port in listening_ports(self.process.pid):
                address = f"127.0.0.1:{port}"
                try:
                    status = self.request("GET", "/console/api/overview", address=address, timeout=5)[0]
                    found["metrics" if status == 200 else "http"] = address
                except (OSError, http.client.HTTPException):
                    found["grpc"] = address  # it does not know the path
            return found if len(found) == 3 else None

        found = wait_until(look, seconds, "the ports")
        self.http, self.grpc, self.metrics = found["http"], found["grpc"], found["metrics"]

    def wait_ready(self, seconds=60.0):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
            try:
                return (
                    self.request("GET", "/v2/health/ready", address=self._http_itself or self.http, timeout=5)[0] == 200
                )
            except OSError:
                return False

        try:
            wait_until(look, seconds, "readiness")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def wait_exit(self, seconds=40.0):
        """Returns the exit status; the output is then complete."""
        try:
            return self.process.wait(seconds)
        finally:
            if self._recorder:
                self._recorder.finish()

    def stop(self, seconds=40.0, status=0):
        """Stops the server like an operator, and asserts that it leaves nothing behind."""
        self.stopped = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            ended = self.wait_exit(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {seconds} s:\n{self.log}") from None
        assert ended == status, f"the server ended with {ended}:\n{self.log}"
        self.assert_nothing_left()

    def assert_nothing_left(self):
        wait_until(lambda: not marked_processes(self.mark), 20.0, "the end of all child processes")
        left = list(self.tempdir.rglob("*"))
        assert not left, f"files left in the temporary folder: {left}"
        wait_until(self._no_shared_memory_left, 20.0, "the end of shared memory")

    def _no_shared_memory_left(self):
        """Asserts that every file in /dev/shm created since the start has a process; other servers may run at the same
        time."""
        new = set(os.listdir("/dev/shm")) - self._shared_memory_before
        return not new or new <= shared_memory_in_use()

    def kill(self):
        self.stopped = True
        if self.process.poll() is None:
            self.process.kill()
        self.wait_exit()
        for pid in marked_processes(self.mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    # ---- requests --------------------------------------------------------------------------------

    def connection(self, address=None, timeout=60):
        if (address or self.http).startswith("unix:"):
            return UnixConnection((address or self.http).removeprefix("unix:"), timeout, self.tls)
        host, _, port = (address or self.http).rpartition(":")
        if self.tls is not None:
            return http.client.HTTPSConnection(host, int(port), timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(host, int(port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, address=None, timeout=60):
        """Sends one plain HTTP request; returns (status, headers, body)."""
        connection = self.connection(address, timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=None):
        """Sends one JSON request; returns (status, value). The value is None if the body is empty."""
        text = None if body is None else json.dumps(body)
        status, _, answer = self.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        return status, json.loads(answer) if answer else None

    def metric_values(self):
        """Returns all series of /metrics: {text before the value: value}."""
        status, _, body = self.request("GET", "/metrics", address=self.metrics)
        assert status == 200
        series = {}
        for line in body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                series[name] = float(value)
        return series
