"""The facts about the machine that a reader needs to judge figures; nothing that identifies it."""

import os
import pathlib
import platform
import re
import subprocess
import time


def _first(pattern, path):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def description():
    cpu = _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.machine()
    virtual = " (virtual)" if _first(r"^flags\s*:.*\b(hypervisor)\b", "/proc/cpuinfo") else ""
    memory_kb = _first(r"^MemTotal:\s*(\d+)", "/proc/meminfo")
    memory = f"{int(memory_kb) / 1024 / 1024:.0f} GiB" if memory_kb else "unknown memory"
    system = _first(r'^PRETTY_NAME="?([^"\n]+)', "/etc/os-release") or platform.system()
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{len(os.sched_getaffinity(0))} cores of {cpu}{virtual}, {memory}, {system}, Linux {kernel}"


def _ticks():
    """Returns the time in which the cores worked, and that in which the hypervisor withheld them, in ticks."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return user + nice + system + irq + softirq, steal


def quietness(seconds=2.0):
    """Returns, as a text, how busy the machine is with other work. Takes `seconds`."""
    before = _ticks()
    time.sleep(seconds)
    busy, stolen = ((b - a) / os.sysconf("SC_CLK_TCK") / seconds for a, b in zip(before, _ticks(), strict=True))
    return f"other processes used {busy:.2f} cores, the hypervisor withheld {stolen:.2f}; load average {os.getloadavg()[0]:.2f}"


def revision(folder):
    """Returns the commit of a checkout, with "-dirty" if it has changes; "unknown" outside of a checkout."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()
