"""Converts exceptions to texts for clients and for the log.

The log gets everything. Clients do not learn the paths of this machine, unless the operator allows it
(--verbose-errors). Their paths are relative to the model's repository, or to a folder on sys.path.
"""

import os
import sys
import traceback
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Limit on the text of an exception before its frames. The log cuts lines longer than a few of these.
_MOST_LOGGED = 16384

_verbose = False
_roots = []


def configure(roots: list[str], verbose: bool) -> None:
    """Sets the folders to which clients' paths are relative; the first folder that contains a path counts. With
    `verbose`, clients get everything."""
    global _verbose, _roots
    _verbose = verbose
    _roots = [root for root in roots if root]


def for_clients(text: str) -> str:
    """Returns the part of a text that clients may see."""
    if _verbose:
        return text
    import _braid_worker

    # A folder on sys.path may lie in another one.
    imported = sorted((entry for entry in sys.path if isinstance(entry, str)), key=len, reverse=True)
    return _braid_worker.without_paths(_sendable(text), [*_roots, *imported])


def message_of(exception: BaseException) -> str:
    """Returns `{type}: {message}`, for the log."""
    try:
        text = str(exception)
    except BaseException:
        text = "<the exception cannot be shown as text>"
    return _sendable(f"{type(exception).__name__}: {text}")


def describe(exception: BaseException) -> tuple[str, str]:
    """Returns an exception with its frames as two texts. For clients, innermost first:

        ValueError: no such thing

        At:
          m/1/model.py(12): execute

    And for the log, in Python's format:

        ValueError: no such thing
        Traceback (most recent call last):
          File "/models/m/1/model.py", line 12, in execute
            raise ValueError("no such thing")
        ValueError: no such thing

    Both omit frames of the worker and of the import system.
    """
    places = []
    if isinstance(exception, SyntaxError) and exception.filename and exception.lineno:
        places.append((exception.filename, exception.lineno, "<module>", (exception.text or "").strip()))
    for frame, line in reversed(list(_frames(exception.__traceback__))):
        if _is_users(frame.f_code.co_filename):
            places.append((frame.f_code.co_filename, line, frame.f_code.co_name, ""))
    message = message_of(exception)
    told = message + ("\n\nAt:\n" if places else "")
    for file, line, function, source in places:
        told += _sendable(f"  {file}({line}): {function}\n")
        if _verbose and source:
            told += _sendable(f"    {source}\n")
    if not places:
        return for_clients(told), message
    if len(message) > _MOST_LOGGED:
        # Python's format would repeat the text.
        return for_clients(told), f"{message[:_MOST_LOGGED]}...\n{_frames_of(exception)}"
    return for_clients(told), f"{message}\n{_traceback(exception)}"


def describe_short(exception: BaseException) -> tuple[str, str]:
    """Like describe(), but clients get only the message."""
    told, logged = describe(exception)
    return (told if _verbose else for_clients(message_of(exception))), logged


def line_in(exception: BaseException, file: str) -> int:
    """Returns the innermost line in the file that the exception passed through; 0 if there is none."""
    if isinstance(exception, SyntaxError) and exception.filename == file:
        return exception.lineno or 0
    return next((n for f, n in reversed(list(_frames(exception.__traceback__))) if f.f_code.co_filename == file), 0)


def _is_users(file: str) -> bool:
    return not file.startswith((_PACKAGE, "<frozen importlib."))


def _frames_of(exception: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(exception.__traceback__) if _is_users(frame.filename)]
    return _sendable("".join(traceback.format_list(frames)))


def _traceback(exception: BaseException) -> str:
    try:
        shown = traceback.TracebackException.from_exception(exception)
        chained = [shown]
        while chained:
            one = chained.pop()
            chained += [each for each in (one.__cause__, one.__context__, *(one.exceptions or ())) if each is not None]
            one.stack[:] = [frame for frame in one.stack if _is_users(frame.filename)]
            if not one.stack:
                one.stack = None
        return _sendable("".join(shown.format()))
    except BaseException:
        return "<the traceback cannot be shown>"


def _sendable(text: str) -> str:
    # Text that is not UTF-8, such as parts of file names, cannot be sent.
    return text.encode("utf-8", "backslashreplace").decode()


def _frames(traceback: TracebackType | None):
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def die(text: str) -> None:
    """Prints the reason, and ends this process. Does not return."""
    print(f"braid worker {os.getpid()}: {text}", file=sys.stderr, flush=True)
    os._exit(1)
