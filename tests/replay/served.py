"""The two servers of a session, each on a copy of its files, and their answers."""

import contextlib
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc

from replay import http1
from replay.calls import is_stream
from replay.recording import canonical, write_changes

SIDES = ("old", "new")
GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]
NO_ANSWER = "no answer in time"


class HttpExchange:
    """One HTTP/1.1 request on a connection. The answer is read by wait()."""

    def __init__(self, connection, data, partial=False):
        self.seen = 0
        self._method = data.split(b" ", 1)[0].decode("latin-1")
        self._connection = connection
        self._answer = None
        connection.send(data, partial)

    def wait(self, seconds, seen=None):
        """Returns whether the answer arrives within `seconds`."""
        if self._answer is None:
            self._answer = self._connection.receive(self._method, time.monotonic() + seconds)
        return self._answer is not None

    def cancel(self):
        self._connection.close()

    def answer(self):
        """Returns {part: bytes}, in the order of comparison."""
        message = self._answer
        if message is None:
            return {"transport": NO_ANSWER.encode()}
        if isinstance(message, str):
            return {"transport": message.encode()}
        # A Content-Length that matches the body is compared through the body, after its natural differences are
        # replaced.
        length = str(len(message.body)) if message.body else None
        headers = [
            f"{name}: {'as the body' if name.lower() == 'content-length' and value == length else value}"
            for name, value in message.headers
        ]
        return {"status": message.start.encode(), "body": message.body, "headers": "\n".join(headers).encode("latin-1")}

    @property
    def code(self):
        return self._answer.status if isinstance(self._answer, http1.Message) else 0


class HttpConnection:
    """A connection that reconnects after it has ended."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket = None
        self._reader = None

    def send(self, data, half_close):
        for fresh in (self._socket is None, True):
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=20)
                self._reader = http1.Reader(responses=True)
            try:
                self._socket.settimeout(20)
                self._socket.sendall(data)
                if half_close:
                    self._socket.shutdown(socket.SHUT_WR)
                return
            except OSError:
                if fresh:  # refused before everything was sent: the answer may be there
                    return
                self.close()

    def receive(self, method, deadline):
        """Returns a message, a text if the connection ended, or None after the deadline."""
        try:
            while True:
                message = self._reader.next(method) if self._reader else None
                if message is not None:
                    if message.status < 200:
                        continue
                    if (message.header("connection") or "").lower() == "close":
                        self.close()
                    return message
                if self._socket is None:
                    return "closed"
                if (left := deadline - time.monotonic()) <= 0:
                    return None
                self._socket.settimeout(left)
                data = self._socket.recv(1 << 20)
                self._reader.feed(data)
                if not data:
                    message = self._reader.next(method, ended=True)
                    self.close()
                    return message or "closed"
        except TimeoutError:
            return None
        except OSError:
            self.close()
            return "closed"
        except http1.Malformed as error:
            self.close()
            return f"malformed: {error}"

    def close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class GrpcExchange:
    """One gRPC call. A thread reads the answers of a stream."""

    def __init__(self, channel, method, metadata, data=None):
        metadata = [(key, bytes.fromhex(value) if key.endswith("-bin") else value) for key, value in metadata]
        self._messages = []
        self._done = threading.Event()
        self._changed = threading.Condition()
        self._status = None
        self._requests = queue.SimpleQueue()
        if data is not None and not is_stream(method):
            self._call = channel.unary_unary(method).future(data, metadata=metadata)
            self._call.add_done_callback(self._unary_done)
        else:
            self._call = channel.stream_stream(method)(iter(self._requests.get, None), metadata=metadata)
            threading.Thread(target=self._read, daemon=True).start()

    @property
    def seen(self):
        return len(self._messages)

    def send(self, data):
        self._requests.put(data)

    def half_close(self):
        self._requests.put(None)

    def wait(self, seconds, seen=None):
        """Returns whether the call ends, or `seen` answers arrive, within `seconds`."""
        if seen is None:
            return self._done.wait(seconds)
        with self._changed:
            return self._changed.wait_for(lambda: self.seen >= seen or self._done.is_set(), seconds)

    def cancel(self):
        self._call.cancel()
        self.half_close()

    def answer(self):
        if not self._done.is_set():
            return {"transport": NO_ANSWER.encode()} | self._bodies()
        code, details, initial, trailing = self._status
        return {
            "status": f"{code.name} {details}".encode("utf-8", "replace"),
            **self._bodies(),
            "headers": metadata_text(initial),
            "trailers": metadata_text(trailing),
        }

    def _bodies(self):
        return {f"message {number}": data for number, data in enumerate(self._messages, 1)}

    @property
    def code(self):
        return self._status[0].value[0] if self._status else 0

    def _unary_done(self, call):
        with contextlib.suppress(grpc.RpcError, grpc.FutureCancelledError):
            self._messages.append(call.result(0))
        self._end()

    def _read(self):
        with contextlib.suppress(grpc.RpcError):
            for message in self._call:
                with self._changed:
                    self._messages.append(message)
                    self._changed.notify_all()
        self._end()

    def _end(self):
        call = self._call
        self._status = (call.code(), call.details() or "", call.initial_metadata(), call.trailing_metadata())
        self._requests.put(None)
        with self._changed:
            self._done.set()
            self._changed.notify_all()


def metadata_text(metadata):
    lines = (f"{key}: {value if isinstance(value, str) else value.hex()}" for key, value in metadata or ())
    return "\n".join(lines).encode()


class Served:
    """`braid serve` for one side of a session."""

    def __init__(self, side, binary, session, blobs, folder):
        self.side = side
        self.log_path = folder / f"log-{side}"
        root = f"{folder}/{side}"
        if len(root) > session.root_length:
            raise ValueError(f"the recording's root has {session.root_length} characters, {root} has more")
        self.root = root + "_" * (session.root_length - len(root))
        self._token = canonical(session.root_length)
        self._blobs = blobs
        self._temporary = f"{folder}/tmp-{side}"
        for each in (self.root, self._temporary):
            os.mkdir(each)
        write_changes(self.root, session.files, blobs)
        local = lambda text: text.replace(self._token, self.root)  # noqa: E731
        workdir = pathlib.Path(local(session.workdir))
        workdir.mkdir(parents=True, exist_ok=True)
        command = [str(binary), "serve", *map(local, session.repositories)]
        command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--host", "127.0.0.1"]
        command += ["--python", sys.executable, *map(local, session.options)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": self._temporary, **{k: local(v) for k, v in session.env.items()}},
                cwd=workdir,
                start_new_session=True,
            )
        self.addresses = {}
        self._processes = set()
        self._connections = {}
        self._channel = None

    def listen(self, deadline):
        """Returns whether the server listens; False if it has ended."""
        while time.monotonic() < deadline:
            for line in self.log_path.read_text(errors="replace").splitlines(keepends=True):
                if line.startswith("listening: ") and line.endswith("\n"):
                    self.addresses = json.loads(line.removeprefix("listening: "))
                    if self.addresses.get("grpc"):
                        self._channel = grpc.insecure_channel(self.addresses["grpc"], options=GRPC_OPTIONS)
                    return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def ready(self):
        if not self.addresses.get("http"):
            return True
        exchange = HttpExchange(
            HttpConnection(self.addresses["http"]), b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        return exchange.wait(5) and exchange.code == 200

    def http(self, kind, connection, data, partial=False):
        key = (kind, connection)
        if key not in self._connections:
            self._connections[key] = HttpConnection(self.addresses[kind])
        return HttpExchange(self._connections[key], self.local(data), partial)

    def grpc(self, method, metadata, data=None):
        return GrpcExchange(self._channel, method, metadata, None if data is None else self.local(data))

    def has(self, begin):
        return bool(self.addresses.get(begin["kind"]))

    def change(self, changes):
        write_changes(self.root, changes, self._blobs)

    def local(self, data):
        """Returns recorded bytes with this server's paths."""
        return data.replace(self._token.encode(), self.root.encode())

    def note_processes(self):
        """Remembers the server's descendants, because models answer with their process ids."""
        for children in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                self._processes |= set(children.read_bytes().split())

    def without_processes(self, data):
        """Returns bytes of this server with all its process ids replaced."""
        known = b"|".join(sorted(self._processes | {b"%d" % self.process.pid}))
        return re.sub(rb"(?<![0-9])(" + known + rb")(?![0-9])", lambda found: b"9" * len(found[0]), data)

    def neutral(self, data):
        """Returns bytes of this server with its folders replaced."""
        return data.replace(self.root.encode(), self._token.encode()).replace(
            self._temporary.encode(), b"/" + b"t" * (len(self._temporary) - 1)
        )

    @property
    def died(self):
        return self.process.poll() is not None

    def stop(self, seconds=15):
        """Stops the server like an operator; returns its exit status as text."""
        if self._channel is not None:
            self._channel.close()
        for each in self._connections.values():
            each.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = str(self.process.wait(seconds))
        except subprocess.TimeoutExpired:
            status = "did not stop"
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return status


def temporary_folder():
    """Returns a folder for both sides with a short name: roots must not be longer than the recorded ones."""
    return tempfile.TemporaryDirectory(prefix="rp", dir="/tmp", ignore_cleanup_errors=True)
