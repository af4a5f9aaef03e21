"""A worker: runs one model until the server ends it.

It is forked by the warm process (zygote.py), or started by itself, with standard output and error set up by its
starter:

    python main.py [apart] MEMORY_FD SOCKET_FD WAKE_FD
"""

import atexit
import contextlib
import faulthandler
import gc
import os
import platform
import signal
import socket
import sys
import threading
import time

if __name__ == "__main__":
    # Run as a script: modules are imported from the folder around the package.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    sys.path.insert(0, os.path.dirname(_here))

from braid_worker import interpreter

if __name__ == "__main__" and interpreter.too_old():
    sys.exit(interpreter.too_old())

try:
    import _braid_worker
    import numpy

    from braid_worker import errors, fork_server, host
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(interpreter.failure(error))

# The server sends this signal to get the stacks of all threads on standard error.
STACKS_SIGNAL = signal.SIGRTMIN + 6

# Time for the interpreter to exit. After it the process is ended: the model is finalized, and only threads that user
# code left running delay the exit.
EXIT_SECONDS = 5


def prepare_process() -> None:
    """Prepares the process of any worker, forked or not."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Lines appear as they are printed, in order with lines of the log.
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    # unittest.main() and argparse in models see no arguments of this program.
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


def run(start: fork_server.Start) -> None:
    """Opens the channel and answers the server. Returns when the process should exit. With `start.apart`, other
    processes must not be able to inspect this one."""
    try:
        _braid_worker.connect(*start.channel, platform.python_version(), numpy.__version__)
        conversation = host.Host(start.apart)
        _braid_worker.run(conversation)
        if start.orders is not None and conversation.is_template():
            start = _fork_instances(start.orders)
            _braid_worker.reconnect(*start.channel, platform.python_version(), numpy.__version__)
            _braid_worker.run(conversation)
    except BaseException as error:
        errors.die(errors.message_of(error))
    if conversation.has_threads():
        # The threads hold objects that an exiting interpreter cannot take from them.
        atexit._run_exitfuncs()
        _end_process()
    sys.stdout.flush()
    sys.stderr.flush()
    watchdog = threading.Thread(target=_end_process_later, name="brd-exit", daemon=True)
    with contextlib.suppress(RuntimeError):  # if this fails, the server ends the process at its own deadline
        watchdog.start()


def _fork_instances(orders: socket.socket) -> fork_server.Start:
    """Forks the instances of a template until the server closes the socket, which ends the process. Returns in an
    instance."""
    # The collector skips all objects that exist now, so that their pages stay shared.
    gc.collect()
    gc.freeze()
    try:
        start = fork_server.serve(orders)
    except OSError:
        start = None
    if start is None:
        # Not finalized: its instances are.
        _end_process()
    return start


def _end_process_later() -> None:
    time.sleep(EXIT_SECONDS)
    os._exit(0)


def _end_process() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _start = fork_server.Start([int(argument) for argument in sys.argv[-3:]], sys.argv[1] == "apart")
    prepare_process()
    run(_start)
