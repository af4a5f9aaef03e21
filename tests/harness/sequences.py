"""Many concurrent sequences over several streams of KServe's gRPC API; a seed decides the order of their requests."""

import contextlib
import queue
import random
import re
import threading

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc


def sequence_counts(server, model):
    """Returns {"active": ..., "started": ..., ...} of version 1 of a model, from the server's metrics."""
    pattern = re.compile(rf'braid_sequences_(\w+)\{{model="{model}",version="1"\}}')
    matches = ((pattern.fullmatch(series), value) for series, value in server.metric_values().items())
    return {match.group(1): value for match, value in matches if match}


class Stream:
    """One connection with one stream. Each answer goes to `answers` as (request id, outputs or the text of an error)."""

    def __init__(self, address, answers):
        # Otherwise channels to one address share a connection.
        self._channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self._answers = answers
        self._requests = queue.SimpleQueue()
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._call = stub.ModelStreamInfer(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, request):
        self._requests.put(request)

    def _read(self):
        with contextlib.suppress(grpc.RpcError):
            for message in self._call:
                response = message.infer_response
                if message.error_message:
                    self._answers.put((response.id, message.error_message))
                else:
                    raw = response.raw_output_contents
                    names = [output.name for output in response.outputs]
                    self._answers.put((response.id, dict(zip(names, raw, strict=True))))

    def close(self):
        """Ends the stream once all requests are answered."""
        self._requests.put(None)
        self._reader.join(30)
        self._channel.close()

    def vanish(self):
        """Disconnects with requests in flight."""
        self._channel.close()
        self._requests.put(None)
        self._reader.join(30)


@contextlib.contextmanager
def streams(address, count, answers):
    opened = [Stream(address, answers) for _ in range(count)]
    try:
        yield opened
    finally:
        for stream in opened:
            stream.close()


def request(model, sequence, x, start=False, end=False, request_id=""):
    """Returns a ModelInferRequest with one FP32 input "x"."""
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    message.parameters["sequence_id"].int64_param = sequence
    if start:
        message.parameters["sequence_start"].bool_param = True
    if end:
        message.parameters["sequence_end"].bool_param = True
    tensor = message.inputs.add()
    tensor.name, tensor.datatype = "x", "FP32"
    tensor.shape.extend(x.shape)
    message.raw_input_contents.append(x.tobytes())
    return message


class Sequences:
    """Sequences of one model: their inputs, progress and answers."""

    def __init__(self, model, inputs, seed=1, first_id=1):
        """inputs: [sequences, steps, ...], FP32."""
        self.model = model
        self.inputs = inputs
        self.answers = [[] for _ in inputs]
        self._random = random.Random(seed)
        self._first_id = first_id

    def message(self, which):
        step = len(self.answers[which])
        steps = len(self.inputs[which])
        return request(
            self.model,
            self._first_id + which,
            self.inputs[which][step],
            start=step == 0,
            end=step == steps - 1,
            request_id=str(which),
        )

    def run(self, address, until, stream_count=4, of=None):
        """Advances the sequences `of` (default: all) to `until` answers; each step uses a random stream."""
        replies = queue.SimpleQueue()
        waiting = list(range(len(self.inputs)) if of is None else of)
        waiting = [which for which in waiting if len(self.answers[which]) < until]
        flying = 0
        with streams(address, stream_count, replies) as opened:
            while waiting or flying:
                # All sequences that were answered in the meantime may continue.
                while waiting:
                    place = self._random.randrange(len(waiting))
                    waiting[place], waiting[-1] = waiting[-1], waiting[place]
                    self._random.choice(opened).send(self.message(waiting.pop()))
                    flying += 1
                    if self._random.random() < 0.2:
                        break
                which, answer = replies.get(timeout=60)
                flying -= 1
                which = int(which)
                if isinstance(answer, str):
                    raise AssertionError(f"step {len(self.answers[which])} of sequence {which}: {answer}")
                assert np.frombuffer(answer["sequence_id"], np.uint64)[0] == self._first_id + which
                self.answers[which].append(np.frombuffer(answer["y"], np.float32))
                if len(self.answers[which]) < until:
                    waiting.append(which)
