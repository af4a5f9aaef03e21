"""The program `braid` in the package."""

import os
import pathlib
import sys
from collections.abc import Sequence

# BRAID_PROGRAM names another program, such as that of a build.
PROGRAM = pathlib.Path(
    os.environ.get("BRAID_PROGRAM") or pathlib.Path(__file__).resolve().parent / "_files" / "bin" / "braid"
)


def command(arguments: Sequence[str]) -> list[str]:
    """Returns the command line of the server program. Models run in this interpreter's environment, unless --python
    names another."""
    arguments = list(arguments)
    named = any(argument == "--python" or argument.startswith("--python=") for argument in arguments)
    if arguments[:1] in (["serve"], ["check"]) and not named:
        arguments[1:1] = ["--python", sys.executable]
    return [str(PROGRAM), *arguments]


def worker_folder() -> pathlib.Path:
    """Returns the folder of the modules that models import, such as triton_python_backend_utils."""
    for folder in (PROGRAM.parent / "worker", PROGRAM.parent.parent / "lib" / "braid" / "worker"):
        if (folder / "triton_python_backend_utils.py").is_file():
            return folder
    raise FileNotFoundError(f"the worker's files are missing next to '{PROGRAM}'")


def import_worker() -> None:
    """Makes the modules of worker_folder() importable in this process."""
    folder = str(worker_folder())
    if folder not in sys.path:
        sys.path.append(folder)


def main() -> None:
    """Replaces this process by the server program, with the same arguments."""
    arguments = command(sys.argv[1:])
    os.execv(arguments[0], arguments)
