"""A record, shared by all checkouts, of the files that a checker found clean.

A file stays clean while the command, the checker's version, the file and all files that it includes stay the same. The
checkout's path makes no difference. The records are in checked/ of the shared cache folder (steps.cache_folder).
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
    """Returns a hash of a file's content with the checkout's path replaced, so that it is the same in each checkout."""
    try:
        return hashlib.sha256((ROOT / path).read_bytes().replace(ROOT_NAME, b".")).hexdigest()
    except OSError:
        return ""


def dependencies(makefile: str) -> list[str]:
    """Returns the dependencies in a make rule that a compiler has written (-MD)."""
    _, _, files = makefile.partition(":")
    return [name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |[^\s\\])+", files)]


class Checked:
    """The records of one checker. Several threads may use it, each for different files."""

    def __init__(self, checker: str, version: str):
        """`version` covers everything besides command and files that affects the checker's findings."""
        self._folder = cache_folder() / "checked" / checker
        self._version = version
        self._folder.mkdir(parents=True, exist_ok=True)

    def _entry(self, command: Sequence[str]) -> pathlib.Path:
        text = json.dumps([self._version, *map(str, command)]).replace(str(ROOT), ".")
        return self._folder / hashlib.sha256(text.encode()).hexdigest()[:32]

    def clean(self, command: Sequence[str]) -> bool:
        """Whether this command found nothing, and all its files are unchanged since."""
        try:
            files = json.loads(self._entry(command).read_text())
        except (OSError, ValueError):
            return False
        return all(fingerprint(path) == found for path, found in files.items())

    def remember(self, command: Sequence[str], files: Sequence[str], folder: pathlib.Path = ROOT) -> None:
        """Records that the command found nothing in `files`: all files that it read from `folder`, including headers."""
        paths = {os.path.normpath(folder / name) for name in files}
        names = sorted(os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}/") else path for path in paths)
        entry = self._entry(command)
        part = entry.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({name: fingerprint(name) for name in names}))
        part.replace(entry)
