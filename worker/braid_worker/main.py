"""A worker: runs one model until the server says to end.

Started either by the warm process (zygote.py), or on its own, with standard output and error set up by the
spawner:

    python main.py [apart] MEMORY_FD SOCKET_FD WAKE_FD
"""

import atexit
import contextlib
import faulthandler
import os
import platform
import signal
import sys
import threading
import time

if __name__ == "__main__":
    # Run as a script: the folder around the package is where everything is found.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    sys.path.insert(0, os.path.dirname(_here))

from braid_worker import interpreter

if __name__ == "__main__" and interpreter.too_old():
    sys.exit(interpreter.too_old())

try:
    import _braid_worker
    import numpy

    from braid_worker import errors, host
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(interpreter.failure(error))

# By it the server asks for the stacks of all threads, on standard error.
STACKS_SIGNAL = signal.SIGRTMIN + 6

# An interpreter that does not come to its end is ended: the model is finalized already, only threads that it
# forgot are in the way.
EXIT_SECONDS = 5


def prepare_process() -> None:
    """What every worker needs of its process, whoever started it."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Lines appear as they are printed, and stay in order with those of the log.
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    # unittest.main() and argparse in models see no arguments of ours.
    sys.argv[:] = [""]
    _braid_worker.keep_heap()
    _braid_worker.outlive_signals()
    os.register_at_fork(
        before=_braid_worker.before_fork,
        after_in_parent=_braid_worker.after_fork_in_parent,
        after_in_child=_braid_worker.after_fork_in_child,
    )
    faulthandler.enable()
    faulthandler.register(STACKS_SIGNAL, all_threads=True)


def run(memory: int, socket: int, wake: int, apart: bool) -> None:
    """Opens the channel and answers the server. Returns when the process is to exit. `apart`: others are not to look
    into this process."""
    try:
        _braid_worker.connect(memory, socket, wake, platform.python_version(), numpy.__version__)
        conversation = host.Host(apart)
        _braid_worker.run(conversation)
    except BaseException as error:
        errors.die(errors.message_of(error))
    if conversation.has_threads():
        # They hold what an interpreter that is going away cannot take from them.
        atexit._run_exitfuncs()
        _end_process()
    sys.stdout.flush()
    sys.stderr.flush()
    watchdog = threading.Thread(target=_end_process_later, name="brd-exit", daemon=True)
    with contextlib.suppress(RuntimeError):  # without a thread for it, the server ends the process at its own deadline
        watchdog.start()


def _end_process_later() -> None:
    time.sleep(EXIT_SECONDS)
    os._exit(0)


def _end_process() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _apart = sys.argv[1] == "apart"
    _channel = [int(argument) for argument in sys.argv[-3:]]
    prepare_process()
    run(*_channel, _apart)
