"""The example of a token stream: a small language model, over gRPC and generate_stream."""

import json

import numpy as np
import pytest
from harness.examples import EXAMPLES, load, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language_model")
    run("language_model/prepare.py", folder)
    return folder


@pytest.fixture(scope="module")
def server(module_serve, folder):
    return module_serve(folder)


def written(folder, prompt):
    """Returns (token, logarithm of its probability) of the most likely tokens, computed from the weights."""
    loaded = np.load(folder / "writer" / "1" / "weights.npz")
    vocabulary = loaded["vocabulary"].tolist()
    context = ([0, 0, 0] + [vocabulary.index(" " + word) for word in prompt.split()])[-3:]
    while True:
        hidden = np.tanh(loaded["vectors"][context].ravel() @ loaded["in"] + loaded["in_bias"])
        scores = hidden @ loaded["out"] + loaded["out_bias"]
        probabilities = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        token = int(probabilities.argmax())
        yield vocabulary[token], np.log(probabilities[token])
        if vocabulary[token] == ".":
            return
        context = [*context[1:], token]


def events(server, expected=200, **inputs):
    status, headers, body = server.request("POST", "/v2/models/writer/generate_stream", json.dumps(inputs))
    assert status == expected, body
    assert headers["Content-Type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line]


def test_training_learns():
    """Training uses the gradients of the loss, and at its end the model knows the corpus."""
    prepare = load(EXAMPLES / "language_model" / "prepare.py")
    random = np.random.default_rng(1)
    shapes = {"vectors": (5, 24), "in": (72, 64), "in_bias": (64,), "out": (64, 5), "out_bias": (5,)}
    weights = {name: random.standard_normal(shape) / 4 for name, shape in shapes.items()}
    contexts, targets = random.integers(0, 5, (6, 3)), random.integers(0, 5, 6)
    _, slopes = prepare.gradients(weights, contexts, targets)
    for name, shape in shapes.items():
        place = tuple(random.integers(0, size) for size in shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = {**weights, name: weights[name].copy()}
            moved[name][place] += step
            losses.append(prepare.gradients(moved, contexts, targets)[0])
        assert slopes[name][place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-4, abs=1e-8)
    _, _, loss = prepare.train("One strand. Two strands. " * 5)
    assert loss < 0.2


def test_tokens_over_rest(server, folder):
    expected = list(written(folder, "The river"))
    found = events(server, PROMPT="The river")
    assert [event["TOKEN"] for event in found] == [token for token, _ in expected]
    np.testing.assert_allclose([event["LOGPROB"] for event in found], [score for _, score in expected], atol=1e-4)
    assert len(events(server, PROMPT="The river", MAX_TOKENS=2)) == 2
    assert events(server, PROMPT="The river", MAX_TOKENS=0) == []


def test_chance(server):
    def text(**inputs):
        return "".join(event["TOKEN"] for event in events(server, PROMPT="A", **inputs))

    assert text(TEMPERATURE=2.0, SEED=4) == text(TEMPERATURE=2.0, SEED=4)
    assert len({text(TEMPERATURE=2.0, SEED=seed) for seed in range(5)}) > 1


@pytest.mark.parametrize(("name", "value"), [("TEMPERATURE", -1.0), ("MAX_TOKENS", -1), ("SEED", -1)])
def test_faults(server, name, value):
    [event] = events(server, 400, PROMPT="A", **{name: value})
    assert f"{name}: expected 0 or more" in event["error"]


@pytest.mark.parametrize("api", ["grpc", "rest"])
def test_client(server, folder, api):
    printed = run("language_model/client.py", "--api", api, "--grpc", server.grpc, "--rest", server.http, "A server")
    assert printed == "A server" + "".join(token for token, _ in written(folder, "A server")) + "\n"
