"""Exceptions as the server's clients and log see them.

The log has it all. Clients are told nothing of where things lie on this machine, unless the operator wants them to
be (--verbose-errors): paths are relative to the model's repository or to what is on sys.path.
"""

import os
import sys
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_verbose = False
_roots = []


def configure(roots: list[str], verbose: bool) -> None:
    """What clients are told: paths relative to the first of these folders that they lie in, or everything."""
    global _verbose, _roots
    _verbose = verbose
    _roots = [root for root in roots if root]


def for_clients(text: str) -> str:
    """What of the text clients may see."""
    if _verbose:
        return text
    import _braid_worker

    # A folder on sys.path may lie in another one.
    imported = sorted((entry for entry in sys.path if isinstance(entry, str)), key=len, reverse=True)
    return _braid_worker.without_paths(_sendable(text), [*_roots, *imported])


def message_of(exception: BaseException) -> str:
    """`{type}: {message}`, for the log."""
    try:
        text = str(exception)
    except BaseException:
        text = "<the exception cannot be shown as text>"
    return _sendable(f"{type(exception).__name__}: {text}")


def describe(exception: BaseException) -> tuple[str, str]:
    """The exception with the places it went through, innermost first:

        ValueError: no such thing

        At:
          m/1/model.py(12): execute

    For clients, and for the log, where the paths are whole and what is wrong in the syntax of a file is shown.
    Frames of the worker itself are left out.
    """
    places = []
    if isinstance(exception, SyntaxError) and exception.filename and exception.lineno:
        places.append((exception.filename, exception.lineno, "<module>", (exception.text or "").strip()))
    for frame, line in reversed(list(_frames(exception.__traceback__))):
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            places.append((frame.f_code.co_filename, line, frame.f_code.co_name, ""))
    told = logged = message_of(exception)
    if places:
        told += "\n\nAt:\n"
        logged += "\n\nAt:\n"
    for file, line, function, source in places:
        place = _sendable(f"  {file}({line}): {function}\n")
        told += place
        logged += place + (_sendable(f"    {source}\n") if source else "")
    return (logged if _verbose else for_clients(told)), logged


def describe_short(exception: BaseException) -> tuple[str, str]:
    """As describe(), but clients are told the message alone."""
    told, logged = describe(exception)
    return (told if _verbose else for_clients(message_of(exception))), logged


def _sendable(text: str) -> str:
    # What is no UTF-8 (parts of file names, for instance) cannot travel.
    return text.encode("utf-8", "backslashreplace").decode()


def _frames(traceback: TracebackType | None):
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def die(text: str) -> None:
    """Says why this process ends. Does not return."""
    print(f"braid worker {os.getpid()}: {text}", file=sys.stderr, flush=True)
    os._exit(1)
