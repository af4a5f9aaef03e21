"""Runs the code blocks of the documentation's pages, like a reader who pastes one after the other.

A page runs in an empty folder, with `braid` and `python` on the PATH, as with the installed package. `braid examples`
fills it; the examples' own pages begin with that. Servers listen on free ports, which replace the usual ones in the
page and in the clients of examples. Environments and packages are the tests' own; they are checked, not made. Pages
that serve the unchanged example models share a server.
"""

import ast
import dataclasses
import importlib.metadata
import json
import math
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import textwrap

import pytest

from harness.ports import free_port
from harness.server import BINARY, ROOT, Server
from harness.waiting import wait_until

BLOCK = re.compile(r"(?:^`(?P<name>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE = re.compile(r"braid serve\b")
SERVE_EXAMPLES = "braid serve examples/models"
GET_EXAMPLES = "braid examples examples"
COMMENT = re.compile(r"\s+# .*$")
# Options that set the server's ports, and the matching port of the harness' server.
PORTS = {"port": "grpc", "grpc-port": "grpc", "rest_port": "http", "http-port": "http", "metrics-port": "metrics"}
USUAL = {"8000": "http", "8001": "grpc", "8002": "metrics"}
ENVIRONMENT = re.compile(r"python3 -m venv (?P<folder>\S+)|\. \S+/bin/activate|(\S+/bin/)?pip install (?P<packages>.+)")
PORT_OPTION = re.compile(rf"--({'|'.join(PORTS)})[ =](\d+)")
ADMIN_OPTION = re.compile(r"--admin-address[ =]127\.0\.0\.1:(\d+)")
# Languages of blocks that are only for reading: messages, listings, diagrams, parts of the graphs in examples/graphs,
# and configurations of other programs.
SHOWN = ("text", "proto", "yaml")
# Commands that use the server's usual address, unless they name it.
ASKING = re.compile(r"braid (bench|try)\b(?!.* -u )")
# Code that only a worker can import, or that stands inside a class.
MODEL_CODE = re.compile(r"\bpb_utils\b|\bOvmsPythonModel\b|\bargs\[|\brequest\.|^\s*def \w+\(self|^ ", re.MULTILINE)
# The results of make in folders of examples: {folder: {path: library}}.
MADE = {}

# The blocks that are not run, by their beginnings, with the reason. A new block is run, or fails, until it is listed
# here.
WHEEL = "tests/test_wheel.py does it, with the wheel"
PACKAGE = "tests/install/run does it, in a bare system"
PROMETHEUS = "tests/test_dashboards.py does it, with a Prometheus"
CLUSTER = "needs a cluster; tests/test_kubernetes.py judges the manifests"
FLEET = "tests/test_fleet_envoy.py does it, with three servers and an Envoy"
GPU = "needs a GPU; tests/test_gpu_example.py does it on the stand-in"
GENERATED = "tests/test_openapi.py does it, in an environment of the generator's own"
NOT_RUN = {
    "docs/bench.md": {
        "braid bench -m add_sub --concurrency-range": "takes more than a minute",
        "braid bench -m add_sub -u one:8000": "two servers on other machines",
    },
    "docs/benchmarks-gpu.md": {"tests/gpu/run": "tests/test_gpu_run.py does it"},
    "docs/campaigns.md": {"make test": "tests/test_campaigns.py runs the campaigns, for seconds"},
    "docs/check.md": {"braid check --report": "files of the reader's own"},
    "docs/dashboards.md": {"prometheus --config.file": PROMETHEUS, "curl -s localhost:9090": PROMETHEUS},
    "docs/first-day.md": {"docker load": PACKAGE},
    "docs/fleet-routing.md": {
        "braid fleet envoy": FLEET,
        "braid fleet reload": "tests/test_fleet_reload.py does it, with several servers",
        "braid try running_sum": FLEET,
        "braid fleet status": "tests/test_fleet_status.py does it, with several servers",
    },
    "docs/install.md": {
        "python3 -m venv env": WHEEL,
        "import braid": WHEEL,
        "with braid.Server(": WHEEL,
        "apt-get install": PACKAGE,
        "BRAID_OPTIONS=": "a file's content",
        "systemctl restart braid": PACKAGE,
        "docker load": PACKAGE,
        "braid health": PACKAGE,
    },
    "docs/kubernetes.md": {
        "kubectl ": CLUSTER,
        "helm ": CLUSTER,
        "braid fleet envoy": FLEET,
    },
    "docs/metrics-and-tracing.md": {
        "context = request.trace()": "a part of a model, with a package that is not installed"
    },
    "docs/object-storage.md": {
        "apt-get install rclone": "tests/test_object_storage.py does it, with stores of its own"
    },
    "docs/openapi.md": {
        "python3 -m venv": GENERATED,
        "from braid_client": GENERATED,
        "/tmp/generator/bin/python": GENERATED,
    },
    "docs/performance.md": {"make bench": "takes an hour, and a tritonserver"},
    "docs/protocols.md": {
        "grpcurl ": "tests/test_public_clients_grpcurl.py does it",
        "tests/conformance/run": "needs Go and minutes",
    },
    "docs/security.md": {
        "make fuzz": "takes minutes",
        "tests/attacks/run": "takes minutes",
        ".venv/bin/python -m pytest -q tests/test_security.py": "this suite does it",
    },
    "docs/supply-chain.md": {
        "make audit": "tests/test_supply_chain.py and tests/test_wheel.py do it",
        "make lock": "asks an index for each package",
        ".venv/bin/python scripts/check-hardening": "tests/test_hardening.py does it",
    },
    "docs/testing.md": {
        "make quick": "this suite is a part of it",
        "scripts/flaky": "takes an hour",
        "scripts/nightly": "takes hours",
    },
    "examples/gpu/README.md": {"PYTHONPATH=": GPU, "pip install": GPU},
}


def pages():
    """Returns all pages for people, as paths relative to the repository."""
    found = ["README.md", "examples/README.md"]
    for pattern in ("docs/*.md", "examples/*/README.md"):
        found += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    return found


def pages_of(*sections):
    """Returns the pages that docs/README.md lists in these sections."""
    found = []
    for section in (ROOT / "docs" / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        if section.partition("\n")[0] in sections:
            found += [f"docs/{name}" for name in re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\)", section, re.MULTILINE)]
    return found


@dataclasses.dataclass
class Block:
    name: str | None  # of the file that the page says it is
    language: str
    text: str
    follows: bool  # directly follows the previous block, as its output

    def begins(self, beginning):
        return self.text.lstrip().startswith(beginning)


def blocks(page):
    return blocks_of((ROOT / page).read_text(encoding="utf-8"))


def blocks_of(text):
    found, end = [], 0
    for match in BLOCK.finditer(text):
        follows = bool(found) and not text[end : match.start()].strip()
        found.append(Block(match["name"], match["language"], match["text"], follows))
        end = match.end()
    return found


def read(page, folder, examples_server, **more):
    """Runs all blocks of a page, except those that are only for reading."""
    left_out = NOT_RUN.get(page, {})
    with Reader(page, folder, examples_server, **more) as reader:
        for block in blocks(page):
            if not any(block.begins(beginning) for beginning in left_out):
                reader.run(block)


def commands(text):
    """Returns the commands of a shell block, with continued lines joined."""
    found, lines, closing = [], [], None
    for line in text.splitlines():
        lines.append(line)
        if closing is not None:
            if line == closing:
                closing = None
            else:
                continue
        elif heredoc := re.search(r"<<'?(\w+)'?", line):
            closing = heredoc[1]
            continue
        joined = "\n".join(COMMENT.sub("", each) for each in lines)
        if line.endswith("\\") or joined.count("'") % 2 and "<<" not in joined:
            continue
        if joined.strip() and not joined.startswith("#"):
            found.append("\n".join(lines))
        lines = []
    assert not lines, f"a command that does not end: {lines}"
    return found


def same(shown, told):
    """Whether an answer is the one in the page; floating-point numbers may differ by rounding."""
    if isinstance(shown, dict) and isinstance(told, dict):
        return shown.keys() == told.keys() and all(same(shown[key], told[key]) for key in shown)
    if isinstance(shown, list) and isinstance(told, list):
        return len(shown) == len(told) and all(map(same, shown, told))
    if isinstance(shown, float) and isinstance(told, float):
        return math.isclose(shown, told, rel_tol=1e-3)
    return shown == told


def plain(printed):
    """Returns output with single blanks and without durations."""
    return re.sub(r"\d+(\.\d+)? (ms|us|s)\b", r"1 \2", re.sub(" +", " ", printed.rstrip("\n")))


class Reader:
    """Runs the blocks of one page. Use as a context manager."""

    def __init__(self, page, folder, examples_server, makes_all=False):
        """`examples_server()` is the shared server of the example models. `makes_all`: `make` has nothing prepared."""
        self._text = (ROOT / page).read_text(encoding="utf-8")
        self._examples_server = examples_server
        self._makes_all = makes_all
        self.folder = folder / "work"
        self.folder.mkdir()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._set_environment(folder / "bin")
        self._server = self._own = None  # the server in use, and the page's own server to stop
        self._addresses = {}
        self._printed = ""  # by the last command
        self._files = {}
        self._watched = False  # whether the server has --watch
        if page.startswith("examples/"):
            self._get_examples()

    def _set_environment(self, tools):
        tools.mkdir()
        (tools / "braid").symlink_to(BINARY)
        curl = shutil.which("curl")
        if curl is None:
            pytest.skip("curl is missing; scripts/install-system-packages test")
        # The status of each response goes to standard error.
        (tools / "curl").write_text(
            f"#!/bin/sh\nexec {curl} --max-time 60 -w '%{{stderr}}\\nstatus %{{http_code}}\\n' \"$@\"\n"
        )
        (tools / "curl").chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{tools}:{sys.prefix}/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": sys.prefix,
            "PYTHONDONTWRITEBYTECODE": "1",
            # For small numbers, on a busy machine.
            "OPENBLAS_NUM_THREADS": "1",
            # The package and its plugin, which are not installed here.
            "BRAID_PROGRAM": str(BINARY),
            "PYTHONPATH": str(ROOT / "python"),
            "PYTEST_ADDOPTS": "-p braid._pytest -p no:cacheprovider",
        }

    def _get_examples(self):
        self._execute(["braid", "examples", "examples"], GET_EXAMPLES)
        examples = self.folder / "examples"
        # A build has what was made in its checkout; a package has not.
        for made in (*examples.rglob("__pycache__"), *examples.rglob("lib"), *examples.rglob("env")):
            shutil.rmtree(made)
        for made in examples.rglob("*.so"):
            made.unlink()
        self._files |= {
            script: script.read_text(encoding="utf-8")
            for script in examples.rglob("*.py")
            if script.stem == "client" or script.parent.name == "clients"
        }
        self._write_files()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self._stop()
        elif self._own:
            self._own.kill()

    # ---- blocks ----------------------------------------------------------------------------------

    def run(self, block):
        if block.name is not None:
            file = self.folder / block.name
            file.parent.mkdir(exist_ok=True)
            self._files[file] = block.text
            self._write_files()
        elif block.language == "sh":
            for command in commands(block.text):
                self._run_command(command)
        elif block.language == "python":
            self.run_python(block)
        elif block.follows and block.language == "json":
            shown = json.loads(block.text)
            assert same(shown, json.loads(self._printed)), f"the page shows {block.text}\nthe answer is {self._printed}"
        elif block.follows and block.language == "":
            self._compare(block.text)
        elif block.language == "log":
            wait_until(lambda: block.text in self._server.log.replace(f"{self.folder}/", ""), what=block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "pbtxt":
            self._parse_config(block.text)
        elif block.language in ("c", "cpp"):
            self._compile(block)
        elif block.language not in SHOWN:
            raise AssertionError(
                f"this block cannot be run: name its file, its language, or list it in NOT_RUN:\n{block.text}"
            )

    def run_python(self, block):
        text = self._with_addresses(block.text)
        ast.parse(textwrap.dedent(text))
        if not MODEL_CODE.search(text):
            self._execute([sys.executable, "-c", text], block.text)

    def _compare(self, shown):
        """Compares the output with the page, except blanks, addresses and times; `...` stands for omitted lines."""
        printed = self._printed
        for port, address in self._addresses.items():
            printed = printed.replace(f":{address.rpartition(':')[2]}", f":{port}")
        pattern = "".join(
            r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in plain(shown).split("\n")
        )
        assert re.search("^" + pattern, plain(printed) + "\n", re.MULTILINE), (
            f"the page shows\n{shown}\nprinted was\n{printed}"
        )

    def _parse_config(self, text):
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2

        text_format.Parse(text, model_config_pb2.ModelConfig())

    def _compile(self, block):
        """Checks the syntax, and that the names exist."""
        compiler, standard = {"c": ("cc", "c11"), "cpp": ("c++", "c++17")}[block.language]
        command = [
            compiler,
            f"-std={standard}",
            "-fsyntax-only",
            "-I",
            str(ROOT / "include"),
            "-x",
            {"c": "c", "cpp": "c++"}[block.language],
            "-",
        ]
        done = subprocess.run(command, input=block.text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    # ---- commands --------------------------------------------------------------------------------

    def _run_command(self, command):
        bare = COMMENT.sub("", command)
        if self._is_preparation(bare):
            return
        if folder := re.fullmatch(r"make -C (examples/\w+)", bare):
            self._make(folder[1])
            return
        if bare == GET_EXAMPLES:
            self._get_examples()
            return
        if folder := re.fullmatch(r"cd (\S+)", bare):
            self.folder = (self.folder / folder[1]).resolve(strict=True)
            return
        if SERVE.match(bare) and "--print-config" not in bare:
            self._serve(bare)
            return
        if asking := ASKING.match(bare):
            command = f"{asking[0]} -u localhost:{8001 if ' grpc' in bare else 8000}{bare[asking.end() :]}"
        if re.search(r"\b(localhost|127\.0\.0\.1):\d", command) or "client" in bare:
            self._server or self._serve_examples()
        reloads = self._reloads()
        errors = self._execute(["bash", "-eu", "-o", "pipefail", "-c", self._with_addresses(command)], command)
        if self._watched and re.match("sed -i .* models/", bare):
            wait_until(lambda: self._reloads() > reloads, what="the reload of the saved model")
        # A command that is expected to fail says so: # 401: ...
        expected = re.search(r"# ([345]\d\d)\b", command)
        for status in re.findall(r"^status (\d+)$", errors, re.MULTILINE):
            good = status == expected[1] if expected else status.startswith("2")
            assert good, f"{command}\nhas status {status}: {self._printed}"

    def _reloads(self):
        return len(re.findall(r"\] (reloaded|failed to load) '", self._server.log)) if self._watched else 0

    def _make(self, folder):
        """Runs make in a folder of examples, for the first page that does; other pages get its libraries."""
        if folder not in MADE or self._makes_all:
            if folder == "examples/custom_nodes" and not self._makes_all:
                # Libraries with OpenCV take seconds each. make finds these and builds only the others.
                (self.folder / folder / "lib").mkdir()
                for name in ("image_transform", "detection_splitter", "text_page", "text_lines"):
                    library = f"lib{name}.so"
                    shutil.copyfile(BINARY.parent / folder / library, self.folder / folder / "lib" / library)
            self._execute(["make", "-C", folder], folder)
            MADE[folder] = {
                path.relative_to(self.folder): path.read_bytes() for path in (self.folder / folder).rglob("*.so")
            }
        for path, library in MADE[folder].items():
            (self.folder / path).parent.mkdir(exist_ok=True)
            (self.folder / path).write_bytes(library)

    def _is_preparation(self, command):
        steps = [ENVIRONMENT.fullmatch(step) for step in self._with_addresses(command).split(" && ")]
        for step in filter(None, steps):
            if step["folder"]:
                (self.folder / step["folder"]).symlink_to(sys.prefix)
            for word in shlex.split(step["packages"] or ""):
                package = re.match(r"[\w.-]*", word)[0]
                if word.startswith("-") or package.startswith("braid_server-"):
                    continue
                try:
                    importlib.metadata.version(package)
                except importlib.metadata.PackageNotFoundError:
                    pytest.skip(f"{package} is not installed: {command}")
        return all(steps)

    def _execute(self, command, shown):
        """Runs a command and returns its standard error."""
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{shown}\ndid not end: {late.stdout}{late.stderr}") from None
        log = self._server.log[-3000:] if self._server else ""
        fails = bool(re.search(r"# fails\b", shown))
        assert bool(done.returncode) == fails, (
            f"{shown}\nended with {done.returncode}: {done.stdout}{done.stderr}\n{log}"
        )
        self._printed = done.stdout
        return done.stderr

    def _with_addresses(self, text):
        text = text.replace("/tmp/", f"{self.temporary}/")
        for port, address in self._addresses.items():
            text = re.sub(rf"\b(localhost|127\.0\.0\.1):{port}\b", rf"\1:{address.rpartition(':')[2]}", text)
        return text

    # ---- servers ---------------------------------------------------------------------------------

    def _serve(self, command):
        """Starts a server from a command line, in place of the previous one."""
        self._stop()
        shared = command == SERVE_EXAMPLES
        self._watched = "--watch" in command.split()
        command = command.replace("\\\n", " ").replace("$PWD", str(self.folder))
        usual = dict(USUAL)
        for option, port in PORT_OPTION.findall(command):
            usual[port] = PORTS[option]
        if admin := ADMIN_OPTION.search(command):
            usual[admin[1]] = "admin"
        command = ADMIN_OPTION.sub("--admin-address 127.0.0.1:0", PORT_OPTION.sub("", command))
        if "--debug-model" in command:
            command += f" --debug-port {free_port()}"
        _, _, options = command.replace("/tmp/", f"{self.temporary}/").partition("serve ")
        if shared:
            self._server = self._examples_server()
        else:
            self._server = self._own = Server(
                [], *shlex.split(options), workdir=self.folder, ready=False, tls=self._tls(options)
            )
            self._server.wait_ready()
        self._addresses = {
            port: getattr(self._server, kind) for port, kind in usual.items() if getattr(self._server, kind)
        }
        self._write_files()

    def _serve_examples(self):
        """Serves the examples for a page that only says so."""
        assert f"`{SERVE_EXAMPLES}`" in self._text, f"the page does not say `{SERVE_EXAMPLES}`"
        self._serve(SERVE_EXAMPLES)

    def _write_files(self):
        """Writes the page's files, and the clients of the examples, with the server's addresses.

        Leaves files without addresses alone: a server that watches its models would load them half-written.
        """
        for path, text in self._files.items():
            addressed = self._with_addresses(text)
            if not path.exists() or path.read_text(encoding="utf-8") != addressed:
                path.write_text(addressed, encoding="utf-8")

    def _tls(self, options):
        if "--http-use-ssl" not in options:
            return None
        context = ssl.create_default_context(cafile=self.folder / "server.pem")
        if "--http-use-ssl-mutual" in options:
            context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return context

    def _stop(self):
        self._server, self._addresses = None, {}
        if self._own:
            own, self._own = self._own, None
            own.stop()
