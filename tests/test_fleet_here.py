"""`make fleet`: several servers behind an Envoy on one machine; it leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from harness.envoy import need_envoy
from harness.repository import Repository
from harness.server import BINARY, MARK, ROOT, marked_processes
from harness.waiting import wait_until


def clients_of(path):
    """Returns the number of other clients of a Redis."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"CLIENT LIST\r\n")
        answer = connection.makefile("rb")
        size = int(answer.readline()[1:])
        return answer.read(size).count(b"\n") - 1


@pytest.mark.parametrize(
    ("number", "options", "programs"),
    [(signal.SIGINT, [], os.environ["PATH"]), (signal.SIGTERM, ["--no-store"], "/nowhere")],
    ids=["with a Redis", "without"],
)
def test_it_runs_and_ends(tmp_path, number, options, programs):
    need_envoy()
    repository = Repository(tmp_path / "models")
    repository.add_identity("m")
    mark = f"{os.getpid()}-{number}"
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, ROOT / "scripts" / "fleet", "--braid", BINARY, "--models", repository.path]
    process = subprocess.Popen(
        [*command, "--replicas", "2", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark, "TMPDIR": str(tmp_path / "tmp"), "PATH": programs},
    )
    try:
        lines = []
        while "Ctrl-C" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
            lines.append(line)
        said = "".join(lines)
        front = re.search(r"front: +HTTP (\S+) +gRPC (\S+) ", said)
        asked = subprocess.run([BINARY, "try", "m", "-u", front[1], "--shape", "IN:3"], timeout=60, check=False)
        assert asked.returncode == 0
        store = re.search(r"store: +(.*)", said)[1]
        if options:
            assert store == "none, sequences end with their server"
        else:
            wait_until(lambda: clients_of(store.removeprefix("unix://")) == 2, 20, "both servers at the store")
        shown = re.search(r"braid (fleet status --endpoints \S+)", said)
        status = subprocess.run([BINARY, *shown[1].split()], capture_output=True, text=True, timeout=60, check=False)
        assert "the replicas that answered serve the same" in status.stdout
        assert status.returncode == 0
        consoles = re.findall(r"console (http://\S+/console/)", said)
        assert len(consoles) == 2
        for console in consoles:
            with urllib.request.urlopen(f"{console}api/fleet", timeout=20) as answer:
                seen = json.load(answer)
            assert [replica["answered"] for replica in seen["replicas"]] == [True, True]
        process.send_signal(number)
        assert process.wait(60) == 0, process.stderr.read()
        wait_until(lambda: not marked_processes(mark), 20, "the end of all processes")
        assert not list((tmp_path / "tmp").iterdir())
    finally:
        process.kill()
        process.communicate()


def test_it_says_what_is_missing(tmp_path):
    command = [sys.executable, ROOT / "scripts" / "fleet", "--braid", BINARY, "--models", tmp_path]
    environment = {**os.environ, "PATH": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("there is neither redis-server nor valkey-server")
    assert "scripts/install-system-packages fleet" in done.stderr
    assert "--no-store" in done.stderr
    listed = subprocess.run(
        [ROOT / "scripts" / "install-system-packages", "--list", "fleet"], capture_output=True, text=True, check=True
    )
    assert listed.stdout == "redis-server\n"


def test_it_says_why_it_does_not_begin(tmp_path):
    need_envoy()
    command = [sys.executable, ROOT / "scripts" / "fleet", "--braid", BINARY, "--models", tmp_path / "nowhere"]
    command.append("--no-store")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "server 0 has ended with 1" in done.stderr
    assert "nowhere" in done.stderr
