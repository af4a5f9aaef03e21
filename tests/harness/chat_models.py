"""A chat model for the tests of tools: it says the last message back, word by word. "a-b" is two tokens."""

from harness.repository import config

CHAT = """
import json
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"])

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            messages = json.loads(pb_utils.get_input_tensor_by_name(request, "messages").as_numpy()[0])
            limit = pb_utils.get_input_tensor_by_name(request, "max_tokens")
            text = messages[-1]["content"]
            words = [] if text == "refuse" else f"message {len(messages)} was: {text}".split()
            for word in words if limit is None else words[: limit.as_numpy()[0]]:
                self.send(sender, word + " ")
            if text in ("fail", "refuse"):
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("out of words")))
            while text == "forever" and not sender.is_cancelled():
                self.send(sender, "tick ")
                time.sleep(0.01)
            if sender.is_cancelled():
                (self.folder / "cancelled").touch()
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def send(self, sender, text):
        tensors = [
            pb_utils.Tensor("text_output", np.array([text.encode()], dtype=object)),
            pb_utils.Tensor("num_input_tokens", np.array([7], dtype=np.int32)),
            pb_utils.Tensor("num_output_tokens", np.array([text.count("-") + 1], dtype=np.int32)),
        ]
        sender.send(pb_utils.InferenceResponse(tensors))
"""


def add_chat(repository, name="chat"):
    """Adds the model. Returns the file that exists once it has seen a cancelled request."""
    inputs = [
        ("text_input", "STRING", [1], "optional: true"),
        ("messages", "STRING", [1], "optional: true"),
        ("max_tokens", "INT32", [1], "optional: true"),
        ("temperature", "FP32", [1], "optional: true"),
    ]
    outputs = [
        ("text_output", "STRING", [1]),
        ("num_input_tokens", "INT32", [1]),
        ("num_output_tokens", "INT32", [1]),
    ]
    text = config(name, inputs, outputs, extra="model_transaction_policy { decoupled: true }")
    return repository.add(name, CHAT, text) / "cancelled"
