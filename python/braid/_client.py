"""Inference over HTTP: KServe v2 with the binary tensor extension, using only the standard library."""

import http.client
import json
import socket
import struct
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_WIRE_NAMES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
DTYPES = {wire: np.dtype(name) for name, wire in _WIRE_NAMES.items()}


class InferenceError(RuntimeError):
    """The server refused a request, or the model failed. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def encode(array: np.ndarray) -> tuple[str, bytes]:
    """Returns the wire name of an array's type, and its bytes. Texts and bytes (dtypes S, U, O) become BYTES: each
    element is preceded by its length in four bytes, little-endian."""
    if array.dtype.kind in "SUO":
        elements = [item.encode() if isinstance(item, str) else bytes(item) for item in array.ravel().tolist()]
        return "BYTES", b"".join(struct.pack("<I", len(element)) + element for element in elements)
    wire = _WIRE_NAMES.get(array.dtype.name)
    if wire is None:
        raise TypeError(f"arrays of {array.dtype} cannot be sent; expected one of {', '.join(_WIRE_NAMES)} or texts")
    return wire, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def decode(wire: str, shape: Iterable[int], content: bytes) -> np.ndarray:
    """Returns the array of an output. BYTES become an array of dtype object, with `bytes` elements."""
    if wire == "BYTES":
        elements = []
        at = 0
        while at < len(content):
            (size,) = struct.unpack_from("<I", content, at)
            elements.append(content[at + 4 : at + 4 + size])
            at += 4 + size
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        return array.reshape(tuple(shape))
    if wire not in DTYPES:
        raise TypeError(f"outputs of {wire} have no numpy type")
    return np.frombuffer(content, DTYPES[wire].newbyteorder("<")).reshape(tuple(shape))


class _UnixConnection(http.client.HTTPConnection):
    """A connection to the Unix socket at a path."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(address: str, timeout: float) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:"), timeout)
    return http.client.HTTPConnection(address, timeout=timeout)


def get(address: str, path: str, timeout: float) -> Any:
    """Returns the document at a path of the server. Raises InferenceError for another status than 200."""
    connection = _connection(address, timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise InferenceError(_reason(body, response.status), response.status)
    return json.loads(body)


def infer(
    address: str,
    model: str,
    inputs: Mapping[str, Any],
    outputs: Iterable[str] | None,
    version: str,
    parameters: Mapping[str, Any] | None,
    timeout: float,
) -> dict[str, np.ndarray]:
    """Sends one request; see Server.infer."""
    described = []
    contents = []
    for name, value in inputs.items():
        array = np.asarray(value)
        wire, content = encode(array)
        described.append(
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": wire,
                "parameters": {"binary_data_size": len(content)},
            }
        )
        contents.append(content)
    document: dict[str, Any] = {"inputs": described, "parameters": {**(parameters or {})}}
    if outputs is None:
        document["parameters"]["binary_data_output"] = True
    else:
        document["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    head = json.dumps(document).encode()
    path = "/v2/models/" + urllib.parse.quote(model, safe="")
    if version:
        path += "/versions/" + urllib.parse.quote(version, safe="")
    connection = _connection(address, timeout)
    try:
        connection.request(
            "POST", path + "/infer", b"".join([head, *contents]), {"Inference-Header-Content-Length": str(len(head))}
        )
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    length = int(response.headers.get("Inference-Header-Content-Length", len(body)))
    if response.status != 200:
        raise InferenceError(_reason(body, response.status), response.status)
    found = {}
    at = length
    for output in json.loads(body[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            raise TypeError(f"output '{output['name']}' of {output['datatype']} came without binary data")
        found[output["name"]] = decode(output["datatype"], output["shape"], body[at : at + size])
        at += size
    return found


def _reason(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered with status {status}"
