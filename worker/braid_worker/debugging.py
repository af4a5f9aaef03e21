"""Lets a debugger attach to a worker: braid serve --debug-model."""

import socket
import sys
import threading
import time

import _braid_worker

_HOST = "127.0.0.1"
_LOG_INFO = 0
_LOG_WARNING = 1
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
        _log(_LOG_WARNING, f"port {port} of --debug-port is in use; a debugger can attach once it is free")
        threading.Thread(target=_listen_later, args=(debugpy, int(port)), name="brd-debug", daemon=True).start()
        return
    _listen(debugpy, int(port))
    if wait:
        _log(_LOG_INFO, f"waiting for a debugger at {_HOST}:{port}")
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
    _listen(debugpy, port)


def _listen(debugpy, port: int) -> None:
    debugpy.listen((_HOST, port))
    _log(_LOG_INFO, f"a debugger can attach to {_HOST}:{port}")


def _log(level: int, text: str) -> None:
    _braid_worker.log(level, __file__, 0, text)
