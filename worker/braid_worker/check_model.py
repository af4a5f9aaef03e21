"""Imports one Python model for `braid check`, as its worker would, and reports the result.

    python check_model.py < REQUEST 3> ANSWER

The request and the answer are JSON texts. There is no server behind this process. If the code calls one, the answer
says only that.
"""

import contextlib
import faulthandler
import json
import os
import signal
import sys

if __name__ == "__main__":
    # Run as a script: modules are imported from the folder around the package.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    sys.path.insert(0, os.path.dirname(_here))

from braid_worker import interpreter

_ANSWER_FD = 3
# The extension's error for code that calls the server, e.g. for a metric.
_NO_SERVER = "This process has no channel to a server"


def _answer(**fields):
    text = json.dumps(fields).encode()
    while text:
        text = text[os.write(_ANSWER_FD, text) :]
    # Threads and exit functions of user code do not run any more.
    os._exit(0)


if __name__ == "__main__" and interpreter.too_old():
    _answer(error=interpreter.too_old())

try:
    from braid_worker import errors, model_file, sequences
except BaseException as _error:
    _answer(error=interpreter.failure(_error))


def _place(error, folder):
    """Returns file and line of the innermost frame in the user's own files; if there is none, of the innermost frame."""
    places = [(frame.f_code.co_filename, line) for frame, line in errors._frames(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        places.append((error.filename, error.lineno))
    places = [place for place in places if not place[0].startswith((errors._PACKAGE, "<"))]
    own = [place for place in places if place[0].startswith(folder + os.sep)]
    return (own or places or [("", 0)])[-1]


def _check(request):
    file = request["file"]
    folder = os.path.dirname(file)
    if request["class_name"] == "TritonPythonModel":
        model_file.extend_path(file)
        folder = os.path.dirname(folder)
    else:
        model_file.leave_front()
        sys.path.insert(0, folder)
    try:
        module = model_file.load(file, request["module_name"])
        model_class = getattr(module, request["class_name"], None)
        if not isinstance(model_class, type):
            _answer(error=f"the file has no class {request['class_name']}", file=file)
        if not callable(getattr(model_class, "execute", None)):
            _answer(
                error=f"class {request['class_name']} has no method execute",
                file=file,
                line=_line_of_class(model_class),
            )
        if request["keeps_sequences"]:
            try:
                sequences.saves(model_class, request["decoupled"])
            except TypeError as error:
                _answer(error=str(error), file=file, line=_line_of_class(model_class))
        _answer(completed=_complete(model_class, request))
    except BaseException as error:
        place, line = _place(error, folder)
        if _NO_SERVER in str(error):
            _answer(asks_server=True)
        _answer(error=errors.message_of(error), file=place, line=line)


def _line_of_class(model_class):
    import inspect

    with contextlib.suppress(OSError, TypeError):
        return getattr(model_class, "__firstlineno__", 0) or inspect.getsourcelines(model_class)[1]
    return 0


def _complete(model_class, request):
    """Returns the configuration as completed by the model; None if the model completes nothing."""
    if not request["config"] or not hasattr(model_class, "auto_complete_config"):
        return None
    import triton_python_backend_utils

    from braid_worker.model_config import ModelConfig

    triton_python_backend_utils.get_model_dir = lambda: request["version_path"]
    config = model_class.auto_complete_config(ModelConfig(request["config"]))
    if not isinstance(config, ModelConfig):
        code = model_class.auto_complete_config.__code__
        _answer(
            error="auto_complete_config must return a valid pb.ModelConfig object",
            file=code.co_filename,
            line=code.co_firstlineno,
        )
    return config.as_dict()


if __name__ == "__main__":
    _request = json.load(sys.stdin)
    # Reports where the code is after a crash or a timeout.
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.argv[:] = [""]
    _check(_request)
