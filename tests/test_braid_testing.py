"""braid.testing: models under test, in worker processes and in the test's own process."""

import os
import pathlib
import sys
import textwrap
import threading

import numpy as np
import pytest
from harness.server import BINARY
from harness.waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples" / "models"

os.environ["BRAID_PROGRAM"] = str(BINARY)
sys.path.insert(0, str(ROOT / "python"))

from braid.testing import InferenceError, ServerError, _relay, load_model, load_node  # noqa: E402

import triton_python_backend_utils as pb_utils  # noqa: E402, isort: skip, found by braid.testing

BOTH = pytest.mark.parametrize("in_process", [False, True], ids=["worker", "in-process"])
HEAD = "import json\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\n\n"
PAIR = (
    'backend: "python"\n'
    'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    'output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n'
)


def write_model(folder, source, config=PAIR, head=HEAD):
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(head + textwrap.dedent(source))
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder


CALLER = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN")
            call = pb_utils.InferenceRequest(
                model_name="other", requested_output_names=["Y"], inputs=[pb_utils.Tensor("X", value.as_numpy())])
            answer = call.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y + 1)]))
        return responses
"""


@BOTH
def test_a_model_executes(in_process):
    with load_model(MODELS / "add_sub", in_process=in_process) as model:
        assert model.inputs == {"INPUT0": "FP32", "INPUT1": "FP32"}
        outputs = model.execute({"INPUT0": [1, 2, 3, 4], "INPUT1": np.full(4, 10, np.float32)})
        assert outputs["OUTPUT0"].tolist() == [11, 12, 13, 14]
        assert outputs["OUTPUT1"].tolist() == [-9, -8, -7, -6]
        assert list(model.execute({"INPUT0": [1] * 4, "INPUT1": [1] * 4}, ["OUTPUT1"])) == ["OUTPUT1"]
        assert model.config["name"] == "add_sub"


@BOTH
def test_a_wrong_request_gets_the_clients_error(in_process):
    with load_model(MODELS / "add_sub", in_process=in_process) as model:
        with pytest.raises(InferenceError, match="expected 2 inputs but got 1 inputs for model 'add_sub'") as caught:
            model.execute({"INPUT0": [1] * 4})
        assert caught.value.status == 400
        with pytest.raises(InferenceError, match="data-type is 'INT64', but model 'add_sub' expects 'FP32'"):
            model.execute({"INPUT0": np.zeros(4, np.int64), "INPUT1": [1] * 4})


@BOTH
def test_a_decoupled_model_gives_an_iterator(in_process):
    with load_model(MODELS / "repeat", in_process=in_process) as model:
        responses = model.execute({"TEXT": ["ä"], "TIMES": [3]})
        assert [(each["TEXT"][0].decode(), each["INDEX"][0]) for each in responses] == [("ä", 0), ("ä", 1), ("ä", 2)]


@BOTH
def test_closing_an_iterator_cancels_the_request(in_process, tmp_path):
    source = """
        import threading

        class TritonPythonModel:
            ended = threading.Event()

            def execute(self, requests):
                for request in requests:
                    sender = request.get_response_sender()
                    number = 0
                    while not sender.is_cancelled():
                        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([number]))]))
                        number += 1
                    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                pb_utils.Logger.log_info("the model has seen it")
        """
    config = PAIR + "model_transaction_policy { decoupled: true }\n"
    with load_model(write_model(tmp_path / "m", source, config), in_process=in_process) as model:
        responses = model.execute({"IN": [1]})
        assert [next(responses)["OUT"][0] for _ in range(3)] == [0, 1, 2]
        responses.close()
        # The model runs one execution at a time: this one begins when the other has ended.
        again = model.execute({"IN": [1]})
        assert next(again)["OUT"][0] == 0
        again.close()
        assert "the model has seen it" in model.log


@BOTH
def test_a_sequence_steps(in_process):
    with load_model(MODELS / "running_sum", in_process=in_process) as model:
        (output,) = model.outputs
        one, two = model.sequence(), model.sequence("a text")
        assert [one.step({"VALUE": [[n]]})[output].item() for n in (1, 2, 3)] == [1, 3, 6]
        assert two.step({"VALUE": [[10]]})[output].item() == 10
        assert one.step({"VALUE": [[4]]}, end=True)[output].item() == 10
        assert one.step({"VALUE": [[5]]})[output].item() == 5


@BOTH
def test_calls_are_answered_by_a_function(in_process, tmp_path):
    seen = []

    def other(inputs):
        seen.append((threading.current_thread().name, inputs["X"].tolist()))
        if inputs["X"][0] < 0:
            raise ValueError("no negative numbers")
        return {"Y": inputs["X"] * 2}

    with load_model(write_model(tmp_path / "caller", CALLER), calls={"other": other}, in_process=in_process) as model:
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [3, 5]
        assert [values for _, values in seen] == [[1, 2]]
        with pytest.raises(InferenceError, match="ValueError: no negative numbers"):
            model.execute({"IN": [-1]})


@BOTH
def test_calls_are_answered_by_a_generator_function(in_process, tmp_path):
    source = CALLER.replace("call.exec()", "call.exec(decoupled=True)").replace(
        "            if answer.has_error():",
        "            answers = [each for each in answer if each.output_tensors()]\n"
        "            answer = answers[-1]\n"
        "            assert len(answers) == 3\n"
        "            if answer.has_error():",
    )

    def other(inputs):
        for factor in (1, 2, 3):
            yield {"Y": inputs["X"] * factor}

    with load_model(write_model(tmp_path / "caller", source), calls={"other": other}, in_process=in_process) as model:
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [4, 7]


@BOTH
def test_calls_are_answered_by_a_loaded_model_and_by_a_folder(in_process, tmp_path):
    other = """
        class TritonPythonModel:
            def execute(self, requests):
                return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", -r.inputs()[0].as_numpy())]) for r in requests]
        """
    config = PAIR.replace('"IN"', '"X"').replace('"OUT"', '"Y"')
    caller = write_model(tmp_path / "one" / "caller", CALLER)
    folder = write_model(tmp_path / "two" / "negative", other, config)
    with (
        load_model(folder, in_process=in_process) as negative,
        load_model(caller, calls={"other": negative}, in_process=in_process) as model,
    ):
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [0, -1]
    with load_model(caller, calls={"other": folder}, in_process=in_process) as model:
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [0, -1]


def test_a_function_of_a_call_may_send_requests_of_its_own(tmp_path):
    """Its thread stays with the server of the call: the later call in the model still reaches that."""
    source = CALLER.replace('"other"', '"first"').replace(
        "call = pb", "self.ask('second', value)\n            call = pb", 1
    )
    source += """
    def ask(self, name, value):
        pb_utils.InferenceRequest(
            model_name=name, requested_output_names=["Y"], inputs=[pb_utils.Tensor("X", value.as_numpy())]).exec()
    """
    called = []

    def second(inputs):
        called.append("second")
        digits = adder.execute({"INPUT0": [1] * 4, "INPUT1": [1] * 4})
        request = pb_utils.InferenceRequest(
            model_name="third", requested_output_names=[], inputs=[pb_utils.Tensor("X", inputs["X"])]
        )
        assert not request.exec().has_error()
        return {"Y": digits["OUTPUT0"]}

    def third(inputs):
        called.append("third")
        return {"Y": inputs["X"]}

    calls = {"first": lambda inputs: {"Y": inputs["X"]}, "second": second, "third": third}
    caller = write_model(tmp_path / "caller", source)
    with (
        load_model(MODELS / "add_sub", in_process=True) as adder,
        load_model(caller, calls=calls, in_process=True) as model,
    ):
        assert model.execute({"IN": [1]})["OUT"].tolist() == [2]
    assert called == ["second", "third"]


def test_a_function_stands_only_for_its_own_name(tmp_path):
    source = """
        class TritonPythonModel:
            def execute(self, requests):
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", -r.inputs()[0].as_numpy())]) for r in requests]
        """
    caller = write_model(tmp_path / "caller", CALLER.replace('"X"', '"IN"').replace('"Y"', '"OUT"'))
    caller.joinpath("1/model.py").write_text(
        caller.joinpath("1/model.py").read_text().replace('"other"', '"other_one"')
    )
    write_model(tmp_path / "other_one", source)
    with load_model(caller, calls={"other": lambda inputs: {"OUT": inputs["IN"] * 100}}) as model:
        assert model.execute({"IN": [1]})["OUT"].tolist() == [0]


@BOTH
def test_a_refused_request_is_no_step_of_a_sequence(in_process):
    with load_model(MODELS / "running_sum", in_process=in_process) as model:
        (output,) = model.outputs
        sequence = model.sequence()
        with pytest.raises(InferenceError, match="unexpected inference input .WRONG."):
            sequence.step({"WRONG": [[1]]})
        assert sequence.step({"VALUE": [[2]]})[output].item() == 2


@BOTH
def test_calls_reach_the_other_models_of_the_repository(in_process):
    with load_model(MODELS / "chained", in_process=in_process) as model:
        values = np.arange(4, dtype=np.float32)
        outputs = model.execute(dict.fromkeys(model.inputs, values))
        assert set(outputs) == set(model.outputs)


def test_an_ensemble_is_loaded_with_its_models():
    with load_model(MODELS / "digits") as model:
        assert set(model.outputs) == {"DIGIT", "CONFIDENCE"}


@BOTH
def test_graphs_and_nodes(in_process):
    graphs = ROOT / "examples" / "graphs"
    with load_model(graphs / "increment", in_process=in_process) as graph:
        assert graph.execute({"number": np.int32([1, 2])})["incremented"].tolist() == [4, 5]
    with load_node(graphs / "increment" / "increment.py", ["number"], ["incremented"], in_process=in_process) as node:
        assert node.execute({"number": np.int32([1, 2])})["incremented"].tolist() == [2, 3]
    assert not any("increment.py" in str(getattr(each, "__file__", "")) for each in list(sys.modules.values()))


@BOTH
def test_a_generating_node_streams(in_process, tmp_path):
    (tmp_path / "writer.py").write_text(
        textwrap.dedent("""
        from pyovms import Tensor

        class OvmsPythonModel:
            def execute(self, inputs):
                for word in bytes(inputs[0]).split():
                    yield [Tensor("word", word)]
        """)
    )
    with load_node(tmp_path / "writer.py", ["text"], ["word"], loopback=True, in_process=in_process) as node:
        words = [bytes(each["word"]) for each in node.stream({"text": np.frombuffer(b"one two", np.uint8)})]
        assert words == [b"one", b"two"]
        with pytest.raises(InferenceError, match="unexpected inference output 'nothing' for model 'writer'"):
            list(node.stream({"text": np.frombuffer(b"one two", np.uint8)}, outputs=["nothing"]))
        with pytest.raises(InferenceError, match="Unexpected input - no is unexpected"):
            list(node.stream({"no": np.frombuffer(b"one two", np.uint8)}))


def test_an_exception_of_a_model_in_this_process_is_the_cause(tmp_path):
    source = """
        class TritonPythonModel:
            def initialize(self, args):
                self.factor = 2

            def execute(self, requests):
                return [self.one(each) for each in requests]

            def one(self, request):
                values = request.inputs()[0].as_numpy()
                if values.size == 0:
                    raise KeyError("nothing there")
                return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values * self.factor)])
        """
    with load_model(write_model(tmp_path / "m", source), in_process=True) as model:
        with pytest.raises(InferenceError, match="KeyError: 'nothing there'") as caught:
            model.execute({"IN": np.zeros(0, np.float32)})
        assert isinstance(caught.value.__cause__, KeyError)
        model.instance.factor = 5
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [5, 10]


def test_an_exception_of_initialize_in_this_process_is_the_cause(tmp_path):
    source = """
        class TritonPythonModel:
            def initialize(self, args):
                raise LookupError("no weights")
        """
    folder = write_model(tmp_path / "m", source)
    with pytest.raises(ServerError, match="LookupError: no weights") as caught:
        load_model(folder, in_process=True)
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(ServerError, match="LookupError: no weights"):
        load_model(folder)


def test_models_in_one_process_have_modules_of_their_own(tmp_path):
    source = """
        import helper

        from .helper import VALUE

        class TritonPythonModel:
            def execute(self, requests):
                assert helper.VALUE == VALUE
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([VALUE]))]) for _ in requests]
        """
    for value in (1, 2):
        folder = write_model(tmp_path / str(value) / "m", source)
        (folder / "1/helper.py").write_text(f"VALUE = {value}")
        with load_model(folder, in_process=True) as model:
            assert model.execute({"IN": [0]})["OUT"].tolist() == [value]
    assert "helper" not in sys.modules


@BOTH
def test_coroutines_and_configurations_that_models_complete(in_process, tmp_path):
    source = """
        import asyncio

        class TritonPythonModel:
            @staticmethod
            def auto_complete_config(config):
                config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
                config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
                return config

            async def execute(self, requests):
                await asyncio.sleep(0)
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy() + 1)])
                        for r in requests]
        """
    with load_model(write_model(tmp_path / "m", source, None), in_process=in_process) as model:
        assert model.inputs == {"IN": "INT32"}
        assert model.execute({"IN": [4]})["OUT"].tolist() == [5]


def test_a_request_has_a_time_limit(tmp_path):
    source = """
        import threading

        class TritonPythonModel:
            def execute(self, requests):
                threading.Event().wait()
        """
    model = load_model(write_model(tmp_path / "m", source), options=["--exit-timeout-secs", "0"])
    with model, pytest.raises(TimeoutError, match="no response within 0.2 s"):
        model.execute({"IN": [1]}, timeout=0.2)


def test_code_that_does_not_return_does_not_hold_up_the_end(tmp_path, monkeypatch):
    source = """
        import threading

        hold = threading.Event()

        class TritonPythonModel:
            def execute(self, requests):
                hold.wait()
                return []
        """
    monkeypatch.setattr(_relay, "_CLOSE_SECONDS", 0.1)
    model = load_model(write_model(tmp_path / "m", source), in_process=True, options=["--exit-timeout-secs", "0"])
    hold = sys.modules[type(model.instance).__module__].hold
    with pytest.raises(TimeoutError, match="no response within 0.2 s"):
        model.execute({"IN": [1]}, timeout=0.2)
    with pytest.warns(UserWarning, match="model 'm' still runs in this process"):
        model.close()
    hold.set()
    wait_until(lambda: not any(thread.name == "braid-model" for thread in threading.enumerate()))


def test_a_model_of_another_process_has_no_object():
    with load_model(MODELS / "add_sub") as model, pytest.raises(RuntimeError, match="load it with in_process=True"):
        model.instance  # noqa: B018, the property raises


def test_a_graph_that_cannot_be_loaded_is_an_error(tmp_path):
    (tmp_path / "graph.pbtxt").write_text('node { calculator: "Absent" }')
    with pytest.raises(ServerError, match=f"'{tmp_path.name}' is not loaded: (.|\n)*it has no input_stream"):
        load_model(tmp_path)


def test_wrong_paths_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no model at '.*/absent'"):
        load_model(tmp_path / "absent")
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(ValueError, match="expected a folder, a graph.pbtxt or a config.json"):
        load_model(tmp_path / "text.txt")
    with pytest.raises(TypeError, match=r"calls\['x'\] is int; expected a function, a Model or a path"):
        load_model(MODELS / "add_sub", calls={"x": 3})


@BOTH
def test_nothing_is_left_behind(in_process):
    threads = set(threading.enumerate())
    counts = []
    for _ in range(4):
        with load_model(MODELS / "add_sub", in_process=in_process) as model:
            model.execute({"INPUT0": [1] * 4, "INPUT1": [1] * 4})
        counts.append(len(os.listdir("/proc/self/fd")))
    assert set(threading.enumerate()) <= threads
    assert counts[-1] <= counts[1], counts  # the process may close files of earlier tests meanwhile
