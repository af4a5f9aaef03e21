"""A minimal text model: the probability of a word after the two words before it, counted in corpus.txt."""

import collections
import pathlib
import random

from pyovms import Tensor

LONGEST = 40


class OvmsPythonModel:
    def initialize(self, kwargs):
        words = (pathlib.Path(kwargs["base_path"]) / "corpus.txt").read_text(encoding="utf-8").split()
        self.after: dict[tuple[str, ...], list[str]] = collections.defaultdict(list)
        for first, second, third in zip(words, words[1:], words[2:], strict=False):
            self.after[first, second].append(third)
            self.after[(second,)].append(third)
        self.words = words

    def execute(self, inputs):
        prompt = bytes(inputs[0])[4:].decode()
        # A yielded token is sent to the client before the next one is computed.
        for token in self.tokens(prompt):
            yield [Tensor("token", token.encode())]

    def tokens(self, prompt):
        """Yields tokens; the same ones for the same prompt."""
        chance = random.Random(prompt)
        context = prompt.split()
        for _ in range(LONGEST):
            choices = self.after.get(tuple(context[-2:])) or self.after.get(tuple(context[-1:])) or self.words
            token = chance.choice(choices)
            context.append(token)
            yield token
            if token.endswith("."):
                return
