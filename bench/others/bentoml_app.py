"""BentoML: `bentoml serve bentoml_app:NAME`, a service for each workload."""

import pathlib
import typing

import bentoml
import functions
import numpy as np


@bentoml.service(workers=1)
class AddSub:
    @bentoml.api(route="/add_sub")
    def add_sub(self, a: list[float], b: list[float]) -> dict:
        total, difference = functions.add_sub(np.asarray(a, np.float32), np.asarray(b, np.float32))
        return {"sum": total.tolist(), "diff": difference.tolist()}


@bentoml.service(workers=1)
class Identity:
    """BentoML takes bytes as a file."""

    @bentoml.api(route="/identity")
    def identity(self, file: pathlib.Path, /, context: bentoml.Context) -> pathlib.Path:
        output = pathlib.Path(context.temp_dir) / "output"
        output.write_bytes(np.frombuffer(file.read_bytes(), np.float32).tobytes())
        return output


@bentoml.service(workers=1)
class Tokens:
    @bentoml.api(route="/tokens")
    async def tokens(self) -> typing.AsyncGenerator[str, None]:
        for token in functions.tokens():
            yield f"data: {token}\n\n"


@bentoml.service(workers=1)
class Mlp:
    def __init__(self):
        self._network = functions.Network()

    @bentoml.api(route="/mlp", batchable=True, max_batch_size=functions.MAX_BATCH)
    def mlp(self, rows: np.ndarray) -> np.ndarray:
        return self._network(rows)
