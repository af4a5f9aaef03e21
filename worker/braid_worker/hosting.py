"""Hands a worker over to a process that hosts models: braid.testing, inside of a test.

The hosting process listens on a Unix socket, which SOCKET_VARIABLE names in the server's environment. A forked worker
offers itself there by name. If it is wanted, it hands over the descriptors of its channel. From then on it stands for
the model towards the server: both end together.
"""

import os
import select
import socket

SOCKET_VARIABLE = "BRAID_HOST_SOCKET"
WANTED = b"1"
UNWANTED = b"0"


def offer(name: str, channel: list[int]) -> bool:
    """Offers a worker. False if this process should run it. True once the hosted model, or its server, has ended."""
    path = os.environ.get(SOCKET_VARIABLE)
    if not path:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as host:
        host.connect(path)
        host.send(name.encode())
        if host.recv(1) != WANTED:
            return False
        socket.send_fds(host, [WANTED], channel)
        poll = select.poll()
        poll.register(host, select.POLLIN)
        poll.register(channel[1], 0)  # its hang-up only
        poll.poll()
    return True
