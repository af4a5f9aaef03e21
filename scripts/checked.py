"""Which files a checker found clean, remembered for all checkouts.

A file is clean as long as the command, the checker's version, the file and everything that it includes are the same; where the
checkout lies makes no difference. What is remembered lies in checked/ of the shared cache folder (steps.cache_folder).
"""

import functools
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Sequence

from steps import ROOT, cache_folder

ROOT_NAME = os.fsencode(ROOT)


@functools.cache
def fingerprint(path: str) -> str:
    """The hash of a file's content, in which the checkout's own place is replaced: the same in each checkout."""
    try:
        return hashlib.sha256((ROOT / path).read_bytes().replace(ROOT_NAME, b".")).hexdigest()
    except OSError:
        return ""


def dependencies(makefile: str) -> list[str]:
    """The files that a rule for make, as compilers write it (-MD), names behind its colon."""
    _, _, files = makefile.partition(":")
    return [name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |[^\s\\])+", files)]


class Checked:
    """What one checker knows. Threads may use it together, each for other files."""

    def __init__(self, checker: str, version: str):
        """`version`: all that changes what the checker finds, besides command and files."""
        self._folder = cache_folder() / "checked" / checker
        self._version = version
        self._folder.mkdir(parents=True, exist_ok=True)

    def _entry(self, command: Sequence[str]) -> pathlib.Path:
        text = json.dumps([self._version, *map(str, command)]).replace(str(ROOT), ".")
        return self._folder / hashlib.sha256(text.encode()).hexdigest()[:32]

    def clean(self, command: Sequence[str]) -> bool:
        """Whether this command found nothing, on files that are the same today."""
        try:
            files = json.loads(self._entry(command).read_text())
        except (OSError, ValueError):
            return False
        return all(fingerprint(path) == found for path, found in files.items())

    def remember(self, command: Sequence[str], files: Sequence[str], folder: pathlib.Path = ROOT) -> None:
        """Remembers that the command found nothing in `files`, those that it read from `folder`, included ones too."""
        paths = {os.path.normpath(folder / name) for name in files}
        names = sorted(os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}/") else path for path in paths)
        entry = self._entry(command)
        part = entry.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({name: fingerprint(name) for name in names}))
        part.replace(entry)
