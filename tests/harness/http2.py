"""Handwritten HTTP/2 (RFC 9113), for frames that gRPC clients do not send."""

import socket
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS = 4
# The name "grpc-status" in HPACK's Huffman code, as in a field block.
STATUS = b"\x9a\xca\xc8\xb2\x12\x34\xda\x8f"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])  # with settings


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """Returns a literal field, never indexed (RFC 7541, 6.2.3)."""
    return b"\x10" + _text(name) + _text(value)


def call_head(path, *more):
    """Returns the field block of a gRPC call."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *more,
    ]
    return b"".join(field(*one) for one in fields)


def _text(text):
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, size = len(text) - 127, b"\x7f"
    while rest >= 128:
        size += bytes([rest % 128 + 128])
        rest //= 128
    return size + bytes([rest]) + text


class Connection:
    """A connection on which `first` is sent."""

    def __init__(self, address, timeout=20, first=PREFACE):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._received = b""
        self.send(first)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Sends data; false if the server has closed the connection. frames() returns the server's frames before that."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            return False
        return True

    def frames(self):
        """Yields (kind, flags, stream, payload) of each frame, until the server closes."""
        while True:
            while len(self._received) >= 9 and len(self._received) >= 9 + self._size():
                size = self._size()
                kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
                payload, self._received = self._received[9 : 9 + size], self._received[9 + size :]
                yield kind, flags, stream, payload
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return
            if not more:
                return
            self._received += more

    def wait_for(self, kind, stream=0):
        """Returns the payload of the next frame of that kind and stream."""
        for its_kind, _, its_stream, payload in self.frames():
            if (its_kind, its_stream) == (kind, stream):
                return payload
        raise AssertionError(f"closed without a frame of kind {kind} on stream {stream}")

    def acknowledge(self):
        """Acknowledges the server's settings, such as its largest frame."""
        self.wait_for(SETTINGS)
        self.send(frame(SETTINGS, ACK, 0))

    def goaway(self):
        """Returns the error code and text of the GOAWAY that ends the connection."""
        payload = self.wait_for(GOAWAY)
        return struct.unpack(">I", payload[4:8])[0], payload[8:]

    def _size(self):
        return int.from_bytes(self._received[:3], "big")
