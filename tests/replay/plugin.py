"""The pytest part of a recording: the folder of the tests' files, and the current test."""

import os
import pathlib

import pytest

from replay.recorder import CURRENT


@pytest.fixture(scope="session", autouse=True)
def recorded_root(tmp_path_factory):
    os.environ["BRAID_RECORD_ROOT"] = str(tmp_path_factory.getbasetemp())


def pytest_runtest_call(item):
    (pathlib.Path(os.environ["BRAID_RECORD_ROOT"]) / CURRENT).write_text(item.nodeid)
