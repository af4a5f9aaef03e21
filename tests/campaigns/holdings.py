"""Holdings: the resources that a server and its workers use, and whether they have grown."""

import contextlib
import os
import pathlib
import re
import time

from harness.server import children


def proportional_kib(pid):
    """Returns the PSS: pages shared by several processes count partly for each."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def threads(pid):
    with contextlib.suppress(OSError):
        return int(re.search(r"Threads:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))
    return 0


def descriptors(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def name(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def family(pid):
    """Returns the process and all its descendants."""
    found = [pid]
    for each in found:
        found.extend(children(each))
    return found


def of_server(server):
    """Returns threads and descriptors of the server itself, the number of processes, and their PSS."""
    pid = server.process.pid
    everyone = family(pid)
    return {
        "threads": threads(pid),
        "descriptors": descriptors(pid),
        "processes": len(everyone),
        "server PSS, KiB": proportional_kib(pid),
        "PSS of all, KiB": sum(map(proportional_kib, everyone)),
    }


def most(one, other):
    """Returns the larger of two holdings, for each resource."""
    return {key: max(one[key], other[key]) for key in one}


def grown(before, after):
    """Returns {resource: (before, after)} for growth beyond the slack of caches and pools."""
    slack = {"threads": 8, "descriptors": 8, "processes": 0}
    for key in ("server PSS, KiB", "PSS of all, KiB"):
        slack[key] = (64 << 10) + before[key] // 4
    return {key: (before[key], after[key]) for key in before if after[key] > before[key] + slack[key]}


def stop(server, wrong):
    """Stops the server. Adds leftovers and other errors of its end to `wrong`."""
    try:
        server.stop()
    except AssertionError as error:
        wrong.append(str(error)[-20000:])
        server.kill()


def await_shrunk(server, before, seconds=40.0):
    """Waits until the holdings are as before, or for some seconds; returns them."""
    deadline = time.monotonic() + seconds
    while grown(before, now := of_server(server)) and time.monotonic() < deadline:
        time.sleep(0.25)
    return now
