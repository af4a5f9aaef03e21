"""Chat templates: Jinja texts that make the prompt of a chat, as tokenizers carry them. Rendered by jinja2 from the
model's own environment, with the names and filters that templates on model hubs expect."""

import datetime
import json
import os

_PARAMETER = "openai_chat_template"
_FILES = ("chat_template.jinja", "tokenizer_config.json")
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatError(Exception):
    """Why a chat has no prompt, as text for the client."""


class Template:
    """The template of a model. Its file is read with the first chat, unless the configuration names it."""

    def __init__(self, folders: list[str], named: str):
        self._folders = folders
        self._named = named
        self._template = None
        self._tool_template = None  # for chats with tools
        self._tokens: dict[str, str] = {}

    @classmethod
    def of(cls, message: dict) -> "Template":
        """Returns the template of a model that is being loaded. Raises ChatError if the configuration names a template
        that cannot be used."""
        parameters = json.loads(message["model_config"]).get("parameters", {})
        named = parameters.get(_PARAMETER, {}).get("string_value", "")
        template = cls([message["version_path"], message["model_path"]], named)
        if named:
            template._load()
        return template

    def render(self, chat: dict) -> str:
        """Returns the prompt for {"messages": [...], "tools": [...] or absent, and other variables of the template}.
        Raises ChatError, also for an exception of the template."""
        if self._template is None:
            self._load()
        messages = [_with_objects(message) for message in chat["messages"]]
        variables = {"tools": None, "documents": None, "add_generation_prompt": True, **self._tokens, **chat}
        template = self._template if not chat.get("tools") else self._tool_template
        try:
            return template.render({**variables, "messages": messages})
        except ChatError:
            raise
        except Exception as error:
            raise ChatError(f"the chat template failed: {error}") from None

    def _load(self) -> None:
        text, tool_text = self._read()
        try:
            from jinja2.exceptions import TemplateError
            from jinja2.ext import Extension, loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise ChatError("chat templates need jinja2 in the model's environment (pip install jinja2)") from None

        class Generation(Extension):
            """{% generation %} ... {% endgeneration %} marks replies for training, and has no other effect."""

            tags = {"generation"}

            def parse(self, parser):
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        extensions = [loopcontrols, Generation]
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        try:
            self._tool_template = environment.from_string(tool_text)
            self._template = environment.from_string(text)
        except TemplateError as error:
            raise ChatError(f"the chat template has a fault: {error}") from None

    def _read(self) -> tuple[str, str]:
        """Returns the texts of the template and of that for chats with tools; sets the special tokens."""
        names = [self._named] if self._named else _FILES
        paths = [os.path.join(folder, name) for name in names for folder in self._folders]
        tokenizers = [os.path.join(folder, _FILES[1]) for folder in self._folders]
        found = next((path for path in paths if os.path.isfile(path)), None)
        tokenizer = next((path for path in tokenizers if os.path.isfile(path)), None)
        settings = {}
        if tokenizer is not None:
            with open(tokenizer, encoding="utf-8") as file:
                settings = json.load(file)
        # A token is a text, or an object with its text.
        tokens = {name: settings.get(name) for name in _TOKENS}
        self._tokens = {
            name: token["content"] if isinstance(token, dict) else token
            for name, token in tokens.items()
            if token is not None
        }
        if found is not None and not found.endswith(".json"):
            with open(found, encoding="utf-8") as file:
                text = file.read()
            return text, text
        template = settings.get("chat_template")
        if isinstance(template, list):  # several, by name
            named = {each["name"]: each["template"] for each in template}
            if "default" in named:
                return named["default"], named.get("tool_use", named["default"])
        if isinstance(template, str):
            return template, template
        if self._named:
            raise ChatError(f"there is no chat template '{self._named}' in the model's folder")
        raise ChatError(
            f"it has no chat template: add an input 'messages', a file {_FILES[0]}, or a {_FILES[1]} that has one"
        )


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(text: str):
    raise ChatError(text)


def _with_objects(message: dict) -> dict:
    """Returns the message with the arguments of its tool calls as objects; templates expect those, not their JSON."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_call_with_object(call) for call in calls]}


def _call_with_object(call: dict) -> dict:
    function = call.get("function", {})
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
