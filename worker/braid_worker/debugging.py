"""Lets a debugger attach to a worker: braid serve --debug-model."""

import socket
import sys
import threading
import time

import _braid_worker

_HOST = "127.0.0.1"
_LOG_INFO = 0
_RETRY_SECONDS = 0.2


def listen(where: str) -> None:
    """Listens for a debugger at "PORT", or waits for it there at "PORT wait"; does nothing at "". Raises RuntimeError
    without debugpy."""
    if not where:
        return
    try:
        import debugpy
    except ImportError:
        raise RuntimeError(
            f"--debug-model needs debugpy; install it: {sys.executable} -m pip install debugpy"
        ) from None
    port, _, wait = where.partition(" ")
    if not _is_free(int(port)):
        # A reloaded model's process starts while the old one has the port.
        threading.Thread(target=_listen_later, args=(debugpy, int(port)), name="brd-debug", daemon=True).start()
        return
    debugpy.listen((_HOST, int(port)))
    if wait:
        _log(f"waiting for a debugger at {_HOST}:{port}")
        debugpy.wait_for_client()


def _is_free(port: int) -> bool:
    # debugpy can be asked only once per process.
    try:
        socket.create_server((_HOST, port)).close()
    except OSError:
        return False
    return True


def _listen_later(debugpy, port: int) -> None:
    while not _is_free(port):
        time.sleep(_RETRY_SECONDS)
    debugpy.listen((_HOST, port))
    _log(f"a debugger can attach to {_HOST}:{port}")


def _log(text: str) -> None:
    _braid_worker.log(_LOG_INFO, __file__, 0, text)
