"""Steps of a long run. Each prints its output as it runs; the run ends with a table of their times and cache hits.

A step writes a note about its own cache to the file in BRAID_STEP_NOTE. A run inside a step of another run adds its rows to
the outer table, through the file in BRAID_STEPS.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The lines about one compilation in ccache's log of statistics.
HIT = re.compile(r"^(direct|preprocessed)_cache_hit$")
MISS = re.compile(r"^cache_miss$")
# The final counts of test runners and of the checks.
COUNTS = re.compile(r"^(?:\d+% tests passed, |=* ?\d+ (?:passed|failed|error)|(?:alone|clang|asan|tsan|flaky): .*\d).*")


def cache_folder() -> pathlib.Path:
    """Returns the folder that checkouts share for fetched files, records and results. BRAID_CACHE names another."""
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("BRAID_CACHE") or base / "braid")


def note(text: str) -> None:
    """Adds a note about cache hits to the table row of the step that runs this program."""
    with open(os.environ.get("BRAID_STEP_NOTE", os.devnull), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def compiler_cache(log: pathlib.Path) -> list[str]:
    """Returns ccache's hits by its log of statistics: ["12 of 30 objects"]; empty if it was not used."""
    lines = log.read_text().splitlines() if log.exists() else []
    hits = sum(bool(HIT.match(line)) for line in lines)
    misses = sum(bool(MISS.match(line)) for line in lines)
    return [f"{hits} of {hits + misses} objects"] if hits + misses else []


@dataclasses.dataclass
class Step:
    """A row of the table. `seconds` is the elapsed time; `result` is "passed" or "FAILED"."""

    name: str
    result: str
    seconds: float = 0
    cached: str = ""
    log: str = ""
    counts: list[str] = dataclasses.field(default_factory=list)


class Running:
    """A command that runs as a step, with its output in a file."""

    def __init__(
        self, name: str, command: Sequence[str | pathlib.Path], log: pathlib.Path, shown: bool, env: dict[str, str]
    ):
        self.name = name
        self._log = log
        self._notes = pathlib.Path(tempfile.mkdtemp(prefix="braid-step-"))
        self._started = time.monotonic()
        environment = {
            **os.environ,
            **env,
            "BRAID_STEPS": str(self._notes / "steps"),
            "BRAID_STEP_NOTE": str(self._notes / "note"),
            "CCACHE_STATSLOG": str(self._notes / "ccache"),
        }
        self._process = subprocess.Popen(
            [str(word) for word in command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=[shown])
        self._reader.start()

    def _read(self, shown: bool) -> None:
        with open(self._log, "w", encoding="utf-8") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                if shown:
                    print(line, end="", flush=True)
        self._process.wait()
        self._seconds = time.monotonic() - self._started

    def wait(self) -> list[Step]:
        """Waits for the end of the command; an interrupt ends the command first. Returns its rows."""
        try:
            self._reader.join()
        except BaseException:
            self._process.terminate()
            self._reader.join()
            raise
        result = "FAILED" if self._process.returncode else "passed"
        inner = self._notes / "steps"
        rows = [Step(**json.loads(line)) for line in inner.read_text().splitlines()] if inner.exists() else []
        rows = [dataclasses.replace(row, name=f"{self.name}: {row.name}") for row in rows]
        if not rows or (result == "FAILED" and all(row.result != "FAILED" for row in rows)):
            noted = self._notes / "note"
            cached = compiler_cache(self._notes / "ccache") + (noted.read_text().split("\n") if noted.exists() else [])
            lines = self._log.read_text(errors="replace").splitlines()
            counts = list(dict.fromkeys(line.strip("= ") for line in lines if COUNTS.match(line)))
            cached = ", ".join(filter(None, cached))
            rows.append(Step(self.name, result, self._seconds, cached, str(self._log), counts))
        shutil.rmtree(self._notes)
        return rows


class Steps:
    """Runs commands from the top of the checkout, and records their times."""

    def __init__(self, title: str, logs: pathlib.Path):
        self.title = title
        self.logs = logs
        self.rows: list[Step] = []
        self._started = time.monotonic()
        logs.mkdir(parents=True, exist_ok=True)

    def start(
        self, name: str, *command: str | pathlib.Path, shown: bool = False, env: dict[str, str] | None = None
    ) -> Running:
        """Starts a command in the background. Pass the result to finish()."""
        return Running(name, command, self.logs / (re.sub(r"\W+", "-", name) + ".log"), shown, env or {})

    def finish(self, *running: Running) -> bool:
        """Waits for started commands. Returns whether all succeeded."""
        rows = [row for each in running for row in each.wait()]
        self.rows += rows
        return all(row.result != "FAILED" for row in rows)

    def run(self, name: str, *command: str | pathlib.Path, env: dict[str, str] | None = None) -> bool:
        """Runs a command, with its output also on the terminal. Returns whether it succeeded."""
        print(f"\n=== {self.title}: {name}", flush=True)
        return self.finish(self.start(name, *command, shown=True, env=env))

    def end(self) -> int:
        """Prints the last output of failed steps, the table, and the test counts. Returns the exit status."""
        failed = [row for row in self.rows if row.result == "FAILED"]
        if "BRAID_STEPS" in os.environ:
            with open(os.environ["BRAID_STEPS"], "a", encoding="utf-8") as file:
                file.writelines(json.dumps(dataclasses.asdict(row)) + "\n" for row in self.rows)
        for row in failed:
            lines = pathlib.Path(row.log).read_text(errors="replace").splitlines()
            print(f"\n=== the end of {row.name} ({row.log})", *lines[-40:], sep="\n")
        print("", *self.table(), *(count for row in self.rows for count in row.counts), sep="\n", flush=True)
        return 1 if failed else 0

    def table(self) -> list[str]:
        """The steps as lines of a table in Markdown."""
        cells = [("step", "seconds", "cached", "result")]
        cells += [(row.name, f"{row.seconds:.0f}", row.cached, row.result) for row in self.rows]
        cells.append(("elapsed", f"{time.monotonic() - self._started:.0f}", "", ""))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
        return [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]


def stop(steps: Steps, why: str) -> None:
    """Ends a run if the next step would make no sense."""
    print(f"\n{steps.title}: {why}", file=sys.stderr)
    sys.exit(steps.end() or 1)
