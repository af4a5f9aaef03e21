"""The log (section 7) and its options (17.3)."""

import json
import re

import grpc
import numpy as np
import pytest
from harness import http2
from harness.repository import config, per_request
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

ROWS = [("IN", "FP32", [2])]
OUT = [("OUT", "FP32", [2])]
SETTINGS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
LOGS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.say("initialize")

    def say(self, where):
        log = pb_utils.Logger
        log.log_info(f"{where}-info")
        log.log_warn(f"{where}-warning")
        log.log_error(f"{where}-error")
        log.log_verbose(f"{where}-verbose")

    def execute(self, requests):
        self.say("execute")
        self.say("execute")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(2, np.float32))]) for _ in requests]

    def finalize(self):
        self.say("finalize")
"""


def count(server, word):
    return sum(word in line for line in server.log.splitlines())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_model_logs_reach_the_log_with_their_level(repository, serve, connect, protocol):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect(protocol, server)
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    for level, letter in (("info", "I"), ("warning", "W"), ("error", "E")):
        assert count(server, f"-{level}") == 4
        assert all(line.startswith(letter) for line in server.log.splitlines() if f"-{level}" in line)
        assert all(" model.py:" in line for line in server.log.splitlines() if f"-{level}" in line)
    assert count(server, "-verbose") == 0


def test_verbose_can_be_switched_on_later(repository, serve, connect):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect("http", server)
    answer = client.raw.update_log_settings({"log_verbose_level": 1})
    assert answer["log_verbose_level"] == 1
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    assert sum("-verbose" in line and " model.py:" in line for line in server.log.splitlines()) == 3


def test_all_levels_can_be_switched_off_later(repository, serve, connect):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect("grpc", server)
    client.raw.update_log_settings({"log_info": False, "log_warning": False, "log_error": False})
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    for level in ("info", "warning", "error"):
        assert count(server, f"-{level}") == 1


@pytest.fixture
def server(repository, serve):
    repository.add_identity("same", dims=[2])
    body = "pb_utils.Logger.log_info('said in execute'); return respond(OUT=get(request, 'IN'))"
    repository.add("says", per_request(body), config("says", ROWS, OUT))
    return serve(repository)


def test_log_settings(server):
    assert server.json("GET", "/v2/logging") == (200, SETTINGS)
    assert server.json("POST", "/v2/logging", {"log_format": "ISO8601", "log_verbose_level": 2}) == (
        200,
        {**SETTINGS, "log_format": "ISO8601", "log_verbose_level": 2},
    )
    assert server.json("POST", "/v2/logging", {}) == (
        200,
        {**SETTINGS, "log_format": "ISO8601", "log_verbose_level": 2},
    )


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"log_file": "/tmp/x"}, 501, "log file location can not be updated through network protocol"),
        ({"log_format": "fancy"}, 503, "invalid argument for --log_format, got: fancy"),
        ({"log_info": "yes"}, 500, "attempt to access JSON non-boolean as boolean"),
        ({"log_error": 1}, 500, "attempt to access JSON non-boolean as boolean"),
        ({"log_verbose_level": -1}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": "1"}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_format": 3}, 500, "attempt to access JSON non-string as string"),
    ],
)
def test_log_settings_that_cannot_be(server, change, status, text):
    answer, body = server.json("POST", "/v2/logging", {"log_warning": False, **change})
    assert answer == status
    assert body["error"] == text
    assert server.json("GET", "/v2/logging") == (200, SETTINGS)


@pytest.mark.parametrize(
    ("key", "value", "kind", "text"),
    [
        (
            "log_file",
            {"string_param": "/tmp/x"},
            "UNIMPLEMENTED",
            "log file location can not be updated through network protocol",
        ),
        ("log_format", {"string_param": "fancy"}, "UNAVAILABLE", "invalid argument for --log_format, got: fancy"),
        ("log_info", {"string_param": "yes"}, "INVALID_ARGUMENT", "expect boolean for 'log_info'"),
        ("log_error", {"uint32_param": 1}, "INVALID_ARGUMENT", "expect boolean for 'log_error'"),
        ("log_verbose_level", {"bool_param": True}, "INVALID_ARGUMENT", "expect int32 for 'log_verbose_level'"),
        ("log_format", {"uint32_param": 3}, "INVALID_ARGUMENT", "expect string for 'log_format'"),
    ],
)
def test_log_settings_that_cannot_be_by_grpc(server, key, value, kind, text):
    request = service_pb2.LogSettingsRequest()
    request.settings["log_warning"].bool_param = False
    for name, content in value.items():
        setattr(request.settings[key], name, content)
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as error:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).LogSettings(request, timeout=10)
    assert (error.value.code().name, error.value.details()) == (kind, text)
    assert server.json("GET", "/v2/logging") == (200, SETTINGS)


def lines(server, word):
    return [line for line in server.stderr.splitlines() if word in line]


def test_a_line_has_the_prefix_of_its_format(server, client):
    where = r" model\.py:\d+\] said in execute$"
    client.infer("says", {"IN": np.zeros(2, dtype=np.float32)})
    wait_until(lambda: len(lines(server, "said")) == 1, 10, "the line")
    assert re.match(r"I\d{4} \d\d:\d\d:\d\d\.\d{6} " + str(server.process.pid) + where, lines(server, "said")[0])
    client.raw.update_log_settings({"log_format": "ISO8601"})
    client.infer("says", {"IN": np.zeros(2, dtype=np.float32)})
    wait_until(lambda: len(lines(server, "said")) == 2, 10, "the second line")
    iso = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I "
    assert re.match(iso + str(server.process.pid) + where, lines(server, "said")[1])


def test_the_api_can_be_restricted(repository, serve, connect):
    repository.add_identity("same", dims=[2])
    server = serve(repository, "--http-restricted-api=logging:key=secret", "--grpc-restricted-protocol=logging:key=x")
    assert server.request("GET", "/v2/logging")[0] == 403
    assert server.request("GET", "/v2/logging", headers={"key": "secret"})[0] == 200
    client = connect("grpc", server)
    with client.fails("UNAVAILABLE"):
        client.raw.get_log_settings()
    assert client.raw.get_log_settings(headers={"triton-grpc-protocol-key": "x"})


def test_lines_go_to_the_log_file(repository, serve, connect, tmp_path):
    body = "pb_utils.Logger.log_warn('into the file'); return respond(OUT=get(request, 'IN'))"
    repository.add("says", per_request(body), config("says", ROWS, OUT))
    path = tmp_path / "braid.log"
    server = serve(repository, "--log-file", path)
    assert server.json("GET", "/v2/logging")[1]["log_file"] == str(path)
    connect("http", server).infer("says", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    assert "into the file" in path.read_text()
    assert "into the file" not in server.stderr


# ---- tracebacks -----------------------------------------------------------------------------------


FAILS = per_request(
    """
    how = int(get(request, "IN")[0])
    if how == 1:
        import traceback
        try:
            {}["no such key"]
        except KeyError:
            pb_utils.Logger.log_error(traceback.format_exc())
        return respond(OUT=get(request, "IN"))
    raise ValueError("no such thing\\nE0101 00:00:00.000000 1 server.cc:1] forged\\x1b[31m")
    """
)


def record(server, beginning):
    """Returns the lines of the message whose first line matches: the first one without its prefix, the others
    unchanged."""
    found = server.wait_for_log(r"(?m)^[A-Z]\d{4} [\d:.]+ \d+ (" + beginning + r"[^\n]*(?:\n [^\n]*)*)\n(?! )")
    return found[1].split("\n")


def test_a_traceback_has_lines_and_none_of_them_can_be_forged(repository, serve, connect):
    folder = repository.add("fails", FAILS, config("fails", ROWS, OUT))
    server = serve(repository)
    client = connect("http", server)
    with client.fails("INTERNAL"):
        client.infer("fails", {"IN": np.zeros(2, dtype=np.float32)})
    lines = record(server, r"model\.py:\d+\] Failed to process")
    source = (folder / "1" / "model.py").read_text().splitlines()
    number = next(n for n, line in enumerate(source, 1) if "raise ValueError" in line)
    prefix = f"model.py:{number}] Failed to process the request(s) for model 'fails_0', message: "
    assert lines[:3] == [
        prefix + "ValueError: no such thing",
        "    E0101 00:00:00.000000 1 server.cc:1] forged\\x1b[31m",
        "    Traceback (most recent call last):",
    ]
    assert lines[-4:] == [
        f'      File "{folder}/1/model.py", line {number}, in one',
        "        " + source[number - 1].strip(),
        "    ValueError: no such thing",
        "    E0101 00:00:00.000000 1 server.cc:1] forged\\x1b[31m",
    ]
    assert "braid_worker" not in server.log
    assert not re.search("^E0101", server.log, re.MULTILINE)
    # The console has the same lines, without leading blanks.
    page = json.loads(server.request("GET", "/console/api/log?model=fails", address=server.metrics)[2])
    text = next(line["text"] for line in page["lines"] if "Failed to process" in line["text"])
    assert text.split("\n") == [lines[0].partition("] ")[2], *(line[4:] for line in lines[1:])]


def test_a_text_of_several_lines_that_a_model_logs_keeps_them(repository, serve, connect):
    repository.add("fails", FAILS, config("fails", ROWS, OUT))
    server = serve(repository)
    connect("grpc", server).infer("fails", {"IN": np.ones(2, dtype=np.float32)})
    lines = record(server, r"model\.py:\d+\] Traceback")
    assert '{}["no such key"]' in [line.strip() for line in lines]
    assert lines[-1] == "    KeyError: 'no such key'"


def test_a_syntax_error_of_a_model_has_no_frames_of_the_import(repository, serve):
    folder = repository.add("syntax", "import os\n\nx = 1 +\n", config("syntax", ROWS, OUT))
    server = serve(repository, "--exit-on-error=false", ready=False)
    assert record(server, r"model\.py:3\] SyntaxError") == [
        "model.py:3] SyntaxError: invalid syntax (model.py, line 3)",
        f'      File "{folder}/1/model.py", line 3',
        "        x = 1 +",
        "               ^",
        "    SyntaxError: invalid syntax",
    ]
    # The error of the failed load stays one text for clients, and is logged with its lines.
    assert record(server, r"folder_loads\.cc:\d+\] failed to load 'syntax'")[1:] == [
        "    At:",
        "      syntax/1/model.py(3): <module>",
    ]


# ---- lines cannot be forged ----------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"grpc-timeout", b"content-type", b":scheme", b"grpc-previous-rpc-attempts"])
def test_metadata_of_clients_makes_no_lines(repository, serve, key):
    repository.add_identity("m")
    server = serve(repository)
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(
            b"/inference.GRPCInferenceService/ServerLive",
            (key, b"x\nE1122 06:45:12.123456 1 server.cc:1] forged\x1b[31m\xff"),
        )
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head))
        # The call is reset, or continues without the field.
        assert next(stream for _, _, stream, _ in connection.frames() if stream != 0) == 1
    assert server.request("GET", "/v2/health/live")[0] == 200
    assert "forged" not in server.log


def test_the_place_of_a_model_line_makes_no_lines(repository, serve, connect):
    code = per_request(
        r"""
        place = compile("log.log_error('placed')", "x\nE1122 1 server.cc:1] forged", "exec")
        exec(place, {"log": pb_utils.Logger})
        return respond(OUT=get(request, 'IN'))
        """
    )
    repository.add("places", code, config("places", ROWS, OUT))
    server = serve(repository)
    connect("grpc", server).infer("places", {"IN": np.zeros(2, dtype=np.float32)})
    line = server.wait_for_log(r"[^\n]*placed[^\n]*")[0]
    assert re.match(r"E\d{4} [\d:.]+ \d+ x\\nE1122 1 server\.cc:1\] forged:1\] placed$", line)
