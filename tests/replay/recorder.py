"""The recording proxy: a process between the tests and one server. `Server` starts it if BRAID_RECORD names a folder.

`Recorder` is the part within the tests. `python -m replay.recorder` is the process. It takes a snapshot of the files
before the server starts, then listens for each port of the server, and stores the session when its input ends.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

from replay import http1
from replay.calls import is_read, is_stream
from replay.recording import WRITTEN_BY_SERVER, Blobs, Session, TooLarge, Tree
from replay.unrecorded import short, unrecorded

CURRENT = "current-test"


class Recorder:
    """One server's recorder. `through` returns the proxy's addresses for the server's; `finish` stores the session."""

    @classmethod
    def of_environment(cls, repositories, options, env, workdir):
        """Returns a recorder if this run is recorded, and the current test too; otherwise None."""
        folder = os.environ.get("BRAID_RECORD")
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        return cls(folder, test, repositories, options, env, workdir) if folder and not unrecorded(test) else None

    def __init__(self, folder, test, repositories, options, env, workdir):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "replay.recorder"],
            cwd=pathlib.Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(
            folder=str(pathlib.Path(folder).resolve()),
            root=os.environ["BRAID_RECORD_ROOT"],
            test=test,
            repositories=[str(each) for each in repositories],
            options=[str(each) for each in options],
            env=env or {},
            workdir=str(workdir),
        )
        self._process.stdout.readline()  # the snapshot has been taken

    def _say(self, **value):
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def through(self, addresses):
        try:
            self._say(**addresses)
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):  # too large for a recording; it has printed that
            return addresses

    def finish(self):
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(60)


# ---- the process ---------------------------------------------------------------------------------


class Log:
    """The events of a session."""

    def __init__(self, spec):
        self._folder = spec["folder"]
        self._current = pathlib.Path(spec["root"]) / CURRENT
        self._blobs = Blobs(self._folder)
        self._tree = Tree(spec["root"], self._blobs)
        written = set()
        for name, value in zip(spec["options"], [*spec["options"][1:], ""], strict=False):
            if WRITTEN_BY_SERVER.match(name):
                written.add(name.partition("=")[2] or value)
        self._written = tuple(os.path.relpath(each, spec["root"]) for each in written if each.startswith("/"))
        neutral = lambda text: self._tree.neutral(text.encode()).decode()  # noqa: E731
        self._tree.mention(json.dumps(spec).encode())
        self.session = Session(
            name=short(spec["test"]),
            root_length=len(spec["root"]),
            workdir=neutral(spec["workdir"]),
            repositories=[neutral(each) for each in spec["repositories"]],
            options=[neutral(each) for each in spec["options"]],
            env={key: neutral(value) for key, value in spec["env"].items()},
            files=self._tree.changes(),
        )
        self._count = 0
        self._begun = {}
        self._start = time.monotonic()

    def begin(self, data=None, **fields):
        """Records the arrival of a request. Returns its number, or None if its test is excluded."""
        try:
            test = self._current.read_text()
        except OSError:
            test = ""
        if unrecorded(test):
            return None
        self._tree.mention(data or b"")
        changes = {path: entry for path, entry in self._tree.changes().items() if not path.startswith(self._written)}
        if changes:
            self.session.events.append({"e": "files", "changes": changes})
        self._count += 1
        event = {"e": "begin", "n": self._count, "t": round(time.monotonic() - self._start, 3), "test": test, **fields}
        if data is not None:
            event["data"] = self._blobs.put(self._tree.neutral(data))
        self._begun[self._count] = (len(self.session.events), bool(data is not None and is_read(event, data)))
        self.session.events.append(event)
        return self._count

    def add(self, kind, number, data=None, **fields):
        if number is None:
            return
        event = {"e": kind, "n": number, **fields}
        if data is not None:
            event["data"] = self._blobs.put(self._tree.neutral(data))
        self.session.events.append(event)
        if kind == "end" and self._begun[number] == (len(self.session.events) - 2, True):
            self._merge_polls()

    def _merge_polls(self):
        """Drops a request with the same content and answer as the previous one: a test that polls."""
        if len(self.session.events) < 4:
            return
        before, end_before, now, end = self.session.events[-4:]
        variable = ("n", "t", "connection")

        def fixed(event):
            return {key: value for key, value in event.items() if key not in variable}

        if fixed(before) == fixed(now) and fixed(end_before) == fixed(end) and before["n"] == end_before["n"]:
            del self.session.events[-2:]

    def save(self):
        self.session.save(self._folder)


class HttpProxy:
    """One HTTP/1.1 port."""

    connections = 0

    def __init__(self, log, address, kind):
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))
        self._log = log
        self._kind = kind

    async def listen(self):
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 24)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _connected(self, reader, writer):
        HttpProxy.connections += 1
        connection = HttpProxy.connections
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream, limit=1 << 24)
        except OSError:
            writer.close()
            return
        requests = http1.Reader()
        waiting = []  # (number, method) of the unanswered requests

        def begin(message, **fields):
            number = self._log.begin(message, kind=self._kind, connection=connection, **fields)
            waiting.append((number, message.split(b" ", 1)[0].decode("latin-1")))

        async def upward():
            readable = True
            while data := await reader.read(1 << 20):
                requests.feed(data)
                try:
                    while readable and (message := requests.next()):
                        begin(message.raw)
                except http1.Malformed:
                    readable = False
                up_writer.write(data)
                await up_writer.drain()
            if rest := requests.take_rest():
                begin(rest, partial=True)
            with contextlib.suppress(OSError):
                up_writer.write_eof()

        async def downward():
            responses = http1.Reader(responses=True)
            while data := await up_reader.read(1 << 20):
                responses.feed(data)
                answered(responses, False)
                writer.write(data)
                await writer.drain()
            answered(responses, True)

        def answered(responses, ended):
            with contextlib.suppress(http1.Malformed):
                while message := responses.next(waiting[0][1] if waiting else "GET", ended):
                    if message.status < 200:
                        continue
                    if not waiting:  # an answer before the request is complete
                        begin(requests.take_rest(), partial=True)
                    self._log.add("end", waiting.pop(0)[0], code=message.status)

        up, down = asyncio.ensure_future(upward()), asyncio.ensure_future(downward())
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        if up.done() and not down.done():
            await asyncio.wait([down], timeout=2)  # a client may close its half and continue to read
        for task in (up, down):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task
        for number, _ in waiting:
            self._log.add("end" if down.done() and not down.cancelled() else "cancel", number, code=0, seen=0)
        for each in (writer, up_writer):
            each.close()


class GrpcProxy:
    """The gRPC port: any method, messages as bytes."""

    # Set by gRPC itself for each call.
    OWN = ("user-agent", "te", "content-type")

    def __init__(self, log, address):
        self._log = log
        self._address = address

    async def listen(self):
        import grpc

        self._grpc = grpc
        unlimited = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", 1 << 20),
            ("grpc.absolute_max_metadata_size", 1 << 20),
        ]
        self._channel = grpc.aio.insecure_channel(self._address, options=unlimited)
        proxy = self

        class AnyMethod(grpc.GenericRpcHandler):
            def service(self, details):
                method, metadata = details.method, details.invocation_metadata

                async def call(_, context):
                    await proxy._call(method, metadata, context)

                return grpc.stream_stream_rpc_method_handler(call, None, None)

        self._server = grpc.aio.server(options=unlimited)
        self._server.add_generic_rpc_handlers([AnyMethod()])
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"127.0.0.1:{port}"

    async def _call(self, method, metadata, context):
        metadata = [(key, value) for key, value in metadata if key not in self.OWN and not key.startswith("grpc-")]
        stored = [[key, value if isinstance(value, str) else value.hex()] for key, value in metadata]
        stream = is_stream(method)
        seen = 0
        number = None
        call = self._channel.stream_stream(method)(metadata=metadata, timeout=context.time_remaining())

        async def upward():
            while (message := await context.read()) is not self._grpc.aio.EOF:
                if stream:
                    self._log.add("message", number, message, seen=seen)
                await call.write(message)
            if stream:
                self._log.add("close", number, seen=seen)
            await call.done_writing()

        try:
            if stream:
                number = self._log.begin(kind="grpc", method=method, metadata=stored)
            else:
                first = await context.read()
                data = b"" if first is self._grpc.aio.EOF else first
                number = self._log.begin(data, kind="grpc", method=method, metadata=stored)
                await call.write(data)
            up = asyncio.ensure_future(upward())
            try:
                await context.send_initial_metadata(await call.initial_metadata() or ())
                while (message := await call.read()) is not self._grpc.aio.EOF:
                    seen += 1
                    await context.write(message)
                code = await call.code()
            finally:
                up.cancel()
                with contextlib.suppress(BaseException):
                    await up
        except asyncio.CancelledError:
            call.cancel()
            self._log.add("cancel", number, seen=seen)
            raise
        except (self._grpc.aio.AioRpcError, asyncio.InvalidStateError):  # answered before everything was sent
            code = await call.code()
        if code == self._grpc.StatusCode.DEADLINE_EXCEEDED:
            self._log.add("cancel", number, seen=seen)
        else:
            self._log.add("end", number, code=code.value[0])
        trailing = await call.trailing_metadata() or ()
        if code == self._grpc.StatusCode.OK:
            context.set_trailing_metadata(trailing)
        else:
            await context.abort(code, await call.details() or "", trailing)


async def record(spec):
    log = Log(spec)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    line = await loop.run_in_executor(None, sys.stdin.readline)
    if line:
        log.session.listened = True
        addresses = json.loads(line)
        through = {}
        for name, address in addresses.items():
            if name in ("http", "metrics") and address:
                through[name] = await HttpProxy(log, address, name).listen()
            elif name == "grpc" and address:
                through[name] = await GrpcProxy(log, address).listen()
            else:
                through[name] = address
        print(json.dumps(through), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        await asyncio.sleep(0.05)
    log.save()
    sys.stdout.flush()
    os._exit(0)  # ends connections that tests have left open


def main():
    spec = json.loads(sys.stdin.readline())
    try:
        asyncio.run(record(spec))
    except TooLarge as error:
        print(f"not recorded, too large: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
