from braid.testing import load_model


def test_it_is_loud():
    with load_model("config.json", "@NAME@") as graph:
        assert graph.execute({"text": ["hello"]})["loud"].tolist() == [b"HELLO"]
