"""`braid fleet envoy`: three Braids behind a real Envoy with the generated configuration."""

import collections
import contextlib
import itertools
import json
import signal
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import requests
from harness.envoy import need_envoy, validate
from harness.fleets import Fleet, FrontClients, Load, Threads, fleet_envoy, run_fleet
from harness.redis import Redis
from harness.server import BINARY, ROOT
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

NAMES = ("one", "two", "three")
ADDRESSES = "10.0.0.1:8001:8000,10.0.0.2:8001:8000,10.0.0.3:8001:8000"


def load_json(path):
    return json.loads(path.read_text())


# ---- the generated files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--sequence-models=none"],
        ["--sequence-models=sums,a b", "--lift-sequence-ids", "--hash-header=x-user", "--session-header=braid-session"],
        ["--sequence-models=sums", "--ssl"],
    ],
)
@pytest.mark.parametrize("where", [["--endpoints", ADDRESSES], ["--dns", "braid.example:8001:8000"]])
def test_envoy_takes_it(tmp_path, where, options):
    need_envoy()
    fleet_envoy(*where, *options, "--output", tmp_path / "envoy.json")
    validate(tmp_path / "envoy.json")


def test_envoy_takes_its_files(tmp_path):
    need_envoy()
    fleet_envoy("--endpoints", ADDRESSES, "--sequence-models=sums", "--xds-folder", tmp_path / "xds")
    validate(tmp_path / "xds" / "envoy.json")
    assert len(load_json(tmp_path / "xds" / "clusters.json")["resources"]) == 4


@pytest.mark.parametrize("name", ["three-braids", "three-braids-lift", "three-braids-session"])
def test_the_examples_are_what_it_writes(name):
    more = {"three-braids-lift": ["--lift-sequence-ids"], "three-braids-session": ["--session-header=braid-session"]}
    written = run_fleet(
        "envoy", "--endpoints", ADDRESSES, "--sequence-models=running_sum,running_mean", *more.get(name, [])
    )
    assert written.stdout == (ROOT / "deploy" / "envoy" / f"{name}.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--endpoints or --dns is required"),
        (["--endpoints", "a"], "no server reported which models have sequences"),
        (["--endpoints", "a:1"], "a:1: Envoy needs the gRPC port too"),
        (["--endpoints", "a:1:2:3:4"], "'a:1:2:3:4' is not an endpoint"),
        (["--endpoints", ADDRESSES, "--listen-http", "nowhere"], "--listen-http 'nowhere'"),
        (["--endpoints", ADDRESSES, "--cert", "c"], "--cert and --key must be set together"),
    ],
)
def test_wrong_use(arguments, text):
    done = run_fleet("envoy", *arguments, check=False)
    assert done.returncode != 0
    assert text in done.stderr


def test_files_that_say_the_same_stay(tmp_path):
    """Unchanged files are not rewritten, because Envoy would read them again."""
    command = ["--endpoints", ADDRESSES, "--sequence-models=sums", "--xds-folder", tmp_path]
    fleet_envoy(*command)
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    command[1] += ",10.0.0.4:8001:8000"
    fleet_envoy(*command)
    after = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {f"endpoints-{kind}.json" for kind in ("grpc", "http", "grpc-sequences", "http-sequences")}


# ---- three Braids ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    need_envoy()
    with Fleet(tmp_path_factory.mktemp("fleet"), NAMES, "--model-max-queued-bytes=24500") as made:
        yield made


@pytest.fixture(scope="module")
def envoy(fleet):
    return fleet.front("--hash-header=x-user")


@pytest.fixture
def clients(envoy):
    with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as made:
        yield made


def run_sequences(clients, ids, steps=5, **more):
    """Runs interleaved sequences; each step uses the other protocol than the previous one. Returns the replicas of
    each."""
    where = collections.defaultdict(set)
    for step in range(steps):
        for number, sequence in enumerate(ids):
            flags = {"sequence_start": step == 0, "sequence_end": step == steps - 1}
            protocol = ("http", "grpc")[(step + number) % 2]
            total, replica = clients.step(protocol, sequence, number + step, **flags, **more)
            assert total == sum(number + each for each in range(step + 1)), (sequence, step)
            where[sequence].add(replica)
    return where


def test_sequences_stay_at_one_replica(clients):
    """A sequence stays at one replica even if its steps use both protocols: a replica has the same place on both rings."""
    where = run_sequences(clients, [*range(1, 41), *(f"text-{i}" for i in range(10))])
    assert {len(replicas) for replicas in where.values()} == {1}
    assert set.union(*where.values()) == set(NAMES)


def test_a_stream_stays_at_one_replica(envoy):
    with grpc.insecure_channel(envoy.listeners["grpc"], [("grpc.enable_http_proxy", 0)]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for sequence in range(100, 110):
            messages = []
            for step in range(5):
                message = service_pb2.ModelInferRequest(model_name="sums", id=str(step))
                message.parameters["sequence_id"].int64_param = sequence
                message.parameters["sequence_start"].bool_param = step == 0
                message.parameters["sequence_end"].bool_param = step == 4
                tensor = message.inputs.add(name="VALUE", datatype="INT32", shape=[1, 1])
                tensor.contents.int_contents.append(step)
                messages.append(message)
            named = [("braid-sequence-id", str(sequence))]
            answers = [each.infer_response for each in stub.ModelStreamInfer(iter(messages), metadata=named)]
            sums = [int(np.frombuffer(each.raw_output_contents[0], np.int32)[0]) for each in answers]
            assert sums == [0, 1, 3, 6, 10]


def test_another_header_of_clients(clients):
    """With --hash-header, all requests of a user go to one replica."""
    where = collections.defaultdict(set)
    for _ in range(4):
        for user in range(20):
            protocol = ("http", "grpc")[user % 2]
            result = clients.of[protocol].infer("work", {"IN": np.zeros(1, np.float32)}, headers={"x-user": str(user)})
            where[user].add(result.as_numpy("WHERE")[0].decode())
    assert {len(replicas) for replicas in where.values()} == {1}
    assert set.union(*where.values()) == set(NAMES)


def test_requests_without_sequences_go_everywhere(clients):
    for protocol in ("http", "grpc"):
        assert {clients.work(protocol) for _ in range(60)} == set(NAMES)


def test_a_sequence_without_the_header_is_refused_over_http(clients):
    text = "'sums' has sequences: requests must name theirs in the header braid-sequence-id"
    with pytest.raises(InferenceServerException, match=text) as refused:
        clients.step("http", 7, 1, header=False, sequence_start=True)
    assert refused.value.status() == "400"


def test_the_header_and_the_body_are_compared(clients):
    with pytest.raises(InferenceServerException, match="'12' by its header braid-sequence-id and '13' by its body"):
        clients.step("grpc", 13, 1, header=False, headers={"braid-sequence-id": "12"}, sequence_start=True)


def test_what_is_about_one_server_is_refused(envoy, clients):
    for path in ("/v2/repository/models/sums/unload", "/v2/logging", "/v2/systemsharedmemory/region/a/register"):
        answer = requests.post(f"http://{envoy.listeners['http']}{path}", json={}, timeout=20)
        assert (answer.status_code, "ask that itself" in answer.json()["error"]) == (403, True), path
    with pytest.raises(InferenceServerException, match="ask that itself") as refused:
        clients.of["grpc"].raw.unload_model("sums")
    assert refused.value.status() == "StatusCode.PERMISSION_DENIED"
    assert clients.of["grpc"].raw.is_model_ready("sums")


@contextlib.contextmanager
def busy(fleet, name):
    """Requests to the model "work" of a replica do not return within the block."""
    file = fleet.folder(name) / "wait"
    file.touch()
    try:
        yield
    finally:
        file.unlink()


@contextlib.contextmanager
def full(fleet, name):
    """The same, and the replica refuses all other requests."""
    refused = threading.Event()

    def ask():
        status = ask_directly(fleet.replicas[name])
        if status == 429:
            refused.set()
        return status == 200

    with busy(fleet, name), ThreadPoolExecutor(11) as pool:
        # Ten requests fill its queue, and stay in it, because clients do not cancel. So it is full once the eleventh is
        # refused.
        stuck = [pool.submit(wait_until, ask, 100) for _ in range(11)]
        try:
            assert refused.wait(60)
            yield
        finally:
            (fleet.folder(name) / "wait").unlink()
            assert [each.result() for each in stuck] == 11 * [True]
            (fleet.folder(name) / "wait").touch()


def test_load_leaves_a_replica_that_is_slow(fleet, envoy):
    with Load(envoy) as load:
        load.wait_for(50)
        with busy(fleet, "one"):
            since = time.monotonic() + 1
            load.wait_for(50, since)
            # Fifty requests may all go to the replica that was faster just now.
            wait_until(lambda: {"two", "three"} <= set(load.between(since)), 30, "work for both others")
            assert set(load.between(since)) == {"two", "three"}
    assert not load.errors()


def test_load_leaves_a_replica_that_refuses(fleet, envoy):
    """Load moves away from a replica whose model is stuck, and which refuses faster than others work (429 and
    RESOURCE_EXHAUSTED)."""
    with full(fleet, "two"):
        with Load(envoy, size=600) as load:
            begin = time.monotonic()
            load.wait_for(50, begin + 1)
        # They explain an error that was not retried.
        counters = (
            "upstream_rq_retry",
            "upstream_rq_retry_overflow",
            "upstream_rq_retry_limit_exceeded",
            "lb_healthy_panic",
        )
        counted = {(kind, name): envoy.statistic(kind, name) for kind in ("grpc", "http") for name in counters}
        assert load.errors() == [], counted
        assert set(load.between(begin)) == {"one", "three"}
        for cluster in ("grpc", "http"):
            assert envoy.statistic(cluster, "upstream_rq_retry_success") > 0
            assert envoy.statistic(cluster, "outlier_detection.ejections_enforced_total") > 0
    # The replica is used again.
    with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients:
        for protocol in ("http", "grpc"):
            wait_until(lambda protocol=protocol: clients.work(protocol) == "two", 30, "work for the replica")


def test_sequences_stay_at_a_replica_that_refuses(fleet, envoy):
    """Sequences stay at a replica that refuses, because other replicas do not know them."""
    url = f"http://{envoy.listeners['http']}/v2/models/work/infer"
    tensor = {"name": "IN", "datatype": "FP32", "shape": [600], "data": [0] * 600}

    def ask(user):
        answer = requests.post(url, json={"inputs": [tensor]}, headers={"x-user": str(user)}, timeout=60)
        return answer.json()["outputs"][0]["data"][0] if answer.status_code == 200 else answer.status_code

    users = list(itertools.islice((user for user in range(100) if ask(user) == "two"), 5))
    assert users
    with full(fleet, "two"):
        assert {ask(user) for user in users for _ in range(5)} == {429}
    assert {ask(user) for user in users} == {"two"}
    assert envoy.statistic("http-sequences", "outlier_detection.ejections_enforced_total") == 0


def ask_directly(server):
    """Returns the status of a request to its model "work"."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [600], "data": [0] * 600}
    return server.request("POST", "/v2/models/work/infer", json.dumps({"inputs": [tensor]}), timeout=120)[0]


def test_what_is_too_large_is_no_failure_of_a_replica(tmp_path):
    """A request that is too large does not count as a failure; repeating it would otherwise eject all replicas."""
    need_envoy()
    with Fleet(tmp_path, ("four", "five"), "--grpc-max-input-size=100000") as small:
        envoy = small.front()
        with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients:
            for _ in range(20):
                with pytest.raises(InferenceServerException, match="Received message larger than max") as refused:
                    clients.work("grpc", 50000)
                assert refused.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
            assert {clients.work("grpc") for _ in range(20)} == {"four", "five"}
        assert envoy.statistic("grpc", "outlier_detection.ejections_enforced_total") == 0
        assert envoy.statistic("grpc", "upstream_rq_retry") == 0


# ---- replicas that start and stop ------------------------------------------------------------------


@pytest.fixture
def small_fleet(tmp_path):
    need_envoy()
    with Fleet(tmp_path, ("one", "two")) as made:
        yield made


def test_a_killed_replica_costs_what_had_begun(small_fleet):
    small_fleet.add("three")
    envoy = small_fleet.front()
    with Load(envoy) as load:
        load.wait_for(100)
        killed = time.monotonic()
        small_fleet.replicas["three"].kill()
        dead = time.monotonic()
        load.wait_for(200, dead)
        assert not load.errors(dead)
    # Each of the threads had one request in flight.
    assert len(load.errors(killed - 1)) <= 8
    assert set(load.between(dead)) == {"one", "two"}
    for cluster in ("grpc", "http"):
        envoy.wait_for_members(cluster, 2)


def test_replicas_come_and_go_by_files(small_fleet, tmp_path):
    folder = tmp_path / "xds"
    fleet_envoy("--endpoints", small_fleet.endpoints(), "--xds-folder", folder)
    envoy = small_fleet.run_envoy(folder / "envoy.json", 2)
    with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients, Load(envoy, threads=2) as load:
        small_fleet.add("three")
        fleet_envoy("--endpoints", small_fleet.endpoints(), "--xds-folder", folder)
        for protocol in ("http", "grpc"):
            envoy.wait_for_members(protocol, 3)
            wait_until(lambda protocol=protocol: clients.work(protocol) == "three", 20, "work for the new replica")
        where = run_sequences(clients, range(1, 31), steps=2)
        assert set.union(*where.values()) == {"one", "two", "three"}

        fleet_envoy("--endpoints", small_fleet.endpoints("one", "three"), "--xds-folder", folder)
        for protocol in ("http", "grpc"):
            envoy.wait_for_members(protocol, 2)
        since = time.monotonic()
        load.wait_for(50, since)
        assert set(load.between(since)) == {"one", "three"}
    assert not load.errors()


def test_a_step_whose_sequence_is_elsewhere_is_sent_again(tmp_path):
    """A replica that was replaced as owner of a sequence notices it when it writes. It has done nothing, so the step is
    sent again."""
    need_envoy()
    with Redis(tmp_path) as redis, Fleet(tmp_path, ("one", "two"), "--sequence_state_store", redis.url) as fleet:
        envoy = fleet.front()
        with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients:
            for sequence, protocol in enumerate(["http", "grpc"] * 3, 1):
                total, where = clients.step(protocol, sequence, 5, sequence_start=True)
                assert total == 5
                elsewhere = {"one": "two", "two": "one"}[where]
                server = fleet.replicas[elsewhere]
                with FrontClients(server.http, server.grpc) as directly:
                    assert directly.step(protocol, sequence, 6) == (11, elsewhere)
                assert clients.step(protocol, sequence, 7) == (18, where)
        for cluster in ("grpc-sequences", "http-sequences"):
            assert envoy.statistic(cluster, "upstream_rq_retry_success") == 3


class Walks(Threads):
    """Threads that run one sequence after the other until the block ends; each step uses the other protocol than the
    previous one."""

    def __init__(self, envoy, threads=4, steps=60):
        super().__init__((number,) for number in range(1, threads + 1))
        self.envoy = envoy
        self.steps = steps
        self._places = {}  # by thread: the replica and the step of its sequence
        self.errors = []
        self.done = 0  # steps
        self.moved = 0  # sequences that were answered by more than one replica

    def _run(self, number):
        with FrontClients(self.envoy.listeners["http"], self.envoy.listeners["grpc"]) as clients:
            for count in itertools.count():
                if self._ended.is_set():
                    return
                try:
                    self._walk(clients, number, number * 1_000_000 + count)
                except Exception as error:
                    self.errors.append(error)

    def wait_for(self, replica):
        """Waits for a sequence of this replica that has most steps before it."""
        wait_until(
            lambda: any(where == replica and step < self.steps // 4 for where, step in [*self._places.values()]),
            20,
            f"a new sequence of {replica}",
        )

    def _walk(self, clients, number, sequence):
        where = set()
        for step in range(self.steps):
            flags = {"sequence_start": step == 0, "sequence_end": step == self.steps - 1}
            total, replica = clients.step(("http", "grpc")[step % 2], sequence, step + 1, **flags)
            assert total == (step + 1) * (step + 2) // 2, (sequence, step, total)
            where.add(replica)
            self._places[number] = (replica, step)
            self.done += 1
            # So that each replica has some sequences whenever it ends.
            self._ended.wait(0.05)
        self.moved += len(where) > 1


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.campaign)])
def test_a_rolling_upgrade_costs_nothing(tmp_path, count):
    """If `count` of three servers are replaced at a time under load, no request fails, and no sequence continues from a
    wrong state."""
    need_envoy()
    folder = tmp_path / "xds"
    with Redis(tmp_path) as redis:
        options = ["--sequence_state_store", redis.url, "--exit-notice-secs", 4]
        with Fleet(tmp_path, NAMES, *options) as fleet:
            fleet_envoy("--endpoints", fleet.endpoints(), "--xds-folder", folder)
            envoy = fleet.run_envoy(folder / "envoy.json", 3)
            with Load(envoy, threads=4) as load, Walks(envoy) as walks:
                load.wait_for(50)
                for name in NAMES[:count]:
                    walks.wait_for(name)
                    before = fleet.replicas.pop(name)
                    before.stop()
                    fleet.add(f"{name}-upgraded")
                    fleet_envoy("--endpoints", fleet.endpoints(), "--xds-folder", folder)
                    for cluster in ("grpc", "http", "grpc-sequences", "http-sequences"):
                        envoy.wait_for_members(cluster, 3)
                    # Later requests have succeeded, too.
                    load.wait_for(50, time.monotonic())
                since, now = time.monotonic(), {*NAMES[count:], *(f"{name}-upgraded" for name in NAMES[:count])}
                wait_until(
                    lambda: set(load.between(since)) == now, 20, "answers of all that are there, and of no other"
                )
            assert not [str(error) for error in load.errors() + walks.errors]
            assert walks.moved >= count
            assert walks.done > 10 * walks.moved


# ---- the sequence id only in the body --------------------------------------------------------------


def test_ids_are_lifted_out_of_bodies(small_fleet):
    envoy = small_fleet.front("--lift-sequence-ids")
    ids = [*range(1, 21), 2**53 + 1, 2**63 - 1, *(f"text_{i}-a.b" for i in range(5))]
    with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients:
        where = run_sequences(clients, ids, header=False)
        assert {len(replicas) for replicas in where.values()} == {1}
        assert set.union(*where.values()) == {"one", "two"}
        # Half of the steps have the header.
        total, first = clients.step("grpc", 50, 1, sequence_start=True)
        assert clients.step("http", 50, 2, header=False) == (total + 2, first)
        # Bodies of requests to other models are not read.
        assert {clients.work(protocol) for protocol in ("http", "grpc") for _ in range(20)} == {"one", "two"}
    # JSON without binary tensors, and a tensor's text that looks like an id.
    tensor = {"name": "VALUE", "datatype": "INT32", "shape": [1, 1], "data": [5]}
    body = {"inputs": [tensor], "parameters": {"sequence_id": 77, "sequence_start": True}}
    url = f"http://{envoy.listeners['http']}/v2/models/sums/infer"
    first = requests.post(url, json=body, timeout=20).json()
    body["parameters"] = {"sequence_id": 77, "sequence_end": True}
    second = requests.post(url, json=body, timeout=20).json()
    values = [[each["data"] for each in answer["outputs"]] for answer in (first, second)]
    assert values == [[[5], values[0][1]], [[10], values[0][1]]]
    refused = requests.post(url, json={"id": '"sequence_id": 9', "inputs": [tensor]}, timeout=20)
    assert (refused.status_code, "names theirs" in refused.text or "name theirs" in refused.text) == (400, True)


# ---- TLS -------------------------------------------------------------------------------------------


def test_tls_on_both_sides(tmp_path):
    need_envoy()
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    root, certificate, key = (str(tmp_path / name) for name in ("root.pem", "server.pem", "server.key"))
    options = []
    for protocol in ("http", "grpc"):
        options += [
            f"--{protocol}-use-ssl",
            f"--{protocol}-server-cert={certificate}",
            f"--{protocol}-server-key={key}",
        ]
    with Fleet(tmp_path, ("one", "two"), *options, tls=ssl.create_default_context(cafile=root)) as fleet:
        # The certificates are for this name.
        endpoints = fleet.endpoints().replace("127.0.0.1", "localhost")
        config = tmp_path / "envoy.json"
        shown = ["--cert", certificate, "--key", key]
        fleet_envoy("--endpoints", endpoints, "--ssl", "--ssl-ca", root, *shown, "--output", config)
        envoy = fleet.run_envoy(config, 2)
        port = envoy.listeners["http"].rpartition(":")[2]
        tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [0]}
        answers = set()
        for _ in range(20):
            url = f"https://localhost:{port}/v2/models/work/infer"
            answer = requests.post(url, json={"inputs": [tensor]}, verify=root, timeout=20)
            answers.add(answer.json()["outputs"][0]["data"][0])
        assert answers == {"one", "two"}
        credentials = grpc.ssl_channel_credentials((tmp_path / "root.pem").read_bytes())
        address = f"localhost:{envoy.listeners['grpc'].rpartition(':')[2]}"
        with grpc.secure_channel(address, credentials, [("grpc.enable_http_proxy", 0)]) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=20).ready
        # A server without a trusted certificate gets no request.
        wrong = run_fleet("status", "--endpoints", endpoints, "--ssl", check=False)
        assert wrong.returncode == 1
        assert "2 of 2 did not answer" in wrong.stdout


# ---- a session that Envoy keeps --------------------------------------------------------------------


def test_a_session_outlives_that_its_replica_drains(tmp_path):
    """With only the ring, sequences of a replica that is not ready would move. With Envoy's session they stay until
    they end."""
    need_envoy()
    with Fleet(tmp_path, ("one", "two"), "--sequence-drain-seconds=60") as fleet:
        envoy = fleet.front("--session-header=braid-session")
        url = f"http://{envoy.listeners['http']}/v2/models/sums/infer"

        def step(sequence, session, **flags):
            tensor = {"name": "VALUE", "datatype": "INT32", "shape": [1, 1], "data": [1]}
            body = {"inputs": [tensor], "parameters": {"sequence_id": sequence, **flags}}
            headers = {"braid-sequence-id": str(sequence), **({"braid-session": session} if session else {})}
            answer = requests.post(url, json=body, headers=headers, timeout=20)
            assert answer.status_code == 200, answer.text
            values = {each["name"]: each["data"][0] for each in answer.json()["outputs"]}
            return values["SUM"], values["WHERE"], answer.headers.get("braid-session", session)

        sessions = {}
        for sequence in range(1, 21):
            total, where, session = step(sequence, None, sequence_start=True)
            assert total == 1
            sessions[sequence] = where, session
        assert {where for where, _ in sessions.values()} == {"one", "two"}
        leaving = fleet.replicas["one"]
        leaving.process.send_signal(signal.SIGTERM)
        for cluster in ("http", "http-sequences"):
            envoy.wait_for_members(cluster, 1)
        # New sequences begin elsewhere; existing ones end where they began.
        for sequence in range(101, 111):
            assert step(sequence, None, sequence_start=True, sequence_end=True)[1] == "two"
        for sequence, (where, session) in sessions.items():
            assert step(sequence, session)[:2] == (2, where)
            assert step(sequence, session, sequence_end=True)[:2] == (3, where)
        assert leaving.wait_exit(30) == 0
        leaving.stopped = True
        leaving.assert_nothing_left()
