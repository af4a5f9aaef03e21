from braid.testing import load_model


def test_sequences_have_sums_of_their_own():
    with load_model("models/@NAME@") as model:
        one, two = model.sequence(), model.sequence()
        assert one.step({"VALUE": [[5]]})["SUM"].item() == 5
        assert two.step({"VALUE": [[100]]})["SUM"].item() == 100
        assert one.step({"VALUE": [[7]]}, end=True)["SUM"].item() == 12
