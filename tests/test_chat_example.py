"""The example of a chat model behind OpenAI's API: a small network, its chat template, and its embeddings."""

import asyncio
import json
import zlib

import numpy as np
import openai
import pytest
from harness.examples import EXAMPLES, load, run
from harness.openai_clients import options


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    run("chat/prepare.py", folder)
    return folder


@pytest.fixture(scope="module")
def server(module_serve, folder):
    return module_serve(folder)


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(**options(server)) as client:
        yield client


@pytest.fixture(scope="module")
def example():
    return load(EXAMPLES / "chat" / "prepare.py")


def rows(loaded, example, text):
    """Returns the rows of a text's words."""
    known = loaded["words"].tolist()
    return [
        known.index(word) if word in known else len(known) + zlib.crc32(word.encode()) % example.UNKNOWN
        for word in example.words(text)
    ]


def written(folder, example, question, before="", begun=()):
    """Returns the likeliest tokens of a reply, computed from the weights."""
    loaded = np.load(folder / "small_talk" / "1" / "weights.npz")
    vocabulary = loaded["tokens"].tolist()
    sums = []
    for name, text in (("asked", question), ("before", before)):
        found = rows(loaded, example, text)
        sums.append(loaded[name][found].sum(axis=0) / max(1, len(found)) ** 0.5)
    context = ([0] * example.CONTEXT + [vocabulary.index(token) for token in begun])[-example.CONTEXT :]
    found = []
    while True:
        inputs = np.concatenate([*sums, loaded["vectors"][context].ravel()])
        scores = np.tanh(inputs @ loaded["in"] + loaded["in_bias"]) @ loaded["out"] + loaded["out_bias"]
        token = int(scores.argmax())
        if token == 0:
            return found
        found.append(vocabulary[token])
        context = [*context[1:], token]


def said(*texts):
    """Returns messages of the user and the assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


def reply(client, *texts, **more):
    """Returns (text, finish reason, usage) of a reply."""
    given = {"temperature": 0, **more}
    answer = client.chat.completions.create(model="small_talk", messages=said(*texts), **given)
    return answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage


def streamed(client, *texts, **more):
    """Returns the deltas, the finish reason and the usage of a stream."""
    given = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}, **more}
    *chunks, last = client.chat.completions.create(model="small_talk", messages=said(*texts), **given)
    choices = [chunk.choices[0] for chunk in chunks]
    return [each.delta.content for each in choices if each.delta.content], choices[-1].finish_reason, last.usage


def test_training_learns():
    """Training uses the gradients of the loss, and at its end the network knows the conversations."""
    example = load(EXAMPLES / "chat" / "prepare.py")
    example.ASKED, example.BEFORE, example.VECTOR, example.HIDDEN = 8, 6, 4, 16
    conversations = example.read(example.CONVERSATIONS.read_text(encoding="utf-8"))
    random = np.random.default_rng(1)
    vocabulary = example.Vocabulary(conversations)
    examples = list(example.draw(conversations, random))[:5]
    batch = example.batch_of(examples, vocabulary, random)
    inputs = example.ASKED + example.BEFORE + example.CONTEXT * example.VECTOR
    words, tokens = len(vocabulary.asked) + example.UNKNOWN, len(vocabulary.said)
    shapes = {"asked": (words, example.ASKED), "before": (words, example.BEFORE), "vectors": (tokens, example.VECTOR)}
    shapes |= {"in": (inputs, example.HIDDEN), "in_bias": (example.HIDDEN,)}
    shapes |= {"out": (example.HIDDEN, tokens), "out_bias": (tokens,)}
    weights = {name: random.standard_normal(shape) / 4 for name, shape in shapes.items()}
    _, slopes = example.gradients(weights, batch)
    for name, slope in slopes.items():
        place = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = {**weights, name: weights[name].copy()}
            moved[name][place] += step
            losses.append(example.gradients(moved, batch)[0])
        assert slope[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-4)
    text = "user: One?\nuser: One, please.\nassistant: One strand.\n\nuser: Two?\nuser: Two, please.\nassistant: Two strands.\n"
    assert example.train(text)[2] < 0.5


def test_replies(client, folder, example):
    bread = written(folder, example, "How do I bake bread?")
    assert "flour" in "".join(bread)
    text, finish_reason, usage = reply(client, "How do I bake bread?")
    assert (text, finish_reason) == ("".join(bread).lstrip(), "stop")
    # The tokens of the lines "user: How do I bake bread?" and "assistant:".
    assert (usage.prompt_tokens, usage.completion_tokens) == (8 + 2, len(bread))
    # The exchange before the question counts; older ones do not.
    more = written(folder, example, "Tell me more.", "What is a river? A river is water.")
    assert "braided river" in "".join(more)
    history = ["How do I bake bread?", text, "What is a river?", "A river is water.", "Tell me more."]
    assert reply(client, *history)[0] == "".join(more).lstrip()
    assert reply(client, "Zyzzyva quux?")[0].startswith(("I do not know", "That is not in the conversations"))


def test_a_system_message_and_a_begun_reply(client, folder, example):
    messages = [{"role": "system", "content": "Be\nbrief."}, *said("What is a rope?", "A rope")]
    answer = client.chat.completions.create(model="small_talk", messages=messages, temperature=0)
    assert answer.choices[0].message.content
    prompt = "user: What is a rope?\nassistant: A rope"
    answer = client.completions.create(model="small_talk", prompt=prompt, temperature=0)
    assert answer.choices[0].text == "".join(written(folder, example, "What is a rope?", begun=[" A", " rope"]))


@pytest.mark.parametrize("more", [{}, {"max_tokens": 4}, {"stop": ["loaf"]}, {"temperature": 1.5, "seed": 5}])
def test_streams(client, more):
    text, finish_reason, usage = reply(client, "How do I bake bread?", **more)
    deltas, *rest = streamed(client, "How do I bake bread?", **more)
    assert "".join(deltas) == text
    assert rest[0] == finish_reason
    if "seed" not in more:
        assert finish_reason == ("length" if "max_tokens" in more else "stop")
    assert rest[1].prompt_tokens == usage.prompt_tokens
    if "stop" in more:
        assert text
        assert "loaf" not in text
    else:
        assert rest[1] == usage
        assert len(deltas) == usage.completion_tokens
    if "max_tokens" in more:
        assert len(deltas) == 4


def test_chance(client):
    def text(seed, **more):
        return reply(client, "Hello", **{"temperature": 2, "seed": seed, **more})[0]

    assert text(4) == text(4)
    assert text(-4) == text(-4)
    assert len({text(seed) for seed in range(6)}) > 1
    # Only the likeliest token is within this probability.
    assert {text(seed, top_p=0.0001) for seed in range(3)} == {reply(client, "Hello")[0]}


def test_many_conversations_at_once(server, client):
    questions = ["What is a river?", "What is a rope?", "How do I make tea?"] * 10

    async def ask_all():
        async with openai.AsyncOpenAI(**options(server)) as client:
            ask = client.chat.completions.create
            asked = (ask(model="small_talk", messages=said(each), temperature=0) for each in questions)
            return await asyncio.gather(*asked)

    found = [answer.choices[0].message.content for answer in asyncio.run(ask_all())]
    assert found == [reply(client, each)[0] for each in questions[:3]] * 10


def test_embeddings(client, folder, example):
    texts = ["How do I bake bread?", "Give me a recipe for a loaf, please", "Where does a river begin?", "Zyzzyva", ""]
    answer = client.embeddings.create(model="embedder", input=texts)
    found = np.array([each.embedding for each in answer.data])
    loaded = np.load(folder / "embedder" / "1" / "vectors.npz")
    sums = np.array([loaded["vectors"][rows(loaded, example, text)].sum(axis=0) for text in texts])
    np.testing.assert_allclose(found[:4], sums[:4] / np.linalg.norm(sums[:4], axis=1, keepdims=True), atol=1e-5)
    assert not found[4].any()
    bread, loaf, river = found[:3]
    assert bread @ loaf > 0.5 > bread @ river
    many = client.embeddings.create(model="embedder", input=texts[:1] * 100)  # more than one batch
    assert len({tuple(each.embedding) for each in many.data}) == 1
    assert len(many.data) == 100


@pytest.mark.parametrize(("field", "value"), [("n", 2), ("temperature", 3), ("logprobs", True), ("max_tokens", 0)])
def test_refusals(client, field, value):
    with pytest.raises(openai.BadRequestError) as raised:
        reply(client, "x", **{field: value})
    assert raised.value.param == field


def test_the_routes_of_triton(server, folder, example):
    expected = written(folder, example, "What is a rope?")
    body = {"text_input": "What is a rope?", "temperature": 0}
    _, _, answer = server.request("POST", "/v2/models/small_talk/generate_stream", json.dumps(body))
    found = [json.loads(line.removeprefix("data: ")) for line in answer.decode().splitlines() if line]
    assert [event["text_output"] for event in found] == [expected[0].lstrip(), *expected[1:], ""]
    assert [event["finish_reason"] for event in found] == [""] * len(expected) + ["stop"]
    _, _, answer = server.request("POST", "/v2/models/small_talk/generate", json.dumps({**body, "stream": False}))
    assert json.loads(answer)["text_output"] == "".join(expected).lstrip()
    status, _, answer = server.request(
        "POST", "/v2/models/small_talk/generate_stream", json.dumps({**body, "top_p": 2})
    )
    assert (status, "top_p: expected 0 to 1" in answer.decode()) == (400, True)


@pytest.mark.parametrize("options", [(), ("--whole",)])
def test_client(server, client, options):
    first, _, usage = reply(client, "What is a river?")
    second = reply(client, "What is a river?", first, "Tell me more.")[0]
    printed = run("chat/client.py", "--url", f"http://{server.http}/v1", *options, "What is a river?", "Tell me more.")
    lines = printed.splitlines()
    assert lines[:2] == ["> What is a river?", first]
    assert lines[2] == f"  ({usage.prompt_tokens} tokens in, {usage.completion_tokens} out, stop)"
    assert lines[3:5] == ["> Tell me more.", second]


def test_client_compares(server):
    texts = ["Bake a loaf", "Where does a river end?", "How do I make bread?"]
    lines = run("chat/client.py", "--url", f"http://{server.http}/v1", "--similar", *texts).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == [texts[2], texts[1]]
