"""Idle connections of clients: each has sent one request and received its response."""

import contextlib
import resource
import socket
import struct
import time

HTTP_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Frames of HTTP/2 (RFC 9113).
DATA, HEADERS, SETTINGS, PING, END_STREAM, END_HEADERS, ACK = 0, 1, 4, 6, 1, 4, 1
OPEN_LIMIT_S = 60
# The most descriptors that a process has besides its connections.
OTHER_FILES = 500


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _field(name, value):
    """Encodes a literal header field that is never indexed (RFC 7541, 6.2.3). Name and value are shorter than 127 bytes."""
    return b"\x10" + bytes([len(name)]) + name + bytes([len(value)]) + value


def grpc_opening():
    """Returns a gRPC client's first bytes: preface, settings, and a whole call of ServerLive."""
    head = b"".join(
        _field(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/inference.GRPCInferenceService/ServerLive"),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0)
        + frame(HEADERS, END_HEADERS, 1, head)
        + frame(DATA, END_STREAM, 1, bytes(5))
    )


def grpc_reply(received):
    """Returns (acknowledgements that the server waits for, whether the call has ended, the bytes of an incomplete frame)."""
    replies, ended = b"", False
    while len(received) >= 9:
        size = int.from_bytes(received[:3], "big")
        if len(received) < 9 + size:
            break
        kind, flags, stream = struct.unpack(">BBI", received[3:9])
        if kind in (SETTINGS, PING) and not flags & ACK:
            replies += frame(kind, ACK, 0, received[9 : 9 + size] if kind == PING else b"")
        ended = ended or (stream == 1 and kind in (DATA, HEADERS) and bool(flags & END_STREAM))
        received = received[9 + size :]
    return replies, ended, received


def reachable(count, most_files):
    """Whether a process with this limit for open files can have `count` connections."""
    return count + OTHER_FILES <= most_files


def raise_file_limit():
    """Raises the limit for open files to the system's maximum, also for child processes, and returns it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _open(protocol, port):
    client = socket.create_connection(("127.0.0.1", port), timeout=OPEN_LIMIT_S)
    # Close with a reset instead of a TIME_WAIT; each sample would leave 10,000 of them.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(HTTP_REQUEST if protocol == "http" else grpc_opening())
    received, ended = b"", False
    while not ended:
        more = client.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed a new connection")
        received += more
        if protocol == "http":
            ended = b"\r\n\r\n" in received
        else:
            replies, ended, received = grpc_reply(received)
            if replies:
                client.sendall(replies)
    return client


def _is_open(client):
    """Whether the server has not closed the connection. Received bytes, such as a ping, are ignored."""
    client.setblocking(False)
    try:
        while True:
            if not client.recv(1 << 16):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False


@contextlib.contextmanager
def connections(protocol, port, count):
    """Opens this many connections ("grpc" or "http"). Yields a function that returns how many of them the server has closed.

    Raises OSError if the server refuses them, TimeoutError if it takes too long.
    """
    until = time.monotonic() + OPEN_LIMIT_S
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(count):
            if time.monotonic() > until:
                raise TimeoutError(f"{len(clients)} of {count} connections were open after {OPEN_LIMIT_S} s")
            clients.append(stack.enter_context(contextlib.closing(_open(protocol, port))))
        yield lambda: sum(1 for client in clients if not _is_open(client))
