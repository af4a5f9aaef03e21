"""Forks workers on request: in the warm process of an environment (zygote.py), and in the template of a model.

The server's end of the socket is SOCK_SEQPACKET. Each request is {"name": ..., "apart": true or false} with five
descriptors: memory, socket and wake-up of the channel, standard output, standard error. A sixth is the socket of a
template, which forks workers itself once it has loaded its model. With "apart", the worker is isolated from other
workers. The answer is {"pid": ...} or {"error": ...}; the worker is not a child of this process any more.
"""

import dataclasses
import json
import os
import socket
import warnings

import _braid_worker

from braid_worker import errors

_MAX_REQUEST = 1 << 20
_DESCRIPTORS = 5


@dataclasses.dataclass
class Start:
    """The start of a new worker: the descriptors of its channel, "apart", the socket of a template, its name."""

    channel: list[int]
    apart: bool
    orders: socket.socket | None = None
    name: str = ""


def serve(server: socket.socket) -> Start | None:
    """Answers requests. Returns in a worker with its start; returns None in the serving process at its end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(server, _MAX_REQUEST, _DESCRIPTORS + 1, socket.MSG_CMSG_CLOEXEC)
        if not message:
            return None
        try:
            request = json.loads(message)
            if len(descriptors) not in (_DESCRIPTORS, _DESCRIPTORS + 1):
                raise ValueError(f"{len(descriptors)} descriptors instead of {_DESCRIPTORS}")
            with warnings.catch_warnings():
                # Newer Pythons warn about numpy's threads, but numpy has fork handlers for them.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = _fork_worker(server, request, descriptors)
            if pid == 0:
                orders = socket.socket(fileno=descriptors[_DESCRIPTORS]) if len(descriptors) > _DESCRIPTORS else None
                return Start(descriptors[:3], request["apart"], orders, request.get("name", "worker"))
            answer = {"pid": pid}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(json.dumps(answer).encode())


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
                # A template hides its process, and the server opens files of this one when it has its pid.
                _braid_worker.show_process()
                # Without a new session it would share this process's terminal, and be ended together with it.
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
    output, error = descriptors[3:5]
    os.dup2(output, 1)
    os.dup2(error, 2)
    os.close(output)
    os.close(error)
    if request["apart"]:
        _braid_worker.enter_own_domain()
    _braid_worker.set_process_name(request.get("name", "worker"))
