"""Continues a text with one token per response: a language model with a network of a few thousand weights.

PROMPT       The text to continue. Words that the network does not know are left out.
MAX_TOKENS   The maximum number of responses, 40 by default. The end of a sentence ends them earlier.
TEMPERATURE  With 0, the default, always the likeliest token. Above 0, a random choice; higher values make it more uniform.
SEED         The seed of these choices. The same seed, prompt and temperature give the same text.
"""

import asyncio
import pathlib
import re

import numpy as np
import triton_python_backend_utils as pb_utils

CONTEXT = 3
TOKEN = re.compile(r" ?\w+|[^\w\s]")


class Network:
    def __init__(self, file):
        loaded = np.load(file)
        self.weights = {name: loaded[name] for name in loaded.files if name != "vocabulary"}
        self.vocabulary = loaded["vocabulary"].tolist()
        self.ids = {token: index for index, token in enumerate(self.vocabulary)}

    def read(self, text):
        """Returns the last tokens of a text, as many as the network reads."""
        words = TOKEN.findall(" " + " ".join(text.split()))
        known = [self.ids[word] for word in words if word in self.ids]
        return ([0] * CONTEXT + known)[-CONTEXT:]

    def scores(self, context):
        """Returns the logarithm of each token's probability."""
        weights = self.weights
        hidden = np.tanh(weights["vectors"][context].ravel() @ weights["in"] + weights["in_bias"])
        scores = hidden @ weights["out"] + weights["out_bias"]
        scores -= scores.max()
        return scores - np.log(np.exp(scores).sum())

    def choose(self, scores, temperature, random):
        if temperature == 0:
            return int(scores.argmax())
        # Gumbel's trick: the position of the maximum is a random choice by probability.
        return int((scores / temperature + random.gumbel(size=len(scores))).argmax())

    def tokens(self, prompt, count, temperature, seed):
        """Yields (token, logarithm of its probability)."""
        random = np.random.default_rng(seed)
        context = self.read(prompt)
        for _ in range(count):
            scores = self.scores(context)
            token = self.choose(scores, temperature, random)
            context = [*context[1:], token]
            yield self.vocabulary[token], scores[token]
            if self.vocabulary[token] == ".":
                return


def value(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy()[0]


class TritonPythonModel:
    def initialize(self, args):
        self.network = Network(pathlib.Path(__file__).parent / "weights.npz")

    async def execute(self, requests):
        # Requests overlap: each yields control after each token.
        await asyncio.gather(*(self.write(request) for request in requests))

    async def write(self, request):
        sender = request.get_response_sender()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        prompt = value(request, "PROMPT", b"").decode(errors="replace")
        count, seed = int(value(request, "MAX_TOKENS", 40)), int(value(request, "SEED", 0))
        temperature = float(value(request, "TEMPERATURE", 0))
        for name, fits in (
            ("MAX_TOKENS: expected 0 or more", count >= 0),
            ("SEED: expected 0 or more", seed >= 0),
            ("TEMPERATURE: expected 0 or more", 0 <= temperature < np.inf),
        ):
            if not fits:
                fault = pb_utils.TritonError(name, pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(error=fault), flags=final)
                return
        for token, score in self.network.tokens(prompt, count, temperature, seed):
            if sender.is_cancelled():
                break
            outputs = [
                pb_utils.Tensor("TOKEN", np.array([token.encode()], np.object_)),
                pb_utils.Tensor("LOGPROB", np.array([score], np.float32)),
            ]
            sender.send(pb_utils.InferenceResponse(outputs))
            await asyncio.sleep(0)
        sender.send(flags=final)
