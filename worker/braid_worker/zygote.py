"""The warm process of one Python environment: has imported all modules that workers need, and forks workers.

    python zygote.py FD

FD is a SOCK_SEQPACKET socket. The first message to the server is JSON: {"ready": true, "python": ..., "numpy": ...} or
{"ready": false, "error": ...}. Requests to fork a worker follow (fork_server.py). The process ends when the socket is
closed.

It stays single-threaded and runs no user code. All its work is done before or after a fork.
"""

import gc
import json
import os
import platform
import socket
import sys

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


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    server.set_inheritable(False)
    try:
        import _braid_worker
        import numpy
        import triton_python_backend_utils  # noqa: F401, loaded once for all workers

        from braid_worker import fork_server, hosting
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
        start = fork_server.serve(server)
    except OSError:
        # The server is gone, so this process ends.
        return
    if start is not None:
        # A template forks its workers itself, so it stays a process.
        if start.orders is None and hosting.offer(start.name, start.channel):
            os._exit(0)
        worker.prepare_process()
        worker.run(start)


if __name__ == "__main__":
    main()
