"""Checks whether this interpreter can run models, and words the errors.

This file works with every Python from 3.6 on. So an old interpreter reports its version, and does not fail at newer
syntax.
"""

import platform
import sys

_OLDEST = (3, 11)


def too_old():
    """Returns why this interpreter's version cannot run models; "" if it can."""
    if sys.version_info >= _OLDEST:
        return ""
    wanted = ".".join(map(str, _OLDEST))
    return f"Python {platform.python_version()} is too old, {wanted} or newer is needed ({sys.executable})"


def failure(error):
    """Returns why the worker cannot start, with the path of the interpreter and sys.path."""
    where = f"in {sys.executable} (sys.path: {sys.path})"
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
        return "numpy is not installed " + where
    return f"the worker cannot start {where}: {type(error).__name__}: {error}"
