"""braid serve --debug-model: a debugger in a model, with the real debug adapter."""

import concurrent.futures
import json
import re
import textwrap

import pytest
from harness.debugger import Debugger
from harness.pages import blocks
from harness.ports import free_port
from harness.server import ROOT, Server
from harness.waiting import wait_until

CONFIG = (
    'backend: "python"\n'
    'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    'output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    "instance_group { count: 3 kind: KIND_CPU }\n"
    'parameters { key: "EXECUTE_TIMEOUT_MS" value { string_value: "200" } }\n'
)
DOUBLE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            factor = 2
            result = values * factor
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", result)]))
        return responses
"""
CALLER = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        call = pb_utils.InferenceRequest(model_name="double", inputs=request.inputs(), requested_output_names=["OUT"])
        answer = call.exec()
        value = answer.output_tensors()[0]
        return pb_utils.InferenceResponse([value])
"""


def write(folder, name, source, config=CONFIG):
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "config.pbtxt").write_text(config)
    (folder / name / "1/model.py").write_text(textwrap.dedent(source))
    return folder / name / "1/model.py"


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        yield threads


def infer(server, model, values):
    inputs = [{"name": "IN", "datatype": "FP32", "shape": [len(values)], "data": values}]
    status, answer = server.json("POST", f"/v2/models/{model}/infer", {"inputs": inputs})
    assert status == 200, answer
    return answer["outputs"][0]["data"]


def test_a_breakpoint_in_execute(tmp_path, port, pool):
    models = tmp_path / "models"
    file = write(models, "double", DOUBLE)
    with Server([models], "--debug-model", "double", "--debug-port", port, workdir=tmp_path) as server:
        assert infer(server, "double", [1.0]) == [2.0]
        assert "'double' is debugged: one process" in server.stderr
        with Debugger(port) as debugger:
            debugger.attach({file: [10]})
            answer = pool.submit(infer, server, "double", [1.0, 2.0])
            thread, frames = debugger.stopped()
            assert frames[0][:2] == ("execute", 10) or frames[0][0].endswith(".execute")
            frame = frames[0][2]
            assert debugger.variable(frame, "values.tolist()") == "[1.0, 2.0]"
            assert debugger.variable(frame, "factor") == "2"
            # Longer than the model's EXECUTE_TIMEOUT_MS, whose grace is half a second.
            with pytest.raises(concurrent.futures.TimeoutError):
                answer.result(1.5)
            debugger.variable(frame, "factor")
            debugger.ask("next", threadId=thread)
            thread, frames = debugger.stopped()
            assert frames[0][1] == 11
            assert debugger.variable(frames[0][2], "result.tolist()") == "[2.0, 4.0]"
            debugger.ask("continue", threadId=thread)
            assert answer.result(30) == [2.0, 4.0]
            debugger.ask("disconnect")
        assert infer(server, "double", [3.0]) == [6.0]


def test_the_configuration_of_an_editor(tmp_path, port, pool):
    """The breakpoint of docs/first-day.md, with its model and launch.json, and the path mapping of docs/debugging.md."""
    files = {block.name: block.text for block in blocks("docs/first-day.md") if block.name}
    here, there = tmp_path / "here", tmp_path / "there/models"
    for name in ("models/total/config.pbtxt", "models/total/1/model.py"):
        for folder in (here, there.parent):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(files[name])
    (launch,) = json.loads(files[".vscode/launch.json"])["configurations"]
    assert launch.pop("connect") == {"host": "127.0.0.1", "port": 5678}
    mapping = re.search(r'"pathMappings": (\[.*\])', (ROOT / "docs/debugging.md").read_text())[1]
    mapping = mapping.replace("${workspaceFolder}", str(here)).replace('"/models"', json.dumps(str(there)))
    source = files["models/total/1/model.py"].splitlines()
    (line,) = [number for number, text in enumerate(source, 1) if "discount = " in text]
    request = {
        "inputs": [
            {"name": "PRICES", "datatype": "FP32", "shape": [2], "data": [10, 20]},
            {"name": "CODE", "datatype": "BYTES", "shape": [1], "data": ["TEN"]},
        ]
    }
    options = ["--debug-model", "total", "--debug-port", port]
    with Server([there], *options, workdir=tmp_path) as server, Debugger(port) as debugger:
        debugger.attach({here / "models/total/1/model.py": [line]}, **launch, pathMappings=json.loads(mapping))
        answer = pool.submit(server.json, "POST", "/v2/models/total/infer", request)
        thread, frames = debugger.stopped()
        assert debugger.variable(frames[0][2], "code") == "b'TEN'"
        debugger.ask("continue", threadId=thread)
        assert answer.result(30)[1]["outputs"][0]["data"] == [30.0]


def test_a_breakpoint_before_a_call_to_another_model(tmp_path, port, pool):
    models = tmp_path / "models"
    write(models, "double", DOUBLE)
    file = write(models, "caller", CALLER)
    options = ["--debug-model", "caller", "--debug-port", port, "--worker-isolation", "basic"]
    with Server([models], *options, workdir=tmp_path) as server, Debugger(port) as debugger:
        debugger.attach({file: [10]})
        answer = pool.submit(infer, server, "caller", [5.0])
        thread, frames = debugger.stopped()
        assert [line for _, line, _ in frames[:2]] == [10, 6]
        debugger.ask("next", threadId=thread)
        thread, frames = debugger.stopped()
        assert debugger.variable(frames[0][2], "answer.output_tensors()[0].as_numpy().tolist()") == "[10.0]"
        debugger.ask("continue", threadId=thread)
        assert answer.result(30) == [10.0]


def test_a_model_waits_for_the_debugger(tmp_path, port, pool):
    models = tmp_path / "models"
    file = write(models, "double", "import json\n" + DOUBLE)
    options = ["--debug-model", "double", "--debug-port", port, "--debug-wait"]
    with Server([models], *options, workdir=tmp_path, ready=False, listening=False) as server:
        wait_until(lambda: f"waiting for a debugger at 127.0.0.1:{port}" in server.stderr)
        with Debugger(port) as debugger:
            debugger.attach({file: [1]})
            thread, frames = debugger.stopped()
            assert frames[0][1] == 1
            debugger.ask("continue", threadId=thread)
            wait_until(lambda: "listening: " in server.stdout)


def test_a_node_of_a_graph(tmp_path, port, pool):
    graph = tmp_path / "loud"
    graph.mkdir()
    (graph / "node.py").write_text(
        "from pyovms import Tensor\n\n\nclass OvmsPythonModel:\n    def execute(self, inputs):\n"
        "        data = bytes(inputs[0])\n        return [Tensor('out', data)]\n"
    )
    (graph / "graph.pbtxt").write_text(
        textwrap.dedent("""
        input_stream: "OVMS_PY_TENSOR:in"
        output_stream: "OVMS_PY_TENSOR:out"
        node {
          name: "node" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
          input_stream: "IN:in" output_stream: "OUT:out"
          node_options: {
            [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "node.py" }
          }
        }
        """)
    )
    config = tmp_path / "config.json"
    config.write_text('{"model_config_list": [], "mediapipe_config_list": [{"name": "loud"}]}')
    options = ["--config_path", config, "--debug-model", "loud", "--debug-port", port]
    with Server([], *options, workdir=tmp_path) as server, Debugger(port) as debugger:
        debugger.attach({graph / "node.py": [7]})
        request = {"inputs": [{"name": "in", "datatype": "UINT8", "shape": [2], "data": [7, 8]}]}
        answer = pool.submit(server.json, "POST", "/v2/models/loud/infer", request)
        thread, frames = debugger.stopped()
        assert debugger.variable(frames[0][2], "list(data)") == "[7, 8]"
        debugger.ask("continue", threadId=thread)
        assert answer.result(30)[0] == 200


def test_a_reloaded_model_takes_the_port_over(tmp_path, port, pool):
    models = tmp_path / "models"
    file = write(models, "double", DOUBLE)
    options = ["--debug-model", "double", "--debug-port", port, "--model-control-mode", "explicit"]
    with Server([models], *options, "--load-model", "double", workdir=tmp_path) as server:
        file.write_text(DOUBLE.replace("factor = 2", "factor = 3"))
        assert server.json("POST", "/v2/repository/models/double/load", {})[0] == 200
        assert f"port {port} of --debug-port is in use" in server.stderr
        wait_until(lambda: server.stderr.count(f"a debugger can attach to 127.0.0.1:{port}") == 2)
        with Debugger(port) as debugger:
            debugger.attach({file: [10]})
            answer = pool.submit(infer, server, "double", [1.0])
            thread, frames = debugger.stopped()
            assert debugger.variable(frames[0][2], "factor") == "3"
            debugger.ask("continue", threadId=thread)
            assert answer.result(30) == [3.0]


def test_without_debugpy_the_model_says_what_is_missing(tmp_path, port):
    models = tmp_path / "models"
    write(models, "double", DOUBLE)
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide/debugpy.py").write_text("raise ImportError('hidden')")
    options = ["--debug-model", "double", "--debug-port", port, "--exit-on-error=false"]
    environment = {"PYTHONPATH": str(tmp_path / "hide")}
    with Server([models], *options, workdir=tmp_path, env=environment, ready=False) as server:
        _, index = server.json("POST", "/v2/repository/index", {})
        assert "--debug-model needs debugpy; install it: " in index[0]["reason"]


def test_a_name_without_a_model(tmp_path, port):
    models = tmp_path / "models"
    write(models, "double", DOUBLE)
    with Server([models], "--debug-model", "dubble", "--debug-port", port, workdir=tmp_path) as server:
        server.wait_for_log("--debug-model: there is no model or graph 'dubble'")


def test_a_debugged_model_reports_its_one_instance(tmp_path, port):
    models = tmp_path / "models"
    passive = 'instance_group { name: "rest" count: 1 kind: KIND_CPU passive: true }\n'
    write(models, "double", DOUBLE, passive + CONFIG)
    with Server([models], "--debug-model", "double", "--debug-port", port, workdir=tmp_path) as server:
        assert infer(server, "double", [1.0]) == [2.0]
        assert re.search(r"double +1 +model \(python\) +1 +READY", server.stdout)
