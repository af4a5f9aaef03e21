"""Compares two answers.

Answers are compared byte by byte, after RULES have replaced the parts that naturally differ. A rule has a part of
answers (a pattern), its requests (a pattern on "METHOD TARGET" or the gRPC method), the text to replace, and the
replacement.
"""

import re

from tritonclient.grpc import service_pb2

from replay.mutations import fields, message

RULES = [
    # Times in headers and in statistics.
    ("headers", ".*", rb"(?im)^date: .*$", b"date: *"),
    ("body", r"GET .*/stats\b.*", rb'"(ns|last_inference)":\d+', rb'"\1":*'),
    ("headers", r"(GET|HEAD) (/metrics|.*/stats)\b.*", rb"(?im)^content-length: \d+$", b"content-length: *"),
    # Durations and memory in metrics, and values that depend on the rate of requests.
    (
        "body",
        r"GET /metrics\b.*",
        rb"(?m)^(\w*(?:_us|_ns|_ms|_secs|_seconds|_bytes|duration|latency|memory|cpu|gpu|process)\w*(?:\{[^}\n]*\})?) .*$",
        rb"\1 *",
    ),
    # The numbers that OpenVINO assigns to unnamed operations.
    ("status|body|message.*", ".*", rb"\b([A-Z][A-Za-z]+)_\d+\b", rb"\1_*"),
    # A servable that is being unloaded will be gone a moment later.
    ("body", r"\w+ /v1/config.*", rb'"state": "UNLOADING"', b'"state": "END"'),
    ("body", r"POST /v1/config/reload.*", rb'"state": "(LOADING|END|AVAILABLE)"', b'"state": "*"'),
    # Durations, as counts of a histogram.
    ("body", r"GET /metrics\b.*", rb"(?m)^(\w+_bucket\{.*\}) .*$", rb"\1 *"),
    # The server's span in a trace.
    ("body|message.*", ".*", rb"\b(00-[0-9a-f]{32})-[0-9a-f]{16}\b", rb"\1-*"),
    # Addresses and process ids in texts of Python and of the server.
    ("status|body|message.*", ".*", rb"0x[0-9a-f]{6,16}", b"0x*"),
    ("status|body|message.*", ".*", rb"\b(pid|process) \d+", rb"\1 *"),
]
LARGE = 1 << 20  # larger parts are tensors, and compared unchanged
UNORDERED = ("/LogSettings", "/TraceSetting")  # maps of protocol buffers, which have no order
_COMPILED = [(re.compile(part), re.compile(request), re.compile(old), new) for part, request, old, new in RULES]


def neutral(part, request, data):
    """Returns the bytes of a part of an answer, as they are compared."""
    if len(data) > LARGE:
        return data
    if request.endswith("/ModelStatistics") and part.startswith("message"):
        data = _without_times(data)
    if request.endswith(UNORDERED) and part.startswith("message") and (found := fields(data)):
        data = message(sorted(found))
    for parts, requests, old, new in _COMPILED:
        if parts.fullmatch(part) and requests.match(request):
            data = old.sub(new, data)
    return data


def _without_times(data):
    try:
        parsed = service_pb2.ModelStatisticsResponse.FromString(data)
    except Exception:  # not parseable: compared unchanged
        return data
    return re.sub(r"\b(ns|last_inference): \d+", r"\1: *", str(parsed)).encode()


def first_difference(request, old, new):
    """Returns (part, bytes of old, bytes of new) of the first difference between two answers, or None."""
    for part in dict.fromkeys([*old, *new]):
        if part not in old or part not in new:
            return part, old.get(part, b"(nothing)"), new.get(part, b"(nothing)")
        left, right = neutral(part, request, old[part]), neutral(part, request, new[part])
        if left != right:
            return part, left, right
    return None


def excerpt(data, at, around=160):
    """Returns the bytes around an offset in readable form."""
    start = max(0, at - around // 2)
    text = data[start : at + around].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else "?" for c in text)
    return ("..." if start else "") + text + ("..." if len(data) > at + around else "")


def offset(old, new):
    """Returns the offset of the first difference."""
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
