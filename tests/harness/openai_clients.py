"""OpenAI's public clients for Python and Node, with one interface. Each answer must fit the schema that OpenAI publishes
as the types of its client."""

import asyncio
import base64
import functools
import json
import struct
import subprocess

import openai
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.shared import ErrorObject

from harness.public_clients import SOURCES, environment, need

# The types of an answer, and of a stream's chunk.
TYPES = {
    "chat.completions.create": (ChatCompletion, ChatCompletionChunk),
    "completions.create": (Completion, Completion),
    "embeddings.create": (CreateEmbeddingResponse, None),
    "models.list": (Model, None),
    "models.retrieve": (Model, None),
}


class Refused(Exception):
    """An error of a client: its class, the status, the fields of the error object, and the chunks before it."""

    def __init__(self, kind, status, error, chunks):
        super().__init__(kind, status, error)
        self.kind, self.status, self.chunks = kind, status, chunks
        self.error = fit(ErrorObject, error)


def fit(kind, fields):
    """Returns an object of this type. Asserts that it has all required fields, each of its type, and no others."""
    if kind is CreateEmbeddingResponse:
        # The schema has numbers alone.
        fields = {**fields, "data": [{**each, "embedding": numbers(each["embedding"])} for each in fields["data"]]}
    if kind is Model:
        # On /v1, the route and its answer are TensorFlow Serving's, too.
        fields = {name: value for name, value in fields.items() if name != "model_version_status"}
    made = kind.model_validate(fields, strict=True)
    assert not list(unknown(made)), fields
    return made


def numbers(embedding):
    """Returns an embedding that may be in base64 as a list."""
    if not isinstance(embedding, str):
        return embedding
    data = base64.b64decode(embedding, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def unknown(value):
    """Yields the names of fields that the schema does not have."""
    if isinstance(value, list):
        for each in value:
            yield from unknown(each)
    elif isinstance(value, openai.BaseModel):
        yield from value.model_extra or ()
        for each in vars(value).values():
            yield from unknown(each)


def fit_chunk(kind, fields):
    if kind is not Completion:
        return fit(kind, fields)
    # The schema has no type for chunks of completions; the reason is null until the end.
    ends = [choice["finish_reason"] for choice in fields["choices"]]
    choices = [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in fields["choices"]]
    made = fit(kind, {**fields, "choices": choices})
    for choice, end in zip(made.choices, ends, strict=True):
        choice.finish_reason = end
    return made


def whole(chunks):
    """Returns {index: (text, finish reason)} and the usage of a stream. Asserts the rules of a stream's order."""
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    texts, ends, usage = {}, {}, None
    for chunk in chunks:
        assert usage is None, "a chunk after the usage"
        usage = chunk.usage
        assert usage is None or chunk.choices == []
        for choice in chunk.choices:
            assert choice.index not in ends, "a chunk after the end of its choice"
            if isinstance(chunk, Completion):
                text = choice.text
            else:
                text = choice.delta.content or ""
                assert choice.delta.role == (None if choice.index in texts else "assistant")
            texts[choice.index] = texts.get(choice.index, "") + text
            if choice.finish_reason is not None:
                ends[choice.index] = choice.finish_reason
    assert texts.keys() == ends.keys()
    return {index: (text, ends[index]) for index, text in texts.items()}, usage


def options(server, key="none", prefix="/v1"):
    """Returns the arguments of the clients for Python."""
    return {"base_url": f"http://{server.http}{prefix}", "api_key": key, "max_retries": 0, "timeout": 60}


class Sync:
    """The client for Python. Every class here has call() and close()."""

    def __init__(self, *where):
        """`where`: the arguments of options()."""
        self._client = openai.OpenAI(**options(*where))
        self.close = self._client.close

    def call(self, method, *positional, **named):
        """Returns the answer of a method, a list of models, or the list of a stream's chunks. Raises Refused."""
        kind, chunk_kind = TYPES[method]
        chunks = []
        try:
            answer = functools.reduce(getattr, method.split("."), self._client)(*positional, **named)
            if method.endswith(".list"):
                return [fit(kind, each.to_dict(warnings=False)) for each in answer]
            if not named.get("stream"):
                return fit(kind, answer.to_dict(warnings=False))
            for chunk in answer:
                chunks.append(fit_chunk(chunk_kind, chunk.to_dict(warnings=False)))
        except openai.APIError as error:
            raise Refused(type(error).__name__, getattr(error, "status_code", None), error.body, chunks) from None
        return chunks


class Async:
    """The client for Python's asyncio."""

    def __init__(self, *where):
        self._runner = asyncio.Runner()
        self._client = openai.AsyncOpenAI(**options(*where))

    def call(self, method, *positional, **named):
        return self._runner.run(self._call(method, positional, named))

    async def _call(self, method, positional, named):
        kind, chunk_kind = TYPES[method]
        chunks = []
        try:
            answer = functools.reduce(getattr, method.split("."), self._client)(*positional, **named)
            if method.endswith(".list"):
                return [fit(kind, each.to_dict(warnings=False)) async for each in answer]
            answer = await answer
            if not named.get("stream"):
                return fit(kind, answer.to_dict(warnings=False))
            async for chunk in answer:
                chunks.append(fit_chunk(chunk_kind, chunk.to_dict(warnings=False)))
        except openai.APIError as error:
            raise Refused(type(error).__name__, getattr(error, "status_code", None), error.body, chunks) from None
        return chunks

    def close(self):
        self._runner.run(self._client.close())
        self._runner.close()


class Node:
    """The client for Node."""

    def __init__(self, *where):
        folder = need("openai-js", "node")
        given = options(*where)
        self._process = subprocess.Popen(
            ["node", SOURCES / "openai-js" / "client.js", given["base_url"], given["api_key"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(NODE_PATH=str(folder / "node_modules")),
            text=True,
        )

    def call(self, method, *positional, extra_body=None, **named):
        arguments = [*positional, *([{**named, **(extra_body or {})}] if named else [])]
        self._process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        kind, chunk_kind = TYPES[method]
        chunks = [fit_chunk(chunk_kind, each) for each in found.get("chunks", [])]
        if error := found.get("error"):
            raise Refused(error["name"], error.get("status"), error["object"], chunks)
        if "items" in found:
            return [fit(kind, each) for each in found["items"]]
        return chunks if named.get("stream") else fit(kind, found["value"])

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(20) == 0
        self._process.stdout.close()


CLIENTS = {"python": Sync, "python-async": Async, "node": Node}
