from braid.testing import load_model


def test_it_calls_the_other_model():
    with load_model("models/@NAME@") as model:
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [64, 128]


def test_it_calls_until_the_sum_reaches_100():
    calls = []

    def doubled(inputs):
        calls.append(inputs["IN"].tolist())
        return {"OUT": inputs["IN"] * 10}

    with load_model("models/@NAME@", calls={"doubled": doubled}) as model:
        assert model.execute({"IN": [1, 2]})["OUT"].tolist() == [100, 200]
    assert calls == [[1, 2], [10, 20]]
