"""LitServe: `python litserve_app.py WORKLOAD PORT`."""

import sys

import functions
import litserve
import numpy as np
from fastapi import Request, Response


class AddSub(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return np.asarray(request["a"], np.float32), np.asarray(request["b"], np.float32)

    def predict(self, pair):
        return functions.add_sub(*pair)

    def encode_response(self, output):
        return {"sum": output[0].tolist(), "diff": output[1].tolist()}


class Identity(litserve.LitAPI):
    """LitServe takes bytes as the file of a form."""

    def setup(self, device):
        pass

    def decode_request(self, request: Request):
        return np.frombuffer(request["file"].file.read(), np.float32)

    def predict(self, array):
        return array

    def encode_response(self, array) -> Response:
        return Response(array.tobytes(), media_type="application/octet-stream")


class Tokens(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request

    def predict(self, request):
        yield from functions.tokens()

    def encode_response(self, output):
        for token in output:
            yield f"data: {token}\n\n"


class Mlp(litserve.LitAPI):
    def setup(self, device):
        self._network = functions.Network()

    def decode_request(self, request):
        return np.asarray(request["row"], np.float32)

    def batch(self, rows):
        return np.stack(rows)

    def predict(self, rows):
        return self._network(rows)

    def unbatch(self, rows):
        return list(rows)

    def encode_response(self, row):
        return {"row": row.tolist()}


def api(workload):
    path = f"/{workload}"
    if workload == "add_sub":
        return AddSub(api_path=path)
    if workload == "identity":
        return Identity(api_path=path)
    if workload == "tokens":
        return Tokens(api_path=path, stream=True)
    return Mlp(api_path=path, max_batch_size=functions.MAX_BATCH, batch_timeout=functions.MAX_DELAY_S)


if __name__ == "__main__":
    server = litserve.LitServer(api(sys.argv[1]), accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", generate_client_file=False)
