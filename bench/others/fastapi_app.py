"""FastAPI: `uvicorn fastapi_app:app`. It has no batching; each request runs the network by itself."""

import functions
import numpy as np
import pydantic
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

app = FastAPI()
network = functions.Network()


class Pair(pydantic.BaseModel):
    a: list[float]
    b: list[float]


class Row(pydantic.BaseModel):
    row: list[float]


@app.post("/add_sub")
async def add_sub(pair: Pair):
    total, difference = functions.add_sub(np.asarray(pair.a, np.float32), np.asarray(pair.b, np.float32))
    return {"sum": total.tolist(), "diff": difference.tolist()}


@app.post("/identity")
async def identity(request: Request):
    array = np.frombuffer(await request.body(), np.float32)
    return Response(array.tobytes(), media_type="application/octet-stream")


@app.post("/tokens")
async def tokens():
    async def events():
        for token in functions.tokens():
            yield f"data: {token}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/mlp")
async def mlp(row: Row):
    return {"row": network(np.asarray([row.row], np.float32))[0].tolist()}
