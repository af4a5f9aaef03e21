"""A separate machine: User Mode Linux, a kernel that runs as a program (`scripts/public-clients uml`). It has this
machine's files read-only, its own temporary files, and full access to cgroup v2."""

import os
import pathlib
import shlex
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNEL = ROOT / ".cache" / "public-clients" / "uml" / "linux.uml"

# For the whole run. The machine shares this one's processors, and its kernel is slow.
SECONDS = 270

# Enables the loopback interface like `ip link set lo up`: SIOCSIFFLAGS with IFF_UP.
LOOPBACK = """
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh22x", b"lo", 1))
"""

# Runs as the first process. The kernel provides the device files, without a folder for shared memory.
FIRST = """#!/bin/bash
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mkdir /run/cgroup
mount -t cgroup2 none /run/cgroup
{python} -c {loopback}
cd {folder}
env {variables} {command}
echo "exit status: $?"
echo o >/proc/sysrq-trigger
sleep 10
"""


def run(command, folder, seconds=SECONDS, memory="3G", **variables):
    """Runs a command on such a machine, in the project's folder, with `variables` added to this process's. Returns
    (status, output). `folder` receives a file for the machine. Skips the test if this kernel cannot run a program."""
    # The other machine reads it, and has another /tmp.
    first = pathlib.Path(folder) / "first.sh"
    environment = {**os.environ, "TMPDIR": "/tmp", "HOME": "/tmp", **variables}
    first.write_text(
        FIRST.format(
            folder=shlex.quote(str(ROOT)),
            variables="-i " + " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items()),
            command=shlex.join(map(str, command)),
            python=sys.executable,
            loopback=shlex.quote(LOOPBACK),
        )
    )
    first.chmod(0o755)
    machine = subprocess.Popen(
        [KERNEL, f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={first}",
         f"uml_dir={folder}", "con=null", "con0=fd:0,fd:1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True, env={**os.environ, "TMPDIR": "/dev/shm"},
    )  # fmt: skip
    try:
        output = machine.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(machine.pid, signal.SIGKILL)
        output = machine.communicate()[0]
        raise AssertionError(f"no end within {seconds} s:\n{output}") from None
    if "ptrace set fp regs failed" in output:
        pytest.skip("this kernel of User Mode Linux does not know all registers of the processor (as those of AMX)")
    lines = [line for line in output.splitlines() if line.startswith("exit status: ")]
    assert lines, output
    return int(lines[-1].split()[-1]), output
