"""FP32 vectors on a GPU, through the driver's functions: a minimal replacement for PyTorch, CuPy or JAX in these examples."""

import ctypes

import numpy as np

_cuda = ctypes.CDLL("libcuda.so.1")
_contexts = {}


class _DlpackTensor(ctypes.Structure):
    """The first fields of the structure in a DLPack capsule."""

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


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def call(name, *arguments):
    result = getattr(_cuda, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name} returned {result}")


def use(gpu):
    """Makes the device current on this thread."""
    if gpu not in _contexts:
        call("cuInit", 0)
        context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
        _contexts[gpu] = context
    call("cuCtxSetCurrent", _contexts[gpu])


class Vector:
    """Memory for `count` numbers, freed with the object.

    pb_utils.Tensor.from_dlpack() reads its __cuda_array_interface__, which names stream 1, the default stream.
    """

    def __init__(self, count, gpu=0):
        use(gpu)
        self.count = count
        self.gpu = gpu
        self._address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(4 * count))
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
            "stream": 1,
        }

    def __del__(self):
        use(self.gpu)
        call("cuMemFree_v2", self._address)

    @property
    def address(self):
        return self._address.value

    @classmethod
    def of(cls, array, gpu=0):
        """Makes a vector with the numbers of a numpy array."""
        vector = cls(array.size, gpu)
        array = np.ascontiguousarray(array, np.float32)
        call("cuMemcpyHtoD_v2", vector._address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return vector

    @classmethod
    def joined(cls, parts):
        """Makes a vector that concatenates tensors on a device, or vectors; copied within the device."""
        places = [(part.address, part.count, part.gpu) if isinstance(part, Vector) else look(part) for part in parts]
        vector = cls(sum(count for _, count, _ in places), places[0][2])
        at = vector.address
        for address, count, _ in places:
            size = ctypes.c_size_t(4 * count)
            call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(at), ctypes.c_uint64(address), size, None)
            at += 4 * count
        return vector

    def numpy(self, first=0):
        """Returns a copy of the numbers from `first` on."""
        use(self.gpu)
        array = np.empty(self.count - first, np.float32)
        at = ctypes.c_uint64(self.address + 4 * first)
        call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), at, ctypes.c_size_t(array.nbytes))
        return array

    def handle(self):
        """Returns the 64 bytes that identify the memory for other processes."""
        handle = (ctypes.c_char * 64)()
        call("cuIpcGetMemHandle", handle, self._address)
        return bytes(handle)


def look(tensor):
    """Returns the place of one of Braid's tensors on a device: (address, count, device)."""
    capsule = tensor.to_dlpack()
    found = _DlpackTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    count = 1
    for i in range(found.dimensions):
        count *= found.shape[i]
    return found.data + found.byte_offset, count, found.device_id
