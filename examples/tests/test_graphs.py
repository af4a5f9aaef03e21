"""Tests of the example graphs: pytest examples/tests"""

import pathlib

import numpy as np
from braid.testing import load_node

GRAPHS = pathlib.Path(__file__).parent.parent / "graphs"


def test_increment(braid_model):
    assert braid_model(GRAPHS / "increment").execute({"number": np.int32([1, 2])})["incremented"].tolist() == [4, 5]


def test_one_node_of_increment():
    with load_node(GRAPHS / "increment" / "increment.py", ["number"], ["incremented"]) as node:
        assert node.execute({"number": np.int32([1, 2])})["incremented"].tolist() == [2, 3]


def test_generate(braid_model):
    tokens = [
        bytes(each["token"]).decode() for each in braid_model(GRAPHS / "generate").stream({"prompt": ["A braid"]})
    ]
    assert len(tokens) > 1
    assert "".join(tokens).strip()


def test_partial(braid_model):
    graph = braid_model(GRAPHS / "partial")
    answers = list(graph.stream({"numbers": np.array([1.5, 2.5])}))
    assert [each["total"].tolist() for each in answers] == [[4.0]]


def test_counter(braid_model):
    graph = braid_model(GRAPHS / "counter")
    # Each request is a session of its own.
    assert [graph.execute({"number": np.int64([n])})["sum"].tolist() for n in (2, 3)] == [[2], [3]]
