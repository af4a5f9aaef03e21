"""A model "sum", which returns the sum of its sequence's values, from either kind of repository, and its servers."""

import itertools

import pytest

from harness.ovms import OvmsServer
from harness.repository import Repository, config, per_request
from harness.server import Server
from harness.stateful_models import running_sum_model, save, stateful_entry


class RefusedError(Exception):
    pass


class Setting:
    """A model "sum", which returns the sum of its sequence's values, and its servers.

    Subclasses define its source: serve(), reload(), change_model(), request(), and the error texts for a missing
    sequence (`missing`).
    """

    def __init__(self, folder):
        self.folder = folder
        self.states = folder / "states"

    def file(self, suffix=""):
        return self.states / f"sum.1.sequences{suffix}"

    def serve_keeping(self, *options):
        return self.serve("--sequence_state_path", self.states, *options)

    def ask(self, server, value, sequence, start=False, end=False):
        path, body = self.request(value)
        body["parameters"] = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
        status, answer = server.json("POST", path, body)
        if status != 200:
            raise RefusedError(answer["error"])
        return next(each["data"][0] for each in answer["outputs"] if each["name"] == "y")

    def assert_missing(self, server, sequence):
        with pytest.raises(RefusedError, match=self.missing):
            self.ask(server, 1, sequence)


class ConfigSetting(Setting):
    """A stateful OpenVINO model of a config.json."""

    missing = "Sequence with provided ID does not exist"

    def __init__(self, folder):
        super().__init__(folder)
        self.requests = itertools.count(1)
        self.entry = stateful_entry("sum", running_sum_model(size=1), folder / "models")

    def config(self, **settings):
        return {"model_config_list": [{"config": {**self.entry["config"], **settings}}]}

    def serve(self, *options):
        return OvmsServer(self.config(), "--file_system_poll_wait_seconds", 0, *options, workdir=self.folder)

    def reload(self, server):
        server.write_config(self.config(nireq=next(self.requests)))
        status, answer = server.reload()
        assert status == 201, answer

    def change_model(self):
        save(running_sum_model(size=1, products=1), self.folder / "models" / "sum")

    def request(self, value):
        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [value]}
        return "/v2/models/sum/infer", {"inputs": [tensor]}


class RepositorySetting(Setting):
    """A Python model with implicit state, of a model repository."""

    missing = "must specify the START flag"
    state = 'state [ { input_name: "OLD" output_name: "NEW" data_type: TYPE_INT32 dims: [ 1 ] } ]'
    source = per_request("""
        folder = self.args["model_repository"]
        while get(request, "x")[0, 0] == -1 and not os.path.exists(os.path.join(folder, "GO")):
            open(os.path.join(folder, "STARTED"), "w").close()
            time.sleep(0.01)
        total = get(request, "OLD") + get(request, "x")
        return respond(y=total, NEW=total)
    """)

    def __init__(self, folder):
        super().__init__(folder)
        self.repository = Repository(folder / "models")
        self.counts = itertools.count(1)
        self.write(self.source)

    def write(self, source):
        instances = f"instance_group [ {{ kind: KIND_CPU count: {next(self.counts)} }} ]"
        self.write_with(source, 8, "max_sequence_idle_microseconds: 600000000", instances)

    def write_with(self, source, max_batch_size, batching, more=""):
        extra = f"sequence_batching {{ {batching} {self.state} }}\n{more}"
        text = config(None, [("x", "INT32", [1])], [("y", "INT32", [1])], max_batch_size, extra=extra)
        self.repository.add("sum", source, text)

    def serve(self, *options):
        explicit = ["--model-control-mode=explicit", "--load-model=sum"]
        return Server([self.repository.path], *explicit, *options, workdir=self.folder)

    def reload(self, server):
        self.write(self.source)
        self.load(server)

    def load(self, server):
        status, answer = server.json("POST", "/v2/repository/models/sum/load", {})
        assert status == 200, answer

    def unload(self, server):
        status, answer = server.json("POST", "/v2/repository/models/sum/unload", {})
        assert status == 200, answer

    def change_model(self):
        self.source = self.source + "\n# changed\n"
        self.write(self.source)

    def request(self, value):
        tensor = {"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [value]}
        return "/v2/models/sum/infer", {"inputs": [tensor]}


class OwnStateSetting(RepositorySetting):
    """A Python model with its own sums, which it saves and restores by save_sequence and load_sequence.

    It refuses to save a sum of -1313, and to load one of -666666; tests that only add do not reach these.
    """

    source = (
        per_request("""
        folder = self.args["model_repository"]
        while get(request, "x")[0, 0] == -1 and not os.path.exists(os.path.join(folder, "GO")):
            open(os.path.join(folder, "STARTED"), "w").close()
            time.sleep(0.01)
        self.sums = getattr(self, "sums", {})
        id = request.correlation_id()
        if id == 0:  # an empty place of the batch
            return respond(y=get(request, "x"))
        if request.flags() & 1:
            self.sums[id] = np.int32([[0]])
        total = self.sums[id] + get(request, "x")
        self.sums[id] = total
        return respond(y=total)
    """)
        + """
    def save_sequence(self, correlation_id):
        if self.sums[correlation_id][0, 0] == -1313:
            raise ValueError("unlucky")
        return self.sums[correlation_id].tobytes()

    def load_sequence(self, correlation_id, state):
        self.sums = getattr(self, "sums", {})
        self.sums[correlation_id] = np.frombuffer(state, np.int32).reshape(1, 1)
        if self.sums[correlation_id][0, 0] == -666666:
            raise ValueError("not that one")
"""
    )
    state = ""
