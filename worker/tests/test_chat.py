"""Chat templates, without a server."""

import json

import pytest
from braid_worker import chat

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
SIMPLE = """{%- for message in messages %}
    {{- message.role + ": " + message.content + "\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}assistant:{% endif %}"""


@pytest.fixture
def model(tmp_path):
    """Returns a function that makes the template of a model with these files and parameters."""

    def make(files, **parameters):
        (tmp_path / "1").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        config = {"parameters": {name: {"string_value": value} for name, value in parameters.items()}}
        return chat.Template.of(
            {
                "model_config": json.dumps(config),
                "model_path": str(tmp_path),
                "version_path": str(tmp_path / "1"),
            }
        )

    return make


def test_a_file_beside_the_model(model):
    template = model({"chat_template.jinja": SIMPLE})
    assert template.render({"messages": MESSAGES}) == "system: Be brief.\nuser: Hi\nassistant:"
    assert template.render({"messages": MESSAGES, "add_generation_prompt": False}).endswith("Hi\n")


def test_the_version_comes_before_the_model(model):
    template = model({"chat_template.jinja": "outer", "1/chat_template.jinja": "inner"})
    assert template.render({"messages": MESSAGES}) == "inner"


def test_a_tokenizers_template_and_tokens(model):
    settings = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ unk_token is defined }}",
    }
    template = model({"tokenizer_config.json": json.dumps(settings)})
    assert template.render({"messages": MESSAGES}) == "<s>Be brief.</s>False"
    settings["chat_template"] = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    template = model({"tokenizer_config.json": json.dumps(settings)})
    assert template.render({"messages": MESSAGES}) == "d"
    assert template.render({"messages": MESSAGES, "tools": [{}]}) == "t"


def test_tools_and_calls(model):
    template = model(
        {"chat_template.jinja": "{{ tools | tojson }} {{ messages[0].tool_calls[0].function.arguments.a }}"}
    )
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
    chatted = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}], "tools": [{"name": "é"}]}
    assert template.render(chatted) == '[{"name": "é"}] é'


def test_marks_of_replies(model):
    template = model({"chat_template.jinja": "a{% generation %}{{ messages[1].content }}{% endgeneration %}b"})
    assert template.render({"messages": MESSAGES}) == "aHib"


def test_loops_with_controls(model):
    template = model({"chat_template.jinja": "{% for m in messages %}{{ m.role }}{% break %}{% endfor %}"})
    assert template.render({"messages": MESSAGES}) == "system"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[7].content }}", "the chat template failed: list object has no element 7"),
        (
            "{{ messages.append(1) }}",
            "the chat template failed: access to attribute 'append' of 'list' object is unsafe.",
        ),
        ("{% for %}", "the chat template has a fault: "),
    ],
)
def test_errors_of_templates(model, text, error):
    with pytest.raises(chat.ChatError, match="^" + error.replace("(", r"\(")):
        model({"chat_template.jinja": text}).render({"messages": MESSAGES})


def test_a_model_without_a_template(model):
    with pytest.raises(chat.ChatError, match="it has no chat template: add an input 'messages', a file"):
        model({}).render({"messages": MESSAGES})
    with pytest.raises(chat.ChatError, match="it has no chat template"):
        model({"tokenizer_config.json": "{}"}).render({"messages": MESSAGES})


def test_a_named_template_is_read_when_the_model_loads(model):
    assert model({"my.jinja": "mine"}, openai_chat_template="my.jinja").render({"messages": MESSAGES}) == "mine"
    with pytest.raises(chat.ChatError, match=r"there is no chat template 'other\.jinja' in the model's folder"):
        model({}, openai_chat_template="other.jinja")
    with pytest.raises(chat.ChatError, match="the chat template has a fault"):
        model({"bad.jinja": "{% if %}"}, openai_chat_template="bad.jinja")
