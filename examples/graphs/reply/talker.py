"""Answers a chat with the words of its last message in reverse order: the smallest node behind OpenAI's API."""

import json
import time

from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        request = json.loads(bytes(inputs[0]))
        body = request["body"]
        words = body["messages"][-1]["content"].split()[::-1]
        if request["stream"]:
            return self.chunks(body["model"], words)
        message = {"role": "assistant", "content": " ".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return [Tensor("reply", self.text("chat.completion", body["model"], choice))]

    def chunks(self, model, words):
        """Yields a chunk for each word. Each is sent before the next one is made."""
        for number, word in enumerate(words):
            delta = {"content": word if number == 0 else f" {word}"}
            if number == 0:
                delta["role"] = "assistant"
            yield [self.chunk(model, {"index": 0, "delta": delta, "finish_reason": None})]
        yield [self.chunk(model, {"index": 0, "delta": {}, "finish_reason": "stop"})]

    def chunk(self, model, choice):
        return Tensor("reply", self.text("chat.completion.chunk", model, choice))

    def text(self, kind, model, choice):
        reply = {
            "id": "chatcmpl-reply",
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
        }
        return json.dumps(reply).encode()
