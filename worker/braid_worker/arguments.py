"""Checks of arguments from user code."""

import sys

import _braid_worker


def check_type(value, expected: type, name: str) -> None:
    """Raises TypeError in the name of the calling function if `value` has another type."""
    if not isinstance(value, expected):
        raise TypeError(f"{_place(name)} must be {expected.__name__}, not {type(value).__name__}")


def text(value, name: str) -> str:
    """Converts a text argument: a str, or bytes with UTF-8, such as the elements of a TYPE_STRING tensor. Raises
    TypeError, or ValueError for bytes that are not UTF-8, in the name of the calling function."""
    return _braid_worker.text_argument(value, _place(name))


def _place(name: str) -> str:
    function = sys._getframe(2).f_code.co_qualname.removesuffix(".__init__")
    return f"{function}(): incompatible function arguments: {name}"
