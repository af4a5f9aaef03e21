"""`braid check`: its findings, and their agreement with the server."""

import json
import os
import shutil
import socket
import subprocess
import sys
import uuid

import pytest
from harness import openvino_models
from harness.ovms import OvmsServer
from harness.repository import IDENTITY, Repository, config
from harness.server import BINARY, MARK, ROOT, marked_processes
from harness.waiting import wait_until

ADD = [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]


class Checked:
    """One run of `braid check`."""

    def __init__(self, *arguments, cwd=None):
        mark = uuid.uuid4().hex
        done = subprocess.run(
            [str(BINARY), "check", *map(str, arguments)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            cwd=cwd,
            check=False,
            env={**os.environ, MARK: mark},
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        # A killed process may take a moment to end.
        wait_until(lambda: not marked_processes(mark), 10, "the end of all processes")

    def __contains__(self, line):
        return line in self.out.splitlines()


def check_json(*arguments):
    done = Checked(*arguments, "--format=json")
    assert done.err == ""
    return done.code, json.loads(done.out)


def places(answer, level=None):
    return [
        (finding["file"].rpartition("/")[2], finding["line"], finding["column"], finding["rule"])
        for finding in answer["findings"]
        if level is None or finding["level"] == level
    ]


# ---- model folders ----


def test_a_model_that_asks_for_chats_and_has_no_template(repository):
    text = config("m", [("text_input", "STRING", [1])], [("text_output", "STRING", [1])])
    repository.add("m", config_text=text + 'parameters { key: "openai" value { string_value: "text" } }')
    code, answer = check_json(repository.path / "m")
    assert code == 0
    [finding] = answer["findings"]
    assert (finding["level"], finding["rule"], finding["line"]) == ("note", "no-chat", 6)
    (repository.path / "m" / "chat_template.jinja").write_text("x")
    assert check_json(repository.path / "m")[1]["findings"] == []


# Faults in a config.pbtxt of a Python model: the text, and level, line, column, rule and a part of the message.
FAULTS = {
    "typing error": (
        'backend: "python"\nmax_batchsize: 8\n',
        ("error", 2, 1, "unknown-field", "did you mean 'max_batch_size'?"),
    ),
    "value of an enum": (
        'backend: "python"\ninput { name: "IN" data_type: TYPE_FLOAT32 dims: 1 }\n',
        ("error", 2, 31, "unknown-value", "did you mean 'TYPE_FP32'?"),
    ),
    "syntax": ('backend: "python"\ninput {\n  name: "IN"\n', ("error", 4, 1, "syntax", "Expected")),
    "type of a value": ('backend: "python"\nmax_batch_size: "8"\n', ("error", 2, 17, "syntax", "Expected integer")),
    "name": ('name: "other"\nbackend: "python"\n', ("error", 1, 7, "load", "directory name must equal model name")),
    "backend": ('backend: "pyton"\n', ("error", 1, 10, "load", "did you mean 'python'?")),
    "platform": ('platform: "python_model"\n', ("error", 1, 11, "load", "unexpected platform type")),
    "dims": (
        'backend: "python"\ninput {\n  name: "IN" data_type: TYPE_FP32\n  dims: [ 1, 0 ]\n}\n',
        ("error", 4, 14, "load", "or -1 for any size"),
    ),
    "reshape": (
        'backend: "python"\ninput { name: "IN" data_type: TYPE_FP32 dims: 4\n  reshape { shape: [ 2, 3 ] } }\n',
        ("error", 3, 13, "load", "different size for dims and reshape"),
    ),
    "twice": (
        'backend: "python"\noutput { name: "O" data_type: TYPE_FP32 dims: 1 }\n'
        'output { name: "O" data_type: TYPE_FP32 dims: 1 }\n',
        ("error", 3, 16, "load", "is specified more than once"),
    ),
    "GPU": (
        'backend: "python"\ninstance_group [\n  { kind: KIND_GPU }\n]\n',
        ("error", 3, 11, "load", "or serve with --gpu-fallback=cpu"),
    ),
    "agents": (
        'backend: "python"\nmodel_repository_agents { agents { name: "checksum" } }\n',
        ("refused", 2, 1, "refused", "'model_repository_agents' is not supported"),
    ),
    "batch size": (
        'backend: "python"\nmax_batch_size: 4\ndynamic_batching {\n  preferred_batch_size: [ 2, 8 ]\n}\n',
        ("error", 4, 30, "load", "write sizes from 1 to max_batch_size"),
    ),
    "parameter": (
        'backend: "python"\nparameters {\n  key: "FORCE_CPU_ONLY_INPUT_TENSORS"\n  value { string_value: "on" }\n}\n',
        ("error", 4, 25, "load", 'write "yes" or "no"'),
    ),
    "environment": (
        'backend: "python"\nparameters { key: "EXECUTION_ENV_PATH" value { string_value: "nowhere" } }\n',
        ("error", 2, 62, "load", "No such file or directory"),
    ),
    "labels": (
        'backend: "python"\noutput { name: "A" data_type: TYPE_FP32 dims: 1 }\n'
        'output { name: "O" data_type: TYPE_FP32 dims: 1\n  label_filename: "labels.txt" }\n',
        ("error", 4, 19, "load", "beside config.pbtxt"),
    ),
    "warmup": (
        'backend: "python"\nmodel_warmup { name: "w" batch_size: 1\n'
        '  inputs { key: "IN" value { dims: -1 data_type: TYPE_FP32 zero_data: true } } }\n',
        ("error", 2, 1, "load", "variable dimension"),
    ),
    "control": (
        'backend: "python"\nsequence_batching {\n  control_input { name: "START"\n'
        "    control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0 ] } }\n}\n",
        ("error", 4, 44, "load", "exactly 2 values"),
    ),
    "version": (
        'backend: "python"\nversion_policy { specific { versions: [ 3 ] } }\n',
        ("error", 2, 41, "missing-version", "folder '3' does not exist"),
    ),
    "file": (
        'backend: "python"\ndefault_model_filename: "other.py"\n',
        ("error", 2, 25, "load", "Python model file not found"),
    ),
    "metrics": (
        'backend: "python"\nmodel_metrics { metric_control { metric_identifier { family: '
        '"nv_inference_first_response_histogram_ms" }\n'
        "  histogram_options { buckets: [ 2, 1 ] } } }\n",
        ("error", 2, 1, "load", ""),
    ),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """A repository with a model for each fault, and a valid one."""
    repository = Repository(tmp_path_factory.mktemp("faulty") / "models")
    for name, (text, _) in FAULTS.items():
        repository.add(name.replace(" ", "_"), IDENTITY, text)
    repository.add_identity("right")
    return repository


@pytest.fixture(scope="module")
def faulty_answer(faulty):
    code, answer = check_json(faulty.path)
    assert code == 1
    return answer


@pytest.mark.parametrize("name", FAULTS)
def test_fault_has_its_place_and_advice(faulty, faulty_answer, name):
    level, line, column, rule, text = FAULTS[name][1]
    model = name.replace(" ", "_")
    found = [f for f in faulty_answer["findings"] if f["servable"] == model and f["level"] in ("error", "refused")]
    assert [(f["level"], f["line"], f["column"], f["rule"]) for f in found] == [(level, line, column, rule)], found
    assert found[0]["file"] == f"{faulty.path}/{model}/config.pbtxt"
    assert text in f"{found[0]['message']}; {found[0]['advice']}"


def test_the_server_refuses_the_same_models(faulty, faulty_answer, tmp_path_factory, module_serve):
    server = module_serve(faulty, "--exit-on-error=false", ready=False)
    status, index = server.json("POST", "/v2/repository/index")
    assert status == 200
    served = {entry["name"] for entry in index if entry.get("state") == "READY"}
    assert served == {"right"}
    assert {one["name"] for one in faulty_answer["servables"] if one["loads"]} == served


def test_text_is_a_line_for_each_finding(repository):
    repository.add("m", IDENTITY, 'backend: "python"\nmax_batchsize: 8\n')
    done = Checked("models", cwd=repository.path.parent)
    assert done.code == 1
    assert done.out == (
        "models/m/config.pbtxt:2:1: error: unknown field 'max_batchsize' in ModelConfig; "
        "did you mean 'max_batch_size'?\nchecked 1 model: 1 error\n"
    )


def test_github_has_workflow_commands(repository):
    repository.add("m", IDENTITY, 'backend: "python"\ninstance_group { kind: KIND_GPU }\noptimization { cuda { } }\n')
    done = Checked("models", "--format", "github", cwd=repository.path.parent)
    assert done.code == 1
    error, note = done.out.splitlines()
    assert error.startswith("::error file=models/m/config.pbtxt,line=2,col=24,title=braid check%3A error::")
    assert note.startswith("::notice file=models/m/config.pbtxt,line=3,col=16,")


def test_what_has_no_effect_is_a_note(repository):
    text = config(None, *ADD, extra="optimization { input_pinned_memory { enable: false } }")
    repository.add("m", IDENTITY, text)
    code, answer = check_json(repository.path)
    assert code == 0
    assert places(answer) == [("config.pbtxt", 4, 16, "no-effect")]
    assert answer["findings"][0]["level"] == "note"
    assert answer["counts"] == {"error": 0, "refused": 0, "difference": 0, "note": 1}
    assert Checked(repository.path, "--strict").code == 1


def test_several_faults_of_a_text_are_told_at_once(repository):
    text = 'backend: "python"\nmax_batchsize: 8\ninputs { name: "IN" }\noutput { name: "O" dim: 1 }\n'
    repository.add("m", IDENTITY, text)
    _, answer = check_json(repository.path)
    assert places(answer) == [
        ("config.pbtxt", 2, 1, "unknown-field"),
        ("config.pbtxt", 3, 1, "unknown-field"),
        ("config.pbtxt", 4, 20, "unknown-field"),
    ]


def test_options_of_serve_decide(repository):
    repository.add(
        "m", IDENTITY, config(None, *ADD), files={"configs/gpu.pbtxt": "instance_group { kind: KIND_GPU }\n"}
    )
    assert Checked(repository.path).code == 0
    done = Checked(repository.path, "--model-config-name", "gpu")
    assert done.code == 1
    assert "configs/gpu.pbtxt:1:24: error" in done.out
    assert Checked(repository.path / "m" / "configs" / "gpu.pbtxt").out == done.out


def test_models_without_files_and_odd_folders(repository):
    repository.add("no_file", None, 'backend: "python"\n')
    repository.add("no_version", None, 'backend: "python"\n', versions=())
    repository.add(
        "odd", IDENTITY, config(None, *ADD), versions=(1,), files={"01/model.py": "", "triton_python_backend_stub": ""}
    )
    code, answer = check_json(repository.path)
    assert code == 1
    found = {f["servable"]: [] for f in answer["findings"]}
    for finding in answer["findings"]:
        found[finding["servable"]].append((finding["level"], finding["rule"]))
    assert found == {
        "no_file": [("error", "load")],
        "no_version": [("error", "no-version")],
        "odd": [("note", "version-folder"), ("difference", "python-stub")],
    }


# ---- ensembles ----


def ensemble(steps, inputs=(("A", "FP32", [-1]),), outputs=(("B", "FP32", [-1]),)):
    lines = "\n".join(
        f'  step [ {{\n    model_name: "{model}" model_version: -1\n    input_map {{ key: "{i}" value: "{a}" }}\n'
        f'    output_map {{ key: "{o}" value: "{b}" }}\n  }} ]'
        for model, i, a, o, b in steps
    )
    return config(
        None, inputs, outputs, backend=None, extra=f'platform: "ensemble"\nensemble_scheduling {{\n{lines}\n}}'
    )


@pytest.mark.parametrize(
    ("step", "place", "text"),
    [
        (("identty", "IN", "A", "OUT", "B"), (6, 17), "did you mean 'identity'?"),
        (("identity", "INN", "A", "OUT", "B"), (7, 5), "which model 'identity' does not have"),
        (("identity", "IN", "A", "OUTT", "B"), (8, 5), "which model 'identity' does not have"),
        (("whole", "IN", "A", "OUT", "B"), (7, 5), "has data type"),
    ],
)
def test_wiring_of_an_ensemble(repository, serve, step, place, text):
    repository.add_identity("identity")
    repository.add_identity("whole", "INT32")
    repository.add("e", None, ensemble([step]), versions=(1,))
    code, answer = check_json(repository.path)
    assert code == 1
    [finding] = answer["findings"]
    assert (finding["line"], finding["column"]) == place, finding
    assert text in finding["message"] + finding["advice"]
    server = serve(repository, "--exit-on-error=false", ready=False)
    _, index = server.json("POST", "/v2/repository/index")
    reasons = {entry["name"]: entry for entry in index}
    assert reasons["e"].get("state") != "READY"
    assert reasons["identity"]["state"] == "READY"


def test_a_single_ensemble_is_checked_with_its_models(repository):
    repository.add_identity("identity")
    repository.add("unused", IDENTITY, "nonsense: 1")
    repository.add("e", None, ensemble([("identity", "IN", "A", "OUT", "B")]), versions=(1,))
    code, answer = check_json(repository.path / "e")
    assert code == 0
    assert [(one["name"], one["loads"]) for one in answer["servables"]] == [("e", True), ("identity", True)]


def test_ensemble_over_a_model_that_completes_itself(repository):
    source = """
    class TritonPythonModel:
        @staticmethod
        def auto_complete_config(config):
            config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
            config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
            return config

        def execute(self, requests):
            return []
    """
    repository.add("m", source, 'backend: "python"\n')
    repository.add("e", None, ensemble([("m", "INN", "A", "OUT", "B")]), versions=(1,))
    code, answer = check_json(repository.path)
    assert code == 0
    assert places(answer) == [("config.pbtxt", 4, 1, "not-checked")]
    assert {one["name"]: one["complete"] for one in answer["servables"]} == {"e": False, "m": False}
    code, answer = check_json(repository.path, "--import", "--python", sys.executable)
    assert code == 1
    assert places(answer) == [("config.pbtxt", 7, 5, "load")]


# ---- imports ----

IMPORTS = {
    "raises": (
        "import json\n\n\ndef helper():\n    raise ValueError('no luck')\n\n\nhelper()\n",
        5,
        "ValueError: no luck",
    ),
    "lacks a module": (
        "import nothing_of_that_name\n",
        1,
        "ModuleNotFoundError: No module named 'nothing_of_that_name'",
    ),
    "syntax": ("class TritonPythonModel:\n    def execute(self:\n        pass\n", 2, "SyntaxError"),
    "no class": ("class Model:\n    pass\n", 0, "the file has no class TritonPythonModel"),
    "no execute": ("\nclass TritonPythonModel:\n    pass\n", 2, "class TritonPythonModel has no method execute"),
    "exits": ("import sys\n\nsys.exit(3)\n", 3, "SystemExit: 3"),
    "ends": ("import os\n\nos._exit(7)\n", 0, "ended the process with exit code 7"),
    "answers by itself": (
        'import os\n\nos.write(3, b\'{"error": 7, "file": []}\')\nos._exit(0)\n',
        0,
        "ended the process with exit code 0",
    ),
    "crashes": ("import ctypes\n\nctypes.string_at(0)\n", 3, "signal 11 (Segmentation fault)"),
    "hangs": ("import threading\n\nthreading.Event().wait()\n", 3, "did not end within 3 s"),
    "leaves a process": (
        "import subprocess, sys\n\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        "start_new_session=True)\nraise OSError('behind')\n",
        4,
        "OSError: behind",
    ),
    "completes wrongly": (
        "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config):\n        return None\n\n"
        "    def execute(self, requests):\n        return []\n",
        2,
        "auto_complete_config must return a valid pb.ModelConfig object",
    ),
    "reaches for its parent": (
        "import os\n\nopen(f'/proc/{os.getppid()}/mem', 'rb')\n",
        3,
        "PermissionError: [Errno 13] Permission denied",
    ),
    "reaches out": (
        "import socket\n\nsocket.create_connection(('127.0.0.1', PORT), 1)\n",
        3,
        "OSError: [Errno 101] Network is unreachable",
    ),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_import_that_fails(repository, name):
    source, line, text = IMPORTS[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = source.replace("PORT", str(listener.getsockname()[1]))
        (repository.path / "m" / "1").mkdir(parents=True)
        (repository.path / "m" / "config.pbtxt").write_text(config(None, *ADD))
        (repository.path / "m" / "1" / "model.py").write_text(source)
        code, answer = check_json(
            repository.path,
            "--import",
            "--import-timeout-seconds",
            3 if name == "hangs" else 60,
            "--python",
            sys.executable,
        )
    assert code == 1
    [finding] = answer["findings"]
    assert finding["rule"] == "import"
    assert finding["file"] == f"{repository.path}/m/1/model.py"
    assert finding["line"] == line
    assert text in finding["message"]


def test_functions_of_sequences_are_looked_at_as_the_server_would(repository, tmp_path):
    source = IDENTITY + "\n    def save_sequence(self, correlation_id):\n        return b''\n"
    text = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])], 0, extra="sequence_batching { }")
    repository.add("m", source, text)
    options = [repository.path, "--import", "--python", sys.executable]
    assert check_json(*options)[0] == 0
    code, answer = check_json(*options, "--sequence_state_path", tmp_path / "states")
    assert code == 1
    [finding] = answer["findings"]
    assert (finding["rule"], finding["file"]) == ("import", f"{repository.path}/m/1/model.py")
    assert finding["line"] == 1 + source[: source.index("class TritonPythonModel")].count("\n")
    assert (
        "the model defines save_sequence and not load_sequence: a sequence is kept with both alone"
        in finding["message"]
    )


def test_an_import_ends_with_the_check(repository, tmp_path):
    began = tmp_path / "began"
    source = f"import pathlib, threading\n\npathlib.Path({str(began)!r}).touch()\nthreading.Event().wait()\n"
    (repository.path / "m" / "1").mkdir(parents=True)
    (repository.path / "m" / "config.pbtxt").write_text(config(None, *ADD))
    (repository.path / "m" / "1" / "model.py").write_text(source)
    mark = uuid.uuid4().hex
    command = [BINARY, "check", repository.path, "--import", "--python", sys.executable]
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdout=subprocess.DEVNULL) as process:
        wait_until(began.exists, 20, "the import")
        assert len(marked_processes(mark)) == 2
        process.kill()
    wait_until(lambda: not marked_processes(mark), 20, "the end of the import")


def test_import_that_asks_the_server(repository):
    source = """
    import triton_python_backend_utils as pb_utils

    family = pb_utils.MetricFamily(name="n", description="d", kind=pb_utils.MetricFamily.COUNTER)


    class TritonPythonModel:
        def execute(self, requests):
            return []
    """
    repository.add("m", source, config(None, *ADD))
    code, answer = check_json(repository.path, "--import", "--python", sys.executable)
    assert (code, places(answer)) == (0, [("config.pbtxt", 0, 0, "not-checked")])


def test_import_of_models_that_are_right(repository):
    repository.add_identity("m")
    shutil.copytree(ROOT / "examples" / "models" / "add_sub", repository.path / "add_sub")
    code, answer = check_json(repository.path, "--import", "--python", sys.executable)
    assert (code, answer["findings"]) == (0, [])


# ---- config.json ----


@pytest.fixture(scope="module")
def ovms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ovms")
    openvino_models.save(openvino_models.add(), folder / "add")
    openvino_models.save(openvino_models.scale(), folder / "scale")
    return folder


def pipeline(model="add", inner="b", output="a", source="x"):
    return {
        "name": "p",
        "inputs": ["x"],
        "nodes": [
            {
                "name": "n",
                "model_name": model,
                "type": "DL model",
                "inputs": [{inner: {"node_name": "request", "data_item": source}}],
                "outputs": [{"data_item": output, "alias": "o"}],
            }
        ],
        "outputs": [{"y": {"node_name": "n", "data_item": "o"}}],
    }


def entry(name="add", **more):
    return {"config": {"name": name, "base_path": name, **more}}


OVMS_FAULTS = {
    "typing error": ({"model_config_list": [entry(nreq=1)]}, "nreq", "did you mean 'nireq'?"),
    "range": ({"model_config_list": [entry(nireq=-1)]}, "nireq", "expected an integer from 0"),
    "shape": ({"model_config_list": [entry(shape="(1,x)")]}, "shape", "invalid shape"),
    "no folder": ({"model_config_list": [entry("nothing")]}, "base_path", "No such file or directory"),
    "remote": ({"model_config_list": [entry(base_path="s3://bucket/m")]}, "base_path", "is remote"),
    "device": ({"model_config_list": [entry(target_device="GPU.7")]}, "config", "GPU"),
    "loader": (
        {"model_config_list": [], "custom_loader_config_list": [{}]},
        "custom_loader_config_list",
        "custom loaders",
    ),
    "model of a node": (
        {"model_config_list": [entry()], "pipeline_config_list": [pipeline("ad")]},
        "model_name",
        "did you mean 'add'?",
    ),
    "input of a node": (
        {"model_config_list": [entry()], "pipeline_config_list": [pipeline(inner="c")]},
        "inputs",
        "the input does not exist",
    ),
    "metric": (
        {"model_config_list": [], "monitoring": {"metrics": {"enable": True, "metrics_list": ["ovms_nothing"]}}},
        "metrics_list",
        "Invalid name in metrics_list",
    ),
}


def lines_of(text, word):
    return [number for number, line in enumerate(text.splitlines(), 1) if f'"{word}"' in line]


@pytest.mark.parametrize("name", OVMS_FAULTS)
def test_fault_of_a_config_json(ovms, name):
    content, word, text = OVMS_FAULTS[name]
    path = ovms / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps(content, indent=1))
    code, answer = check_json(path)
    assert code == 1
    blocking = [f for f in answer["findings"] if f["level"] in ("error", "refused")]
    [finding] = [f for f in blocking if text in f["message"] + f["advice"]]
    assert finding["file"] == str(path)
    near = lines_of(path.read_text(), word)
    assert any(abs(finding["line"] - line) <= 2 for line in near), (finding, near)


def test_exact_places_in_a_config_json(ovms):
    path = ovms / "exact.json"
    path.write_text('{"model_config_list": [\n  {"config": {"name": "add", "base_path": "add",\n    "nireqs": 1}}]}\n')
    _, answer = check_json(path)
    assert places(answer) == [("exact.json", 3, 5, "unknown-key")]
    path.write_text('{"model_config_list": [],\n}\n')
    _, answer = check_json(path)
    assert places(answer) == [("exact.json", 2, 1, "syntax")]


def test_a_config_json_that_is_right_is_served(ovms, tmp_path):
    content = {"model_config_list": [entry(), entry("scale", mean=1)], "pipeline_config_list": [pipeline()]}
    path = ovms / "right.json"
    path.write_text(json.dumps(content, indent=1))
    code, answer = check_json(path)
    assert code == 0
    assert places(answer) == [("right.json", 13, 5, "works-here")]
    assert all(one["loads"] for one in answer["servables"])
    with OvmsServer(path, workdir=tmp_path) as server:
        for name in ("add", "scale", "p"):
            assert set(server.states(name).values()) == {"AVAILABLE"}


# ---- graphs ----

GRAPH = """input_stream: "REQUEST:in"
output_stream: "RESPONSE:out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
}
"""


@pytest.mark.parametrize(
    ("change", "place", "text"),
    [
        (
            ('output_stream: "out"\n}', 'output_stream: "out"\n  calculatr: "x"\n}'),
            (7, 3),
            "did you mean 'calculator'?",
        ),
        (("PassThroughCalculator", "PassTroughCalculator"), (4, 15), "PassThroughCalculator"),
        (('input_stream: "in"', 'input_stream: "im"'), (5, 17), "im"),
        (("node {", "node {{"), (3, 7), "Expected"),
    ],
)
def test_fault_of_a_graph(tmp_path, change, place, text):
    path = tmp_path / "graph.pbtxt"
    path.write_text(GRAPH.replace(*change))
    code, answer = check_json(path)
    assert code == 1
    finding = answer["findings"][0]
    assert (finding["line"], finding["column"]) == place, answer
    assert text in finding["message"] + finding["advice"]


def test_graph_without_effect(tmp_path):
    (tmp_path / "graph.pbtxt").write_text("num_threads: 4\n" + GRAPH)
    code, answer = check_json(tmp_path / "graph.pbtxt")
    assert code == 0
    assert places(answer) == [("graph.pbtxt", 1, 1, "no-effect")]


# ---- models that pass also load ----


@pytest.mark.parametrize("folder", ["examples/models", "bench/models"])
def test_models_of_this_repository_pass(folder, serve, tmp_path):
    # The bench copies the models of its ensemble, which exist there under one name.
    models = shutil.copytree(ROOT / folder, tmp_path / "models", ignore=shutil.ignore_patterns("ensemble3"))
    code, answer = check_json(models)
    assert code == 0, answer
    assert all(one["loads"] for one in answer["servables"])
    server = serve(models)
    _, index = server.json("POST", "/v2/repository/index")
    ready = {entry["name"] for entry in index if entry.get("state") == "READY"}
    assert ready == {one["name"] for one in answer["servables"]}


# ---- the report, and the command itself ----


def test_report_over_a_folder_of_both_worlds(tmp_path, ovms):
    triton = Repository(tmp_path / "user" / "triton")
    triton.add_identity("good")
    triton.add("gpu", IDENTITY, 'backend: "python"\ninstance_group { kind: KIND_GPU }\n')
    triton.add("typo", IDENTITY, 'backend: "python"\nmax_batchsize: 1\n')
    shutil.copytree(ovms / "add", tmp_path / "user" / "ovms" / "add")
    (tmp_path / "user" / "ovms" / "config.json").write_text(json.dumps({"model_config_list": [entry(mean=1)]}))
    done = Checked("--report", "user", cwd=tmp_path)
    assert done.code == 1
    assert "Of 4: 2 load unchanged, 2 need a change, 0 use unsupported features." in done.out
    markdown = Checked("--report", "--format=markdown", "user", cwd=tmp_path).out
    assert "## Needs a change\n\n- `gpu`" in markdown
    assert "  - `user/triton/gpu/config.pbtxt:2:24`: " in markdown
    assert Checked("--report", "user/ovms", cwd=tmp_path).out.splitlines()[2] == "Yes: everything loads unchanged."


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no path is given"),
        (["/nowhere"], "there is no file or folder '/nowhere'"),
        (["--format=xml", "m"], "--format: expected text, json, github or markdown, not 'xml'"),
        (["--format=markdown", "m"], "--format=markdown needs --report"),
        (["--strickt", "m"], "did you mean --strict?"),
        (["--import-timeout-seconds=0", "m"], "expected a whole number from 1 to 86400"),
    ],
)
def test_wrong_use(arguments, text):
    done = Checked(*arguments)
    assert done.code == 2
    assert text in done.err
    assert "usage: braid check" in done.err
    assert done.out == ""


def test_folder_with_nothing_to_check(tmp_path):
    done = Checked(tmp_path)
    assert done.code == 2
    assert "there is nothing to check" in done.err


def test_help_names_all_options():
    done = Checked("--help")
    assert done.code == 0
    for option in ("--format", "--report", "--strict", "--import", "--import-timeout-seconds"):
        assert option in done.out


def test_what_libraries_print_is_no_part_of_the_report(tmp_path):
    source = '#include <stdio.h>\n__attribute__((constructor)) static void say(void) { puts("opened"); }\n'
    (tmp_path / "talks.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libtalks.so", tmp_path / "talks.c"], check=True)
    config_json = tmp_path / "config.json"
    config_json.write_text(
        json.dumps(
            {
                "model_config_list": [],
                "custom_node_library_config_list": [{"name": "talks", "base_path": str(tmp_path / "libtalks.so")}],
                "pipeline_config_list": [
                    {
                        "name": "p",
                        "inputs": ["x"],
                        "nodes": [
                            {
                                "name": "n",
                                "type": "custom",
                                "library_name": "talks",
                                "params": {},
                                "inputs": [{"in": {"node_name": "request", "data_item": "x"}}],
                                "outputs": [{"data_item": "out", "alias": "y"}],
                            }
                        ],
                        "outputs": [{"z": {"node_name": "n", "data_item": "y"}}],
                    }
                ],
            }
        )
    )
    checked = Checked(config_json, "--import", "--format=json")
    assert "opened" in checked.err
    assert json.loads(checked.out)["findings"]
