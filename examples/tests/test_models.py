"""Tests of the example models without a server's address: pytest examples/tests"""

import pathlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from braid.testing import InferenceError

MODELS = pathlib.Path(__file__).parent.parent / "models"
NUMBERS = np.array([1, 2, 3, 4], dtype=np.float32)


def test_add_sub(braid_model):
    outputs = braid_model(MODELS / "add_sub").execute({"INPUT0": 10 * NUMBERS, "INPUT1": NUMBERS})
    assert outputs["OUTPUT0"].tolist() == [11, 22, 33, 44]
    assert outputs["OUTPUT1"].tolist() == [9, 18, 27, 36]


def test_add_sub_refuses_another_type(braid_model):
    with pytest.raises(InferenceError, match="data-type is 'FP64', but model 'add_sub' expects 'FP32'") as caught:
        braid_model(MODELS / "add_sub").execute({"INPUT0": np.zeros(4), "INPUT1": NUMBERS})
    assert caught.value.status == 400


def test_batched(braid_model):
    model = braid_model(MODELS / "batched")

    def scale(number):
        return model.execute({"VALUES": [[number] * 3]})

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(scale, range(6)))
    assert [each["SCALED"].tolist() for each in answers] == [[[10 * number] * 3] for number in range(6)]
    assert max(each["BATCH_SIZE"].item() for each in answers) > 1


def test_chained(braid_model):
    model = braid_model(MODELS / "chained")
    assert model.execute({"INPUT0": NUMBERS, "INPUT1": NUMBERS})["OUTPUT"].tolist() == [4, 8, 12, 16]


def test_chained_passes_errors_of_the_other_model_on(braid_model):
    def add_sub(inputs):
        raise ValueError("out of order")

    model = braid_model(MODELS / "chained", calls={"add_sub": add_sub})
    with pytest.raises(InferenceError, match="out of order"):
        model.execute({"INPUT0": NUMBERS, "INPUT1": NUMBERS})


def test_collected(braid_model):
    assert len(braid_model(MODELS / "collected").execute({"TIMES": [4]})["TEXTS"]) == 4


def test_collected_takes_what_repeat_sends(braid_model):
    def repeat(inputs):
        for word in ("one", "two"):
            yield {"TEXT": [word], "INDEX": np.int32([0])}

    model = braid_model(MODELS / "collected", calls={"repeat": repeat})
    assert model.execute({"TIMES": [4]})["TEXTS"].tolist() == [b"one", b"two"]


def test_countdown(braid_model):
    assert braid_model(MODELS / "countdown").execute({"FROM": [[7]]})["RUNS"].item() == 7


def test_custom_metrics(braid_model):
    model = braid_model(MODELS / "custom_metrics")
    assert model.execute({"TEXT": ["to be or not to be", "that is"]})["WORDS"].tolist() == [6, 2]


def test_gathered(braid_model):
    assert braid_model(MODELS / "gathered").execute({"NUMBERS": NUMBERS})["SUMS"].tolist() == [2, 4, 6, 8]


def test_instance_kind(braid_model):
    assert b"request 1" in braid_model(MODELS / "instance_kind").execute({"WHO": ["request 1"]})["ANSWER"][0]


def test_patient(braid_model):
    (answer,) = braid_model(MODELS / "patient").execute({"SECONDS": [0.01]})
    assert answer["WAITED"].item() == pytest.approx(0.01)


def test_repeat(braid_model):
    answers = braid_model(MODELS / "repeat").execute({"TEXT": ["again"], "TIMES": [3]})
    assert [(each["TEXT"][0], each["INDEX"].item()) for each in answers] == [(b"again", n) for n in range(3)]


def test_running_mean(braid_model):
    sequence = braid_model(MODELS / "running_mean").sequence()
    steps = [sequence.step({"VALUE": [[value]]}, end=value == 9) for value in (2, 4, 9)]
    assert [each["MEAN"].item() for each in steps] == [2, 3, 5]


def test_running_sum(braid_model):
    one, two = (braid_model(MODELS / "running_sum").sequence() for _ in range(2))
    assert [one.step({"VALUE": [[1]]})["SUM"].item(), two.step({"VALUE": [[5]]})["SUM"].item()] == [1, 5]
    assert [one.step({"VALUE": [[2]]}, end=True)["SUM"].item(), two.step({"VALUE": [[6]]}, end=True)["SUM"].item()] == [
        3,
        11,
    ]


def test_shout(braid_model):
    outputs = braid_model(MODELS / "shout").execute({"TEXT": ["braid", "größer"]})
    assert [text.decode() for text in outputs["SHOUTED"]] == ["BRAID", "GRÖSSER"]


def test_square(braid_model):
    answers = braid_model(MODELS / "square").execute({"NUMBER": [4]})
    assert sorted(each["SQUARE"].item() for each in answers) == [1, 4, 9, 16]


def test_summary(braid_model):
    model = braid_model(MODELS / "summary")
    assert model.inputs == {"VALUES": "FP64"}
    assert model.execute({"VALUES": [1, 2, 3]})["MEAN"].item() == 2
