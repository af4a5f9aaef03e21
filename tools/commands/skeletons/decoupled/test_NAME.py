from braid.testing import load_model


def test_it_sends_the_words():
    with load_model("models/@NAME@") as model:
        responses = model.execute({"text_input": ["one two three"]})
        assert [each["text_output"][0] for each in responses] == [b"one", b"two", b"three"]
