"""FP32 vectors on a GPU, like those of a library in user code; a file for models that run on the stand-in driver."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
NAME = b"dltensor"
python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
contexts = {}
exported = {}
freed = []


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name}: {result}")


def use(gpu):
    if gpu not in contexts:
        call("cuInit", 0)
        contexts[gpu] = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[gpu]), gpu)
    call("cuCtxSetCurrent", contexts[gpu])


def make_stream(blocking=False):
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 0 if blocking else 1)
    return stream


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def delete(managed):
    exported.pop(managed)


class Array:
    """An array. A stream of its own, which may be late, writes the content, so only code that waits for that stream
    sees it."""

    def __init__(self, values, gpu=0, blocking=False):
        use(gpu)
        self.gpu = gpu
        self.values = (ctypes.c_float * len(values))(*values)
        self.size = ctypes.sizeof(self.values)
        self.stream = make_stream(blocking)
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.size))
        # The write is later than the work of any other stream with one delay or two.
        zeros = (ctypes.c_float * len(values))()
        for content in (zeros, zeros, zeros, self.values):
            self.write_late(content)
        self.zeros = zeros
        self.asked = []

    def write_late(self, content):
        call("cuMemcpyHtoDAsync_v2", self.address, content, ctypes.c_size_t(self.size), self.stream)

    def copy_late(self, address):
        """Copies from elsewhere on the device."""
        call("cuMemcpyDtoDAsync_v2", self.address, ctypes.c_uint64(address), ctypes.c_size_t(self.size), self.stream)

    def __del__(self):
        use(self.gpu)
        cuda.cuStreamDestroy_v2(self.stream)
        cuda.cuMemFree_v2(self.address)
        freed.append(self.address.value)

    def __dlpack_device__(self):
        return (2, self.gpu)

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        if stream is not None:
            use(self.gpu)
            event = ctypes.c_void_p()
            call("cuEventCreate", ctypes.byref(event), 2)
            call("cuEventRecord", event, self.stream)
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
            call("cuEventDestroy_v2", event)
        shape = (ctypes.c_int64 * 1)(len(self.values))
        managed = Managed(Tensor(self.address.value, 2, self.gpu, 1, 2, 32, 1, shape, None, 0))
        managed.deleter = ctypes.cast(delete, ctypes.c_void_p).value
        exported[ctypes.addressof(managed)] = (managed, shape, self)
        return python.PyCapsule_New(ctypes.addressof(managed), NAME, None)


class Copy(Array):
    """A copy of memory at a device address, made on the device by a stream that may be late."""

    def __init__(self, address, count, gpu=0):
        super().__init__([0.0] * count, gpu)
        self.copy_late(address)


def clear(address, count, gpu=0):
    """Writes zeros to a tensor's memory at once."""
    use(gpu)
    zeros = (ctypes.c_float * count)()
    call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), zeros, ctypes.c_size_t(ctypes.sizeof(zeros)))


class CudaArray:
    """The same memory, with only __cuda_array_interface__. `more` adds to the dictionary."""

    def __init__(self, values, gpu=0, **more):
        self.array = Array(values, gpu)
        self.__cuda_array_interface__ = {
            "shape": (len(values),),
            "typestr": "<f4",
            "data": (self.array.address.value, False),
            "version": 3,
            "stream": self.array.stream.value,
            **more,
        }


def look(capsule):
    """Returns the content of a capsule: (device type, device, address, shape)."""
    tensor = Managed.from_address(python.PyCapsule_GetPointer(capsule, NAME)).tensor
    return tensor.device_type, tensor.device_id, tensor.data, tensor.shape[: tensor.dimensions]


def read(address, count, stream, gpu=0):
    """Returns the memory's content as a new stream sees it."""
    use(gpu)
    values = (ctypes.c_float * count)()
    call("cuMemcpyDtoHAsync_v2", values, ctypes.c_uint64(address), ctypes.c_size_t(ctypes.sizeof(values)), stream)
    call("cuStreamSynchronize", stream)
    return list(values)
