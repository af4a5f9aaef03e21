"""The examples: loads their scripts as modules, checks their dependencies, and runs them like a user."""

import importlib.util
import subprocess
import sys

import pytest

from harness.server import ROOT

EXAMPLES = ROOT / "examples"


def needs(*packages):
    """Skips the test file if a package of the sets `examples` and `alone` is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed; scripts/python-env examples alone", allow_module_level=True)


def load(path):
    """Loads a module of an example, under a name that no other example has."""
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, *arguments, timeout=60):
    """Runs a script of examples/ and returns its output."""
    command = [sys.executable, EXAMPLES / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
