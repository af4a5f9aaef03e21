"""Runs a script of tests/campaigns from a test."""

import subprocess
import sys

from harness.server import ROOT


def run_campaign(name, *arguments):
    """Returns the output of a script, which must find no fault."""
    command = [sys.executable, ROOT / "tests" / "campaigns" / name, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-30000:]
    assert done.stdout.endswith("\n0 faults\n")
    return done.stdout
