import pytest
from braid.testing import load_model


def test_it_takes_the_root_of_the_absolute_value():
    with load_model("config.json", "@NAME@") as pipeline:
        outputs = pipeline.execute({"value": [[4, -9, 16]]})
        assert outputs["root"].tolist() == [pytest.approx([2, 3, 4])]
