"""The reserved ports for programs that cannot choose a free one."""

import json
import pathlib
import socket
import subprocess
import sys

from harness.ports import free_port

TESTS = pathlib.Path(__file__).parent


def test_a_port_belongs_to_one_caller_and_is_never_served_to_another_socket():
    ports = [free_port() for _ in range(20)]
    program = "from harness.ports import free_port; print([free_port() for _ in range(20)])"
    others = subprocess.run(
        [sys.executable, "-c", program], cwd=TESTS, capture_output=True, text=True, check=True
    ).stdout
    assert len(set(ports) | set(json.loads(others))) == 40
    first_of_others = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < first_of_others
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
