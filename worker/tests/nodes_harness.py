"""Runs Python nodes of a graph in a worker; the test acts as the server."""

import json
import textwrap
from collections import defaultdict, deque

import numpy as np
from worker_harness import standin

_NODES = 2  # LoadMode::kNodes
_FP32 = 11


def fp32(name, values):
    array = np.asarray(values, np.float32)
    return (name, _FP32, array.shape, array.tobytes())


def array_of(output):
    """Returns the values of an FP32 output."""
    _, datatype, shape, data, _ = output
    assert datatype == "FP32"
    return np.frombuffer(data, np.float32).reshape(shape).tolist()


class Graph:
    """Nodes by number, and the steps of calls that have arrived."""

    def __init__(self, worker, folder, nodes):
        self.worker = worker
        self.folder = folder
        self.nodes = nodes
        self.loaded = None
        self._calls = 0
        self._steps = defaultdict(deque)

    def load(self):
        config = {"nodes": self.nodes}
        message = {"model_config": json.dumps(config), "model_name": "graph", "instance_name": "graph"}
        standin.load(self.worker.channel, _NODES, message)
        self.loaded = self.worker.receive("loaded")
        return self.loaded

    def execute(self, inputs=(), node=0, session=0, credit=1):
        """Begins a call; returns its number."""
        self._calls += 1
        standin.node_execute(self.worker.channel, self._calls, node, session, credit, list(inputs))
        return self._calls

    def step(self, call, seconds=20):
        """Returns the next step of a call."""
        while not self._steps[call]:
            message = self.worker.receive("step", seconds)
            self._steps[message["call"]].append(message)
        return self._steps[call].popleft()

    def any_step(self):
        return self.worker.receive("step")

    def run(self, inputs=(), **options):
        return self.step(self.execute(inputs, **options))

    def resume(self, call, credit=1):
        standin.node_resume(self.worker.channel, call, credit)

    def close_call(self, call):
        standin.node_close(self.worker.channel, call)

    def begin(self, session, parameters="{}"):
        standin.node_session(self.worker.channel, session, False, parameters)

    def end(self, session):
        standin.node_session(self.worker.channel, session, True)

    def drop(self, number):
        standin.node_drop(self.worker.channel, number)

    def no_step(self, seconds=0.2):
        """Asserts that no step arrives for a while."""
        message = standin.receive(self.worker.channel, seconds)
        while message is not None and message["type"] != "step":
            message = standin.receive(self.worker.channel, seconds)
        return message is None


def write_handler(folder, source, name="model.py"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("import pyovms\nfrom pyovms import Tensor\n" + textwrap.dedent(source))
    return path


def node(path, name="node", inputs=("in",), outputs=("out",), exported=None, kept=(), loopback=False):
    loops = ["loopback"] if loopback else []
    return {
        "name": name,
        "handler_path": str(path),
        "input_names": [*inputs, *loops],
        "output_names": [*outputs, *loops],
        "loopback": loopback,
        "exported": list(outputs if exported is None else exported),
        "kept": list(kept),
    }
