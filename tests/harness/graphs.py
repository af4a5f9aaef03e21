"""Graphs for tests: folders with graph.pbtxt and handlers, and a client's stream."""

import queue
import textwrap

import numpy as np
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

TIMESTAMP = "OVMS_MP_TIMESTAMP"

LOOPBACK = """
  input_stream: "LOOPBACK:{name}_loopback"
  output_stream: "LOOPBACK:{name}_loopback"
  input_stream_info: {{ tag_index: "LOOPBACK:0", back_edge: true }}
  input_stream_handler {{
    input_stream_handler: "SyncSetInputStreamHandler"
    options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ sync_set {{ tag_index: "LOOPBACK:0" }} }} }}
  }}"""


def python_node(name, inputs, outputs, handler="model.py", more="", loopback=False):
    """Returns the text of a PythonExecutorCalculator; `inputs` and `outputs` are "TAG:stream" each."""
    lines = [f'  input_stream: "{each}"' for each in inputs] + [f'  output_stream: "{each}"' for each in outputs]
    return (
        f'node {{\n  name: "{name}"\n  calculator: "PythonExecutorCalculator"\n'
        '  input_side_packet: "PYTHON_NODE_RESOURCES:py"\n'
        + "\n".join(lines)
        + (LOOPBACK.format(name=name) if loopback else "")
        + f"\n  {more}\n"
        "  node_options: { [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: "
        f'{{ handler_path: "{handler}" }} }}\n}}\n'
    )


def boundary(inputs, outputs, side_packets=()):
    """Returns the first lines of a graph. Streams without a tag get OVMS_PY_TENSOR, with a number after the first."""

    def lines(field, streams):
        for number, stream in enumerate(streams):
            tag = "OVMS_PY_TENSOR" if len(streams) == 1 else f"OVMS_PY_TENSOR{number}"
            yield f'{field}: "{stream if ":" in stream else f"{tag}:{stream}"}"'

    texts = [*lines("input_stream", inputs), *lines("output_stream", outputs)]
    return "\n".join([*texts, *(f'input_side_packet: "{each}"' for each in side_packets)]) + "\n"


def write_graph(folder, name, text, **files):
    """Makes FOLDER/NAME with graph.pbtxt and handlers, given as MODULE=source; returns the entry for config.json."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "graph.pbtxt").write_text(text, encoding="utf-8")
    for module, source in files.items():
        (place / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return {"name": name, "base_path": str(place)}


def single(folder, name, source, inputs=("in",), outputs=("out",), **node):
    """Makes a graph of one Python node that runs `source`; its streams have the names of its inputs and outputs."""
    text = boundary(inputs, outputs) + python_node(
        name,
        [f"IN{i}:{each}" for i, each in enumerate(inputs)],
        [f"OUT{i}:{each}" for i, each in enumerate(outputs)],
        **node,
    )
    return write_graph(folder, name, text, model=source)


def config(*graphs, models=(), **more):
    return {"model_config_list": list(models), "mediapipe_config_list": list(graphs), **more}


def tensor(name, array, datatype=None, module=grpcclient):
    """Returns an InferInput of a numpy array, or of raw bytes with a datatype (and the shape [1])."""
    if isinstance(array, bytes):
        made = module.InferInput(name, [1], datatype)
        made._raw_content = array
        made._input.datatype = datatype
        return made
    kinds = {"f": "FP", "i": "INT", "u": "UINT"}
    if datatype is None:
        datatype = "BYTES" if array.dtype == np.object_ else "BOOL"
        datatype = f"{kinds[array.dtype.kind]}{array.dtype.itemsize * 8}" if array.dtype.kind in kinds else datatype
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


class Stream:
    """One gRPC stream of tritonclient. Answers are (stream name, array, timestamp), errors InferenceServerException."""

    def __init__(self, address, graph, seconds=30):
        self.graph = graph
        self.seconds = seconds
        self.client = grpcclient.InferenceServerClient(address)
        self.answers = queue.Queue()
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))

    def send(self, *, timestamp=None, request_id="", parameters=None, model=None, version="", **tensors):
        parameters = dict(parameters or {})
        if timestamp is not None:
            parameters[TIMESTAMP] = timestamp
        inputs = [
            each if isinstance(each, grpcclient.InferInput) else tensor(name, each) for name, each in tensors.items()
        ]
        self.client.async_stream_infer(
            model or self.graph, inputs, model_version=version, request_id=request_id, parameters=parameters or None
        )

    def next(self):
        """Returns (result, error), as passed to the client's callback."""
        return self.answers.get(timeout=self.seconds)

    def response(self):
        result, error = self.next()
        if error is not None:
            raise error
        return result.get_response()

    def receive(self):
        result, error = self.next()
        if error is not None:
            raise error
        response = result.get_response()
        assert len(response.outputs) == 1
        assert response.model_name == self.graph
        assert response.model_version == "1"
        name = response.outputs[0].name
        return name, result.as_numpy(name), response.parameters[TIMESTAMP].int64_param

    def error(self):
        result, error = self.next()
        assert isinstance(error, InferenceServerException), result.get_response()
        return error

    def finish(self):
        """Closes the stream for sending, waits for its end, and returns the responses until then."""
        self.client.stop_stream()
        self.client.close()
        left = []
        while not self.answers.empty():
            left.append(self.answers.get_nowait())
        return left

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()
