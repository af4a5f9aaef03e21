"""Several servers in one view: `braid fleet status`, and the fleet view in the console (--fleet-endpoints)."""

import contextlib
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time

import numpy as np
import pytest
from harness.fleets import Fleet, FrontClients, run_fleet
from harness.repository import config
from harness.server import BINARY
from harness.waiting import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), ("one", "two"), "--model-control-mode=poll") as made:
        yield made


@contextlib.contextmanager
def silent():
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def status(*arguments, check=True):
    return run_fleet("status", *arguments, check=check)


def rows(text, table):
    """Returns the cells of the rows below the line that begins with `table`, by the first cell."""
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
    """Without the metrics port, the number of live sequences is unknown, and none is invented."""
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


def test_an_answer_without_end_is_not_kept(fleet):
    """An endless response of another server does not exhaust memory."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            with contextlib.closing(listening.accept()[0]) as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = status("--endpoints", f"127.0.0.1:{listening.getsockname()[1]}", check=False)
        thread.join()
    assert done.returncode == 1
    assert "no answer" in done.stdout
    assert "the answer has more than 67108864 bytes" in done.stdout


@pytest.mark.parametrize("option", ["--dns=", "--endpoints=dns://"])
def test_a_name_stands_for_its_addresses(fleet, option):
    port = fleet.endpoint("one").split(":")[2]
    found = json.loads(status(f"{option}localhost:{port}", "--format=json", check=False).stdout)
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
        ([], "--endpoints or --dns is required"),
        (["--endpoints", "a,a"], "duplicate endpoint a:8000"),
        (["--dns", "a,b"], "dns:// takes one name"),
        (["--endpoints", "a", "--format", "xml"], "--format"),
        (["--endpoints", "a", "-H", "x"], "expected a header 'NAME: VALUE'"),
    ],
)
def test_wrong_use(arguments, text):
    done = status(*arguments, check=False)
    assert done.returncode == 2
    assert text in done.stderr


# ---- the console -----------------------------------------------------------------------------------


def look(server, token=None):
    """Returns (status, JSON) of the console's fleet view."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    status, _, body = server.request("GET", "/console/api/fleet", None, headers, address=server.metrics)
    return status, json.loads(body)


def without_times(found):
    for replica in found["replicas"]:
        replica.pop("at_ms", None)
    return found


def test_the_console_shows_what_the_command_shows(fleet, repository, serve):
    repository.add_identity("m")
    endpoints = f"{fleet.endpoints()},127.0.0.1:1"
    server = serve(repository, f"--fleet-endpoints={endpoints}")
    code, shown = look(server)
    assert code == 200
    assert [replica["answered"] for replica in shown["replicas"]] == [True, True, False]
    assert without_times(shown) == without_times(
        json.loads(status("--endpoints", endpoints, "--format=json", check=False).stdout)
    )
    overview = json.loads(server.request("GET", "/console/api/overview", address=server.metrics)[2])
    assert overview["fleet"] is True


def test_a_name_is_looked_up_for_each_look(fleet, repository, serve):
    repository.add_identity("m")
    port = fleet.endpoint("one").split(":")[2]
    _, shown = look(serve(repository, f"--fleet-endpoints=dns://localhost:{port}"))
    assert f"127.0.0.1:{port}" in [replica["endpoint"] for replica in shown["replicas"] if replica["answered"]]
    code, shown = look(serve(repository, "--fleet-endpoints=dns://no-such-host.invalid"))
    assert code == 503
    assert shown["error"].startswith("no-such-host.invalid: ")


def test_nobody_waits_for_a_replica_that_does_not_answer(fleet, repository, serve):
    """A replica that does not answer delays neither other requests nor the end of the server."""
    repository.add_identity("m")
    with silent() as port:
        server = serve(repository, f"--fleet-endpoints={fleet.endpoints()},127.0.0.1:{port}")
        looks = []
        viewers = [threading.Thread(target=lambda: looks.append(look(server))) for _ in range(8)]
        began = time.monotonic()
        for viewer in viewers:
            viewer.start()
        meanwhile = 0
        while not looks:
            assert server.request("GET", "/console/api/overview", address=server.metrics)[0] == 200
            meanwhile += 1
        assert meanwhile > 2  # a request that waited for the fleet view would be the only one, or the last but one
        for viewer in viewers:
            viewer.join()
        # One query, and one more for the requests that arrived during it.
        assert time.monotonic() - began < 9
        for code, shown in looks:
            assert code == 200
            assert [replica["answered"] for replica in shown["replicas"]] == [True, True, False]
            assert shown["replicas"][2]["error"] == "the server did not answer in 2 s"
        viewer = threading.Thread(target=lambda: looks.append(look(server)))
        viewer.start()
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 8
        viewer.join()


def test_each_replica_judges_who_looks(tmp_path, repository, serve):
    """The viewer's token is forwarded to each replica; the server sends no credentials of its own."""
    (tmp_path / "tokens").write_text("operator o-token\nviewer v-token\npart p-token\n")
    (tmp_path / "tokens").chmod(0o600)
    statistics = {"apis": ["statistics"]}
    rules = [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["operator"], "apis": ["*"]},
        {"identities": ["viewer"], **statistics},
        {"identities": ["part"], **statistics, "models": ["m"]},
    ]
    (tmp_path / "policy").write_text(json.dumps({"rules": rules}))
    access = [f"--token-file={tmp_path / 'tokens'}", f"--policy-file={tmp_path / 'policy'}"]
    repository.add_identity("m")
    with Fleet(tmp_path, ("one",), *access) as fleet:
        server = serve(repository, f"--fleet-endpoints={fleet.endpoints()}", *access)
        code, shown = look(server, "o-token")
        assert code == 200
        assert [model["name"] for model in shown["models"]] == ["sums", "work"]
        # This user may see this server's fleet view, but not another server's models.
        code, shown = look(server, "v-token")
        assert (code, shown["models"]) == (200, [])
        assert shown["replicas"][0]["error"] == (
            "HTTP 403: 'viewer' may not use the API 'model-repository' of all models"
        )
        code, shown = look(server, "p-token")
        assert (code, shown["error"]) == (403, "'part' may not use the API 'statistics' of all models")
        assert look(server)[0] == 401
        assert look(server, "unknown")[0] == 401


def test_replicas_are_asked_with_tls_where_the_server_speaks_it(tmp_path, repository, serve):
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    root = tmp_path / "root.pem"
    options = [
        "--http-use-ssl",
        f"--http-server-cert={tmp_path}/server.pem",
        f"--http-server-key={tmp_path}/server.key",
    ]
    context = ssl.create_default_context(cafile=root)
    repository.add_identity("m")
    with Fleet(tmp_path, ("one",), *options, tls=context) as fleet:
        where = "--fleet-endpoints=" + fleet.endpoints().replace("127.0.0.1", "localhost")
        _, shown = look(serve(repository, where, f"--fleet-ca-file={root}", *options, tls=context))
        assert [replica["ready"] for replica in shown["replicas"]] == [True]
        _, shown = look(serve(repository, where, *options, tls=context))
        assert "TLS: " in shown["replicas"][0]["error"]


class Hostile(http.server.BaseHTTPRequestHandler):
    """A replica that returns the configured answer."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(self.path)
        body = next((body for path, body in self.server.answers.items() if self.path.endswith(path)), "{}").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    do_GET = do_POST = answer


@contextlib.contextmanager
def hostile(index, **answers):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as made:
        made.asked = []
        made.answers = {"/v2": json.dumps({"name": "x", "version": "1"}), "/index": json.dumps(index)}
        made.answers |= {f"/{path}": body for path, body in answers.items()}
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.mark.parametrize("body", ['{"parameters":' + "[" * 200_000 + "]" * 200_000 + "}", "[" * 1_000_000, "5", '"x'])
def test_a_replica_that_lies_harms_no_one_else(repository, serve, body):
    repository.add_identity("m")
    name = "m n%/../x?\n\x1b[31m"
    index = [{"name": name, "version": "1", "state": "READY"}, {"name": 5}][: 1 if body != "5" else 2]
    with hostile(index, config=body, stats=body if body != "5" else "{}") as one, hostile(index, config=body) as two:
        where = ",".join(f"127.0.0.1:{each.server_port}" for each in (one, two))
        server = serve(repository, f"--fleet-endpoints={where}")
        code, shown = look(server)
        assert (code, len(shown["replicas"])) == (200, 2)
        if body == "5":
            assert all("it does not speak KServe v2" in replica["error"] for replica in shown["replicas"])
        done = status("--endpoints", where, check=False)
        assert done.returncode >= 0, "it ended by a signal"
        assert "\x1b" not in done.stdout
        asked = {path for path in [*one.asked, *two.asked] if path.startswith("/v2/models/m")}
        assert asked <= {"/v2/models/m%20n%25%2F..%2Fx%3F%0A%1B%5B31m/config"}
        assert server.json("GET", "/v2/models/m")[0] == 200
