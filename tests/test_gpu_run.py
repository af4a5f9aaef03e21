"""tests/gpu/run, a script for machines with a GPU: with the stand-in driver all checks pass, and without a driver it
reports that there is no GPU."""

import os
import subprocess
import sys

import pytest
from harness.gpus import Gpus
from harness.server import BINARY, ROOT


def run(env):
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "gpu" / "run", "--build", BINARY.parent, "--rounds", "2", "--largest", "16"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def gpus(tmp_path):
    gpus = Gpus(tmp_path / "gpus")
    yield gpus
    gpus.assert_nothing_left()


def test_all_works_on_the_stand_in(gpus):
    done = run(gpus.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("GPUs: Stand-in A, Stand-in B\n")
    assert done.stdout.count(" | works |\n") == 6
    assert [line.split(" | ")[0] for line in done.stdout.splitlines()[-3:]] == [
        "| 4 B",
        "| 1 MiB",
        "| 16 MiB",
    ]


def test_what_does_not_work_is_told(gpus):
    gpus.fail("cuMemImportFromShareableHandle 719")
    done = run(gpus.env)
    assert done.returncode == 1
    assert "| a call and its answer on the device | FAILED: " in done.stdout
    assert "CUDA_ERROR_LAUNCH_FAILED" in done.stdout
    assert "| CUDA shared memory of a client, in and out | " in done.stdout


def test_without_a_driver_there_is_nothing_to_run_on(gpus):
    (gpus.folder / "devices").write_text("")
    done = run(gpus.env)
    assert (done.returncode, done.stdout) == (3, "no GPU to run on: cuInit returned 100\n")
