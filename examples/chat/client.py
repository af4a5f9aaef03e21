#!/usr/bin/env python3
"""Talks to the model `small_talk`, and compares texts by the model `embedder`, with OpenAI's client.

client.py [--url URL] [--temperature T] [--seed N] [--whole] [QUESTION...]
client.py --similar TEXT TEXT...

Each QUESTION continues the conversation. Without one, the program reads them from the terminal.
"""

import argparse
import sys

import openai


def questions(given):
    """Yields the questions, and prints those that were not typed."""
    for question in given:
        print(f"> {question}")
        yield question
    while not given:
        print("> ", end="", flush=True)
        question = sys.stdin.readline()
        if not question:
            print()
            return
        yield question.strip()


def reply_of(client, messages, whole, **sampling):
    """Prints a reply, word by word unless `whole`. Returns (text, finish reason, usage)."""
    if whole:
        answer = client.chat.completions.create(model="small_talk", messages=messages, **sampling)
        text, finish_reason, usage = answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage
        print(text)
        return text, finish_reason, usage
    text = ""
    stream = client.chat.completions.create(
        model="small_talk", messages=messages, stream=True, stream_options={"include_usage": True}, **sampling
    )
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            print(choice.delta.content or "", end="", flush=True)
            finish_reason = choice.finish_reason
        usage = chunk.usage
    print()
    return text, finish_reason, usage


def talk(client, given, whole, **sampling):
    messages = []
    for question in questions(given):
        messages.append({"role": "user", "content": question})
        text, finish_reason, usage = reply_of(client, messages, whole, **sampling)
        messages.append({"role": "assistant", "content": text})
        print(f"  ({usage.prompt_tokens} tokens in, {usage.completion_tokens} out, {finish_reason})")


def compare(client, texts):
    """Prints how similar the first text is to each of the others: 1 for the same meaning, about 0 for another topic."""
    first, *others = [one.embedding for one in client.embeddings.create(model="embedder", input=texts).data]
    found = [sum(map(float.__mul__, first, other)) for other in others]
    for similarity, text in sorted(zip(found, texts[1:], strict=True), reverse=True):
        print(f"{similarity:5.2f}  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8000/v1")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--whole", action="store_true", help="wait for the whole reply")
    parser.add_argument("--similar", action="store_true", help="compare the first text with the others")
    parser.add_argument("texts", nargs="*", metavar="QUESTION")
    arguments = parser.parse_args()
    # The server asks for no key unless it has --token-file. The client wants one.
    with openai.OpenAI(base_url=arguments.url, api_key="none") as client:
        if arguments.similar:
            compare(client, arguments.texts)
        else:
            seed = {} if arguments.seed is None else {"seed": arguments.seed}
            talk(client, arguments.texts, arguments.whole, temperature=arguments.temperature, **seed)


if __name__ == "__main__":
    main()
