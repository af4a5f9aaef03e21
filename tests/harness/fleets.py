"""Several Braids with the same models, behind an Envoy configured by `braid fleet envoy`."""

import contextlib
import os
import subprocess
import threading
import time
import types

import numpy as np

from harness.clients import Client
from harness.envoy import Envoy
from harness.repository import Repository, config, per_request
from harness.server import BINARY, Server
from harness.waiting import wait_until

# The name of the answering replica: the name of the folder that contains its repository.
WHERE = "os.path.basename(os.path.dirname(os.path.dirname(self.args['model_repository'])))"
# The sum of all VALUEs of a sequence. It lives in the model's process, and can move to another server through a store.
SUMS = (
    per_request(f"""
sums = self.__dict__.setdefault("sums", {{}})
key = request.correlation_id()
sums[key] = get(request, "VALUE") + (0 if request.flags() & 1 else sums[key])
return respond(SUM=sums[key], WHERE=np.array([[{WHERE}]], dtype=object))
""")
    + """
    def save_sequence(self, correlation_id):
        return self.sums[correlation_id].tobytes()

    def load_sequence(self, correlation_id, state):
        self.__dict__.setdefault("sums", {})[correlation_id] = np.frombuffer(state, np.int32).reshape(1, 1)
"""
)
# Waits while the file "wait" exists in the replica's folder.
WORK = per_request(f"""
folder = os.path.dirname(os.path.dirname(self.args["model_repository"]))
while os.path.exists(os.path.join(folder, "wait")):
    time.sleep(0.01)
return respond(WHERE=np.array([{WHERE}], dtype=object))
""")
SEQUENCES = (
    "sequence_batching { oldest { max_candidate_sequences: 256 } max_sequence_idle_microseconds: 600000000 "
    'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } } }'
)


def add_fleet_models(repository):
    repository.add(
        "sums",
        SUMS,
        config(
            "sums", [("VALUE", "INT32", [1])], [("SUM", "INT32", [1]), ("WHERE", "STRING", [1])], 64, extra=SEQUENCES
        ),
    )
    repository.add("work", WORK, config("work", [("IN", "FP32", [-1])], [("WHERE", "STRING", [1])]))


class Fleet:
    """Replicas by name, which start and stop. Use as a context manager."""

    def __init__(self, workdir, names, *options, tls=None):
        self._workdir = workdir
        self._tls = tls
        self._options = options
        self._stack = contextlib.ExitStack()
        self.replicas = {}
        try:
            for name in names:
                self.add(name, wait=False)
            for server in self.replicas.values():
                server.wait_ready()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self._stack.close()

    def folder(self, name):
        return self._workdir / name

    def add(self, name, *options, wait=True):
        self.folder(name).mkdir(parents=True, exist_ok=True)
        repository = Repository(self.folder(name) / "models")
        add_fleet_models(repository)
        server = Server(
            [repository.path], *self._options, *options, workdir=self.folder(name), ready=wait, tls=self._tls
        )
        self.replicas[name] = self._stack.enter_context(server)
        return server

    def endpoints(self, *names):
        """Returns the text for --endpoints, for all replicas if no names are given."""
        return ",".join(self.endpoint(name) for name in names or self.replicas)

    def endpoint(self, name):
        server = self.replicas[name]
        host, _, grpc = server.grpc.rpartition(":")
        return ":".join([host, grpc, server.http.rpartition(":")[2], server.metrics.rpartition(":")[2]])

    def front(self, *options, names=(), workdir=None):
        """Returns an Envoy for the named replicas, or for all; it ends with the fleet."""
        config_file = (workdir or self._workdir) / "envoy.json"
        fleet_envoy("--endpoints", self.endpoints(*names), "--output", config_file, *options)
        return self.run_envoy(config_file, len(names) or len(self.replicas))

    def run_envoy(self, config_file, replicas):
        envoy = Envoy(config_file, config_file.parent)
        self._stack.callback(envoy.stop)
        for cluster in ("grpc", "http", "grpc-sequences", "http-sequences"):
            envoy.wait_for_members(cluster, replicas)
        return envoy


def run_fleet(*arguments, check=True, env=None):
    done = subprocess.run(
        [str(BINARY), "fleet", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def fleet_envoy(*arguments):
    """Runs `braid fleet envoy` with listeners on free ports of the loopback interface."""
    listen = [f"--{name}=127.0.0.1:0" for name in ("listen-grpc", "listen-http", "admin")]
    return run_fleet("envoy", *listen, *arguments)


class FrontClients:
    """A client of each protocol, for an Envoy or for one server."""

    def __init__(self, http, grpc):
        address = types.SimpleNamespace(http=http, grpc=grpc)
        self.of = {"http": Client("http", address, concurrency=16), "grpc": Client("grpc", address)}

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for client in self.of.values():
            client.close()

    def step(self, protocol, sequence, value, header=True, headers=None, **more):
        """Returns (sum, replica) of a step of the model "sums"."""
        named = {"braid-sequence-id": str(sequence)} if header else {}
        result = self.of[protocol].infer(
            "sums",
            {"VALUE": np.array([[value]], np.int32)},
            sequence_id=sequence,
            headers={**named, **(headers or {})},
            **more,
        )
        return int(result.as_numpy("SUM")[0, 0]), result.as_numpy("WHERE")[0, 0].decode()

    def work(self, protocol, size=1):
        """Returns the replica that answered."""
        result = self.of[protocol].infer("work", {"IN": np.zeros(size, np.float32)})
        return result.as_numpy("WHERE")[0].decode()


class Threads:
    """Threads that call self._run(...) with each of `arguments`. It must return when self._ended is set, at the end of
    the block."""

    def __init__(self, arguments):
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=each) for each in arguments]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self._ended.set()
        for thread in self._threads:
            thread.join(60)


class Load(Threads):
    """Threads that send requests to `work`, one after the other, until the block ends. `done` has (begin, end, replica
    or error)."""

    def __init__(self, envoy, threads=8, size=1):
        super().__init__((envoy, ("http", "grpc")[i % 2], size) for i in range(threads))
        self.done = []

    def _run(self, envoy, protocol, size):
        with FrontClients(envoy.listeners["http"], envoy.listeners["grpc"]) as clients:
            while not self._ended.is_set():
                begin = time.monotonic()
                try:
                    what = clients.work(protocol, size)
                except Exception as error:
                    what = error
                self.done.append((begin, time.monotonic(), what))

    def wait_for(self, count, since=0.0):
        """Waits until `count` requests that began after `since` are done."""
        wait_until(lambda: len(self.between(since)) >= count, 30, f"{count} requests")

    def between(self, begin, end=float("inf")):
        return [what for began, _, what in list(self.done) if begin <= began < end]

    def errors(self, since=0.0):
        return [str(what) for what in self.between(since) if isinstance(what, Exception)]
