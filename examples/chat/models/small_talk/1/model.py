"""Replies to a conversation word by word: a chat model with a network of 80 thousand weights.

text_input   The conversation. Lines begin with `user: ` or `assistant: `; a text without them is a question. A last line
             `assistant: ` may have the beginning of the reply.
max_tokens   The maximum number of tokens, 60 by default.
temperature  With 0, always the likeliest token. Higher values make the choice more uniform; 0.7 by default.
top_p        Only the likeliest tokens that have this probability together are chosen. By default 1: all.
seed         The seed of these choices. The same inputs with the same seed give the same reply.
stream       Whether each token is a response of its own, as by default, or all are one response.

With a stream, the last response has no text, but the finish_reason: `stop` or `length`.
"""

import asyncio
import pathlib
import re
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

CONTEXT = 4
WORD = re.compile(r"\w+")
TOKEN = re.compile(r" ?\w+|[^\w\s]")
LINE = re.compile(r"^(user|assistant):", re.M)


def messages_of(prompt):
    """Returns (question, exchange before it, beginning of the reply)."""
    _, *parts = LINE.split(prompt)
    said = [(role, text.strip()) for role, text in zip(parts[::2], parts[1::2], strict=True)]
    if not said:
        return prompt, "", ""
    begun = said.pop()[1] if said[-1][0] == "assistant" else ""
    texts = [text for _, text in said]
    return " ".join(texts[-1:]), " ".join(texts[-3:-1]), begun


class Network:
    def __init__(self, file):
        loaded = np.load(file)
        self.weights = {name: loaded[name] for name in loaded.files if name not in ("words", "tokens")}
        self.vocabulary = loaded["tokens"].tolist()
        self.ids = {token: number for number, token in enumerate(self.vocabulary)}
        self.rows = {word: row for row, word in enumerate(loaded["words"].tolist())}

    def sum_of(self, name, text):
        """Returns the sum of the vectors of a text's words. Unknown words share some rows."""
        vectors = self.weights[name]
        unknown = len(vectors) - len(self.rows)
        words = WORD.findall(text.lower())
        rows = [self.rows.get(word, len(self.rows) + zlib.crc32(word.encode()) % unknown) for word in words]
        return vectors[rows].sum(axis=0) / max(1, len(rows)) ** 0.5

    def scores(self, sums, context):
        """Returns a score for each token; its softmax is the token's probability."""
        weights = self.weights
        inputs = np.concatenate([*sums, weights["vectors"][context].ravel()])
        return np.tanh(inputs @ weights["in"] + weights["in_bias"]) @ weights["out"] + weights["out_bias"]

    def choose(self, scores, temperature, top_p, random):
        if temperature == 0:
            return int(scores.argmax())
        probabilities = np.exp((scores - scores.max()) / temperature)
        probabilities /= probabilities.sum()
        order = probabilities.argsort()[::-1]
        before = probabilities[order].cumsum() - probabilities[order]
        kept = order[before <= top_p]
        return int(random.choice(kept, p=probabilities[kept] / probabilities[kept].sum()))

    def tokens(self, prompt, temperature, top_p, seed):
        """Yields the tokens of a reply."""
        random = np.random.default_rng(seed)
        question, before, begun = messages_of(prompt)
        sums = self.sum_of("asked", question), self.sum_of("before", before)
        known = [self.ids[token] for token in TOKEN.findall(" " + begun) if token in self.ids]
        context = ([0] * CONTEXT + known)[-CONTEXT:]
        while True:
            token = self.choose(self.scores(sums, context), temperature, top_p, random)
            if token == 0:
                return
            text = self.vocabulary[token]
            # A reply begins without a space.
            yield text if any(context) else text.lstrip()
            context = [*context[1:], token]


def value(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy()[0]


def response(text, prompt_tokens, tokens, finish_reason=""):
    outputs = [
        pb_utils.Tensor("text_output", np.array([text.encode()], np.object_)),
        pb_utils.Tensor("finish_reason", np.array([finish_reason.encode()], np.object_)),
        pb_utils.Tensor("num_input_tokens", np.array([prompt_tokens], np.int32)),
        pb_utils.Tensor("num_output_tokens", np.array([tokens], np.int32)),
    ]
    return pb_utils.InferenceResponse(outputs)


class TritonPythonModel:
    def initialize(self, args):
        self.network = Network(pathlib.Path(__file__).parent / "weights.npz")

    async def execute(self, requests):
        # Conversations overlap: each yields control after each token.
        await asyncio.gather(*(self.reply(request) for request in requests))

    async def reply(self, request):
        sender = request.get_response_sender()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        prompt = value(request, "text_input", b"").decode(errors="replace")
        maximum, stream = int(value(request, "max_tokens", 60)), bool(value(request, "stream", True))
        temperature, top_p = float(value(request, "temperature", 0.7)), float(value(request, "top_p", 1))
        seed = value(request, "seed", None)
        for fault, fits in (
            ("max_tokens: expected 1 or more", maximum >= 1),
            ("temperature: expected 0 to 2", 0 <= temperature <= 2),
            ("top_p: expected 0 to 1", 0 <= top_p <= 1),
        ):
            if not fits:
                error = pb_utils.TritonError(fault, pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(error=error), flags=final)
                return
        prompt_tokens = len(TOKEN.findall(prompt))
        text, count, finish_reason = "", 0, "stop"
        # A generator of random numbers takes no negative seed.
        for token in self.network.tokens(prompt, temperature, top_p, None if seed is None else int(seed) % 2**64):
            if count == maximum:
                finish_reason = "length"
                break
            if sender.is_cancelled():
                break
            text, count = text + token, count + 1
            if stream:
                sender.send(response(token, prompt_tokens, 1))
            await asyncio.sleep(0)
        if stream:
            sender.send(response("", prompt_tokens, 0, finish_reason), flags=final)
        else:
            sender.send(response(text, prompt_tokens, count, finish_reason), flags=final)
