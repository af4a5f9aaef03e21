"""Shared memory of clients."""

import contextlib
import pathlib
import uuid

import tritonclient.utils.shared_memory as shm


class Region:
    """A file in /dev/shm with a unique key and name, made with tritonclient's utilities."""

    def __init__(self, byte_size):
        self.name = f"region-{uuid.uuid4().hex[:8]}"
        self.key = f"/braid_test_{uuid.uuid4().hex}"
        self.byte_size = byte_size
        self.path = pathlib.Path("/dev/shm") / self.key[1:]
        self.handle = shm.create_shared_memory_region(self.name, self.key, byte_size)

    def register(self, client, **more):
        client.raw.register_system_shared_memory(self.name, self.key, more.pop("byte_size", self.byte_size), **more)
        return self

    def fill(self, content):
        shm.set_shared_memory_region(self.handle, [content])

    def numpy(self, datatype, shape, offset=0):
        return shm.get_contents_as_numpy(self.handle, datatype, shape, offset)

    def remove(self):
        if self.handle is not None:
            with contextlib.suppress(shm.SharedMemoryException, FileNotFoundError):
                shm.destroy_shared_memory_region(self.handle)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
