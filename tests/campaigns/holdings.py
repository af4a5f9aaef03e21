"""What a server holds of the machine, its workers included, and whether that has grown."""

import contextlib
import os
import pathlib
import re
import time

from harness.server import children


def proportional_kib(pid):
    """PSS: pages shared by several processes count for each by its part."""
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
    """The process and all that come of it."""
    found = [pid]
    for each in found:
        found.extend(children(each))
    return found


def of_server(server):
    """Threads and descriptors of the server itself, its processes, and PSS of all of them."""
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
    """The larger of what was held at two times."""
    return {key: max(one[key], other[key]) for key in one}


def grown(before, after):
    """{what: (before, after)} of that which is more than the slack of caches and pools explains."""
    slack = {"threads": 8, "descriptors": 8, "processes": 0}
    for key in ("server PSS, KiB", "PSS of all, KiB"):
        slack[key] = (64 << 10) + before[key] // 4
    return {key: (before[key], after[key]) for key in before if after[key] > before[key] + slack[key]}


def stop(server, wrong):
    """Stops the server; what it leaves, or that it does not end as it should, goes into `wrong`."""
    try:
        server.stop()
    except AssertionError as error:
        wrong.append(str(error)[-20000:])
        server.kill()


def await_shrunk(server, before, seconds=40.0):
    """What is held when it is as before, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while grown(before, now := of_server(server)) and time.monotonic() < deadline:
        time.sleep(0.25)
    return now
