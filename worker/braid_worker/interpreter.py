"""Whether this interpreter can run models, and what to say when it cannot.

Any Python 3 can read this file: one that is too old is to say so, and not to fail in the midst of newer syntax.
"""

import platform
import sys

_OLDEST = (3, 11)


def too_old():
    """Why this interpreter cannot run models whatever is installed in it; nothing when it can."""
    if sys.version_info >= _OLDEST:
        return ""
    return "Python %s is too old, %d.%d or newer is needed (%s)" % (
        (platform.python_version(),) + _OLDEST + (sys.executable,)
    )


def failure(error):
    """What kept this interpreter from coming up, with its path and where it looked for modules."""
    where = "in %s (sys.path: %s)" % (sys.executable, sys.path)
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
        return "numpy is not installed " + where
    return "the worker cannot start %s: %s: %s" % (where, type(error).__name__, error)
