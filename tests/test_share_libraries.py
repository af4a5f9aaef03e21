"""Models of real libraries whose instances share memory. BRAID_LIBRARIES_PYTHON names an interpreter that has more of the
libraries than the tests' own; a library that it lacks is skipped."""

import os
import subprocess
import sys

import pytest
from harness.clients import strings
from harness.repository import config

PYTHON = os.environ.get("BRAID_LIBRARIES_PYTHON", sys.executable)

MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        {initialize}
        self.initialized_in = os.getpid()

    def run(self):
        {run}

    def execute(self, requests):
        parts = [self.run(), os.getpid(), self.initialized_in]
        answer = pb_utils.Tensor("OUT", np.array([str(part).encode() for part in parts], np.object_))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""

# name -> (module, initialize, run, expected). With a fault instead of the answer, `on` refuses to share and says so.
LIBRARIES = {
    "numpy": (
        "numpy",
        "self.w = np.eye(500, dtype=np.float32); self.w @ self.w",
        "return int((self.w @ self.w).sum())",
        "500",
    ),
    "scikit-learn": (
        "sklearn",
        "from sklearn.ensemble import RandomForestClassifier as Forest; x = np.arange(200.).reshape(-1, 1); "
        "self.model = Forest(20, random_state=1, n_jobs=1).fit(x, x[:, 0] > 100); self.model.predict(x)",
        "return self.model.predict([[10.], [150.]]).tolist()",
        "[False, True]",
    ),
    "tokenizers": (
        "tokenizers",
        "from tokenizers import Tokenizer, models, pre_tokenizers; self.model = Tokenizer(models.WordLevel({'a': 0, 'b': 1}, unk_token='a')); "
        "self.model.pre_tokenizer = pre_tokenizers.Whitespace(); self.model.encode('a b')",
        "return self.model.encode('b a b').ids",
        "[1, 0, 1]",
    ),
    "XGBoost": (
        "xgboost",
        "import xgboost; x = np.arange(200.).reshape(-1, 1); "
        "self.model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(x, x[:, 0] > 100); self.model.predict(x)",
        "return self.model.predict(np.array([[10.], [150.]])).tolist()",
        "[0, 1]",
    ),
    "LightGBM": (
        "lightgbm",
        "import lightgbm; x = np.arange(400.).reshape(-1, 1); "
        "self.model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(x, x[:, 0] > 200); self.model.predict(x)",
        "return self.model.predict(np.array([[10.], [350.]])).tolist()",
        "[False, True]",
    ),
    "PyTorch": (
        "torch",
        "import torch; torch.set_num_threads(1); self.model = torch.nn.Linear(1000, 1000); torch.nn.init.ones_(self.model.weight); "
        "torch.nn.init.zeros_(self.model.bias); self.model(torch.ones(64, 1000))",
        "import torch\n        return int(self.model(torch.ones(1, 1000))[0, 0])",
        "1000",
    ),
    "PyTorch, several threads": (
        "torch",
        "import torch; torch.set_num_threads(2); self.model = torch.nn.Linear(1000, 1000); self.model(torch.ones(512, 1000))",
        "return 0",
        "threads",
    ),
    "ONNX Runtime": (
        "onnxruntime",
        "os.environ['ORT_DISABLE_TELEMETRY'] = '1'; import onnx, onnxruntime; from onnx import TensorProto as T, helper as h; "
        "graph = h.make_graph([h.make_node('Add', ['x', 'x'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, [2])], "
        "[h.make_tensor_value_info('y', T.FLOAT, [2])]); "
        "model = h.make_model(graph, opset_imports=[h.make_opsetid('', 13)], ir_version=8); "
        "options = onnxruntime.SessionOptions(); options.intra_op_num_threads = 1; "
        "self.model = onnxruntime.InferenceSession(model.SerializeToString(), options); "
        "self.model.run(None, {'x': np.ones(2, np.float32)})",
        "return self.model.run(None, {'x': np.array([1, 2], np.float32)})[0].tolist()",
        "[2.0, 4.0]",
    ),
    "TensorFlow": (
        "tensorflow",
        "import tensorflow as tf; tf.config.threading.set_intra_op_parallelism_threads(1); self.w = tf.ones((100, 100)); tf.matmul(self.w, self.w)",
        "return 0",
        "threads",
    ),
    "spaCy": (
        "spacy",
        "import spacy; self.model = spacy.blank('en'); self.model.add_pipe('sentencizer'); self.model('One. Two.')",
        "return [str(each) for each in self.model('One two. Three four.').sents]",
        "['One two.', 'Three four.']",
    ),
}


def has(module):
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", LIBRARIES)
def test_instances_share_after_the_library_was_used(repository, serve, connect, name):
    module, initialize, run, expected = LIBRARIES[name]
    if not has(module):
        pytest.skip(f"{module} is not installed")
    more = 'instance_group [ { count: 3 kind: KIND_CPU } ] parameters { key: "SHARE_INSTANCES" value { string_value: "on" } }'
    text = config("m", [("IN", "STRING", [1])], [("OUT", "STRING", [-1])], extra=more)
    repository.add("m", MODEL.format(initialize=initialize, run=run), text)
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false", "--python", PYTHON)
    if expected == "threads":
        assert "running threads" in server.log
        return
    client = connect("grpc", server)
    seen = set()
    for _ in range(30):
        answer, process, initialized_in = client.infer("m", {"IN": strings("x")}).as_numpy("OUT")
        assert answer.decode() == expected
        assert process != initialized_in
        seen.add(process)
    assert seen
