"""Ports for programs that cannot choose a free one, such as a node of Redis Cluster."""

import pathlib
import random
import socket

_reservations = []


def free_port():
    """Returns a port of the loopback interface, reserved for the caller until this process ends. It lies below the
    range of ephemeral ports. An abstract socket's name reserves it among tests that use this function."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    first = 16_384 if end > 17_000 else 1_024
    candidates = list(range(first, end))
    random.shuffle(candidates)
    for port in candidates:
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0braid-tests-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        _reservations.append(reservation)
        return port
    raise AssertionError(f"no port of {first} to {end - 1} is free")
