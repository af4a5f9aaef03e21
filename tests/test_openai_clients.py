"""OpenAI's routes with public clients: OpenAI's own for Python and Node, LangChain, curl."""

import asyncio
import base64
import contextlib
import json
import struct
import subprocess
import textwrap

import openai
import pytest
from harness.access import access
from harness.openai_clients import CLIENTS, Refused, options, whole
from harness.repository import config, per_request
from harness.waiting import wait_until

# A decoupled model: its coroutine ends with `body`. The function `get` returns the text or number of an input, or None.
# The function `send` sends a response of these outputs.
DECOUPLED = """
import asyncio, json, os
import numpy as np
import triton_python_backend_utils as pb_utils


def tensor(name, value):
    if isinstance(value, int):
        return pb_utils.Tensor(name, np.array([value], np.int32))
    return pb_utils.Tensor(name, np.array([value.encode()], np.object_))


class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
        self.calls = 0

    async def execute(self, requests):
        await asyncio.gather(*(self.one(request) for request in requests))

    async def one(self, request):
        sender = request.get_response_sender()
        self.calls += 1

        def get(name):
            found = pb_utils.get_input_tensor_by_name(request, name)
            if found is None:
                return None
            value = found.as_numpy()[0]
            return value.decode() if isinstance(value, bytes) else value

        def send(end=False, error=None, **outputs):
            if error is not None:
                error = pb_utils.TritonError(error)
            response = pb_utils.InferenceResponse([tensor(*each) for each in outputs.items()], error)
            sender.send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if end else 0)

{body}
"""

# The text's pieces: "a|b" are two responses.
PIECES = """
for piece in get("text_input").split("|"):
    send(text_output=piece)
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
# Writes the files begun-NAME and, if it is cancelled, NAME, named by its input.
PATIENT = """
open(os.path.join(self.folder, "begun-" + get("text_input")), "w").close()
for number in range(10_000):
    if sender.is_cancelled():
        open(os.path.join(self.folder, get("text_input")), "w").close()
        break
    send(text_output="tick ")
    await asyncio.sleep(0.002)
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
# The pieces, then an error with the number of requests so far.
FAILING = """
*pieces, last = get("text_input").split("|")
for piece in pieces:
    send(text_output=piece)
send(end=True, error=f"{last} {self.calls}")
"""
SAMPLER = """
counts = {"num_input_tokens": 7}
send(text_output=get("sampling_parameters"), finish_reason="", num_output_tokens=2, **counts)
send(end=True, text_output=get("messages") or get("text_input"), finish_reason="length", num_output_tokens=1, **counts)
"""
AGENT = """
messages, tools = json.loads(get("messages")), json.loads(get("tools") or "[]")
if messages[-1]["role"] == "tool":
    send(end=True, text_output="It says " + messages[-1]["content"], tool_calls="")
elif tools and get("tool_choice") != "none":
    function = {"name": tools[0]["function"]["name"], "arguments": ""}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    send(text_output="", tool_calls=json.dumps([call]))
    for fragment in ('{"city": ', '"Oslo"}'):
        send(text_output="", tool_calls=json.dumps([{"index": 0, "function": {"arguments": fragment}}]))
    send(end=True, text_output="", tool_calls="")
else:
    send(end=True, text_output="Without tools.", tool_calls="")
"""
CHOICES = """
for piece in get("text_input").split("|"):
    for number in range(get("n") or 1):
        send(text_output=f"{piece}{number}", index=number)
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
RAW = """
asked = json.loads(get("openai_request"))
text = asked["path"] + " " + asked["body"]["messages"][0]["content"]
end = {"index": 0, "logprobs": None, "finish_reason": "stop"}
if asked["body"].get("stream"):
    for delta in ({"role": "assistant", "content": ""}, {"content": text}):
        send(openai_response=json.dumps({"choices": [{**end, "delta": delta, "finish_reason": None}]}))
    send(end=True, openai_response=json.dumps({"choices": [{**end, "delta": {}}]}))
else:
    message = {"role": "assistant", "content": text, "refusal": None}
    send(end=True, openai_response=json.dumps({"choices": [{**end, "message": message}]}))
"""
EMBEDDING = per_request(
    """
    texts = get(request, "text_input")[:, 0]
    rows = [[len(text), text.count(b"a"), 0.5, -1] for text in texts]
    return respond(embedding=np.array(rows, np.float32), num_input_tokens=np.array([[len(t)] for t in texts], np.int32))
    """
)

TEXT = ("text_input", "STRING", [1])
OUTPUT = ("text_output", "STRING", [1])
COUNTS = [("num_input_tokens", "INT32", [1]), ("num_output_tokens", "INT32", [1])]


def optional(*names, kind="STRING"):
    return [(name, kind, [1], "optional: true") for name in names]


# By name: (body, inputs, outputs).
MODELS = {
    "pieces": (PIECES, [TEXT], [OUTPUT]),
    "patient": (PATIENT, [TEXT], [OUTPUT]),
    "failing": (FAILING, [TEXT], [OUTPUT]),
    "sampler": (
        SAMPLER,
        optional("text_input", "messages") + [("sampling_parameters", "STRING", [1])],
        [OUTPUT, ("finish_reason", "STRING", [1]), *COUNTS],
    ),
    "agent": (
        AGENT,
        [TEXT, ("messages", "STRING", [1]), *optional("tools", "tool_choice")],
        [OUTPUT, ("tool_calls", "STRING", [1])],
    ),
    "choices": (CHOICES, [TEXT, *optional("n", kind="INT32")], [OUTPUT, ("index", "INT32", [1])]),
    "raw": (RAW, [("openai_request", "STRING", [1])], [("openai_response", "STRING", [1])]),
}
TEMPLATE = {"chat_template.jinja": "{{ messages | map(attribute='content') | join(' ') }}"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def models(module_repository):
    for name, (body, inputs, outputs) in MODELS.items():
        source = DECOUPLED.replace("{body}", textwrap.indent(body.strip("\n"), " " * 8))
        decoupled = "model_transaction_policy { decoupled: true }"
        module_repository.add(name, source, config(name, inputs, outputs, extra=decoupled), files=TEMPLATE)
    outputs = [("embedding", "FP32", [4]), ("num_input_tokens", "INT32", [1])]
    module_repository.add("lengths", EMBEDDING, config("lengths", [TEXT], outputs, max_batch_size=3))
    module_repository.add_identity("identity")
    return module_repository


@pytest.fixture(scope="module")
def server(module_serve, models):
    return module_serve(models)


@pytest.fixture(scope="module", params=CLIENTS)
def client(request, server):
    with contextlib.closing(CLIENTS[request.param](server)) as client:
        yield client


@pytest.fixture
def python(server):
    """OpenAI's client for Python itself, for its further functions."""
    with openai.OpenAI(**options(server)) as client:
        yield client


def said(text):
    return [{"role": "user", "content": text}]


def chat(client, model, text, **more):
    return client.call("chat.completions.create", model=model, messages=said(text), **more)


def both(client, model, text, method="chat.completions.create", **more):
    """Asks without and with a stream. Returns ({index: (text, finish reason)}, usage), which must be the same."""
    given = {"messages": said(text)} if method.startswith("chat") else {"prompt": text}
    answer = client.call(method, model=model, **given, **more)
    assert answer.model == model
    found = {}
    for choice in answer.choices:
        content = choice.message.content if method.startswith("chat") else choice.text
        found[choice.index] = (content, choice.finish_reason)
    chunks = client.call(method, model=model, **given, stream=True, stream_options={"include_usage": True}, **more)
    assert whole(chunks) == (found, answer.usage)
    assert chunks[0].id != answer.id
    assert chunks[0].id.split("-")[0] == answer.id.split("-")[0] == ("chatcmpl" if "messages" in given else "cmpl")
    assert whole(client.call(method, model=model, **given, stream=True, **more)) == (found, None)
    return found, answer.usage


@contextlib.contextmanager
def refusal(kind, status, param=None, code=None, contains=""):
    with pytest.raises(Refused) as raised:
        yield raised
    found = raised.value
    assert (found.kind, found.status) == (kind, status), found
    assert (found.error.param, found.error.code) == (param, code)
    assert contains in found.error.message


# ---- models ----


def test_models(client):
    listed = client.call("models.list")
    assert sorted(model.id for model in listed) == sorted([*MODELS, "lengths"])
    for model in listed:
        assert client.call("models.retrieve", model.id) == model


def test_unknown_models(client):
    with refusal("NotFoundError", 404, code="model_not_found", param="model", contains="nope"):
        chat(client, "nope", "x")
    with refusal("BadRequestError", 400, param="model", contains="identity"):
        chat(client, "identity", "x")


@pytest.mark.parametrize("kind", CLIENTS)
def test_models_below_v3(kind, server):
    """There, the route of a model is not TensorFlow Serving's."""
    with contextlib.closing(CLIENTS[kind](server, "none", "/v3")) as client:
        for model in client.call("models.list"):
            assert client.call("models.retrieve", model.id) == model
        # Models without a convention are unknown, too.
        for name in ("nope", "identity"):
            with refusal("NotFoundError", 404, code="model_not_found", param="model", contains=name):
                client.call("models.retrieve", name)


# ---- texts ----


def test_chat(client):
    assert both(client, "pieces", "one| two| three 🦀") == ({0: ("one two three 🦀", "stop")}, None)
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    answer = client.call("chat.completions.create", model="pieces", messages=messages, user="u", n=1, temperature=1)
    assert answer.choices[0].message.content == "s ab c d"


def test_completions(client):
    assert both(client, "pieces", "one| two", "completions.create") == ({0: ("one two", "stop")}, None)


def test_a_chunk_for_each_response(client):
    deltas = [chunk.choices[0].delta.content for chunk in chat(client, "pieces", "one| two|| three", stream=True)]
    assert [delta for delta in deltas if delta] == ["one", " two", " three"]


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("one two three", " two", "one"),
        ("a|b|c|d", "bc", "a"),  # spans responses
        ("a|b|d", ["bc", "x"], "abd"),  # begins only
        ("a|b|c|d|e", ["de", "bcd"], "a"),
        ("stop here", "stop", ""),
    ],
)
@pytest.mark.parametrize("method", ["chat.completions.create", "completions.create"])
def test_stop_strings(client, text, stop, expected, method):
    assert both(client, "pieces", text, method, stop=stop)[0] == {0: (expected, "stop")}


def test_max_tokens(client):
    assert both(client, "pieces", "one| two| three", max_tokens=2)[0] == {0: ("one two", "length")}
    assert both(client, "pieces", "one| two", max_completion_tokens=2, max_tokens=1)[0] == {0: ("one two", "length")}
    assert both(client, "pieces", "one| two", max_tokens=3)[0] == {0: ("one two", "stop")}


def test_sampling_parameters_and_usage(client):
    given = {"temperature": 0.5, "seed": 3, "stop": ["x"], "max_tokens": 9, "logit_bias": {"7": 1}, "n": 1}
    given["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    extra = {"top_k": 4, "nested": {"a": [1, None]}}
    found, usage = both(client, "sampler", "hello", extra_body=extra, **given)
    text, finish_reason = found[0]
    sampling, end = json.JSONDecoder().raw_decode(text)
    assert sampling == {**given, **extra}
    assert json.loads(text[end:]) == said("hello")
    assert finish_reason == "length"
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 3, 10)


def test_choices(client):
    found, _ = both(client, "choices", "a|b", n=3)
    assert found == {number: (f"a{number}b{number}", "stop") for number in range(3)}


def test_a_raw_model(client):
    assert both(client, "raw", "hi")[0] == {0: ("/v1/chat/completions hi", "stop")}


# ---- tools ----


def test_tools(client):
    answer = chat(client, "agent", "Weather in Oslo?", tools=[WEATHER], tool_choice="auto")
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
    (call,) = choice.message.tool_calls
    assert (call.id, call.type, call.function.name) == ("call_1", "function", "weather")
    assert json.loads(call.function.arguments) == {"city": "Oslo"}

    chunks = chat(client, "agent", "Weather in Oslo?", tools=[WEATHER], stream=True)
    assert whole(chunks)[0] == {0: ("", "tool_calls")}
    deltas = [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or []]
    assert {delta.index for delta in deltas} == {0}
    assert [(delta.id, delta.function.name) for delta in deltas] == [("call_1", "weather"), (None, None), (None, None)]
    assert "".join(delta.function.arguments for delta in deltas) == call.function.arguments

    messages = [
        *said("Weather in Oslo?"),
        choice.message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    answer = client.call("chat.completions.create", model="agent", messages=messages, tools=[WEATHER])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("It says rain", "stop")
    assert both(client, "agent", "x", tools=[WEATHER], tool_choice="none")[0] == {0: ("Without tools.", "stop")}


# ---- embeddings ----

TEXTS = ["a", "banana", "", "äöü", "aaaa", "b", "cab"]
VECTORS = [[len(text.encode()), text.count("a"), 0.5, -1.0] for text in TEXTS]


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_embeddings(client, encoding):
    """The model takes three texts at once."""
    form = {} if encoding is None else {"encoding_format": encoding}
    answer = client.call("embeddings.create", model="lengths", input=TEXTS, **form)
    assert [each.index for each in answer.data] == list(range(len(TEXTS)))
    assert [each.embedding for each in answer.data] == VECTORS
    tokens = sum(len(text.encode()) for text in TEXTS)
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == ("lengths", tokens, tokens)
    one = client.call("embeddings.create", model="lengths", input="banana", encoding_format="float")
    assert [each.embedding for each in one.data] == [VECTORS[1]]


# ---- errors ----


@pytest.mark.parametrize(
    ("model", "given", "param"),
    [
        ("pieces", {"n": 2}, "n"),
        ("pieces", {"temperature": 0.5}, "temperature"),
        ("pieces", {"logprobs": True}, "logprobs"),
        ("pieces", {"tools": [WEATHER]}, "tools"),
        ("pieces", {"response_format": {"type": "json_object"}}, "response_format"),
        ("sampler", {"temperature": 3}, "temperature"),
        ("sampler", {"max_tokens": 0}, "max_tokens"),
        ("sampler", {"stop": [1]}, "stop"),
        ("sampler", {"stream_options": {"include_usage": True}}, "stream_options"),
        ("lengths", {}, "model"),
    ],
)
def test_bad_requests(client, model, given, param):
    with refusal("BadRequestError", 400, param=param) as raised:
        chat(client, model, "x", **given)
    assert raised.value.error.type == "invalid_request_error"


def test_bad_messages(client):
    for messages, param in (
        ([], "messages"),
        ([{"role": "poet", "content": "x"}], "messages[0].role"),
        ([*said("x"), {"role": "user"}], "messages[1].content"),
    ):
        with refusal("BadRequestError", 400, param=param):
            client.call("chat.completions.create", model="pieces", messages=messages)
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    with refusal("BadRequestError", 400, param="messages[0].content"):
        client.call("chat.completions.create", model="pieces", messages=[{"role": "user", "content": picture}])


def test_other_routes_of_a_model(client):
    with refusal("BadRequestError", 400, param="model"):
        client.call("embeddings.create", model="pieces", input="x")
    with refusal("BadRequestError", 400, param="echo"):
        client.call("completions.create", model="pieces", prompt="x", echo=True)


@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_a_model(client, stream):
    with refusal("InternalServerError", 500, contains="broken") as raised:
        chat(client, "failing", "broken", stream=stream)
    assert raised.value.error.type == "server_error"


def test_an_error_in_a_stream(client):
    with refusal("APIError", None, contains="broken") as raised:
        chat(client, "failing", "one| two|broken", stream=True)
    assert raised.value.error.type == "server_error"
    chunks = raised.value.chunks
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == "one two"
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks)


def test_a_failure_is_not_repeated(server):
    with openai.OpenAI(**{**options(server), "max_retries": 3}) as client:
        counts = []
        for _ in range(2):
            with pytest.raises(openai.InternalServerError) as raised:
                client.chat.completions.create(model="failing", messages=said("count"))
            counts.append(int(raised.value.body["message"].rpartition(" ")[2]))
    assert counts[1] == counts[0] + 1


@pytest.fixture(scope="module")
def server_with_keys(module_serve, models, tmp_path_factory):
    rules = [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["alice"], "apis": ["inference", "metadata"], "models": ["pieces"]},
    ]
    return module_serve(models, *access(tmp_path_factory.mktemp("access"), "alice a-token\n", rules))


@pytest.mark.parametrize("kind", CLIENTS)
def test_keys(kind, server_with_keys):
    server = server_with_keys
    with contextlib.closing(CLIENTS[kind](server, "a-token")) as client:
        assert chat(client, "pieces", "x").choices[0].message.content == "x"
        assert client.call("models.retrieve", "pieces").id == "pieces"
        with refusal("PermissionDeniedError", 403, code="permission_denied", contains="'alice' may not use"):
            chat(client, "failing", "x")
    with contextlib.closing(CLIENTS[kind](server, "another")) as client:
        for ask in (lambda: chat(client, "pieces", "x"), lambda: client.call("models.list")):
            with refusal("AuthenticationError", 401, code="invalid_api_key") as raised:
                ask()
            assert raised.value.error.type == "authentication_error"


# ---- further functions of the client for Python ----


def test_a_closed_stream_cancels_the_model(python, models):
    with python.chat.completions.create(model="patient", messages=said("sync"), stream=True) as stream:
        assert [next(stream).choices[0].delta.content for _ in range(3)] == ["", "tick ", "tick "]
    wait_until((models.path / "patient" / "sync").exists, what="the end of the model's work")


def test_a_cancelled_task_cancels_the_model(server, models):
    folder = models.path / "patient"

    async def begin_and_cancel():
        async with openai.AsyncOpenAI(**options(server)) as client:
            asked = asyncio.create_task(client.chat.completions.create(model="patient", messages=said("async")))
            await asyncio.to_thread(wait_until, (folder / "begun-async").exists, what="the request in the model")
            asked.cancel()

    asyncio.run(begin_and_cancel())
    wait_until((folder / "async").exists, what="the end of the model's work")


def test_many_at_once(server):
    async def ask(client, number):
        stream = await client.chat.completions.create(
            model="pieces", messages=said(f"{number}| and| more"), stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all():
        async with openai.AsyncOpenAI(**options(server)) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(50)))

    assert asyncio.run(ask_all()) == [f"{number} and more" for number in range(50)]


def test_request_ids(python):
    raw = python.chat.completions.with_raw_response
    answer = raw.create(model="pieces", messages=said("x"))
    assert answer.headers["x-request-id"] == answer.parse().id == answer.parse()._request_id
    answer = raw.create(model="pieces", messages=said("x"), extra_headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"
    with pytest.raises(openai.BadRequestError) as raised:
        python.chat.completions.create(model="pieces", messages=said("x"), n=2, extra_headers={"x-request-id": "mine"})
    assert raised.value.request_id == "mine"


def test_the_helper_for_streams(python):
    """It joins the chunks, tool calls too."""
    with python.chat.completions.stream(model="agent", messages=said("Weather?"), tools=[WEATHER]) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    (call,) = answer.choices[0].message.tool_calls
    assert (answer.choices[0].finish_reason, call.function.arguments) == ("tool_calls", '{"city": "Oslo"}')
    with python.chat.completions.stream(model="pieces", messages=said("one| two")) as stream:
        assert [event.delta for event in stream if event.type == "content.delta"] == ["", "one", " two"]


# ---- LangChain ----


@pytest.fixture(scope="module")
def langchain(server):
    """langchain(model, **more) returns LangChain's chat model."""
    from langchain_openai import ChatOpenAI

    given = options(server)
    given.pop("timeout")
    return lambda model, **more: ChatOpenAI(model=model, **given, **more)


def test_langchain_chats(langchain):
    model = langchain("pieces")
    assert model.invoke("one| two").content == "one two"
    assert model.invoke([("system", "a"), ("human", "b"), ("ai", "c"), ("human", "d")]).content == "a b c d"
    assert [chunk.content for chunk in model.stream("one| two") if chunk.content] == ["one", " two"]
    assert model.invoke("one| two", stop=[" two"]).content == "one"
    assert [answer.content for answer in model.batch(["x", "y", "z"])] == ["x", "y", "z"]
    assert asyncio.run(langchain("pieces").ainvoke("one| two")).content == "one two"


def test_langchain_usage(langchain):
    model = langchain("sampler", temperature=0.5, seed=4, stream_usage=True)
    answer = model.invoke("x")
    assert answer.usage_metadata["total_tokens"] == 10
    assert answer.response_metadata["finish_reason"] == "length"
    assert '"seed":4' in answer.content.replace(" ", "")
    *_, last = [chunk.usage_metadata for chunk in model.stream("x") if chunk.usage_metadata]
    assert (last["input_tokens"], last["output_tokens"]) == (7, 3)


def test_langchain_tools(langchain):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    model = langchain("agent").bind_tools([weather])
    asked = HumanMessage("Weather in Oslo?")
    answer = model.invoke([asked])
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})
    joined = None
    for chunk in model.stream([asked]):
        joined = chunk if joined is None else joined + chunk
    assert joined.tool_calls == answer.tool_calls
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    assert model.invoke([asked, answer, result]).content == "It says rain in Oslo"


def test_langchain_embeddings(server):
    from langchain_openai import OpenAIEmbeddings

    given = options(server)
    # Otherwise it sends tokens instead of texts.
    model = OpenAIEmbeddings(model="lengths", check_embedding_ctx_length=False, **given)
    assert model.embed_documents(TEXTS) == VECTORS
    assert model.embed_query("banana") == VECTORS[1]


# ---- curl ----


def curl(server, path, body, *more):
    """Returns (head, body) of an answer."""
    command = ["curl", "-sS", "-i", "--no-buffer", "--max-time", "60", f"http://{server.http}{path}", *more]
    ran = subprocess.run([*command, "-d", json.dumps(body)], capture_output=True, text=True, check=True)
    head, _, answer = ran.stdout.replace("\r", "").partition("\n\n")
    return head.lower(), answer


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_curl(server, prefix):
    body = {"model": "pieces", "messages": said("one| two")}
    head, answer = curl(server, f"{prefix}/chat/completions", body)
    assert head.startswith("http/1.1 200")
    assert "content-type: application/json" in head
    assert json.loads(answer)["choices"][0]["message"]["content"] == "one two"


def test_curl_reads_a_stream(server):
    head, answer = curl(server, "/v1/chat/completions", {"model": "pieces", "messages": said("x|y"), "stream": True})
    assert "content-type: text/event-stream" in head
    assert "cache-control: no-cache" in head
    *events, done, rest = answer.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    objects = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [each["choices"][0]["delta"] for each in objects] == [
        {"role": "assistant", "content": ""},
        {"content": "x"},
        {"content": "y"},
        {},
    ]
    assert [each["choices"][0]["finish_reason"] for each in objects] == [None, None, None, "stop"]


def test_curl_gets_embeddings(server):
    _, answer = curl(server, "/v1/embeddings", {"model": "lengths", "input": ["banana"]})
    assert json.loads(answer)["data"][0]["embedding"] == VECTORS[1]
    _, answer = curl(server, "/v1/embeddings", {"model": "lengths", "input": "banana", "encoding_format": "base64"})
    expected = base64.b64encode(struct.pack("<4f", *VECTORS[1])).decode()
    assert json.loads(answer)["data"][0]["embedding"] == expected


def test_curl_sees_errors(server):
    head, answer = curl(server, "/v1/chat/completions", {"model": "nope", "messages": said("x")})
    assert head.startswith("http/1.1 404")
    assert json.loads(answer)["error"]["code"] == "model_not_found"
    head, answer = curl(server, "/v1/chat/completions", {"model": "failing", "messages": said("x")})
    assert head.startswith("http/1.1 500")
    assert "x-should-retry: false" in head
    _, answer = curl(server, "/v1/chat/completions", {"model": "failing", "messages": said("x|y"), "stream": True})
    assert answer.endswith("\n\ndata: [DONE]\n\n")
    assert json.loads(answer.split("\n\n")[-3].removeprefix("data: "))["error"]["type"] == "server_error"
