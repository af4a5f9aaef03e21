"""One build of the worker's extension works with every CPython from 3.11 on."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

BINARY = pathlib.Path(os.environ.get("BRAID_BINARY", "build/braid")).resolve()
WORKER = BINARY.parent / "worker"
EXTENSION = WORKER / "_braid_worker.abi3.so"


def interpreters():
    """Returns all installed CPythons from 3.11 on, one of each version."""
    found = {}
    named = (shutil.which(f"python3.{minor}") for minor in range(11, 20))
    kept = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    for path in [sys.executable, *filter(None, named), *kept]:
        asked = subprocess.run(
            [path, "-c", "import sys; print(sys.implementation.name, *sys.version_info[:2])"],
            capture_output=True,
            text=True,
        )
        words = asked.stdout.split()
        if asked.returncode == 0 and words[0] == "cpython" and (int(words[1]), int(words[2])) >= (3, 11):
            found.setdefault(tuple(words[1:]), path)
    return list(found.values())


@pytest.mark.parametrize("python", interpreters())
def test_extension_loads(python):
    code = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import _braid_worker; print(_braid_worker.__file__)"
    loaded = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if "No module named 'numpy'" in loaded.stderr:
        return  # the extension was loaded, and its init ran up to its only dependency, which this interpreter lacks
    assert loaded.stdout.strip() == str(EXTENSION), loaded.stderr


def test_extension_keeps_to_the_stable_abi():
    audit = pathlib.Path(sys.executable).with_name("abi3audit")
    result = subprocess.run(
        [str(audit), "--strict", "--assume-minimum-abi3", "3.11", str(EXTENSION)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
