"""One connection class for each protocol, with a common method: infer(model, inputs, ...) returns outputs or raises
RefusedError.

They do less work than the public clients, to leave most of the machine to the server. They check more: that an answer
carries the id of its request, and that no second answer arrives.
"""

import contextlib
import http.client
import json
import queue
import socket
import threading

import grpc
import numpy as np
from harness.clients import WIRE_TYPES, wire_type
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

SECONDS = 90  # limit for the outcome of a request
# Otherwise channels to one address share a connection.
CHANNEL = [("grpc.use_local_subchannel_pool", 1)]
TFS_TYPES = {"INT64": types_pb2.DT_INT64, "FP32": types_pb2.DT_FLOAT, "UINT64": types_pb2.DT_UINT64}


class RefusedError(Exception):
    """The server's own error instead of an answer."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = str(code)
        self.text = text or ""


class CutError(Exception):
    """The connection ended before the answer arrived."""


class EndError(CutError):
    """The server has ended the stream without an error."""


class WrongError(Exception):
    """An answer that is wrong for any request."""


def grpc_failure(error):
    """Returns a CutError if the connection ended, else the server's RefusedError."""
    text = error.details() or ""
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return WrongError(f"no outcome within {SECONDS} s: {text}")
    lost = ("failed to connect", "Connection reset", "Socket closed", "recvmsg", "Broken pipe", "Connection refused")
    if error.code() == grpc.StatusCode.UNAVAILABLE and any(each in text for each in lost):
        return CutError(text)
    return RefusedError(error.code().name, text)


def sequence_parameters(sequence):
    """`sequence`: (id, start, end), or None."""
    if sequence is None:
        return {}
    number, start, end = sequence
    return {"sequence_id": number, "sequence_start": start, "sequence_end": end}


class Connection:
    """The base class. A connection that has ended reconnects at the next request.

    cut() ends it from another thread during any operation. `was_cut` then says that the CutError was caused by the
    test.
    """

    was_cut = False

    def close(self):
        """Ends the connection."""

    def cut(self):
        """Ends it from another thread."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- gRPC ------------------------------------------------------------------------------------------


def infer_message(model, inputs, request_id="", sequence=None):
    message = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    for name, value in sequence_parameters(sequence).items():
        if isinstance(value, bool):
            message.parameters[name].bool_param = value
        elif value < 2**63:
            message.parameters[name].int64_param = value
        else:
            message.parameters[name].uint64_param = value
    for name, array in inputs.items():
        message.inputs.add(name=name, datatype=wire_type(array), shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def read_response(response):
    return {
        output.name: np.frombuffer(raw, WIRE_TYPES[output.datatype]).reshape(output.shape)
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


class GrpcConnection(Connection):
    stub_kind = service_pb2_grpc.GRPCInferenceServiceStub

    def __init__(self, server):
        self._address = server.grpc
        self._channel = None

    def stub(self):
        if self._channel is None:
            self.was_cut = False
            self._channel = grpc.insecure_channel(self._address, options=CHANNEL)
            self._stub = self.stub_kind(self._channel)
        return self._stub

    def call(self, method, message):
        try:
            return getattr(self.stub(), method)(message, timeout=SECONDS)
        except grpc.RpcError as error:
            failure = grpc_failure(error)
        except ValueError as error:  # the channel was closed before the call began
            failure = CutError(str(error))
        if self.was_cut or isinstance(failure, CutError):
            self.close()
            raise CutError(str(failure))
        raise failure

    def close(self):
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def cut(self):
        channel, self._channel = self._channel, None
        if channel is not None:
            self.was_cut = True
            channel.close()


class KserveGrpc(GrpcConnection):
    name = "gRPC"

    def infer(self, model, inputs, request_id="", sequence=None):
        response = self.call("ModelInfer", infer_message(model, inputs, request_id, sequence))
        if response.id != request_id:
            raise WrongError(f"the answer to {request_id} has the id {response.id}")
        return read_response(response)

    def vanish(self, model, inputs, draw, sequence=None):
        """Sends a request, and cancels it a moment later."""
        call = self.stub().ModelInfer.future(infer_message(model, inputs, "", sequence))
        with contextlib.suppress(grpc.FutureTimeoutError, grpc.RpcError, grpc.FutureCancelledError):
            call.result(timeout=draw.uniform(0, 0.005))
        call.cancel()


class KserveStream(GrpcConnection):
    """One stream of KServe; several requests may be in flight."""

    name = "gRPC stream"

    def __init__(self, server):
        super().__init__(server)
        self._requests = None

    def _open(self):
        if self._requests is None:
            self._requests, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
            call = self.stub().ModelStreamInfer(iter(self._requests.get, None))
            threading.Thread(target=self._read, args=(call, self._answers), daemon=True).start()

    @staticmethod
    def _read(call, answers):
        try:
            for message in call:
                answers.put(message)
            answers.put(EndError("the stream has ended"))
        except grpc.RpcError as error:
            answers.put(grpc_failure(error))

    def send(self, model, inputs, request_id, sequence=None, **parameters):
        message = infer_message(model, inputs, request_id, sequence)
        for name, value in parameters.items():
            message.parameters[name].bool_param = value
        try:
            self._open()
        except ValueError as error:  # the channel was closed before the call began
            self.close()
            raise CutError(str(error)) from None
        self._requests.put(message)

    def receive(self):
        """Returns (id, outputs or RefusedError, whether it is the final one)."""
        try:
            message = self._answers.get(timeout=SECONDS)
        except queue.Empty:
            self._end()
            raise WrongError(f"nothing on the stream for {SECONDS} s") from None
        if isinstance(message, Exception):
            self._end()
            if self.was_cut or (isinstance(message, CutError) and not isinstance(message, EndError)):
                self.close()
                raise CutError(str(message))
            raise message
        response = message.infer_response
        final = response.parameters["triton_final_response"].bool_param if response.parameters else False
        if message.error_message:
            return response.id, RefusedError("stream", message.error_message), True
        return response.id, read_response(response), final

    def infer(self, model, inputs, request_id="", sequence=None):
        self.send(model, inputs, request_id, sequence)
        answered, outcome, _ = self.receive()
        # A message that could not be parsed is refused without its id.
        if isinstance(outcome, RefusedError) and answered in (request_id, ""):
            raise outcome
        if answered != request_id:
            raise WrongError(f"the answer to {request_id} has the id {answered}")
        return outcome

    def infer_all(self, model, inputs, request_id):
        """Returns all answers of a decoupled model, and the error that ended them, or None."""
        self.send(model, inputs, request_id, triton_enable_empty_final_response=True)
        answers = []
        while True:
            answered, outcome, final = self.receive()
            if isinstance(outcome, RefusedError) and answered in (request_id, ""):
                return answers, outcome
            if answered != request_id:
                raise WrongError(f"an answer to {request_id} has the id {answered}")
            if outcome:
                answers.append(outcome)
            if final:
                return answers, None

    def finish(self):
        """Ends the requests; returns the responses until the end of the stream."""
        self._requests.put(None)
        left = []
        while True:
            try:
                left.append(self.receive())
            except EndError:
                return left

    def _end(self):
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.put(None)

    def close(self):
        self._end()
        super().close()


class TfsGrpc(GrpcConnection):
    name = "TFS gRPC"
    stub_kind = prediction_service_pb2_grpc.PredictionServiceStub

    def infer(self, model, inputs, request_id="", sequence=None):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        for name, array in inputs.items():
            tensor = request.inputs[name]
            tensor.dtype = TFS_TYPES[wire_type(array)]
            tensor.tensor_content = array.tobytes()
            for size in array.shape:
                tensor.tensor_shape.dim.add(size=size)
        if sequence is not None:
            number, start, end = sequence
            for name, kind, field, value in (
                ("sequence_id", types_pb2.DT_UINT64, "uint64_val", number),
                ("sequence_control_input", types_pb2.DT_UINT32, "uint32_val", 1 if start else 2 if end else 0),
            ):
                request.inputs[name].CopyFrom(tensor_pb2.TensorProto(dtype=kind, **{field: [value]}))
                request.inputs[name].tensor_shape.dim.add(size=1)
        response = self.call("Predict", request)
        return {name: self._read(tensor) for name, tensor in response.outputs.items()}

    @staticmethod
    def _read(tensor):
        kinds = {types_pb2.DT_INT64: np.int64, types_pb2.DT_FLOAT: np.float32, types_pb2.DT_UINT64: np.uint64}
        if tensor.uint64_val:
            return np.array(tensor.uint64_val, np.uint64)
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        return np.frombuffer(tensor.tensor_content, kinds[tensor.dtype]).reshape(shape)


# ---- HTTP ------------------------------------------------------------------------------------------


class HttpConnection(Connection):
    def __init__(self, server):
        host, _, port = server.http.rpartition(":")
        self._address = host, int(port)
        self._connection = None

    def exchange(self, path, body, headers=()):
        """Returns (status, headers, body), or raises CutError."""
        connection = self._connection
        if connection is None:
            connection = self._connection = http.client.HTTPConnection(*self._address, timeout=SECONDS)
        try:
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except TimeoutError:
            self.close()
            raise WrongError(f"no outcome within {SECONDS} s") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise CutError(repr(error)) from None

    def close(self):
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def cut(self):
        if (connection := self._connection) is not None:
            self.was_cut = True
            with contextlib.suppress(OSError, AttributeError):  # it has ended meanwhile
                connection.sock.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def refusal(status, body):
        try:
            return RefusedError(status, json.loads(body)["error"])
        except (ValueError, KeyError):
            return WrongError(f"HTTP {status} with {body[:200]!r}")


class KserveJson(HttpConnection):
    name = "HTTP JSON"

    def body(self, inputs, request_id, sequence):
        tensors = [
            {"name": name, "datatype": wire_type(array), "shape": array.shape, "data": array.reshape(-1).tolist()}
            for name, array in inputs.items()
        ]
        return json.dumps({"id": request_id, "inputs": tensors, "parameters": sequence_parameters(sequence)})

    def infer(self, model, inputs, request_id="", sequence=None):
        status, _, body = self.exchange(f"/v2/models/{model}/infer", self.body(inputs, request_id, sequence))
        if status != 200:
            raise self.refusal(status, body)
        answer = json.loads(body)
        if request_id and answer["id"] != request_id:
            raise WrongError(f"the answer to {request_id} has the id {answer['id']}")
        return {
            output["name"]: np.array(output["data"], WIRE_TYPES[output["datatype"]]).reshape(output["shape"])
            for output in answer["outputs"]
        }

    def vanish(self, model, inputs, draw, sequence=None):
        """Sends a request, or part of one, and closes the connection without reading."""
        body = self.body(inputs, "", sequence)
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection = http.client.HTTPConnection(*self._address, timeout=SECONDS)
        try:
            connection.connect()
            whole = (head + body).encode()
            connection.sock.sendall(whole if draw.random() < 0.5 else whole[: draw.randint(1, len(whole))])
        except OSError:
            pass
        finally:
            connection.close()

    def generate_stream(self, model, fields):
        """Returns all events of a decoupled model, and the error that ended them, or None."""
        status, headers, body = self.exchange(f"/v2/models/{model}/generate_stream", json.dumps(fields))
        if status != 200 and "event-stream" not in headers.get("Content-Type", ""):
            raise self.refusal(status, body)
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
        errors = [event["error"] for event in events if "error" in event]
        if len(errors) > 1 or (errors and "error" not in events[-1]):
            raise WrongError(f"errors {errors} among {len(events)} events")
        answers = [event for event in events if "error" not in event]
        return answers, RefusedError(status, errors[0]) if errors else None


class KserveBinary(HttpConnection):
    name = "HTTP binary"

    def infer(self, model, inputs, request_id="", sequence=None):
        tensors = [
            {
                "name": name,
                "datatype": wire_type(array),
                "shape": array.shape,
                "parameters": {"binary_data_size": array.nbytes},
            }
            for name, array in inputs.items()
        ]
        parameters = {"binary_data_output": True, **sequence_parameters(sequence)}
        head = json.dumps({"id": request_id, "inputs": tensors, "parameters": parameters}).encode()
        status, headers, body = self.exchange(
            f"/v2/models/{model}/infer",
            head + b"".join(array.tobytes() for array in inputs.values()),
            {"Inference-Header-Content-Length": len(head)},
        )
        if status != 200:
            raise self.refusal(status, body)
        place = int(headers["Inference-Header-Content-Length"])
        answer = json.loads(body[:place])
        if request_id and answer["id"] != request_id:
            raise WrongError(f"the answer to {request_id} has the id {answer['id']}")
        outputs = {}
        for output in answer["outputs"]:
            size = output["parameters"]["binary_data_size"]
            raw, place = body[place : place + size], place + size
            outputs[output["name"]] = np.frombuffer(raw, WIRE_TYPES[output["datatype"]]).reshape(output["shape"])
        return outputs


class TfsRest(HttpConnection):
    name = "TFS REST"

    def infer(self, model, inputs, request_id="", sequence=None):
        values = {name: array.tolist() for name, array in inputs.items()}
        if sequence is not None:
            number, start, end = sequence
            values.update(sequence_id=[number], sequence_control_input=[1 if start else 2 if end else 0])
        status, _, body = self.exchange(f"/v1/models/{model}:predict", json.dumps({"inputs": values}))
        if status != 200:
            raise self.refusal(status, body)
        outputs = json.loads(body)["outputs"]
        # A single output has no name there.
        named = outputs if isinstance(outputs, dict) else {"": outputs}
        return {name: np.array(value) for name, value in named.items()}


TRANSPORTS = {kind.name: kind for kind in (KserveGrpc, KserveStream, KserveJson, KserveBinary, TfsGrpc, TfsRest)}
