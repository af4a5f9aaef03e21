"""Whether this interpreter can run models, and what to say when it cannot.

A Python from 3.6 on can read this file: one that is too old is to say so, and not to fail in the midst of newer syntax.
"""

import platform
import sys

_OLDEST = (3, 11)


def too_old():
    """Why this interpreter cannot run models whatever is installed in it; nothing when it can."""
    if sys.version_info >= _OLDEST:
        return ""
    wanted = ".".join(map(str, _OLDEST))
    return f"Python {platform.python_version()} is too old, {wanted} or newer is needed ({sys.executable})"


def failure(error):
    """What kept this interpreter from coming up, with its path and where it looked for modules."""
    where = f"in {sys.executable} (sys.path: {sys.path})"
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
        return "numpy is not installed " + where
    return f"the worker cannot start {where}: {type(error).__name__}: {error}"
