"""Exceptions as the server's clients and log see them."""

import os
import sys
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def message_of(exception: BaseException) -> str:
    """`{type}: {message}`."""
    try:
        text = str(exception)
    except BaseException:
        text = "<the exception cannot be shown as text>"
    # What is no UTF-8 (parts of file names, for instance) cannot travel.
    text = text.encode("utf-8", "backslashreplace").decode()
    return f"{type(exception).__name__}: {text}"


def describe(exception: BaseException) -> str:
    """The exception with the places it went through, innermost first:

        ValueError: no such thing

        At:
          /models/m/1/model.py(12): execute

    Frames of the worker itself are left out.
    """
    lines = []
    for frame, line in _frames(exception.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            lines.append(f"  {code.co_filename}({line}): {code.co_name}\n")
    text = message_of(exception)
    if lines:
        text += "\n\nAt:\n" + "".join(reversed(lines))
    return text


def _frames(traceback: TracebackType | None):
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def die(text: str) -> None:
    """Says why this process ends. Does not return."""
    print(f"braid worker {os.getpid()}: {text}", file=sys.stderr, flush=True)
    os._exit(1)
