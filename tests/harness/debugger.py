"""A client of the Debug Adapter Protocol, as an editor's: sends requests, and collects events."""

import json
import socket


class Debugger:
    def __init__(self, port, timeout=60):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._file = self._socket.makefile("rb")
        self._next = 0
        self.events = []

    def close(self):
        self._file.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, command, **arguments):
        """Sends a request; returns its number."""
        self._next += 1
        body = json.dumps({"seq": self._next, "type": "request", "command": command, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._next

    def ask(self, command, **arguments):
        """Sends a request; returns the body of its successful response."""
        number = self.send(command, **arguments)
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                return message.get("body", {})
            self._keep(message)

    def wait_for(self, event):
        """Returns the body of the next event of that name."""
        while True:
            for kept in self.events:
                if kept["event"] == event:
                    self.events.remove(kept)
                    return kept.get("body", {})
            self._keep(self._read())

    def attach(self, breakpoints, **configuration):
        """Attaches with breakpoints, as {file: [line, ...]}, and lets the process run."""
        self.ask("initialize", adapterID="test", pathFormat="path")
        self.send("attach", **({"justMyCode": False} | configuration))
        self.wait_for("initialized")
        for file, lines in breakpoints.items():
            answer = self.ask(
                "setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line} for line in lines]
            )
            assert all(each["verified"] for each in answer["breakpoints"]), answer
        self.ask("configurationDone")

    def stopped(self):
        """Waits until a thread stops; returns its id, and its frames as (function, line, id)."""
        thread = self.wait_for("stopped")["threadId"]
        frames = self.ask("stackTrace", threadId=thread)["stackFrames"]
        return thread, [(each["name"], each["line"], each["id"]) for each in frames]

    def variable(self, frame, expression):
        """Returns the text of an expression's value in a frame."""
        return self.ask("evaluate", expression=expression, frameId=frame, context="watch")["result"]

    def _read(self):
        length = 0
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length > 0, "the debugger's connection has ended"
        return json.loads(self._file.read(length))

    def _keep(self, message):
        if message["type"] == "event":
            self.events.append(message)
