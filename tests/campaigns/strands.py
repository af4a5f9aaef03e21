"""Strands: the ways in which a server runs requests, each with one or more models and a client that knows the right
answers.

A client sends each value only once in a run, so the answer to another request is always recognised.
"""

import dataclasses
import itertools
import json
import textwrap
from collections.abc import Callable

import numpy as np
from harness import openvino_models, pipelines
from harness.ensembles import ensemble, step
from harness.graphs import boundary, single, write_graph
from harness.repository import Repository, config, per_request
from harness.server import BINARY
from harness.stateful_models import EXACT, running_sum_model, stateful_entry

from campaigns.transports import WrongError

NODES = BINARY.parent / "src" / "pipeline" / "testing" / "nodes"
CALCULATORS = BINARY.parent / "src" / "mediapipe_graph" / "testing" / "plugins" / "test_calculators.so"
IN = [("IN", "INT64", [1])]
OUT = [("OUT", "INT64", [1])]
IDLE_US = 600_000_000


def lingering(body):
    """per_request(), but one request of 32 is slow, so that events often hit a worker during a request."""
    pause = "time.sleep(0.02 if get(request, 'IN').reshape(-1)[0] % 32 == 0 else 0)\n"
    return per_request(pause + textwrap.dedent(body).strip("\n"))


DOUBLE = lingering("return respond(OUT=get(request, 'IN') * 2)")

# Writes to eight megabytes for each request.
LARGE = per_request("""
    block = np.full(1 << 20, get(request, 'IN')[0], np.int64)
    return respond(OUT=block[-1:] + block[:1])
""")

CALLER = lingering("""
    call = pb_utils.InferenceRequest(
        model_name="plain",
        requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", get(request, "IN"))],
    )
    response = call.exec()
    if response.has_error():
        return pb_utils.InferenceResponse(error=response.error())
    return respond(OUT=pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy() + 1)
""")

# The sum of all answers of model "count" to 10 + IN % 10.
COLLECTOR = per_request("""
    call = pb_utils.InferenceRequest(
        model_name="count",
        requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", 10 + get(request, "IN") % 10)],
    )
    total = get(request, "IN") * 1000
    for response in call.exec(decoupled=True):
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        for tensor in response.output_tensors():
            total = total + tensor.as_numpy()
    return respond(OUT=total)
""")

# The sum of a sequence, in the model's memory.
SUM = lingering("""
    key = request.correlation_id()
    self.sums = getattr(self, "sums", {})
    if request.flags() & 1:
        self.sums[key] = 0
    self.sums[key] += get(request, "IN")
    answer = self.sums[key]
    if request.flags() & 2:
        del self.sums[key]
    return respond(OUT=answer)
""")

# The same, in the server's memory.
KEPT = lingering("""
    total = get(request, "OLD") + get(request, "IN")
    return respond(OUT=total, NEW=total)
""")
STATE = 'state [ { input_name: "OLD" output_name: "NEW" data_type: TYPE_INT64 dims: [ 1 ] } ]'

# IN = n: n answers, 0 to n - 1.
COUNT = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            for i in range(count):
                if sender.is_cancelled():
                    break
                time.sleep(0.005 if i == 15 else 0)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([i], np.int64))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

ADD_ONE = """
    import time
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            time.sleep(0.02 if np.array(inputs[0])[0] % 32 == 0 else 0)
            return [Tensor("out", np.array(inputs[0]) + 1)]
"""

# in = [first, count]: yields first, first + 1, ...
TELL = """
    import time
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            first, count = (int(each) for each in np.array(inputs[0]))
            for i in range(count):
                time.sleep(0.005 if i == 15 else 0)
                yield [Tensor("out", np.array([first + i], np.int64))]
"""

# Each calculator of the library holds one packet back until the graph ends.
HOLD = """
node { calculator: "DelayCalculator" input_stream: "in" output_stream: "middle" }
node { calculator: "DelayCalculator" input_stream: "middle" output_stream: "out" }
"""


class Strands:
    """The models on disk: a repository for Triton's, a config.json for OpenVINO Model Server's."""

    PYTHON = ("plain", "batched", "large", "caller", "collector", "sums", "kept", "count")

    def __init__(self, folder):
        self.folder = folder
        self.repository = Repository(folder / "models")
        self.config_path = folder / "config.json"
        self._versions = itertools.count(1)
        self._configs = itertools.count()
        self._write_repository()
        self._entries = self._make_entries()
        self.write_config()

    def _write_repository(self):
        add = self.repository.add
        two = "instance_group [ { count: 2 kind: KIND_CPU } ]"
        decoupled = "model_transaction_policy { decoupled: true }"
        sequences = f"max_sequence_idle_microseconds: {IDLE_US}"
        add("plain", DOUBLE, config("plain", IN, OUT, extra=two))
        batching = "dynamic_batching { max_queue_delay_microseconds: 500 }"
        add("batched", DOUBLE, config("batched", IN, OUT, max_batch_size=8, extra=batching))
        add("large", LARGE, config("large", IN, OUT))
        add("caller", CALLER, config("caller", IN, OUT))
        add("collector", COLLECTOR, config("collector", IN, OUT))
        oldest = f"sequence_batching {{ {sequences} oldest {{ max_candidate_sequences: 64 }} }}"
        add("sums", SUM, config("sums", IN, OUT, max_batch_size=8, extra=oldest))
        direct = f"sequence_batching {{ {sequences} {STATE} }}"
        add("kept", KEPT, config("kept", IN, OUT, max_batch_size=64, extra=direct))
        add("count", COUNT, config("count", IN, OUT, extra=decoupled))
        steps = [step("plain", {"IN": "IN"}, {"OUT": "middle"}), step("caller", {"IN": "middle"}, {"OUT": "OUT"})]
        ensemble(self.repository, "chain", steps, IN, OUT)

    def _make_entries(self):
        models, graphs = self.folder / "openvino", self.folder / "graphs"
        scale = openvino_models.save(openvino_models.scale(), models / "scale")
        more = {
            "name": "more",
            "library_name": "nodes",
            "type": "custom",
            "params": {"fault": "", "addend": "1", "items": "1"},
            "inputs": [{"in": {"node_name": "twice", "data_item": "y"}}],
            "outputs": [{"data_item": "sum", "alias": "y"}],
        }
        twice = pipelines.node("twice", "scale", "request/x")
        return {
            "model_config_list": [
                openvino_models.entry("scale", scale, nireq=2),
                stateful_entry("running", running_sum_model(size=1), models, nireq=2),
            ],
            "custom_node_library_config_list": [{"name": "nodes", "base_path": str(NODES / "faulty_node.so")}],
            "pipeline_config_list": [pipelines.pipeline("steps", twice, more, source="x", result="y")],
            "mediapipe_config_list": [
                single(graphs, "plus", ADD_ONE),
                single(graphs, "tell", TELL, loopback=True),
                write_graph(graphs, "held", boundary(("OVTENSOR:in",), ("OVTENSOR:out",)) + HOLD),
            ],
        }

    def write_config(self):
        """Writes other settings each time, so that a reload has an effect. They need the same resources."""
        number = next(self._configs)
        scale, running = (entry["config"] for entry in self._entries["model_config_list"])
        scale["plugin_config"] = {**EXACT, **({"PERF_COUNT": "NO"} if number % 2 else {})}
        running["max_sequence_number"] = 100_000 + number
        new = self.config_path.with_suffix(".new")
        new.write_text(json.dumps(self._entries, indent=1), encoding="utf-8")
        new.replace(self.config_path)

    def change(self, model):
        """Changes a Python model's configuration without changing its behaviour."""
        path = self.repository.path / model / "config.pbtxt"
        text = path.read_text().split("\n# version")[0]
        path.write_text(f"{text}\n# version {next(self._versions)}\nversion_policy {{ latest {{ num_versions: "
                        f"{1 + next(self._versions) % 1000} }} }}\n")  # fmt: skip

    def options(self, memory_mib=None):
        """With `memory_mib`, requests load models, and only as many stay as fit into it."""
        load = ["--load-model=*"]
        if memory_mib is not None:
            load = ["--load-on-demand", f"--models-memory-max-bytes={memory_mib << 20}"]
        return ["--config_path", self.config_path, "--model-control-mode=explicit", *load,
                "--file_system_poll_wait_seconds=0", "--calculator-library", CALCULATORS]  # fmt: skip


# ---- clients ---------------------------------------------------------------------------------------

_numbers = itertools.count(1)
_sequences = itertools.count(1)


def single_output(outputs):
    if len(outputs) != 1:
        raise WrongError(f"the outputs {sorted(outputs)} instead of one")
    return next(iter(outputs.values())).reshape(-1)


def expect(got, expected):
    if got != expected:
        raise WrongError(f"{got} instead of {expected}")


def add_server_options(parser):
    """Adds `--option`, repeatable: options of the server itself, which the campaign does not interpret."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        help="an option of the server, as --option=--isolate=openvino; may be given again",
    )


def unary(model, rule, shape=(1,), name="IN", dtype=np.int64, ids=True):
    """Sends one value and expects rule(value). `ids`: whether answers carry the request's id."""

    def ask(client):
        number = next(_numbers)
        value = number % (1 << 20) if dtype == np.float32 else number
        request_id = str(number) if ids else ""

        def work():
            array = np.full(shape, value, dtype)
            answer = single_output(client.connection.infer(model, {name: array}, request_id))
            if answer.size != array.size or (answer != rule(value)).any():
                raise WrongError(f"{answer.tolist()} instead of {rule(value)}")

        return client.attempt(work)

    return ask


def sequence(model, shape, input_name, dtype):
    """Runs one sequence from start to end; each answer is the sum of all values sent."""
    output = "y" if dtype == np.float32 else "OUT"

    def ask(client):
        number, total = next(_sequences), 0
        steps = client.draw.randint(1, 12)
        for place in range(steps):
            value = client.draw.randint(1, 1000)
            control = (number, place == 0, place == steps - 1)
            # A start that is also the end can be expressed only by parameters.
            if steps == 1 and client.protocol.startswith("TFS"):
                control = (number, True, False)

            def work(value=value, control=control, expected=total + value):
                array = np.full(shape, value, dtype)
                outputs = client.connection.infer(model, {input_name: array}, sequence=control)
                expect(int(outputs[output].reshape(-1)[0]), expected)

            if not client.attempt(work):
                return False
            total += value
        return True

    return ask


def prefix(values, error, count, first=0):
    """Checks for all answers in order, or the first of them and an error."""
    if values != list(range(first, first + len(values))) or (error is None and len(values) != count):
        raise WrongError(f"{values} and {error} for {count} answers from {first} on")
    if error is not None:
        raise error


def count_on_stream(client):
    def work():
        count = client.draw.randint(0, 20)
        tensors = {"IN": np.array([count], np.int64)}
        answers, error = client.connection.infer_all("count", tensors, str(next(_numbers)))
        prefix([int(each["OUT"][0]) for each in answers], error, count)

    return client.attempt(work)


def count_events(client):
    def work():
        count = client.draw.randint(0, 20)
        answers, error = client.connection.generate_stream("count", {"IN": count})
        prefix([each["OUT"] for each in answers], error, count)

    return client.attempt(work)


def tell(client):
    """Uses a graph's stream for one generator, from its beginning to its end."""

    def work():
        first, count = next(_numbers), client.draw.randint(0, 20)
        client.connection.send("tell", {"in": np.array([first, count], np.int64)}, "")
        values, errors = finish_graph(client)
        if len(errors) > 1:
            raise WrongError(f"the errors {errors}")
        prefix(values, errors[0] if errors else None, count, first)

    return client.attempt(work)


def pass_through(client):
    """Uses a graph's stream that returns its input. A message that fails for lack of a resource must not affect others."""

    def work():
        first, count = 32 * next(_numbers), client.draw.randint(1, 20)
        sent = range(first, first + count)
        for value in sent:
            client.connection.send("held", {"in": np.array([value], np.int64)}, "")
        values, errors = finish_graph(client)
        if values != [value for value in sent if value in values] or (not errors and len(values) != count):
            raise WrongError(f"{values} and {errors} for {sent}")
        if errors:
            raise errors[0]

    return client.attempt(work)


def finish_graph(client):
    """Ends the stream of a graph; returns the received numbers and errors."""
    answers = client.connection.finish()
    errors = [outcome for _, outcome, _ in answers if isinstance(outcome, Exception)]
    return [int(outcome["out"][0]) for _, outcome, _ in answers if not isinstance(outcome, Exception)], errors


@dataclasses.dataclass(frozen=True)
class Strand:
    """One way to run requests. ask(client) sends one request, or several for a sequence, and returns whether all were
    answered."""

    name: str
    protocols: tuple[str, ...]
    ask: Callable


KSERVE = ("gRPC", "gRPC stream", "HTTP JSON", "HTTP binary")
ALL = (*KSERVE, "TFS gRPC", "TFS REST")

STRANDS = [
    Strand("default", ALL, unary("plain", lambda x: 2 * x)),
    Strand("batched", ALL, unary("batched", lambda x: 2 * x, (1, 1))),
    Strand("large", ("gRPC", "HTTP JSON"), unary("large", lambda x: 2 * x)),
    Strand("BLS", ALL, unary("caller", lambda x: 2 * x + 1)),
    Strand("BLS decoupled", KSERVE, unary("collector", lambda x: 1000 * x + sum(range(10 + x % 10)))),
    Strand("ensemble", ALL, unary("chain", lambda x: 4 * x + 1)),
    Strand("OpenVINO", ALL, unary("scale", lambda x: 2 * x, (1, 10), "x", np.float32)),
    Strand("pipeline", ALL, unary("steps", lambda x: 2 * x + 1, (1, 10), "x", np.float32)),
    Strand("graph", KSERVE, unary("plus", lambda x: x + 1, (1,), "in", ids=False)),
    Strand("calculators", ("gRPC", "HTTP JSON", "HTTP binary"), unary("held", lambda x: x, (1,), "in", ids=False)),
    Strand("calculators", ("gRPC stream",), pass_through),
    Strand("generator", ("gRPC stream",), tell),
    Strand("decoupled", ("gRPC stream",), count_on_stream),
    Strand("decoupled", ("HTTP JSON",), count_events),
    Strand("sequence", KSERVE, sequence("sums", (1, 1), "IN", np.int64)),
    Strand("implicit state", KSERVE, sequence("kept", (1, 1), "IN", np.int64)),
    Strand("stateful", ALL, sequence("running", (1, 1), "x", np.float32)),
]
