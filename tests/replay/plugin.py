"""pytest's side of a recording: where the tests' files lie, and which test is running."""

import os
import pathlib

import pytest

from replay.recorder import CURRENT


@pytest.fixture(scope="session", autouse=True)
def recorded_root(tmp_path_factory):
    os.environ["BRAID_RECORD_ROOT"] = str(tmp_path_factory.getbasetemp())


def pytest_runtest_call(item):
    (pathlib.Path(os.environ["BRAID_RECORD_ROOT"]) / CURRENT).write_text(item.nodeid)
