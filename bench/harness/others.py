"""The servers of bench/run-others, the requests that they get, and the page."""

import base64
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np

from harness import peer, ratios, report, servers, workloads
from harness.servers import Request

# Braid and Triton use the peer's, as in bench/run.
NUMPY = "numpy==2.4.6"
APPS = pathlib.Path(__file__).resolve().parents[1] / "others"


MEMORY = workloads.Metric("pss_kb", "memory", divisor=1024, unit="MiB")
METRICS = (workloads.THROUGHPUT, workloads.P50, workloads.P99, workloads.CPU, MEMORY)


@dataclasses.dataclass(frozen=True)
class Workload:
    id: str
    title: str
    concurrency: int
    metrics: tuple = METRICS


WORKLOADS = (
    Workload("add_sub", "add_sub of 16 B, JSON, 16 in flight", 16),
    Workload("identity", "identity of 1 MiB, 4 in flight", 4),
    Workload("tokens", "streams of 100 tokens, 16 in flight", 16),
    Workload("mlp", "a network, batches of at most 32 rows, JSON, a row a request, 32 in flight", 32),
)

_A, _B = [0, 7, 14, 21], [13, 30, 34, 40]
_ROW = [index / 16 for index in range(16)]
_LARGE = np.arange(1 << 18, dtype=np.float32).tobytes()
_JSON = (("Content-Type", "application/json"),)
_BYTES = (("Content-Type", "application/octet-stream"),)


def _functions():
    if str(APPS) not in sys.path:
        sys.path.append(str(APPS))
    import functions

    return functions


def _pair_is_right(total, difference):
    return total == [13, 37, 48, 61] and difference == [-13, -23, -20, -19]


def _row_is_right(row):
    return np.allclose(row, _functions().Network()(np.array([_ROW], np.float32))[0], rtol=1e-3, atol=1e-5)


def _tokens_are_right(body):
    return all(token.encode() in body for token in _functions().tokens())


def _post(path, value, right):
    return Request(path, json.dumps(value).encode(), _JSON, right)


def plain(workload):
    """Returns the request to a server that takes JSON or bytes on a path of its model's choice."""
    if workload == "add_sub":
        return _post("/add_sub", {"a": _A, "b": _B}, lambda body: _pair_is_right(*json.loads(body).values()))
    if workload == "mlp":
        return _post("/mlp", {"row": _ROW}, lambda body: _row_is_right(json.loads(body)["row"]))
    if workload == "tokens":
        return _post("/tokens", {}, _tokens_are_right)
    return Request("/identity", _LARGE, _BYTES, lambda body: body == _LARGE)


def _form(workload):
    """LitServe takes bytes only as a form's file."""
    if workload != "identity":
        return plain(workload)
    boundary = "braid-bench"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="array"\r\n\r\n'.encode()
    headers = (("Content-Type", f"multipart/form-data; boundary={boundary}"),)
    body = head + _LARGE + f"\r\n--{boundary}--\r\n".encode()
    return Request("/identity", body, headers, lambda body: body == _LARGE)


def _rows(workload):
    """BentoML's batches are of arrays whose first dimension is the batch."""
    if workload != "mlp":
        return plain(workload)
    return _post("/mlp", {"rows": [_ROW]}, lambda body: _row_is_right(json.loads(body)[0]))


def _tensor(name, shape, **rest):
    return {"name": name, "shape": shape, "datatype": "FP32", **rest}


def _data(body):
    return [each["data"] for each in json.loads(body)["outputs"]]


def v2(workload):
    """Returns the request to a server of KServe's protocol, version 2."""
    path = f"/v2/models/{workload}/infer"
    if workload == "add_sub":
        inputs = [_tensor("INPUT0", [4], data=_A), _tensor("INPUT1", [4], data=_B)]
        return _post(path, {"inputs": inputs}, lambda body: _pair_is_right(*_data(body)))
    if workload == "mlp":
        inputs = [_tensor("INPUT0", [1, 16], data=_ROW)]
        return _post(path, {"inputs": inputs}, lambda body: _row_is_right(_data(body)[0]))
    if workload == "tokens":
        return _post("/v2/models/tokens/generate_stream", {"INPUT0": 0}, _tokens_are_right)
    inputs = [_tensor("INPUT0", [1 << 18], parameters={"binary_data_size": len(_LARGE)})]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = (*_BYTES, ("Inference-Header-Content-Length", str(len(head))))
    return Request(path, head + _LARGE, headers, lambda body: body.endswith(_LARGE))


def _mlserver(workload):
    """MLServer's HTTP takes JSON alone: the large array is bytes in base64. A stream begins as an inference does."""
    if workload == "tokens":
        inputs = [_tensor("INPUT0", [1], data=[0])]
        return _post("/v2/models/tokens/generate_stream", {"inputs": inputs}, _tokens_are_right)
    if workload != "identity":
        return v2(workload)
    tensor = {"name": "INPUT0", "shape": [1], "datatype": "BYTES", "parameters": {"content_type": "base64"}}
    inputs = [{**tensor, "data": [base64.b64encode(_LARGE).decode()]}]
    return _post(
        "/v2/models/identity/infer", {"inputs": inputs}, lambda body: base64.b64decode(_data(body)[0][0]) == _LARGE
    )


def _kserve(workload):
    return None if workload == "tokens" else v2(workload)


@dataclasses.dataclass(frozen=True)
class Other:
    """A server from wheels: its packages for pip (the server first), its start command, and notes for the page."""

    name: str
    packages: tuple
    command: str
    request: object  # of a workload's id; None: the server cannot do it
    notes: str


_CLASSES = {"add_sub": "AddSub", "identity": "Identity", "tokens": "Tokens", "mlp": "Mlp"}
OTHERS = (
    Other(
        "FastAPI",
        ("fastapi==0.165.0", "uvicorn[standard]==0.54.0"),
        "{bin}/uvicorn fastapi_app:app --app-dir {apps} --host 127.0.0.1 --port {http} --no-access-log",
        plain,
        "uvicorn with uvloop and httptools, one worker, `async def`. It has no batching: each request runs the network alone.",
    ),
    Other(
        "LitServe",
        ("litserve==0.2.19", "python-multipart==0.0.34"),
        "{bin}/python {apps}/litserve_app.py {workload} {http}",
        _form,
        "one worker of the model; batches of 32, `batch_timeout` 0.5 ms. Bytes arrive as a form's file.",
    ),
    Other(
        "BentoML",
        ("bentoml==1.4.40",),
        "{bin}/bentoml serve bentoml_app:{class} --working-dir {apps} --host 127.0.0.1 --port {http}",
        _rows,
        "one worker; batches of 32, otherwise its adaptive batching as it comes. Bytes arrive as a file.",
    ),
    Other(
        "Ray Serve",
        ("ray[serve]==2.60.0",),
        "{bin}/python {apps}/ray_app.py {workload} {http}",
        plain,
        "one replica, `max_ongoing_requests` 64; `serve.batch` with 32 and 0.5 ms. Its cluster of one machine counts as its processes.",
    ),
    Other(
        "MLServer",
        ("mlserver==1.7.1", "uvloop==0.21.0"),
        "env MLSERVER_HTTP_PORT={http} MLSERVER_GRPC_PORT={grpc} MLSERVER_METRICS_PORT={metrics} MLSERVER_HOST=127.0.0.1 "
        "MLSERVER_DEBUG=false MLSERVER_PARALLEL_WORKERS={parallel} MLSERVER_GZIP_ENABLED=false "
        "MLSERVER_MODEL_NAME={workload} MLSERVER_MODEL_IMPLEMENTATION=mlserver_app.{class} "
        "MLSERVER_MODEL_MAX_BATCH_SIZE={batch} MLSERVER_MODEL_MAX_BATCH_TIME=0.0005 {bin}/mlserver start {apps}",
        _mlserver,
        "one parallel worker, except for streams, which it allows only without; batches of 32, `max_batch_time` 0.5 ms. "
        "Its HTTP has no binary tensors: the 1 MiB are base64 in JSON.",
    ),
    Other(
        "KServe",
        ("kserve==0.21.0",),
        "{bin}/python {apps}/kserve_app.py {workload} {http} {grpc}",
        _kserve,
        "the Python server alone, one worker. Its batching is a part of the cluster, and its streams are those of its OpenAI models: "
        "the network runs a row at a time, and streams are left out. It converts binary tensors to lists of numbers.",
    ),
)  # fmt: skip


def install(other, say):
    """Installs the server into the cache if it is not there yet; returns its folder of programs."""
    home = peer.cache_folder() / "others" / re.sub(r"[^\w.]+", "-", other.packages[0])
    if not (home / "ready").exists():
        say(f"{other.name}: installing {' '.join(other.packages)} (once)")
        if home.exists():
            shutil.rmtree(home)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, stdout=sys.stderr)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *other.packages, NUMPY], check=True, stdout=sys.stderr)
        (home / "ready").touch()
    return home / "bin"


def _environment(scratch, base=None):
    """The environment of every server: `functions` is found, one thread computes, and files land in `scratch`."""
    environment = dict(os.environ if base is None else base)
    path = environment.get("PYTHONPATH")
    environment |= {
        "PYTHONPATH": str(APPS) + (f":{path}" if path else ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TMPDIR": scratch,
        "RAY_TMPDIR": scratch,
        "RAY_USAGE_STATS_ENABLED": "0",
        "BENTOML_HOME": scratch,
        "BENTOML_DO_NOT_TRACK": "true",
        "BENTOML_CONFIG_OPTIONS": "api_server.logging.access.enabled=false",
    }
    return environment


class OtherSide(servers.Side):
    """One of OTHERS. It serves the only model of its repository, by its name."""

    def __init__(self, other, programs, scratch):
        super().__init__(other.name, programs / "python")
        self._other = other
        self._programs = programs
        self._scratch = scratch

    def command(self, repository, http, grpc, metrics, tag):
        (model,) = pathlib.Path(repository).iterdir()
        workload = model.name
        values = {
            "bin": self._programs,
            "apps": APPS,
            "workload": workload,
            "class": _CLASSES[workload],
            "http": http,
            "grpc": grpc,
            "metrics": metrics,
            "parallel": 0 if workload == "tokens" else 1,
            "batch": 32 if workload == "mlp" else 0,
        }
        return ["env", "-C", self._scratch, *(word.format(**values) for word in shlex.split(self._other.command))]

    def environment(self):
        environment = _environment(self._scratch)
        environment["PATH"] = f"{self._programs}:{environment['PATH']}"
        return environment

    def request(self, workload):
        return self._other.request(workload)

    def probes(self, models):
        return [self.request(model) for model in models]


def on_equal_terms(side, scratch):
    """Returns `side`, a Braid or a Triton, under the conditions of the other servers."""
    base = side.environment()
    side.environment = lambda: _environment(scratch, base)
    side.request = v2
    side.probes = lambda models: [v2(model) for model in models]
    return side


def _cell(rounds, name, metric):
    return ratios.side_spread([sides[name] for sides in rounds if name in sides], metric)


def _times(rounds, name):
    """Returns Braid's throughput over that of `name`, within a round."""
    pairs = [{"subject": sides.get("Braid"), "peer": sides.get(name)} for sides in rounds]
    return ratios.spread(ratios.round_ratios(pairs, workloads.THROUGHPUT))


def _middle(rounds, name, metric):
    found = _cell(rounds, name, metric)
    return found.median if found else None


def _better(results, names):
    """Returns lines that name each figure in which another server is better than Braid, by the medians."""
    lines = []
    for workload in WORKLOADS:
        rounds = results.get(workload.id, [])
        for name in names:
            found = []
            for metric in METRICS:
                own, its = _middle(rounds, "Braid", metric), _middle(rounds, name, metric)
                if own and its and (its > own if metric.higher_is_better else its < own):
                    found.append(
                        f"{metric.title} ({report.number(its / metric.divisor)} {metric.unit} beside "
                        f"{report.number(own / metric.divisor)})"
                    )
            if found:
                lines.append(f"- {name}, {workload.title}: {', '.join(found)}")
    return lines


def page(results, names, facts):
    """Returns the page. `results` maps workload ids to a list of {server: Sample}; `names` are the servers in order."""
    lines = [
        "# Beside other servers",
        "",
        "`bench/run-others` writes this page; `bench/README.md` says how to repeat it.",
        "",
    ]
    lines += report.markdown_table(["", ""], facts)
    lines += [
        "",
        "Every server has one instance of its model, writes no access log, and computes with one thread. wrk keeps the requests in",
        "flight over HTTP. An answer before the load and one after it are compared with the right one; every other answer has the",
        "status 200. Throughput is the median (smallest-largest) over rounds; the last column is Braid's over that of the server,",
        "within a round. CPU is that of all processes of the server, memory their proportional share (PSS) at the end.",
        "",
        *(f"- **{each.name}**: {each.notes}" for each in OTHERS if each.name in names),
    ]
    failures = []
    for workload in WORKLOADS:
        rounds = results.get(workload.id)
        if not rounds:
            continue
        rows = []
        for name in names:
            if not any(name in sides for sides in rounds):
                continue
            times = _times(rounds, name) if name != "Braid" else None
            throughput = _cell(rounds, name, workloads.THROUGHPUT)
            cells = [report.spread_cell(throughput)]
            for metric in METRICS[1:]:
                middle = _middle(rounds, name, metric)
                cells.append(report.number(middle / metric.divisor) if middle else "-")
            rows.append([name, *cells, report.spread_cell(times)])
            failures += [
                f"- {workload.id}, {name}: {sides[name].error}"
                for sides in rounds
                if name in sides and sides[name].error
            ]
        head = ["", *(f"{metric.title}, {metric.unit}" for metric in METRICS), "Braid / it"]
        lines += ["", f"## {workload.title[0].upper()}{workload.title[1:]}", "", *report.markdown_table(head, rows)]
    if "Braid" in names:
        better = _better(results, names) or ["In no figure of this page."]
        lines += ["", "## Where another server is better", "", *better]
    if failures:
        lines += ["", "## Failed samples", "", *failures]
    return "\n".join(lines) + "\n"
