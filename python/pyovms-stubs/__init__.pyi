"""The API for Python nodes of graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__all__ = ["Session", "Tensor"]

class Tensor:
    """A named, read-only view of `data`, any object with the buffer protocol. `shape` and `datatype` change only the
    attributes, never the buffer."""

    def __init__(
        self,
        name: str,
        data: Buffer | NDArray[Any] | np.generic,
        shape: Sequence[int] | None = None,
        datatype: str | None = None,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def name(self) -> str:
        """The name of the stream that it goes to or comes from."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The one given to the constructor, or else the buffer's."""

    @property
    def datatype(self) -> str:
        """The one given to the constructor, or else from the buffer's format."""

    @property
    def data(self) -> memoryview:
        """A read-only memoryview of the buffer."""

    @property
    def size(self) -> int:
        """The buffer's size in bytes."""

    @property
    def ptr(self) -> Any:
        """The address of the data, as an opaque capsule."""

    @property
    def ref_obj(self) -> Any:
        """The object that the Tensor is a view of, or None."""

class Session:
    """A node's state for one run of its graph: one unary request, or one stream. You can set any attributes."""

    id: int
    parameters: dict[str, Any]
    def __init__(self, id: int, parameters: dict[str, Any]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
