"""The tool that compares two builds of the server (tests/replay): a small recording, from its creation to its report."""

import json
import os
import random

import numpy as np
import pytest
from harness.graphs import Stream
from harness.repository import config, per_request
from harness.server import BINARY
from replay import http1, judge
from replay.mutations import Request, fields, message, mutate

pytestmark = pytest.mark.skipif("BRAID_RECORD" in os.environ, reason="records itself")


@pytest.fixture
def recording(tmp_path, tmp_path_factory, monkeypatch, repository, serve, connect):
    """A session of each protocol, in which a model changes."""
    folder = tmp_path / "recording"
    monkeypatch.setenv("BRAID_RECORD", str(folder))
    monkeypatch.setenv("BRAID_RECORD_ROOT", str(tmp_path_factory.getbasetemp()))
    repository.add_identity("echo")
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*")
    array = np.arange(4, dtype=np.float32)
    for protocol in ("http", "grpc"):
        client = connect(protocol, server)
        client.infer("echo", {"IN": array})
        with client.fails("NOT_FOUND"):
            client.infer("nowhere", {"IN": array})
    repository.add(
        "echo",
        per_request("return respond(OUT=get(request, 'IN') * 2)"),
        config("echo", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]),
    )
    client.raw.load_model("echo")
    assert list(client.infer("echo", {"IN": array}).as_numpy("OUT")) == [0, 2, 4, 6]
    with Stream(server.grpc, "echo") as stream:
        for _ in range(2):
            stream.send(IN=array)
            assert stream.next()[1] is None
    assert server.json("GET", "/v2/models/echo/stats")[0] == 200
    server.stop()
    return folder


def judged(recording, new, *options):
    report = recording / "report.json"
    result = judge.main(
        [str(recording), "--old", str(BINARY), "--new", str(new), "--report", str(report), *map(str, options)]
    )
    return result, json.loads(report.read_text())


def test_a_server_answers_as_itself(recording, capsys):
    result, report = judged(recording, BINARY, "--mutations", 100, "--seed", 7)
    assert report == {"differences": [], "unstable": [], "problems": []}
    assert result == 0
    assert "(0 without an answer" in capsys.readouterr().out


def test_a_server_that_answers_differently_is_found(recording, tmp_path):
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\nexec {BINARY} "$@" --http-max-input-size=16\n')
    other.chmod(0o755)
    result, report = judged(recording, other)
    assert result == 1
    assert not report["problems"]
    assert {each["request"] for each in report["differences"]} == {
        "POST /v2/models/echo/infer",
        "POST /v2/models/nowhere/infer",
    }
    assert "413" in report["differences"][0]["new"]


def test_mutations_follow_from_the_seed():
    data = message([(1, 2, b"echo"), (5, 2, message([(1, 2, b"IN"), (3, 0, 4)])), (7, 2, bytes(16))])
    assert message(fields(data)) == data
    request = Request("grpc", "/inference.GRPCInferenceService/ModelInfer", [["a", "b"]], [data])

    def drawn(seed):
        draw = random.Random(seed)
        return [mutate(request, [request], draw) for _ in range(50)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_messages_are_cut_from_a_stream():
    first = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    second = b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x\r\nf\r\n0\r\n\r\n"
    reader = http1.Reader()
    found = []
    for byte in first + second:
        reader.feed(bytes([byte]))
        if cut := reader.next():
            found.append(cut)
    assert [each.raw for each in found] == [first, second]
    assert [each.body for each in found] == [b"abc", b"def"]
