"""The output of `braid --help` and `braid COMMAND --help` as data, for the man page and the completions."""

import dataclasses
import re
import subprocess

COMMAND = re.compile(r"^  braid ([a-z][a-z-]*)(?: (\S.*?))?  +(\S.*)$")
# From the server's own help, "--name VALUE", and from CLI11's, "-n,--name,--other TYPE:{range}=default Excludes:
# --more".
OPTION = re.compile(
    r"^ {1,4}(?:-\w, ?)?--([A-Za-z][\w-]*)(?:,--[\w-]+)*(\[=BOOL\]|[ =](?!(?:Excludes|Needs):)[^\s]+)?(?: in \[[^]]*\]\S*)?( \.\.\.)?"
    r"(?: (?:Excludes|Needs):(?: --[\w-]+)+)?(?: +(\S.*))?$"
)
TYPE = re.compile(r"^(TEXT|INT|UINT|FLOAT)\b.*$")
TITLE = re.compile(r"^(\S.*):$")
# The heading of options that `braid serve` accepts or refuses but does not use.
WITHOUT_WORK = "Known but without effect"


@dataclasses.dataclass
class Option:
    name: str
    value: str  # "PORT"; "BOOL" for a boolean with an optional value; empty without a value
    repeatable: bool
    text: str = ""

    @property
    def needs_value(self) -> bool:
        return self.value not in ("", "BOOL")

    @property
    def short_text(self) -> str:
        """Returns its first clause, for lists of completions."""
        return re.split(r"; |: | \(| \[", self.text)[0]


@dataclasses.dataclass
class Group:
    title: str
    options: list[Option] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Command:
    name: str
    arguments: str
    text: str
    intro: str
    groups: list[Group]

    @property
    def options(self) -> list[Option]:
        """Returns the options that have an effect."""
        return [option for group in self.groups if not group.title.startswith(WITHOUT_WORK) for option in group.options]


def commands(braid) -> list[Command]:
    """Returns all commands of the program at the path `braid`."""
    found = []
    for line in _help(braid).splitlines():
        if match := COMMAND.match(line):
            name, arguments, text = match.groups()
            intro, groups = _read(_help(braid, name))
            found.append(Command(name, arguments or "", text, intro, groups))
    if not found:
        raise SystemExit(f"{braid} --help lists no commands")
    return found


def version(braid) -> str:
    return subprocess.run([braid, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def _help(braid, *command) -> str:
    option = "--help-all" if command == ("serve",) else "--help"
    return subprocess.run([braid, *command, option], capture_output=True, text=True, check=True).stdout


def _read(text: str) -> tuple[str, list[Group]]:
    intro: list[str] = []
    groups = [Group("")]
    option = None
    for line in text.splitlines():
        if match := OPTION.match(line):
            name, value, repeatable, rest = match.groups()
            value = "BOOL" if value == "[=BOOL]" else TYPE.sub(r"\1", (value or "").strip(" ="))
            option = Option(name, value, bool(repeatable), rest or "")
            groups[-1].options.append(option)
        elif option and line.startswith("      "):
            option.text = f"{option.text} {line.strip()}".strip()
        elif match := TITLE.match(line):
            option = None
            groups.append(Group(match.group(1)))
        else:
            option = None
            if not any(group.options for group in groups):
                intro.append(line)
    paragraphs = "\n".join(intro).split("\n\n", 1)
    return (paragraphs[1].strip() if len(paragraphs) > 1 else ""), [group for group in groups if group.options]
