"""Chaos: a server under load whose processes are killed and stopped, whose clients are cut and whose models are reloaded.

    python tests/chaos.py [--seconds 600] [--seed 1] [--heal-seconds 2]

Every request has to get exactly one right answer or one clear error; afterwards every model answers within --heal-seconds,
and the server has no more threads, descriptors, processes and memory than before. Ends with 1 and a list of what was
wrong. The seed decides who does what; when it happens is the machine's.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc
from harness.clients import Client
from harness.graphs import config as graphs_config
from harness.graphs import single
from harness.graphs import tensor as graph_tensor
from harness.repository import Repository, config, per_request
from harness.server import Server, children
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

IN = [("IN", "INT64", [1])]
OUT = [("OUT", "INT64", [1])]

DOUBLE = per_request("return respond(OUT=get(request, 'IN') * 2)")

CALLER = per_request(
    """
    call = pb_utils.InferenceRequest(
        model_name="plain",
        requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", get(request, "IN"))],
    )
    response = call.exec()
    if response.has_error():
        return pb_utils.InferenceResponse(error=response.error())
    value = pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
    return respond(OUT=value + 1)
    """
)

# The sum of what a sequence has sent; a step that ran twice, or never, shows in all that follow.
SUM = per_request(
    """
    key = request.correlation_id()
    if get(request, "START").reshape(-1)[0]:
        self.sums = getattr(self, "sums", {})
        self.sums[key] = 0
    self.sums[key] += get(request, "IN")
    return respond(OUT=self.sums[key])
    """
)
SEQUENCES = """
sequence_batching {
  max_sequence_idle_microseconds: 10000000
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
  oldest { max_candidate_sequences: 64 }
}
"""

# IN = n: n answers, 0 to n - 1.
COUNT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            for i in range(count):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([i], np.int64))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

ADD_ONE = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", np.array(inputs[0]) + 1)]
"""

# What a client may be told when a process has died, a model is being replaced, or its own connection was cut.
CLEAR = re.compile(
    r"Stub process '[^']+' is not healthy"
    r"|no instance of model '[^']+' (lives|has lived for)"
    r"|was lost when instance '[^']+' ended; begin it again"
    r"|ended \d+ times before they began with"
    r"|must specify the START flag"
    r"|being unloaded"
    r"|is being stopped"
    r"|is not ready"
    r"|the worker is gone"
    r"|the Python nodes were restarted"
)


class Load:
    """Clients that ask, and what was wrong with what they were told."""

    def __init__(self, server, seed):
        self.server = server
        self.seed = seed
        self.stop = threading.Event()
        self.answered = collections.Counter()
        self.refused = collections.Counter()
        self.wrong = []
        self._ids = itertools.count(1)
        self._threads = []

    def start(self):
        kinds = [self.ask_one] * 4 + [self.walk_sequence] * 2 + [self.count] * 2
        for number, kind in enumerate(kinds):
            protocol = "http" if number % 2 and kind != self.count else "grpc"
            draw = random.Random(self.seed * 1000 + number)
            thread = threading.Thread(target=self._run, args=(kind, protocol, draw), daemon=True)
            self._threads.append(thread)
            thread.start()

    def join(self):
        self.stop.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.wrong.append("a client still waits for its answer")

    def _run(self, kind, protocol, draw):
        options = {"network_timeout": 90.0} if protocol == "http" else {}
        client = Client(protocol, self.server, **options)
        try:
            while not self.stop.is_set():
                kind(client, draw)
        except Exception as error:
            self.wrong.append(f"{kind.__name__} over {protocol}: {type(error).__name__}: {error}")
        finally:
            client.close()

    def _told(self, model, error):
        """An error instead of an answer."""
        if CLEAR.search(error.message() or ""):
            self.refused[model] += 1
        else:
            self.wrong.append(f"{model}: {error}")

    def _infer(self, client, model, value, **more):
        """The answer, or None after an error."""
        try:
            if model == "graph":
                tensors = [graph_tensor("in", np.array([value], np.int64), module=client.module)]
                result = client.raw.infer(model, tensors).as_numpy("out")
            else:
                shape = (1, 1) if model in ("batched", "sums") else (1,)
                result = client.infer(model, {"IN": np.full(shape, value, np.int64)}, **more).as_numpy("OUT")
        except InferenceServerException as error:
            self._told(model, error)
            return None
        return int(result.reshape(-1)[0])

    def _expect(self, model, got, expected):
        if got == expected:
            self.answered[model] += 1
        else:
            self.wrong.append(f"{model}: {got} instead of {expected}")

    RULES = {
        "plain": lambda x: 2 * x,
        "batched": lambda x: 2 * x,
        "caller": lambda x: 2 * x + 1,
        "graph": lambda x: x + 1,
    }

    def ask_one(self, client, draw, model=None):
        model = model or draw.choice(list(self.RULES))
        value = next(self._ids)
        got = self._infer(client, model, value)
        if got is not None:
            self._expect(model, got, self.RULES[model](value))
        return got is not None

    def walk_sequence(self, client, draw):
        sequence, total = next(self._ids), 0
        steps = draw.randint(1, 20)
        for step in range(steps):
            value = draw.randint(1, 1000)
            more = {"sequence_id": sequence, "sequence_start": step == 0, "sequence_end": step == steps - 1}
            got = self._infer(client, "sums", value, **more)
            if got is None:
                return False
            total += value
            self._expect("sums", got, total)
        return True

    def count(self, client, draw):
        """All answers in their order, or the first of them and an error."""
        count = draw.randint(0, 30)
        told = collections.deque()
        ended = threading.Event()

        def on_answer(result, error):
            told.append((result, error))
            if error is not None or result.get_response().parameters["triton_final_response"].bool_param:
                ended.set()

        with tritonclient.grpc.InferenceServerClient(self.server.grpc) as stream:
            stream.start_stream(on_answer)
            tensor = client.input("IN", np.array([count], np.int64))
            stream.async_stream_infer("count", [tensor], enable_empty_final_response=True)
            if not ended.wait(90):
                self.wrong.append(f"count: {len(told)} answers of {count} in 90 s, and no end")
            stream.stop_stream()
        values = [int(r.as_numpy("OUT")[0]) for r, e in told if e is None and r.get_response().outputs]
        errors = [error for _, error in told if error is not None]
        if values != list(range(len(values))) or len(errors) > 1 or (not errors and len(values) != count):
            self.wrong.append(f"count: {values} and {errors} for {count} answers")
        for error in errors:
            self._told("count", error)
        if not errors:
            self.answered["count"] += 1
        return not errors

    def works(self, client, draw, model):
        """Whether a model answers now."""
        if model == "sums":
            return self.walk_sequence(client, draw)
        if model == "count":
            return self.count(client, draw)
        return self.ask_one(client, draw, model)


class Chaos:
    def __init__(self, seconds, seed, heal_seconds, folder):
        self.seconds = seconds
        self.seed = seed
        self.heal_seconds = heal_seconds
        self.folder = pathlib.Path(folder)
        self.repository = Repository(self.folder / "models")
        self.blows = collections.Counter()
        self.stop = threading.Event()
        self.versions = itertools.count(1)

    MODELS = ("plain", "batched", "caller", "sums", "count", "graph")

    def write_models(self):
        two = "instance_group [ { count: 2 kind: KIND_CPU } ]"
        batching = "dynamic_batching { max_queue_delay_microseconds: 500 }"
        decoupled = "model_transaction_policy { decoupled: true }"
        add = self.repository.add
        add("plain", DOUBLE, config("plain", IN, OUT, extra=two))
        add("batched", DOUBLE, config("batched", IN, OUT, max_batch_size=8, extra=batching))
        add("caller", CALLER, config("caller", IN, OUT))
        add("sums", SUM, config("sums", IN, OUT, max_batch_size=8, extra=SEQUENCES))
        add("count", COUNT, config("count", IN, OUT, extra=decoupled))
        graph = graphs_config(single(self.folder / "graphs", "graph", ADD_ONE))
        (self.folder / "config.json").write_text(json.dumps(graph), encoding="utf-8")

    # ---- blows: each is drawn again and again until the storm is over --------------------------------

    def kill_somebody(self, draw):
        if alive := children(self.server.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(alive), signal.SIGKILL)
                self.blows["killed"] += 1
        self.stop.wait(draw.choice((0.05, 0.3, 0.3, 1.0, 2.0)))

    def stop_somebody(self, draw):
        pid = draw.choice(children(self.server.process.pid) or [0])
        name = pathlib.Path(f"/proc/{pid}/comm")
        with contextlib.suppress(OSError):
            # The warm interpreter is to be there when it is asked for.
            if pid != 0 and "brd-warm" not in name.read_text():
                os.kill(pid, signal.SIGSTOP)
                self.blows["stopped"] += 1
                self.stop.wait(draw.uniform(0.05, 1.0))
                if pid in children(self.server.process.pid):
                    os.kill(pid, signal.SIGCONT)
        self.stop.wait(draw.uniform(0.2, 1.5))

    def cut_somebody(self, draw):
        """Clients that go away in the middle of a request, or of its answer."""
        way = draw.randrange(3)
        if way == 0:
            host, _, port = self.server.http.rpartition(":")
            with socket.create_connection((host, int(port))) as cut:
                body = json.dumps({"inputs": [{"name": "IN", "datatype": "INT64", "shape": [1], "data": [1]}]})
                head = f"POST /v2/models/plain/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                cut.sendall((head + body)[: draw.randint(1, len(head + body))].encode())
        else:
            with tritonclient.grpc.InferenceServerClient(self.server.grpc) as client:
                model, value = draw.choice((("plain", 1), ("caller", 1), ("count", 10**6)))
                tensor = tritonclient.grpc.InferInput("IN", [1], "INT64")
                tensor.set_data_from_numpy(np.array([value], np.int64))
                if model == "count":
                    client.start_stream(lambda result, error: None)
                    client.async_stream_infer(model, [tensor])
                    self.stop.wait(draw.uniform(0, 0.3))
                    client.stop_stream(cancel_requests=True)
                else:
                    client.async_infer(model, [tensor], lambda result, error: None).cancel()
        self.blows["cut"] += 1
        self.stop.wait(draw.uniform(0.02, 0.3))

    def reload_something(self, draw):
        model = draw.choice(self.MODELS[:-1])
        source = self.folder / "models" / model / "1" / "model.py"
        text = source.read_text().split("\n# version")[0]
        source.write_text(f"{text}\n# version {next(self.versions)}\n")
        # A load fails when its worker is killed; the version before goes on.
        self.server.json("POST", f"/v2/repository/models/{model}/load", {})
        self.blows["reloaded"] += 1
        self.stop.wait(draw.uniform(0.5, 3.0))

    def stay_silent(self, draw):
        """Connections that say nothing, or not all that they have to say."""
        with contextlib.ExitStack() as stack:
            for address in (self.server.http, self.server.grpc) * draw.randint(1, 10):
                host, _, port = address.rpartition(":")
                silent = stack.enter_context(socket.create_connection((host, int(port))))
                silent.sendall(draw.choice((b"", b"POST /v2", b"PRI * HTTP/2.0\r\n")))
            self.blows["silent"] += 1
            self.stop.wait(draw.uniform(0.5, 3.0))

    def strike(self, blow, draw):
        try:
            while not self.stop.is_set():
                blow(draw)
        except Exception as error:
            self.load.wrong.append(f"{blow.__name__}: {type(error).__name__}: {error}")

    # ---- the server's own ----------------------------------------------------------------------------

    def holdings(self):
        pid = self.server.process.pid
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        number = {name: int(re.search(rf"{name}:\s+(\d+)", status).group(1)) for name in ("Threads", "VmRSS")}
        return {
            "threads": number["Threads"],
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "children": len(children(pid)),
            "megabytes": number["VmRSS"] // 1024,
        }

    @staticmethod
    def grown(before, after):
        slack = {"threads": 4, "descriptors": 8, "children": 0, "megabytes": 64 + before["megabytes"] // 4}
        return {key: (before[key], after[key]) for key in before if after[key] > before[key] + slack[key]}

    def await_answers(self):
        """The seconds until each model has answered."""
        began = time.monotonic()
        draw = random.Random(self.seed)
        client = Client("grpc", self.server)
        healed = {}
        # What a model is refused until then is not wrong.
        with contextlib.closing(client):
            while len(healed) < len(self.MODELS) and time.monotonic() < began + 60:
                for model in self.MODELS:
                    if model not in healed and self.load.works(client, draw, model):
                        healed[model] = time.monotonic() - began
                time.sleep(0.01)
        for model in self.MODELS:
            seconds = healed.get(model, 60)
            if seconds > self.heal_seconds:
                self.load.wrong.append(f"{model} answered only {seconds:.1f} s after the last blow")
        return max(healed.values(), default=60)

    # ---- the whole ------------------------------------------------------------------------------------

    def run(self):
        """What was wrong; prints what was done."""
        self.write_models()
        options = ("--config_path", self.folder / "config.json", "--model-control-mode=explicit", "--load-model=*")
        with Server([self.repository.path], *options, workdir=self.folder) as self.server:
            self.load = Load(self.server, self.seed)
            self.await_answers()
            self.load.start()
            # With every kind of thread and connection there, before the first blow.
            time.sleep(min(3.0, self.seconds / 4))
            before = self.holdings()
            blows = [self.kill_somebody, self.stop_somebody, self.cut_somebody, self.reload_something, self.stay_silent]
            draws = [random.Random(self.seed * 1000 + 500 + number) for number in range(len(blows))]
            strikers = [
                threading.Thread(target=self.strike, args=each, daemon=True) for each in zip(blows, draws, strict=True)
            ]
            for striker in strikers:
                striker.start()
            time.sleep(self.seconds)
            self.stop.set()
            for striker in strikers:
                striker.join(60)
            healed = self.await_answers()
            self.load.join()
            after = self.holdings()
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not self.grown(before, self.holdings()), 30, interval=0.2)
            after = self.holdings()
            for key, (was, now) in self.grown(before, after).items():
                self.load.wrong.append(f"{key}: {now} after it, {was} before")
            if self.server.process.poll() is not None:
                self.load.wrong.append(f"the server ended:\n{self.server.log}")
            self.server.stop()
        print(f"seed {self.seed}, {self.seconds} s: {dict(self.blows)}; healed in {healed:.2f} s")
        print(f"answered {dict(self.load.answered)}; refused {dict(self.load.refused)}")
        print(f"before {before}; after {after}")
        return self.load.wrong


def run(seconds, seed, heal_seconds, folder):
    """What was wrong in a storm of so many seconds; an empty list when nothing was."""
    return Chaos(seconds, seed, heal_seconds, folder).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--heal-seconds", type=float, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="braid-chaos-") as folder:
        wrong = run(given.seconds, given.seed, given.heal_seconds, folder)
    for line in wrong[:50]:
        print("WRONG:", line)
    print(f"{len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
