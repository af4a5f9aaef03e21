"""Error texts for clients contain no paths of the machine, and no output of a model. The log, and clients with
--verbose-errors, get the full texts."""

import json
import os
import re

import pytest
from harness import openvino_models as models
from harness.clients import strings
from harness.graphs import single, write_graph
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.waiting import wait_until

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]
# Any absolute path: a folder at the root of the file system, and the rest of the path.
PATH = re.compile(r"(?<![\w.-])/(?:" + "|".join(map(re.escape, os.listdir("/"))) + r")/\S+")

RAISER = per_request(
    """
    how = get(request, "IN")[0].decode()
    if how == "library":
        json.loads("no json")
    if how == "missing":
        open(os.path.join(self.args["model_repository"], "weights.bin"))
    if how == "die":
        print("a secret of " + self.args["model_repository"], file=sys.stderr, flush=True)
        os._exit(3)
    if how == "load":
        pb_utils.load_model("unsound")
    if how == "own":
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("look into /usr/share/doc"))
    raise ValueError("no such thing")
    """
)
UNSOUND = "class TritonPythonModel:\n    def initialize(self, args):\n        raise ValueError('not today')\n"
SYNTAX = "import os\n\nx = 1 +\n"
DYING = (
    "import os, sys\n"
    "class TritonPythonModel:\n"
    "    def initialize(self, args):\n"
    "        print('a secret of ' + args['model_repository'], file=sys.stderr, flush=True)\n"
    "        os._exit(3)\n"
)


def told(action):
    """Returns the text of a call's error."""
    with pytest.raises(Exception) as caught:
        action()
    return caught.value.message()


def reasons(server):
    """Returns {name: reason} of the repository index."""
    status, index = server.json("POST", "/v2/repository/index", {})
    assert status == 200
    return {entry["name"]: entry.get("reason", "") for entry in index}


@pytest.fixture
def faulty(repository):
    repository.add("raiser", RAISER, config("raiser", TEXT, OUT))
    repository.add("unsound", UNSOUND, config("unsound", TEXT, OUT))
    repository.add("syntax", SYNTAX, config("syntax", TEXT, OUT))
    repository.add("dying", DYING, config("dying", TEXT, OUT))
    (repository.add("empty", UNSOUND, config("empty", TEXT, OUT)) / "1" / "model.py").unlink()
    environment = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "%s" } }'
    for name, path in (("nowhere", "/usr/no/environment.tar.gz"), ("inside", "$$TRITON_MODEL_DIRECTORY/environment")):
        repository.add(name, RAISER, config(name, TEXT, OUT, extra=environment % path))
    folder = repository.add("broken_onnx", UNSOUND, config("broken_onnx", TEXT, OUT, backend="openvino"))
    (folder / "1" / "model.py").unlink()
    (folder / "1" / "model.onnx").write_bytes(b"no model")
    return repository


LOADED = ["unsound", "syntax", "dying", "empty", "nowhere", "inside", "broken_onnx"]
OPTIONS = ["--model-control-mode=explicit", "--load-model=raiser"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_texts_of_models(faulty, serve, connect, protocol):
    server = serve(faulty, *OPTIONS)
    client = connect(protocol, server)
    repository = str(faulty.path)

    def ask(how):
        return told(lambda: client.infer("raiser", {"IN": strings(how)}))

    prefix = "Failed to process the request(s) for model 'raiser_0', message: "
    texts = {how: ask(how) for how in ("x", "library", "missing", "load")}
    assert texts["x"].startswith(f"{prefix}ValueError: no such thing\n\nAt:\n  raiser/1/model.py(")
    assert re.search(r"\): one\n  raiser/1/model\.py\(\d+\): ", texts["x"])
    assert re.search(r"\n  json/decoder\.py\(\d+\): raw_decode\n", texts["library"])
    assert "No such file or directory: 'raiser/weights.bin'" in texts["missing"]
    assert "ValueError: not today\n\nAt:\n  unsound/1/model.py(3): initialize\n" in texts["load"]
    # A path that a model prints on purpose stays.
    assert ask("own") == "look into /usr/share/doc"

    loads = {name: told(lambda name=name: client.raw.load_model(name)) for name in LOADED}
    assert "ValueError: not today\n\nAt:\n  unsound/1/model.py(3): initialize\n" in loads["unsound"]
    assert "At:\n  syntax/1/model.py(3): <module>\n" in loads["syntax"]
    assert "Stub process 'dying_0' is not healthy. It exited with code 3" in loads["dying"]
    assert "Python model file not found in 'empty/1/model.py'" in loads["empty"]
    assert "'environment.tar.gz' (EXECUTION_ENV_PATH)" in loads["nowhere"]
    assert "'inside/environment' (EXECUTION_ENV_PATH)" in loads["inside"]
    assert "broken_onnx/1/model.onnx" in loads["broken_onnx"]
    index = reasons(server)

    texts["die"] = ask("die")
    assert texts["die"] == "Stub process 'raiser_0' is not healthy. It exited with code 3"
    wait_until(lambda: client.raw.is_model_ready("raiser"), 20, "the restart")

    for text in (*texts.values(), *loads.values(), *index.values()):
        assert not PATH.search(text), text
        assert "secret" not in text
    for name in LOADED:
        assert index[name], name
    # The log has the full texts.
    for text in (
        f'\n      File "{repository}/raiser/1/model.py", line ',
        f"'{repository}/raiser/weights.bin'",
        f'\n      File "{json.__path__[0]}/decoder.py", line ',
        f'File "{repository}/unsound/1/model.py", line 3, in initialize\n'
        + " " * 8
        + "raise ValueError('not today')\n",
        f'model.py:3] SyntaxError: invalid syntax (model.py, line 3)\n      File "{repository}/syntax/1/model.py", line 3\n'
        + "        x = 1 +\n               ^\n    SyntaxError: invalid syntax\n",
        f"code 3; last line of stderr: a secret of {repository}/raiser",
        f"code 3; last line of stderr: a secret of {repository}/dying",
        f"Python model file not found in '{repository}/empty/1/model.py'",
        "'/usr/no/environment.tar.gz' (EXECUTION_ENV_PATH)",
        f"'{repository}/inside/environment' (EXECUTION_ENV_PATH)",
        f"{repository}/broken_onnx/1/model.onnx",
    ):
        assert text in server.log, text


def test_verbose_errors(faulty, serve, connect):
    server = serve(faulty, *OPTIONS, "--verbose-errors")
    client = connect("http", server)
    repository = str(faulty.path)
    assert f"  {repository}/raiser/1/model.py(" in told(lambda: client.infer("raiser", {"IN": strings("x")}))
    loads = {name: told(lambda name=name: client.raw.load_model(name)) for name in LOADED}
    assert f"  {repository}/syntax/1/model.py(3): <module>\n    x = 1 +\n" in loads["syntax"]
    assert f"; last line of stderr: a secret of {repository}/dying" in loads["dying"]
    assert f"'{repository}/empty/1/model.py'" in loads["empty"]
    assert f"{repository}/broken_onnx/1/model.onnx" in loads["broken_onnx"]
    assert f"  {repository}/unsound/1/model.py(3): initialize" in reasons(server)["unsound"]
    died = told(lambda: client.infer("raiser", {"IN": strings("die")}))
    assert died.endswith(f"code 3; last line of stderr: a secret of {repository}/raiser")


NODE_THAT_FAILS = """
    import json
    class OvmsPythonModel:
        def execute(self, inputs):
            open(__file__ + ".weights")
"""
NODE_UNSOUND = """
    class OvmsPythonModel:
        def initialize(self, kwargs):
            raise ValueError("not today")
        def execute(self, inputs):
            return []
"""


@pytest.fixture
def files(tmp_path):
    """A config.json with many errors, for files in two folders."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "no_library.so").write_text("this is no library")
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    models.save(models.add(), folder / "sound", 1)
    (folder / "graph_without_text").mkdir()
    graphs = [
        single(folder, "failing", NODE_THAT_FAILS),
        single(folder, "unsound", NODE_UNSOUND),
        single(folder, "syntax", SYNTAX),
        write_graph(folder, "no_graph", "this is no graph"),
        {"name": "graph_without_text", "base_path": str(folder / "graph_without_text")},
    ]
    (folder / "headless").mkdir()
    graphs.append(single(folder, "headless", NODE_UNSOUND))
    (folder / "headless" / "model.py").unlink()
    pipeline = {
        "name": "custom",
        "inputs": ["x"],
        "nodes": [
            {
                "name": "only",
                "library_name": "none",
                "type": "custom",
                "params": {},
                "inputs": [{"in": {"node_name": "request", "data_item": "x"}}],
                "outputs": [{"data_item": "sum", "alias": "y"}],
            }
        ],
        "outputs": [{"y": {"node_name": "only", "data_item": "y"}}],
    }
    return {
        "model_config_list": [
            models.entry("sound", folder / "sound"),
            models.entry("broken", folder / "broken"),
            models.entry("missing", folder / "missing"),
            models.entry("elsewhere", "/no_such_folder/models/elsewhere"),
        ],
        "custom_node_library_config_list": [{"name": "none", "base_path": str(folder / "no_library.so")}],
        "pipeline_config_list": [pipeline],
        "mediapipe_config_list": graphs,
    }


def texts_of_a_config(server, names):
    """Returns all texts that clients can request about unavailable servables."""
    found = []
    for name in names:
        for method, path, body in (
            ("GET", f"/v1/models/{name}", None),
            ("GET", f"/v1/models/{name}/metadata", None),
            ("POST", f"/v1/models/{name}:predict", {"instances": [[0.0] * 10]}),
            ("GET", f"/v2/models/{name}", None),
            ("GET", f"/v2/models/{name}/ready", None),
            ("POST", f"/v2/models/{name}/infer", {"inputs": []}),
        ):
            found.append(server.json(method, path, body)[1])
    found.append(server.json("POST", "/v2/repository/index", {})[1])
    found.append(server.json("GET", "/v1/config")[1])
    found.append(server.reload()[1])
    return [json.dumps(text) for text in found]


NAMES = ["broken", "missing", "elsewhere", "custom", "unsound", "syntax", "no_graph", "graph_without_text", "headless"]


def fail(server):
    """Returns the error of a graph whose node fails."""
    body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [1.0]}]}
    status, answer = server.json("POST", "/v2/models/failing/infer", body)
    assert status != 200
    return answer["error"]


def test_texts_of_a_config(files, tmp_path):
    with OvmsServer(files, workdir=tmp_path, ready=False) as server:
        server.wait_for_log("listening: ")
        wait_until(lambda: "AVAILABLE" in server.states("failing").values(), 20, "the graph")
        failed = fail(server)
        assert "FileNotFoundError: [Errno 2] No such file or directory: 'failing/model.py.weights'" in failed
        texts = [*texts_of_a_config(server, NAMES), failed]
        for text in texts:
            assert not PATH.search(text), text
            assert "/no_such_folder" not in text
            assert str(tmp_path) not in text
        folder = tmp_path / "files"
        for text in (
            f"{folder}/failing/model.py.weights",
            f'\n      File "{folder}/unsound/model.py", line 4, in initialize\n        raise ValueError("not today")\n',
            f'\n      File "{folder}/syntax/model.py", line 3\n        x = 1 +\n',
            f"{folder}/headless/model.py",
            f"{folder}/no_library.so",
            f"{folder}/broken/1/model.onnx",
            "/no_such_folder/models/elsewhere",
        ):
            assert text in server.log, text


def test_verbose_errors_of_a_config(files, tmp_path):
    with OvmsServer(files, "--verbose-errors", workdir=tmp_path, ready=False) as server:
        server.wait_for_log("listening: ")
        wait_until(lambda: "AVAILABLE" in server.states("failing").values(), 20, "the graph")
        assert f"{tmp_path}/files/failing/model.py.weights" in fail(server)
        texts = "\n".join(texts_of_a_config(server, NAMES))
        assert f"  {tmp_path}/files/unsound/model.py(4): initialize" in texts
        assert f"{tmp_path}/files/broken/1/model.onnx" in texts
