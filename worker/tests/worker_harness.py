"""The built worker with a stand-in for the server. BRAID_WORKER_DIR names its folder (build/worker)."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WORKER_DIR = Path(os.environ.get("BRAID_WORKER_DIR", Path(__file__).resolve().parents[2] / "build" / "worker"))
sys.path[:0] = [str(WORKER_DIR), str(WORKER_DIR / "tests")]

import _braid_standin as standin  # noqa: E402, found by the path above

FP32, BYTES, INT32, BF16, UINT8 = 11, 13, 8, 14, 2


def tensor(name, array, shared=False):
    """Returns an input for Worker.execute(). `shared`: other processes also read its bytes."""
    kinds = {"float32": FP32, "int32": INT32, "uint8": UINT8}
    return (name, kinds[str(array.dtype)], array.shape, array.tobytes(), shared)


def bytes_tensor(name, items, shape=None):
    wire = b"".join(len(item).to_bytes(4, "little") + item for item in items)
    return (name, BYTES, shape or (len(items),), wire)


def floats(output):
    kind, shape, data, _ = output
    assert kind == FP32
    return np.frombuffer(data, np.float32).reshape(shape)


def wait_for(condition, seconds=10):
    """Polls until a condition holds; for effects of other processes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


class Zygote:
    def __init__(self, python=sys.executable, env=None):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [python, str(WORKER_DIR / "braid_worker" / "zygote.py"), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=env,
        )
        theirs.close()
        self.ready = json.loads(self.socket.recv(1 << 20))

    def fork(self, name, descriptors):
        request = {"name": name, "apart": True}
        socket.send_fds(self.socket, [json.dumps(request).encode()], descriptors)
        return json.loads(self.socket.recv(1 << 20))

    def close(self):
        self.socket.close()
        assert self.process.wait(10) == 0


class Worker:
    """One worker, with the server's end of its channel."""

    def __init__(self, zygote=None, name="model_0"):
        self.channel, *descriptors = standin.create()
        out, out_write = os.pipe()
        err, err_write = os.pipe()
        self._pipes = {"stdout": out, "stderr": err}
        self._texts = {"stdout": b"", "stderr": b""}
        if zygote is not None:
            answer = zygote.fork(name, [*descriptors, out_write, err_write])
            assert "pid" in answer, answer
            self.pid = answer["pid"]
        else:
            main = str(WORKER_DIR / "braid_worker" / "main.py")
            self.pid = subprocess.Popen(
                [sys.executable, main, *map(str, descriptors)],
                pass_fds=descriptors,
                stdout=out_write,
                stderr=err_write,
            ).pid
        for descriptor in [*descriptors, out_write, err_write]:
            os.close(descriptor)
        self._executions = 0
        self.logs = []
        self.stray = []
        self.status = None
        self.hello = self.receive("hello")

    def receive(self, kind, seconds=20):
        """Returns the next message of that kind, and keeps earlier ones."""
        while True:
            message = standin.receive(self.channel, seconds)
            assert message is not None, f"no {kind}: {self.text('stderr')}"
            if message["type"] == kind:
                return message
            (self.logs if message["type"] == "log" else self.stray).append(message)

    def load(self, folder, config, **options):
        self.begin_load(folder, config, **options)
        return self.receive("loaded")

    def begin_load(self, folder, config, auto_complete=False, model_file=None, **fields):
        path = str(model_file or folder / "1" / "model.py")
        message = {
            "model_file": path,
            "module_name": "1.model",
            "model_path": str(folder),
            "version_path": str(folder / "1"),
            "model_config": json.dumps(config),
            "model_name": config["name"],
            "model_version": "1",
            "instance_name": f"{config['name']}_0",
            "instance_kind": "CPU",
            "instance_device_id": "0",
            **fields,
        }
        standin.load(self.channel, int(auto_complete), message)

    def send(self, *requests):
        """Starts an execution."""
        self._executions += 1
        numbered = [{"id": 100 * self._executions + i, **request} for i, request in enumerate(requests)]
        standin.execute(self.channel, self._executions, numbered)

    def execute(self, *requests):
        """Runs an execution; returns its responses by the index of their request."""
        self.send(*requests)
        executed = self.receive("executed")
        assert executed["id"] == self._executions
        return {response["id"] - 100 * self._executions: response for response in executed["responses"]}

    def response(self):
        """Returns a response that was sent separately from the execution's return."""
        message = self.receive("response")["response"]
        return message["id"] - 100 * self._executions, message

    def finalize(self):
        standin.finalize(self.channel)
        self.receive("finalized")

    def wait(self, seconds=15):
        """Waits for the exit status; fails without one."""

        def ended():
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid != 0:
                    self.status = os.waitstatus_to_exitcode(status)
            return self.status is not None

        assert wait_for(ended, seconds), f"still alive: {self.text('stderr')}"
        return self.status

    def text(self, stream):
        """Returns the output so far."""
        descriptor = self._pipes[stream]
        while select.select([descriptor], [], [], 0)[0]:
            data = os.read(descriptor, 1 << 16)
            if not data:
                break
            self._texts[stream] += data
        return self._texts[stream].decode()

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        for descriptor in self._pipes.values():
            os.close(descriptor)
