"""Cuts HTTP/1.1 messages from a stream of bytes. Decodes only as much as necessary."""

import dataclasses


class Malformed(Exception):
    """The bytes are not an HTTP/1.1 message."""


@dataclasses.dataclass
class Message:
    """One message. `start` is its first line; `body` has no chunk framing; `raw` is the original message."""

    start: str
    headers: list
    body: bytes
    raw: bytes

    @property
    def status(self):
        return int(self.start.split()[1])

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)


def parse_head(head):
    """Returns (first line, [(name, value)]) of the bytes before the empty line."""
    lines = head.decode("latin-1").split("\r\n")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(line)
        headers.append((name, value.strip()))
    return lines[0], headers


class Reader:
    """Cuts one direction of a connection. feed() takes bytes; next() returns each complete message, or None."""

    def __init__(self, responses=False):
        self._responses = responses
        self._data = bytearray()

    def feed(self, data):
        self._data += data

    def take_rest(self):
        """Returns the bytes of an incomplete message, once."""
        rest = bytes(self._data)
        self._data.clear()
        return rest

    def next(self, request_method="GET", ended=False):
        """Returns the next message. `request_method`: the request's method, for a response; `ended`: there are no more
        bytes."""
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return None
        start, headers = parse_head(bytes(self._data[:end]))
        body = self._body(end + 4, start, {k.lower(): v for k, v in headers}, request_method, ended)
        if body is None:
            return None
        content, length = body
        raw = bytes(self._data[:length])
        del self._data[:length]
        return Message(start, headers, content, raw)

    def _body(self, at, start, headers, method, ended):
        """Returns (content, end of the message), or None if it is incomplete."""
        if self._responses:
            status = start.split()
            if len(status) < 2 or not status[1].isdigit():
                raise Malformed(start)
            if method == "HEAD" or status[1].startswith("1") or status[1] in ("204", "304"):
                return b"", at
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks(at)
        if "content-length" in headers:
            if not headers["content-length"].isdigit():
                raise Malformed(headers["content-length"])
            end = at + int(headers["content-length"])
            return (bytes(self._data[at:end]), end) if len(self._data) >= end else None
        if self._responses:
            return (bytes(self._data[at:]), len(self._data)) if ended else None
        return b"", at

    def _chunks(self, at):
        content = bytearray()
        while True:
            line = self._data.find(b"\r\n", at)
            if line < 0:
                return None
            try:
                size = int(bytes(self._data[at:line]).split(b";")[0], 16)
            except ValueError as error:
                raise Malformed("size of a chunk") from error
            at = line + 2
            if size == 0:
                end = self._data.find(b"\r\n", at)
                while 0 <= end != at:  # trailers
                    at = end + 2
                    end = self._data.find(b"\r\n", at)
                return None if end < 0 else (bytes(content), end + 2)
            if len(self._data) < at + size + 2:
                return None
            content += self._data[at : at + size]
            at += size + 2
