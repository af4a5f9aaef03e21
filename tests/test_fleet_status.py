"""`braid fleet status`: several servers in one view."""

import contextlib
import json
import socket
import time

import numpy as np
import pytest
from harness.fleets import Fleet, FrontClients, run_fleet
from harness.repository import config
from harness.waiting import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), ("one", "two"), "--model-control-mode=poll") as made:
        yield made


@contextlib.contextmanager
def silent():
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def status(*arguments, check=True):
    return run_fleet("status", *arguments, check=check)


def rows(text, table):
    """The cells of the rows below the line that begins with `table`, by their first."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(table))
    found = {}
    for line in lines:
        if not line:
            break
        first, *cells = line.split()
        found[first] = cells
    return found


def test_replicas_that_serve_the_same(fleet):
    names = ["127.0.0.1:" + fleet.endpoint(name).split(":")[2] for name in ("one", "two")]
    with FrontClients(fleet.replicas["one"].http, fleet.replicas["one"].grpc) as clients:
        for sequence in (1, 2, 3):
            clients.step("grpc", sequence, 1, sequence_start=True)
        clients.step("grpc", 3, 1, sequence_end=True)
        for _ in range(5):
            clients.work("http")
    text = status("--endpoints", fleet.endpoints()).stdout
    replicas = rows(text, "REPLICA")
    assert list(replicas) == names
    server = fleet.replicas["one"].json("GET", "/v2")[1]
    name, version = server["name"], server["version"]
    # State, server, models, live sequences, waiting, requests, failed.
    assert replicas[names[0]][:8] == ["ready", name, version, "2", "2", "0", "9", "0"]
    assert replicas[names[1]][:8] == ["ready", name, version, "2", "0", "0", "0", "0"]
    models = rows(text, "MODEL")
    assert models["sums"][:8] == ["1", "READY", "2", "of", "2", "2", "0", "4"]
    assert models["work"][:7] == ["1", "READY", "2", "of", "2", "0", "5"]
    assert text.endswith("\nthe replicas that answered serve the same\n")

    found = json.loads(status("--endpoints", fleet.endpoints(), "--format", "json").stdout)
    assert found["differences"] == []
    sums = next(model for model in found["models"] if model["name"] == "sums")
    assert (sums["ready_versions"], sums["ready_at"], sums["sequence_model"]) == (["1"], 2, True)
    assert (sums["load"]["live_sequences"], sums["load"]["requests"]) == (2, 4)
    assert sums["differs"] is False
    assert [replica["endpoint"] for replica in found["replicas"]] == names
    for replica in found["replicas"]:
        assert replica["at_ms"] - 600_000 < replica["started_ms"] < replica["at_ms"] <= time.time() * 1000


def test_what_is_not_asked_is_not_known(fleet):
    """Without the port of metrics there is no figure of live sequences, and none is made up."""
    endpoint = fleet.endpoint("one").rpartition(":")[0]
    text = status("--endpoints", endpoint).stdout
    (cells,) = rows(text, "REPLICA").values()
    assert cells[4:6] == ["-", "-"]
    replica = json.loads(status("--endpoints", endpoint, "--format=json").stdout)["replicas"][0]
    assert replica["models"][0]["load"]["live_sequences"] is None
    assert replica["started_ms"] is None


def test_a_server_that_does_not_answer_costs_the_time_limit_alone(fleet):
    with silent() as port:
        began = time.monotonic()
        done = status("--endpoints", f"{fleet.endpoints()},127.0.0.1:{port},127.0.0.1:1", "--timeout", "1", check=False)
        assert time.monotonic() - began < 5
    assert done.returncode == 1
    assert f"127.0.0.1:{port}  no answer  the server did not answer in 1 s\n" in done.stdout.replace("   ", "  ")
    assert "no answer  cannot connect" in done.stdout or "Connection refused" in done.stdout
    assert "\n2 of 4 did not answer\n" in done.stdout
    assert rows(done.stdout, "MODEL")["work"][2:5] == ["2", "of", "4"]


def test_what_is_no_server_of_kserve_is_said_so(fleet):
    grpc_port = fleet.endpoint("one").split(":")[1]
    done = status("--endpoints", f"127.0.0.1:{grpc_port}", "--timeout", "2", check=False)
    assert done.returncode == 1
    assert "no answer" in done.stdout


def test_a_name_stands_for_its_addresses(fleet):
    port = fleet.endpoint("one").split(":")[2]
    found = json.loads(status("--dns", f"localhost:{port}", "--format=json", check=False).stdout)
    answered = {replica["endpoint"]: replica["answered"] for replica in found["replicas"]}
    assert answered[f"127.0.0.1:{port}"]
    assert set(answered) <= {f"127.0.0.1:{port}", f"[::1]:{port}"}


def test_differences_are_named(tmp_path):
    with Fleet(tmp_path, ("one", "two"), "--model-control-mode=explicit", "--load-model=*") as fleet:
        one, two = fleet.replicas.values()
        folder = fleet.folder("two") / "models" / "work"
        (folder / "2").mkdir()
        (folder / "2" / "model.py").write_text((folder / "1" / "model.py").read_text())
        text = config("work", [("IN", "FP32", [-1])], [("WHERE", "STRING", [1])])
        (folder / "config.pbtxt").write_text(text + 'parameters { key: "a" value { string_value: "b" } }\n')
        assert two.json("POST", "/v2/repository/models/work/load", {})[0] == 200
        assert one.json("POST", "/v2/repository/models/sums/unload", {})[0] == 200
        wait_until(lambda: "UNLOADING" not in str(one.json("POST", "/v2/repository/index", {})), 20, "the unload")
        done = status("--endpoints", fleet.endpoints(), check=False)
        assert done.returncode == 1
        first, second = (f"127.0.0.1:{fleet.endpoint(name).split(':')[2]}" for name in ("one", "two"))
        lines = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
        assert len(lines) == 3
        assert lines[0].startswith("differs: model sums: ")
        assert f"UNAVAILABLE at {first}" in lines[0]
        assert f"version 1 at {second}" in lines[0]
        assert f"version 1 at {first}" in lines[1]
        assert lines[1].startswith("differs: model work: version")
        assert lines[2] == (
            f'differs: model work: its parameters is {{"a":{{"string_value":"b"}}}} at {second}; {{}} at {first}'
        )
        with FrontClients(one.http, one.grpc) as clients:
            assert clients.of["http"].infer("work", {"IN": np.zeros(1, np.float32)}).as_numpy("WHERE")[0] == b"one"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--endpoints or --dns must say where the servers are"),
        (["--endpoints", "a,a"], "a:8000 is named twice"),
        (["--dns", "a,b"], "--dns takes one name"),
        (["--endpoints", "a", "--format", "xml"], "--format"),
        (["--endpoints", "a", "-H", "x"], "a header looks like 'NAME: VALUE'"),
    ],
)
def test_wrong_use(arguments, text):
    done = status(*arguments, check=False)
    assert done.returncode == 2
    assert text in done.stderr
