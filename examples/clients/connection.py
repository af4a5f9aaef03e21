"""Common code of the example clients: the command line, inputs from arrays, and streams of responses.

tritonclient's HTTP and gRPC modules have the same classes, so the same client code works with both.
"""

import argparse
import http.client
import importlib
import json
import queue


def parse_arguments(description):
    """Returns the client module of the chosen protocol, and the server's address."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--url", help="HOST:PORT (default: localhost and the protocol's usual port)")
    arguments = parser.parse_args()
    module = importlib.import_module(f"tritonclient.{arguments.protocol}")
    url = arguments.url or {"http": "localhost:8000", "grpc": "localhost:8001"}[arguments.protocol]
    return module, url


def as_input(module, name, array, datatype):
    tensor = module.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


def stream(module, url, model, inputs):
    """Yields the responses of a decoupled model as they arrive. Each is a dictionary of arrays or, over HTTP, of values.

    inputs: {name: (array, datatype)}
    """
    return (_events if module.__name__.endswith("http") else _messages)(module, url, model, inputs)


def _events(_, url, model, inputs):
    """POST .../generate_stream responds with server-sent events: a line "data: {json}", then an empty line."""
    connection = http.client.HTTPConnection(url)
    body = {name: array.tolist() for name, (array, _) in inputs.items()}
    connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(body))
    for line in connection.getresponse():
        if line.startswith(b"data: "):
            event = json.loads(line.removeprefix(b"data: "))
            if "error" in event:
                raise RuntimeError(event["error"])
            yield event
    connection.close()


def _messages(module, url, model, inputs):
    """Makes a ModelStreamInfer call. The empty final response marks its end."""
    answers = queue.SimpleQueue()
    with module.InferenceServerClient(url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        tensors = [as_input(module, name, array, datatype) for name, (array, datatype) in inputs.items()]
        client.async_stream_infer(model, tensors, enable_empty_final_response=True)
        while True:
            result, error = answers.get(timeout=60)
            if error is not None:
                raise error
            response = result.get_response()
            if response.outputs:
                yield {output.name: result.as_numpy(output.name) for output in response.outputs}
            if response.parameters["triton_final_response"].bool_param:
                return
