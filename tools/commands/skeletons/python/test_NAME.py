from braid.testing import load_model


def test_it_doubles():
    with load_model("models/@NAME@") as model:
        assert model.execute({"IN": [1, 2, 3]})["OUT"].tolist() == [2, 4, 6]
