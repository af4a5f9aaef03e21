"""pyovms.Tensor in user code, without a server."""

import ctypes
import gc
import struct
import subprocess
import sys
import weakref

import numpy as np
import pyovms
import pytest
from pyovms import Tensor
from worker_harness import WORKER_DIR

NUMBERS = {
    np.bool_: ("?", "BOOL"),
    np.uint8: ("B", "UINT8"),
    np.uint16: ("H", "UINT16"),
    np.uint32: ("I", "UINT32"),
    np.uint64: ("L", "UINT64"),
    np.int8: ("b", "INT8"),
    np.int16: ("h", "INT16"),
    np.int32: ("i", "INT32"),
    np.int64: ("l", "INT64"),
    np.float16: ("e", "FP16"),
    np.float32: ("f", "FP32"),
    np.float64: ("d", "FP64"),
}


def test_it_is_importable_on_its_own_and_has_two_names():
    code = "import pyovms; t = pyovms.Tensor('a', b'bytes'); print(t.size, pyovms.Tensor.__module__, pyovms.__all__)"
    out = subprocess.check_output([sys.executable, "-c", code], env={"PYTHONPATH": str(WORKER_DIR)}, text=True)
    assert out == "5 pyovms ['Session', 'Tensor']\n"


# --- The constructor


@pytest.mark.parametrize(
    "make",
    [
        lambda b: Tensor("n", b),
        lambda b: Tensor("n", data=b),
        lambda b: Tensor("n", buffer=b),
        lambda b: Tensor(name="n", buffer=b),
        lambda b: Tensor("n", b, None, None),
        lambda b: Tensor(datatype="UINT8", shape=(3,), data=b, name="n"),
    ],
)
def test_the_buffer_has_two_keywords_and_a_place(make):
    tensor = make(b"abc")
    assert (tensor.name, tensor.shape, tensor.datatype, bytes(tensor)) == ("n", (3,), "UINT8", b"abc")


@pytest.mark.parametrize(
    ("arguments", "keywords", "text"),
    [
        ((), {}, "missing"),
        (("n",), {}, "missing"),
        ((1, b""), {}, "must be str"),
        (("n", 5), {}, "bytes-like object is required, not 'int'"),
        (("n", "text"), {}, "bytes-like object is required, not 'str'"),
        (("n", [1, 2]), {}, "bytes-like"),
        (("n", b"", 5), {}, "the shape of a Tensor must be a sequence of int, not <class 'int'>"),
        (("n", b"", ("a",)), {}, "cannot be interpreted as an integer"),
        (("n", b"", (1.5,)), {}, "cannot be interpreted as an integer"),
        (("n", b"", None, 5), {}, "datatype must be str, not <class 'int'>"),
        (("n",), {"data": b"", "buffer": b""}, "are the same argument"),
        (("n", b""), {"buffer": b""}, "argument"),
        (("n", b""), {"other": 1}, "other"),
        (("n", np.array([object()])), {}, "not Python objects"),
    ],
)
def test_wrong_arguments_are_type_errors(arguments, keywords, text):
    with pytest.raises(TypeError, match=text):
        Tensor(*arguments, **keywords)


@pytest.mark.parametrize("shape", [(2, 3), [2, 3], range(2, 4), np.array([2, 3])])
def test_a_shape_is_any_sequence_of_numbers(shape):
    got = Tensor("n", b"abcdef", shape).shape
    assert got == (2, 3)
    assert [type(dim) for dim in got] == [int, int]


def test_a_shape_beyond_the_machines_range_is_refused():
    with pytest.raises(OverflowError):
        Tensor("n", b"", (2**70,))


# --- Attributes


def test_attributes_are_read_only():
    tensor = Tensor("n", b"abc")
    for name in ("name", "shape", "datatype", "data", "size", "ptr", "ref_obj"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, getattr(tensor, name))
        with pytest.raises(AttributeError):
            delattr(tensor, name)
    with pytest.raises(AttributeError):
        tensor.other = 1


def test_what_the_attributes_are():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = Tensor("n", array)
    assert isinstance(tensor.data, memoryview)
    assert tensor.data.obj is tensor
    assert tensor.size == 24
    assert tensor.ref_obj is array
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    assert get(tensor.ptr, None) == array.ctypes.data
    assert repr(tensor) == "Tensor(name='n', shape=(2, 3), datatype='FP32', size=24)"


def test_the_capsule_keeps_the_data():
    array = np.arange(3.0)
    gone = weakref.ref(array)
    capsule = Tensor("n", array).ptr
    del array
    assert gone() is not None
    del capsule
    assert gone() is None


# --- The buffer


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_numbers_look_as_numpy_shows_them(dtype):
    array = (np.random.default_rng(1).random((1, 3, 300, 300)) * 100).astype(dtype)
    theirs = memoryview(array)
    tensor = Tensor("input", array)
    letter, datatype = NUMBERS[dtype]
    assert theirs.format == letter
    assert tensor.name == "input"
    assert tensor.datatype == datatype
    assert tensor.shape == array.shape
    assert tensor.size == array.nbytes
    assert tensor.data == theirs
    for field in ("shape", "format", "itemsize", "strides", "ndim", "nbytes", "c_contiguous"):
        assert getattr(tensor.data, field) == getattr(theirs, field)
    assert tensor.data.readonly


@pytest.mark.parametrize("value", ["my string", ["one", "two", "three"]])
def test_arrays_of_text_keep_their_format(value):
    array = np.array(value)
    theirs = memoryview(array)
    tensor = Tensor("input", array)
    assert tensor.datatype == theirs.format == f"{array.dtype.itemsize // 4}w"
    assert (tensor.shape, tensor.data.shape, tensor.data.ndim) == (array.shape, theirs.shape, theirs.ndim)
    assert (tensor.data.strides, tensor.data.itemsize) == (theirs.strides, theirs.itemsize)
    assert tensor.data.tobytes() == theirs.tobytes() == bytes(tensor)
    assert Tensor("input", array, datatype=array.dtype.str).datatype == array.dtype.str


def test_bytes():
    tensor = Tensor("input", b"some bytes")
    assert (tensor.shape, tensor.datatype) == ((10,), "UINT8")
    view = tensor.data
    assert (view.shape, view.ndim, view.format, view.itemsize, view.strides) == ((10,), 1, "B", 1, (1,))
    assert bytes(tensor) == b"some bytes"


@pytest.mark.parametrize(
    ("shape", "datatype"), [(None, "my type"), ((1, 3), None), ((1,), "IMAGE_FRAME"), ((), "FP16"), ((7, 0), "BYTES")]
)
def test_what_is_given_changes_the_attributes_alone(shape, datatype):
    array = np.random.default_rng(1).random((1, 3, 300, 300))
    tensor = Tensor("input", array, shape, datatype)
    assert tensor.shape == (array.shape if shape is None else shape)
    assert tensor.datatype == (datatype or "FP64")
    view, theirs = tensor.data, memoryview(array)
    assert (view.shape, view.format, view.itemsize) == (theirs.shape, theirs.format, theirs.itemsize)
    assert view.strides == theirs.strides
    assert tensor.size == array.nbytes


@pytest.mark.parametrize(
    ("source", "datatype"),
    [
        ((ctypes.c_float * 3)(1, 2, 3), "<f"),
        (np.array([1, 2], ">i4"), ">i"),
        (np.array([1 + 2j]), "Zd"),
        (memoryview(b"abcd").cast("c"), "c"),
        (memoryview(struct.pack("qq", 1, 2)).cast("q"), "INT64"),
        (memoryview(struct.pack("QQ", 1, 2)).cast("Q"), "UINT64"),
        (memoryview(struct.pack("II", 1, 2)).cast("I"), "UINT32"),
    ],
)
def test_formats_without_a_name_are_their_own(source, datatype):
    tensor = Tensor("n", source)
    assert tensor.datatype == datatype
    assert bytes(tensor) == memoryview(source).tobytes()


def test_a_scalar():
    tensor = Tensor("n", np.array(7, np.int32))
    view = tensor.data
    assert (tensor.shape, view.shape, view.strides, view.ndim, tensor.size) == ((), (), (), 0, 4)
    assert view[()] == 7
    assert np.array(tensor) == np.int32(7)


def test_no_elements():
    array = np.zeros((1, 32, 32, 0, 1), np.float32)
    tensor = Tensor("n", array)
    assert (tensor.shape, tensor.size, tensor.data.shape) == ((1, 32, 32, 0, 1), 0, (1, 32, 32, 0, 1))
    assert bytes(tensor) == b""
    assert np.array(tensor).shape == array.shape
    assert Tensor("n", b"").shape == (0,)


def test_all_ways_to_the_bytes():
    array = np.arange(4, dtype=np.float32)
    tensor = Tensor("n", array)
    assert bytes(tensor) == array.tobytes()
    assert np.array_equal(np.array(tensor), array)
    assert np.array(tensor).dtype == np.float32
    assert np.shares_memory(np.asarray(tensor), array)
    assert np.array_equal(np.frombuffer(tensor, dtype=np.float32), array)
    assert memoryview(tensor).tolist() == [0, 1, 2, 3]
    assert struct.unpack("4f", bytes(tensor)) == (0, 1, 2, 3)
    assert np.array_equal(np.asfortranarray(tensor), array)


def test_the_buffer_cannot_be_written_to():
    array = np.zeros(3)
    tensor = Tensor("n", array)
    with pytest.raises(TypeError):
        tensor.data[0] = 1
    with pytest.raises((BufferError, TypeError)):
        (ctypes.c_char * 24).from_buffer(tensor)
    assert not np.asarray(tensor).flags.writeable
    assert not array.any()


def test_it_is_a_view_of_a_live_object():
    array = np.zeros(3)
    tensor = Tensor("n", array)
    array[1] = 5
    assert np.asarray(tensor).tolist() == [0, 5, 0]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[:, ::2],
        lambda a: a[::-1],
        lambda a: a[1:, 1:],
        lambda a: np.asfortranarray(a),
        lambda a: np.broadcast_to(a[0], (3, 4)),
    ],
)
def test_what_is_not_in_c_order_is_put_so(view):
    array = view(np.arange(12, dtype=np.int16).reshape(3, 4))
    tensor = Tensor("n", array)
    assert tensor.shape == array.shape
    assert tensor.size == array.nbytes
    assert tensor.data.c_contiguous
    assert bytes(tensor) == array.tobytes(order="C")
    assert np.frombuffer(tensor, np.int16).tolist() == array.flatten().tolist()
    assert np.array_equal(np.asarray(tensor), array)


def test_a_tensor_of_a_tensor():
    first = Tensor("first", np.arange(3.0))
    second = Tensor("second", first)
    third = Tensor("third", second.data)
    assert second.ref_obj is first
    assert (third.shape, third.datatype) == ((3,), "FP64")
    assert np.shares_memory(np.asarray(third), np.asarray(first))


# --- Lives


def test_it_keeps_its_source_and_views_keep_it():
    array = np.arange(3.0)
    gone = weakref.ref(array)
    tensor = Tensor("n", array)
    del array
    view = tensor.data
    del tensor
    gc.collect()
    assert view.tolist() == [0, 1, 2]
    assert gone() is not None
    view.release()
    assert gone() is None


def test_a_source_cannot_be_resized_under_it():
    source = bytearray(b"abc")
    tensor = Tensor("n", source)
    with pytest.raises(BufferError):
        source.append(1)
    del tensor
    source.append(1)


def test_a_copy_does_not_keep_the_source():
    array = np.zeros((4, 4))
    gone = weakref.ref(array)
    tensor = Tensor("n", array.T)
    assert tensor.ref_obj is None
    del array
    assert gone() is None
    assert tensor.size == 128


# --- Subclasses


class Named(Tensor):
    def __init__(self, text):
        super().__init__("named", text.encode(), datatype="TEXT")
        self.text = text


def test_subclasses():
    tensor = Named("hello")
    assert isinstance(tensor, Tensor)
    assert (tensor.text, tensor.name, bytes(tensor)) == ("hello", "named", b"hello")
    gone = weakref.ref(tensor)
    tensor.itself = tensor
    del tensor
    gc.collect()
    assert gone() is None


def test_it_is_initialized_once():
    tensor = Tensor("n", b"abc")
    with pytest.raises(RuntimeError, match="again"):
        tensor.__init__("n", b"def")
    assert bytes(tensor) == b"abc"
    with pytest.raises(TypeError):
        Tensor.__init__(raw := Tensor.__new__(Tensor), "n", 5)
    with pytest.raises(RuntimeError, match="__init__"):
        raw.name  # noqa: B018, reading it is the point
    with pytest.raises(BufferError, match="__init__"):
        memoryview(raw)
    raw.__init__("n", b"good")
    assert bytes(raw) == b"good"


def test_a_session_takes_any_attribute():
    session = pyovms.Session(5, {"a": 1})
    session.history = []
    assert (session.id, session.parameters) == (5, {"a": 1})
    assert repr(session) == "Session(id=5, parameters={'a': 1})"
