"""save_sequence and load_sequence: saved state in responses, and restored state before a step."""

import numpy as np
import pytest
from worker_harness import UINT8, floats, tensor

END = 2
STATE = "braid_sequence_state"
SUMS = """
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            assert "braid_sequence_state" not in [each.name() for each in request.inputs()]
            id, value = request.correlation_id(), request.inputs()[0].as_numpy()[0]
            self.sums[id] = self.sums.get(id, 0) + value
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([self.sums[id]]))]))
        return answers

    def save_sequence(self, correlation_id):
        total = self.sums[correlation_id]
        if total == 13:
            raise ValueError("unlucky")
        return str(total) if total == 14 else str(total).encode() + b"x" * (5000 if total > 1000 else 0)

    def load_sequence(self, correlation_id, state):
        assert type(state) is bytes
        self.sums[correlation_id] = float(state.rstrip(b"x"))
"""
SENDER = (
    SUMS.replace("return answers", "self.answer(requests, answers)")
    + """
    def answer(self, requests, answers):
        def send():
            for request, answer in zip(requests, answers):
                request.get_response_sender().send(answer, flags=1)
        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
"""
)
COROUTINE = SUMS.replace("def execute", "async def execute")


def step(value, sequence, flags=0, state=None):
    inputs = [tensor("IN", np.float32([value]))]
    if state is not None:
        inputs.append(tensor(STATE, np.frombuffer(state, np.uint8).reshape(1, -1)))
    return {"correlation_id": sequence, "flags": flags, "inputs": inputs}


def state_of(response):
    kind, shape, data, _ = response["outputs"][STATE]
    assert (kind, shape) == (UINT8, (1, len(data)))
    return bytes(data)


@pytest.mark.parametrize("source", [SUMS, COROUTINE], ids=["plain", "coroutine"])
def test_a_state_comes_with_each_answer_and_is_taken_before_a_step(model, source):
    worker = model(source, keeps_sequences=1)
    assert worker.loaded["saves_sequences"]
    answers = worker.execute(step(2, 7), step(3, "seven"), step(4, 8, END), {"inputs": [tensor("IN", np.float32([0]))]})
    assert [state_of(answers[i]) for i in (0, 1)] == [b"2.0", b"3.0"]
    assert [list(answers[i]["outputs"]) for i in (2, 3)] == [["OUT"], ["OUT"]]  # the end; no sequence
    answers = worker.execute(step(5, 7), step(1, "another", state=b"10"), step(0, 9, state=b"2000" + b"x" * 4000))
    assert floats(answers[0]["outputs"]["OUT"])[0] == 7
    assert floats(answers[1]["outputs"]["OUT"])[0] == 11
    assert state_of(answers[1]) == b"11.0"
    assert state_of(answers[2]) == b"2000.0" + b"x" * 5000


def test_a_state_comes_with_what_a_response_sender_sends(model):
    worker = model(SENDER, keeps_sequences=1)
    worker.send(step(2, 7), step(4, 8, END))
    index, answer = worker.response()
    assert (index, state_of(answer)) == (0, b"2.0")
    index, answer = worker.response()
    assert (index, list(answer["outputs"])) == (1, ["OUT"])
    worker.receive("executed")


def test_a_step_that_cannot_be_saved_fails_alone(model):
    worker = model(SUMS, keeps_sequences=1)
    answers = worker.execute(step(13, 7), step(14, "s"), step(1, 9))
    assert answers[0]["code"] != 0
    name = worker.config["name"]
    assert answers[0]["error"].startswith(
        f"SequenceError: save_sequence of model '{name}' failed for sequence 7: ValueError: unlucky\n\nAt:\n"
    )
    assert "1/model.py(23): save_sequence" in answers[0]["error"]
    assert answers[1]["error"] == (
        f"SequenceError: save_sequence of model '{name}' failed for sequence s: TypeError: it returned str, not bytes"
    )
    assert not answers[0]["outputs"]
    assert state_of(answers[2]) == b"1.0"


def test_a_sequence_that_cannot_be_loaded_fails_alone(model):
    worker = model(SUMS, keeps_sequences=1)
    worker.send(step(1, 7, state=b"no number"), step(2, 8))
    index, answer = worker.response()
    assert index == 0
    assert answer["final"]
    assert f"load_sequence of model '{worker.config['name']}' failed for sequence 7: ValueError" in answer["error"]
    responses = worker.receive("executed")["responses"]
    assert [each["id"] % 100 for each in responses] == [1]
    assert state_of(responses[0]) == b"2.0"
    # With only this request, execute() is not called.
    worker.send(step(1, 7, state=b"no number"))
    assert worker.response()[0] == 0
    assert worker.receive("executed")["responses"] == []


def test_models_are_what_they_were_where_nobody_keeps_sequences(model):
    worker = model(SUMS)
    assert not worker.loaded["saves_sequences"]
    answers = worker.execute(step(13, 7))
    assert list(answers[0]["outputs"]) == ["OUT"]
    plain = model(SUMS.replace("_sequence(", "_nothing("), keeps_sequences=1)
    assert not plain.loaded["saves_sequences"]


@pytest.mark.parametrize(
    ("source", "policy", "text"),
    [
        (
            SUMS.replace("load_sequence(", "load("),
            None,
            "TypeError: the model defines save_sequence and not load_sequence: a sequence is kept with both alone",
        ),
        (
            SUMS.replace("save_sequence(", "save("),
            None,
            "TypeError: the model defines load_sequence and not save_sequence: a sequence is kept with both alone",
        ),
        (
            SUMS.replace("def load_sequence", "async def load_sequence"),
            None,
            "TypeError: load_sequence must be a function, and no coroutine function",
        ),
        (
            SUMS,
            {"decoupled": True},
            "TypeError: a decoupled model cannot have save_sequence and load_sequence: nothing tells when a step of it "
            "is over",
        ),
    ],
    ids=["save alone", "load alone", "coroutine", "decoupled"],
)
def test_what_cannot_be_right_is_not_loaded(model, source, policy, text):
    loaded = model(source, policy=policy, expect_ok=False, keeps_sequences=1).loaded
    assert loaded["code"] != 0
    assert loaded["error"] == text
    assert model(source, policy=policy).loaded["code"] == 0
