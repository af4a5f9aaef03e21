"""GPUs for tests on any machine: the stand-in for NVIDIA's driver, and the folder that stands for its devices."""

import contextlib
import ctypes
import fcntl
import os
import pathlib

from harness.server import BINARY
from harness.waiting import wait_until

DRIVER = BINARY.parent / "tests" / "native" / "gpu"


def uuid(number):
    return f"GPU-5ca1ab1e-0000-4000-8000-{number:012d}"


class Gpus:
    """`devices` has (compute capability, bytes, name) of each. `env` is for the server, see
    tests/native/standin_gpu/standin.h."""

    def __init__(self, folder, devices=(("8.6", 1 << 30, "Stand-in A"), ("9.0", 2 << 30, "Stand-in B"))):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        lines = [f"{capability} {size} {name}\n" for capability, size, name in devices]
        (self.folder / "devices").write_text("".join(lines))
        path = os.environ.get("LD_LIBRARY_PATH")
        self.env = {
            "CUDA_STANDIN": str(self.folder),
            "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(devices))),
            "LD_LIBRARY_PATH": f"{DRIVER}:{path}" if path else str(DRIVER),
        }

    def fail(self, *lines):
        """Makes calls fail from now on; a line such as "cuMemAlloc_v2 2"; "*" stands for all functions."""
        (self.folder / "fail").write_text("".join(f"{line}\n" for line in lines))

    def hang(self, *functions):
        """Makes calls of these functions hang until the next call of this method."""
        (self.folder / "hang").write_text("".join(f"{name}\n" for name in functions))

    def delay(self, milliseconds):
        """Delays all work of streams from now on."""
        (self.folder / "delay").write_text(f"{milliseconds}\n")

    def calls(self, *names, pid=None):
        """Returns the calls so far, with their processes: [(pid, words)]. `names` selects functions."""
        file = self.folder / "calls"
        found = []
        for line in file.read_text().splitlines() if file.exists() else []:
            number, *words = line.split()
            if (not names or words[0] in names) and pid in (None, int(number)):
                found.append((int(number), words))
        return found

    def assert_nothing_left(self):
        """Asserts that all memory was freed, and that no other process had it open then."""
        assert not self.calls("violation:")
        wait_until(lambda: not self.memory(), 20.0, f"the end of device memory {self.memory()}")

    def memory(self):
        """Returns the existing pieces of memory, except those of killed processes that no process reads."""
        held = []
        for file in self.folder.glob("mem.*"):
            # Its last user may remove it meanwhile.
            with contextlib.suppress(FileNotFoundError), open(file, "rb+") as opened:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
                except BlockingIOError:
                    held.append(file.name)
        return held

    @contextlib.contextmanager
    def process(self):
        """Yields a User: this process uses the devices, like a client with memory on them."""
        before = {name: os.environ.get(name) for name in ("CUDA_STANDIN", "CUDA_VISIBLE_DEVICES")}
        os.environ.update({name: self.env[name] for name in before})
        user = User()
        try:
            yield user
        finally:
            user.close()
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


class User:
    """Calls the stand-in driver within this process."""

    def __init__(self):
        self.cuda = ctypes.CDLL(str(DRIVER / "libcuda.so.1"))
        self._memory = set()
        self._contexts = {}
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def allocate(self, size, content=None, gpu=0):
        """Returns the address of new memory on a device."""
        self._use(gpu)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._memory.add(address.value)
        if content is not None:
            self.write(address.value, content)
        return address.value

    def handle(self, address):
        """Returns the handle of 64 bytes that identifies the memory to other processes."""
        handle = (ctypes.c_char * 64)()
        self.call("cuIpcGetMemHandle", handle, ctypes.c_uint64(address))
        return bytes(handle)

    def write(self, address, content):
        content = bytes(content)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)))

    def read(self, address, size):
        content = (ctypes.c_char * size)()
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return bytes(content)

    def free(self, address):
        self._memory.discard(address)
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def close(self):
        for address in list(self._memory):
            self.free(address)
        for gpu in self._contexts:
            self.call("cuDevicePrimaryCtxRelease_v2", gpu)

    def _use(self, gpu):
        if gpu not in self._contexts:
            context = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
            self._contexts[gpu] = context
        self.call("cuCtxSetCurrent", self._contexts[gpu])
