"""The arguments that user code gives to functions of the modules for it."""

import sys

import _braid_worker


def check_type(value, expected: type, name: str) -> None:
    """Raises TypeError, in the name of the calling function, for what is of another type."""
    if not isinstance(value, expected):
        raise TypeError(f"{_place(name)} must be {expected.__name__}, not {type(value).__name__}")


def text(value, name: str) -> str:
    """The text that `value` is: a str, or bytes with its UTF-8, which is what the elements of a TYPE_STRING tensor
    are. Raises TypeError, and ValueError for other bytes, in the name of the calling function."""
    return _braid_worker.text_argument(value, _place(name))


def _place(name: str) -> str:
    function = sys._getframe(2).f_code.co_qualname.removesuffix(".__init__")
    return f"{function}(): incompatible function arguments: {name}"
