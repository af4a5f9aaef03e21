"""Ray Serve: `python ray_app.py WORKLOAD PORT`. Ends on SIGTERM."""

import signal
import sys

import functions
import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

OPTIONS = {"num_replicas": 1, "max_ongoing_requests": 64, "logging_config": {"enable_access_log": False}}


@serve.deployment(**OPTIONS)
class AddSub:
    async def __call__(self, request: Request):
        pair = await request.json()
        total, difference = functions.add_sub(np.asarray(pair["a"], np.float32), np.asarray(pair["b"], np.float32))
        return {"sum": total.tolist(), "diff": difference.tolist()}


@serve.deployment(**OPTIONS)
class Identity:
    async def __call__(self, request: Request):
        array = np.frombuffer(await request.body(), np.float32)
        return Response(array.tobytes(), media_type="application/octet-stream")


@serve.deployment(**OPTIONS)
class Tokens:
    async def __call__(self, request: Request):
        async def events():
            for token in functions.tokens():
                yield f"data: {token}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")


@serve.deployment(**OPTIONS)
class Mlp:
    def __init__(self):
        self._network = functions.Network()

    @serve.batch(max_batch_size=functions.MAX_BATCH, batch_wait_timeout_s=functions.MAX_DELAY_S)
    async def _rows(self, rows):
        return list(self._network(np.stack(rows)))

    async def __call__(self, request: Request):
        row = (await request.json())["row"]
        return {"row": (await self._rows(np.asarray(row, np.float32))).tolist()}


if __name__ == "__main__":
    workload, port = sys.argv[1:]
    deployment = {"add_sub": AddSub, "identity": Identity, "tokens": Tokens, "mlp": Mlp}[workload]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, logging_config={"enable_access_log": False})
    serve.run(deployment.bind(), route_prefix=f"/{workload}")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
