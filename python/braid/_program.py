"""The program `braid` in the package."""

import os
import pathlib
import sys
from collections.abc import Sequence

PROGRAM = pathlib.Path(__file__).resolve().parent / "_files" / "bin" / "braid"


def command(arguments: Sequence[str]) -> list[str]:
    """Returns the command line of the server program. Models run in this interpreter's environment, unless --python
    names another."""
    arguments = list(arguments)
    named = any(argument == "--python" or argument.startswith("--python=") for argument in arguments)
    if arguments[:1] in (["serve"], ["check"]) and not named:
        arguments[1:1] = ["--python", sys.executable]
    return [str(PROGRAM), *arguments]


def main() -> None:
    """Replaces this process by the server program, with the same arguments."""
    arguments = command(sys.argv[1:])
    os.execv(arguments[0], arguments)
