"""The failures around a server in a storm, injected one after the other."""

import contextlib
import ctypes
import os
import pathlib
import resource
import signal
import socket
import time

import numpy as np
from harness.server import alive, children

from campaigns.cgroups import Group
from campaigns.failing_calls import FailingCalls, preloaded
from campaigns.holdings import descriptors, name
from campaigns.strands import Strands
from campaigns.transports import KserveGrpc, KserveJson, infer_message

WARM = "brd-warm"
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x00020000, 0x4000, 1 << 18, 2


def private_disk(place, kib):
    """Mounts a small disk in memory that no other process sees. Returns why this is impossible, or None. Must be called
    before any thread is started."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
    place.mkdir(parents=True, exist_ok=True)
    if libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={kib}k".encode()) != 0:
        return f"no tmpfs: {os.strerror(ctypes.get_errno())}"
    return None


def release_disk(place):
    ctypes.CDLL(None).umount2(bytes(place), MNT_DETACH)


class Blows:
    """Each method listed in `kinds()` injects one failure, and has repaired the damage when it returns.

    `impossible`: {kind: why this machine does not support it}.
    """

    KINDS = {
        "workers killed": "kill_worker",
        "zygote killed": "kill_zygote",
        "worker stopped": "stop_worker",
        "zygote stopped": "stop_zygote",
        "server stopped": "stop_server",
        "connections cut": "cut_clients",
        "clients vanish": "vanish",
        "silent connections": "stay_silent",
        "model reloaded": "reload_model",
        "config.json reloaded": "reload_config",
        "disk full": "fill_disk",
        "descriptors": "take_descriptors",
        "memory limit": "limit_memory",
        "thread limit": "limit_threads",
        "clock jumps": "jump_clock",
    }

    def __init__(self, strands, disk, allowance):
        self._strands = strands
        self._disk = disk
        self._allowance = allowance
        self.calls = None
        self.impossible = {}
        self._memory = Group.make("memory")
        self._tasks = Group.make("pids")
        if self._memory is None:
            self.impossible["memory limit"] = "no control group of memory can be made"
        if self._tasks is None:
            self.impossible["thread limit"] = "no control group of processes can be made"

    def environment(self, folder):
        """Returns the environment of the server."""
        if not FailingCalls.available():
            self.impossible["clock jumps"] = "build/tests/native/libfailing_calls.so is not built"
            return preloaded()
        self.calls = FailingCalls(folder)
        return self.calls.environment

    def begin(self, server, load):
        self._server = server
        self._load = load
        self._pid = server.process.pid
        if self._tasks is not None:
            # Processes that they start from now on belong to the group, too.
            for pid in [*children(self._pid), self._pid]:
                self._tasks.add(pid)

    def end(self):
        """Must be called after the server's end."""
        for group in (self._memory, self._tasks):
            if group is not None:
                group.remove()

    def kinds(self):
        """Returns {kind: method}."""
        return {kind: getattr(self, blow) for kind, blow in self.KINDS.items() if kind not in self.impossible}

    # ---- processes ----

    def _workers(self):
        return [pid for pid in children(self._pid) if alive(pid) and name(pid) != WARM]

    def _zygotes(self):
        return [pid for pid in children(self._pid) if alive(pid) and name(pid) == WARM]

    @staticmethod
    def _signal(pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def _kill(self, draw, pids):
        if pids:
            self._signal(draw.choice(pids), signal.SIGKILL)

    def _stop(self, draw, pids, longest):
        if pids:
            pid = draw.choice(pids)
            self._signal(pid, signal.SIGSTOP)
            time.sleep(draw.uniform(0.05, longest))
            if pid == self._pid or pid in children(self._pid):
                self._signal(pid, signal.SIGCONT)

    def kill_worker(self, draw):
        """Kills one worker or several, some of them busy."""
        workers = self._workers()
        for pid in draw.sample(workers, draw.randint(1, max(1, len(workers) // 2)) if workers else 0):
            self._signal(pid, signal.SIGKILL)

    def renew_workers(self):
        """Ends all workers. New ones are forked from one process, and share its memory."""
        for pid in self._workers():
            self._signal(pid, signal.SIGKILL)

    def kill_zygote(self, draw):
        self._kill(draw, self._zygotes())

    def stop_worker(self, draw):
        self._stop(draw, self._workers(), 0.8)

    def stop_zygote(self, draw):
        self._stop(draw, self._zygotes(), 0.8)

    def stop_server(self, draw):
        self._stop(draw, [self._pid], 0.5)

    # ---- clients ----

    def cut_clients(self, draw):
        for client in draw.sample(self._load.clients, max(1, len(self._load.clients) // 3)):
            client.cut()

    def vanish(self, draw):
        """Clients that disconnect during a request or its response."""
        with KserveJson(self._server) as over_http, KserveGrpc(self._server) as over_grpc:
            for _ in range(5):
                connection = draw.choice((over_http, over_grpc))
                model = draw.choice(("plain", "batched", "caller", "chain", "collector"))
                shape = (1, 1) if model == "batched" else (1,)
                connection.vanish(model, {"IN": np.full(shape, 1, np.int64)}, draw)
            # A client that does not read the responses of a model with a million of them.
            stream = over_grpc.stub().ModelStreamInfer(
                iter([infer_message("count", {"IN": np.array([10**6], np.int64)})])
            )
            time.sleep(draw.uniform(0, 0.2))
            stream.cancel()

    def stay_silent(self, draw):
        """Connections that send nothing, or only part of a request."""
        with contextlib.ExitStack() as stack:
            for address in (self._server.http, self._server.grpc) * draw.randint(1, 10):
                host, _, port = address.rpartition(":")
                silent = stack.enter_context(socket.create_connection((host, int(port)), 10))
                with contextlib.suppress(OSError):
                    silent.sendall(draw.choice((b"", b"POST /v2", b"PRI * HTTP/2.0\r\n")))
            time.sleep(draw.uniform(0.1, 0.5))

    # ---- models ----

    def reload_model(self, draw):
        model = draw.choice(Strands.PYTHON)
        self._strands.change(model)
        # A model that is loaded on demand has the change with its next load. A load of it would keep it in memory.
        index = self._server.json("POST", "/v2/repository/index", {"ready": True})[1]
        if any(entry["name"] == model for entry in index):
            # A load fails if its worker is killed; the previous version stays.
            self._server.json("POST", f"/v2/repository/models/{model}/load", {})

    def reload_config(self, draw):
        self._strands.write_config()
        self._server.json("POST", "/v1/config/reload")

    # ---- resources of the machine ----

    def fill_disk(self, draw):
        """Fills the disk on which the states of sequences are saved."""
        file = self._disk / "full"
        with contextlib.suppress(OSError), file.open("wb", buffering=0) as full:
            while full.write(bytes(1 << 12)):
                pass
        time.sleep(draw.uniform(0.5, 1.5))
        file.unlink(missing_ok=True)

    def take_descriptors(self, draw):
        """Leaves a few descriptors, which silent connections then use."""
        self._allowance.permit("Too many open files|^cut: ", 2)
        _, hard = limits = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (descriptors(self._pid) + 2, hard))
        try:
            with contextlib.ExitStack() as stack:
                for address in (self._server.http, self._server.grpc) * 4:
                    host, _, port = address.rpartition(":")
                    with contextlib.suppress(OSError):
                        stack.enter_context(socket.create_connection((host, int(port)), 1))
                if draw.random() < 0.3:
                    self.kill_worker(draw)
                time.sleep(draw.uniform(0.1, 0.6))
        finally:
            resource.prlimit(self._pid, resource.RLIMIT_NOFILE, limits)

    def limit_memory(self, draw):
        """Limits a worker that writes to eight megabytes for each request to four more than it uses."""
        large = [pid for pid in self._workers() if "large" in command_line(pid)]
        if not large:
            return
        self._memory.limit(4 << 20)
        for pid in large:
            self._memory.add(pid)
        deadline = time.monotonic() + 3
        while any(map(alive, large)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in large:  # a worker without a request in the meantime
            self._signal(pid, signal.SIGKILL)

    def limit_threads(self, draw):
        """Forbids new threads and processes while a worker must be replaced."""
        self._allowance.permit("Resource temporarily unavailable", 2)
        self._tasks.limit(self._tasks.current())
        try:
            self._kill(draw, draw.choice((self._workers(), self._zygotes(), [])))
            time.sleep(draw.uniform(0.2, 0.8))
        finally:
            self._tasks.limit(None)

    def jump_clock(self, draw):
        """Moves the server's wall clock hours forward and days back."""
        self.calls.shift_clock(draw.choice((-86400.0, -3600.0, -1.5, 1.5, 3600.0, 10 * 86400.0)))
        time.sleep(draw.uniform(0.1, 0.5))
        self.calls.shift_clock(0)


def command_line(pid):
    with contextlib.suppress(OSError):
        folder = pathlib.Path(f"/proc/{pid}")
        return (folder / "cmdline").read_text(errors="replace") + (folder / "comm").read_text()
    return ""
