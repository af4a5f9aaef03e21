"""Mutated requests of a recording: the requests of faulty or hostile clients.

`mutate` changes one thing, sometimes two or three, in a copy of a request. It uses only the given random generator, so
a seed determines the requests.
"""

import dataclasses
import json

from replay import http1
from replay.calls import KEPT_AWAY, MUTATED_METHODS, MUTATED_TARGET, is_stream

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
TEXTS = (
    "",
    "a",
    "IN",
    "OUT",
    "FP32",
    "INT64",
    "BYTES",
    "BOOL",
    "sequence_id",
    "binary_data",
    "\x00",
    "\u00e4",
    "x" * 300,
    "-1",
    "1e400",
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1 << 63,
    1 << 64,
    -(1 << 63),
    "",
    "x",
    [],
    {},
    [[]],
    [1, [2]],
    [None],
    {"a": 1},
)
HEADERS = (
    ("Inference-Header-Content-Length", ("0", "1", "10", "-1", "99999999999", "x", "")),
    ("Content-Type", ("application/json", "application/octet-stream", "text/plain", "")),
    ("Content-Encoding", ("gzip", "deflate", "br", "identity", "")),
    ("Accept-Encoding", ("gzip", "deflate", "*", "gzip;q=0, deflate", "")),
    ("Accept", ("text/event-stream", "*/*")),
    ("Connection", ("close", "keep-alive")),
    ("Host", ("", "x", "localhost")),
)
MAX_DEPTH = 8


@dataclasses.dataclass
class Request:
    """One request. HTTP: its bytes are the only message. gRPC: its messages. `partial`: it ends too early."""

    kind: str
    method: str
    metadata: list
    messages: list
    partial: bool = False


def mutate(request, donors, draw):
    """Returns (a changed copy, the change), or (None, "") if the result must not be sent."""
    copy = dataclasses.replace(request, messages=list(request.messages), metadata=list(request.metadata or []))
    done = []
    for _ in range(draw.choice((1, 1, 1, 1, 2, 3))):
        done.append((_grpc if request.kind == "grpc" else _http)(copy, donors, draw))
    if copy.kind != "grpc":
        line = copy.messages[0].split(b"\r\n", 1)[0]
        if not MUTATED_TARGET.match(copy.messages[0]) and KEPT_AWAY.search(line):
            return None, ""
        if KEPT_AWAY.search(line) or line.split(b" ")[0] not in (b"GET", b"POST"):
            return None, ""
    return copy, ", ".join(done)


# ---- bytes ---------------------------------------------------------------------------------------


def _bytes(data, draw):
    """Returns (changed bytes, the change)."""
    kind = draw.choice(("flip", "flip", "set", "cut", "drop", "double", "insert"))
    if not data:
        return bytes([draw.randrange(256)]), "a byte where there was none"
    at = draw.randrange(len(data))
    length = min(len(data) - at, draw.choice((1, 1, 2, 4, 8, 16)))
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :], f"a bit of byte {at} flipped"
    if kind == "set":
        return data[:at] + bytes([draw.choice((0, 255, draw.randrange(256)))]) + data[at + 1 :], f"byte {at} set"
    if kind == "cut":
        return data[:at], f"cut at {at}"
    if kind == "drop":
        return data[:at] + data[at + length :], f"{length} bytes dropped at {at}"
    if kind == "double":
        return data[: at + length] + data[at:], f"{length} bytes doubled at {at}"
    return data[:at] + draw.randbytes(length) + data[at:], f"{length} bytes inserted at {at}"


# ---- protocol buffers ----------------------------------------------------------------------------


def varint(number):
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def _read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("varint")


def fields(data):
    """Returns [(number, wire type, content)] of a message, or None if the bytes are not one. Varints are numbers."""
    found, at = [], 0
    try:
        while at < len(data):
            tag, at = _read_varint(data, at)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                return None
            if wire == 0:
                value, at = _read_varint(data, at)
            else:
                size = {1: 8, 5: 4}.get(wire)
                if wire == 2:
                    size, at = _read_varint(data, at)
                if size is None or at + size > len(data):
                    return None
                value = data[at : at + size]
                at += size
            found.append((number, wire, value))
    except (IndexError, ValueError):
        return None
    return found


def message(parts):
    """The inverse of `fields`: returns the bytes."""
    data = bytearray()
    for number, wire, value in parts:
        data += varint(number << 3 | wire)
        if wire == 0:
            data += varint(value & (1 << 64) - 1)
        else:
            data += (varint(len(value)) if wire == 2 else b"") + value
    return bytes(data)


def _protobuf(data, donor, draw, depth=0):
    parts = fields(data)
    if not parts:
        return _bytes(data, draw)
    at = draw.randrange(len(parts))
    number, wire, value = parts[at]
    if wire == 2 and depth < MAX_DEPTH and draw.random() < 0.65 and fields(value):
        inner, how = _protobuf(value, donor, draw, depth + 1)
        parts[at] = (number, wire, inner)
        return message(parts), f"{number}.{how}"
    kind = draw.choice(("double", "drop", "swap", "change", "change", "change", "bytes", "borrow", "rename", "unknown"))
    how = f"field {number} "
    if kind == "double":
        parts.insert(draw.randrange(len(parts) + 1), parts[at])
    elif kind == "drop":
        del parts[at]
    elif kind == "swap":
        other = draw.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]
    elif kind == "change":
        if wire == 0:
            parts[at] = (number, wire, draw.choice((*NUMBERS, value ^ 1, value + 1)))
        elif wire == 2:
            new = draw.choice(
                (
                    draw.choice(TEXTS).encode(),
                    value + value,
                    value[: len(value) // 2],
                    value + b"\0",
                    varint(draw.choice(NUMBERS)),
                )
            )
            parts[at] = (number, wire, new)
        else:
            parts[at] = (number, wire, draw.randbytes(len(value)))
        how += f"({str(value)[:40]}) "
    elif kind == "bytes":
        if wire == 2:
            parts[at] = (number, wire, _bytes(value, draw)[0])
        else:
            return _bytes(data, draw)
    elif kind == "borrow" and (other := fields(donor)):
        parts.insert(draw.randrange(len(parts) + 1), draw.choice(other))
    elif kind == "rename":
        parts[at] = (draw.choice((number + 1, max(1, number - 1), draw.randrange(1, 16))), wire, value)
    else:
        parts.insert(draw.randrange(len(parts) + 1), (draw.randrange(1, 3000), 0, 1))
    return message(parts), how + kind


def _grpc(request, donors, draw):
    kind = draw.random()
    if kind < 0.04 and request.metadata:
        at = draw.randrange(len(request.metadata))
        key, value = request.metadata[at]
        if draw.random() < 0.5:
            del request.metadata[at]
            return f"metadata {key} dropped"
        request.metadata.insert(at, [key, value])
        return f"metadata {key} doubled"
    if kind < 0.06:
        choices = sorted(each for each in MUTATED_METHODS if is_stream(each) == is_stream(request.method))
        request.method = draw.choice(choices)
        return f"sent to {request.method}"
    if is_stream(request.method) and kind < 0.2:
        at = draw.randrange(len(request.messages) or 1)
        if draw.random() < 0.5 and request.messages:
            del request.messages[at]
            return f"message {at} dropped"
        if request.messages:
            request.messages.insert(at, request.messages[at])
            return f"message {at} doubled"
    if not request.messages:
        request.messages.append(b"")
    at = draw.randrange(len(request.messages))
    donor = draw.choice(draw.choice(donors).messages or [b""])
    change = _bytes(request.messages[at], draw) if kind > 0.92 else _protobuf(request.messages[at], donor, draw)
    request.messages[at] = change[0]
    return f"message {at}: {change[1]}" if is_stream(request.method) else change[1]


# ---- HTTP ----------------------------------------------------------------------------------------


class Members(list):
    """A JSON object as the list of its members, which may repeat a name."""


def _load(text):
    return json.loads(text, object_pairs_hook=Members)


def _dump(value):
    if isinstance(value, Members):
        return "{" + ",".join(f"{json.dumps(name)}:{_dump(each)}" for name, each in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value)


def _places(value, path=(), depth=0):
    """Returns all containers that are not empty: (container, path)."""
    if isinstance(value, list) and value and depth < MAX_DEPTH:
        yield value, path
        for at, each in enumerate(value[:50]):
            name, inner = each if isinstance(value, Members) else (at, each)
            yield from _places(inner, (*path, str(name)), depth + 1)


def _json(text, draw):
    """Returns (changed text, the change), or None if there is no JSON."""
    try:
        value = _load(text)
    except ValueError:
        return None
    places = list(_places(value))
    if not places:
        return _dump(draw.choice(VALUES)).encode(), "another value"
    container, path = draw.choice(places)
    at = draw.randrange(len(container))
    named = isinstance(container, Members)
    kind = draw.choice(("double", "drop", "swap", "value", "value", "value", "rename", "wrap", "add"))
    where = "/".join((*path, str(container[at][0] if named else at)))
    old = container[at][1] if named else container[at]

    def replace(new):
        container[at] = (container[at][0], new) if named else new

    if kind == "double":
        container.insert(draw.randrange(len(container) + 1), container[at])
    elif kind == "drop":
        del container[at]
    elif kind == "swap":
        other = draw.randrange(len(container))
        container[at], container[other] = container[other], container[at]
    elif kind == "value":
        if isinstance(old, str) and draw.random() < 0.4:
            replace(draw.choice((*TEXTS, old + old, old.lower(), old[:-1])))
        elif isinstance(old, int) and draw.random() < 0.4:
            replace(draw.choice((old + 1, old - 1, -old, float(old), str(old), draw.choice(NUMBERS))))
        else:
            replace(draw.choice(VALUES))
    elif kind == "rename" and named:
        container[at] = (draw.choice((container[at][0] + "_", container[at][0].upper(), draw.choice(TEXTS))), old)
    elif kind == "wrap":
        replace([old])
    else:
        container.insert(draw.randrange(len(container) + 1), (draw.choice(TEXTS), 1) if named else draw.choice(VALUES))
    return _dump(value).encode(), f"{where} {kind}"


def _http(request, donors, draw):
    head, _, body = request.messages[0].partition(b"\r\n\r\n")
    try:
        start, headers = http1.parse_head(head)
    except http1.Malformed:
        return "nothing"
    lengths = [i for i, (name, _) in enumerate(headers) if name.lower() == "inference-header-content-length"]
    split = len(body)
    if lengths and headers[lengths[0]][1].isdigit():
        split = min(len(body), int(headers[lengths[0]][1]))
    text, tail = body[:split], body[split:]
    fit = True  # whether Content-Length matches the body
    kind = draw.random()
    if kind < 0.08 or (not body and kind < 0.5):
        start, how = _target(start, draw)
    elif kind < 0.25 or not body:
        how = _header(headers, draw)
    elif kind < 0.35:
        text, how = _bytes(text, draw)
    elif kind < 0.47 and tail:
        tail, how = _bytes(tail, draw)
    elif kind < 0.5:
        fit, how = False, "shorter than its length says"
        tail, text = tail[: len(tail) // 2], text if tail else text[: len(text) // 2]
    else:
        changed = _json(text, draw) or _bytes(text, draw)
        text, how = changed
    if lengths and split != len(text) and draw.random() < 0.9:
        headers = [
            (n, str(len(text)) if n.lower() == "inference-header-content-length" and v == str(split) else v)
            for n, v in headers
        ]
    chunked = any(name.lower() == "transfer-encoding" for name, _ in headers)
    sized = [i for i, (name, _) in enumerate(headers) if name.lower() == "content-length"]
    size = len(text) + len(tail)
    if fit and sized:
        headers = [(n, str(size) if i == sized[0] else v) for i, (n, v) in enumerate(headers)]
    request.partial = request.partial or not fit or (chunked and text + tail != body)
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    request.messages[0] = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + text + tail
    return how


def _target(start, draw):
    words = start.split(" ")
    if len(words) < 3:
        return start, "nothing"
    segments = words[1].split("/")
    at = draw.randrange(1, len(segments)) if len(segments) > 1 else 0
    kind = draw.choice(("drop", "double", "change", "letter", "query", "version", "method"))
    if kind == "drop":
        del segments[at]
    elif kind == "double":
        segments.insert(at, segments[at])
    elif kind == "change":
        segments[at] = draw.choice(
            ("", "1", "2", "0", "-1", "99999999999999999999", "versions", "models", "%00", "%", "a%20b", "v1", "v2")
        )
    elif kind == "letter" and segments[at]:
        segments[at] = segments[at][:-1] if draw.random() < 0.5 else segments[at] + "x"
    elif kind == "version" and "models" in segments and len(segments) > segments.index("models") + 1:
        segments[segments.index("models") + 2 : 0] = ["versions", draw.choice(("1", "2", "x", "", "0"))]
    elif kind == "method":
        words[0] = "GET" if words[0] == "POST" else "POST"
    else:
        segments[-1] += draw.choice(("?", "?a=b", "?%", "#x"))
    words[1] = "/".join(segments) or "/"
    return " ".join(words), f"target {kind}"


def _header(headers, draw):
    # A length that is too large only makes a server wait.
    candidates = [
        i for i, (name, _) in enumerate(headers) if name.lower() not in ("content-length", "transfer-encoding")
    ]
    kind = draw.choice(("drop", "double", "known", "known"))
    if kind == "known" or not candidates:
        name, values = draw.choice(HEADERS)
        value = draw.choice(values)
        same = [i for i, (each, _) in enumerate(headers) if each.lower() == name.lower()]
        if same and draw.random() < 0.7:
            headers[same[0]] = (name, value)
        else:
            headers.append((name, value))
        return f"header {name}: {value}"
    at = draw.choice(candidates)
    name = headers[at][0]
    if kind == "drop":
        del headers[at]
    else:
        headers.insert(at, headers[at])
    return f"header {name} {kind}"
