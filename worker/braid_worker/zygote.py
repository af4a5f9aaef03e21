"""The warm process of one Python environment: has imported all modules that workers need, and forks workers.

    python zygote.py FD

FD is a SOCK_SEQPACKET socket. The first message to the server is JSON: {"ready": true, "python": ..., "numpy": ...} or
{"ready": false, "error": ...}. Each request is {"name": ..., "apart": true or false} with five descriptors: memory,
socket and wake-up of the channel, standard output, standard error. With "apart", the worker is isolated from other
workers. The answer is {"pid": ...} or {"error": ...}; the worker is not a child of this process any more. The process
ends when the socket is closed.

It stays single-threaded and runs no user code. All its work is done before or after a fork.
"""

import gc
import json
import os
import platform
import socket
import sys
import warnings

if __name__ == "__main__":
    # Run as a script: modules are imported from the folder around the package.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    sys.path.insert(0, os.path.dirname(_here))

from braid_worker import interpreter

if __name__ == "__main__" and interpreter.too_old():
    _server = socket.socket(fileno=int(sys.argv[1]))
    _server.send(json.dumps({"ready": False, "error": interpreter.too_old()}).encode())
    sys.exit(1)

from braid_worker import errors

_MAX_REQUEST = 1 << 20
_DESCRIPTORS = 5


def _fork_worker(server: socket.socket, request: dict, descriptors: list[int]) -> int:
    """Forks twice, so that the server, a subreaper, becomes the worker's parent. Returns the worker's pid; 0 in the
    worker itself."""
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            worker = os.fork()
        except OSError:
            os._exit(1)
        if worker == 0:
            os.close(inward)
            server.close()
            try:
                # Without a new session it would share the warm process's terminal, and be ended together with it.
                os.setsid()
                os.write(outward, str(os.getpid()).encode())
                os.close(outward)
                _become_worker(request, descriptors)
            except BaseException as error:
                errors.die(errors.message_of(error))
            return 0
        os._exit(0)
    os.close(outward)
    with os.fdopen(inward, "rb") as pipe:
        text = pipe.read()
    # The worker is the server's child once its parent is dead.
    os.waitpid(child, 0)
    if not text:
        raise OSError("cannot fork a worker")
    return int(text)


def _become_worker(request: dict, descriptors: list[int]) -> None:
    import _braid_worker

    _, _, _, output, error = descriptors
    os.dup2(output, 1)
    os.dup2(error, 2)
    os.close(output)
    os.close(error)
    if request["apart"]:
        _braid_worker.enter_own_domain()
    _braid_worker.set_process_name(request.get("name", "worker"))


def _serve(server: socket.socket) -> tuple[list[int], bool] | None:
    """Answers requests. Returns in a worker, with the channel's descriptors and its "apart". Returns None in the warm
    process at its end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(server, _MAX_REQUEST, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not message:
            return None
        try:
            request = json.loads(message)
            if len(descriptors) != _DESCRIPTORS:
                raise ValueError(f"{len(descriptors)} descriptors instead of {_DESCRIPTORS}")
            with warnings.catch_warnings():
                # Newer Pythons warn about numpy's threads, but numpy has fork handlers for them.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = _fork_worker(server, request, descriptors)
            if pid == 0:
                return descriptors[:3], request["apart"]
            answer = {"pid": pid}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(json.dumps(answer).encode())


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    server.set_inheritable(False)
    try:
        import _braid_worker
        import numpy
        import triton_python_backend_utils  # noqa: F401, loaded once for all workers

        from braid_worker import main as worker
    except BaseException as error:
        server.send(json.dumps({"ready": False, "error": interpreter.failure(error)}).encode())
        return
    _braid_worker.outlive_signals()
    _braid_worker.set_process_name("brd-warm")
    # Freezes all current objects: the garbage collector of workers skips them, and their pages stay shared.
    gc.collect()
    gc.freeze()
    ready = {"ready": True, "python": platform.python_version(), "numpy": numpy.__version__}
    try:
        server.send(json.dumps(ready).encode())
        become = _serve(server)
    except OSError:
        # The server is gone, so this process ends.
        return
    if become is not None:
        channel, apart = become
        worker.prepare_process()
        worker.run(*channel, apart)


if __name__ == "__main__":
    main()
