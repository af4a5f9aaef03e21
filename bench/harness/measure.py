"""One sample: a workload on a fresh server of one side."""

import json
import subprocess
import time

from harness import processes, servers
from harness.ratios import Sample
from harness.workloads import StartWorkload

# Time for the start's allocations and page faults to settle before memory at rest is read.
SETTLE_S = 1.0


def measure(workload, side, settings):
    """Measures one sample. Never raises if the server fails: a failure is a sample, too."""
    try:
        if isinstance(workload, StartWorkload):
            return _measure_start(workload, side, settings)
        return _measure_load(workload, side, settings)
    except servers.ServerError as error:
        return Sample({}, 1, str(error))


def load_command(workload, server, loadgen, duration, warmup):
    """Returns the command of the load generator that measures `server`."""
    port = server.grpc_port if workload.protocol.startswith("grpc") else server.http_port
    return [
        str(loadgen),
        "--protocol", workload.protocol,
        "--address", f"127.0.0.1:{port}",
        "--concurrency", str(workload.concurrency),
        "--duration", str(duration),
        "--warmup", str(warmup),
        "--server-pid", str(server.pid),
        *workload.arguments,
    ]  # fmt: skip


def _measure_load(workload, side, settings):
    with servers.repository(settings.models, workload.models) as repository:
        server = servers.Server(side, repository, workload.models, settings.root)
        with server:
            command = load_command(workload, server, settings.loadgen, settings.duration, settings.warmup)
            limit = settings.duration + settings.warmup + 120
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return Sample({}, 1, f"the load generator did not end in {limit:.0f} s")
    return load_sample(run.returncode, run.stdout, run.stderr, server.killed)


def load_sample(returncode, output, errors, killed):
    """Makes a sample of the load generator's output. `killed`: processes that the stopped server left behind."""
    try:
        report = json.loads(output)
    except ValueError:
        return Sample({}, 1, f"the load generator ended with {returncode}: {errors.strip()}")
    values = {
        "throughput": report["throughput"],
        "p50_us": report["latency_us"]["p50"],
        "p99_us": report["latency_us"]["p99"],
        "cpu_us": report["server_cpu_us_per_request"],
        "client_cpu_us": report["client_cpu_us_per_request"],
        "peak_rss_kb": report["peak_rss_kb"],
        "peak_pss_kb": report["peak_pss_kb"],
    }
    if report["errors"]:
        return Sample(values, report["errors"], report["first_error"])
    if report["requests"] == 0:
        return Sample({}, 1, "no request was answered within the time")
    if killed:
        return Sample(values, 1, f"{killed} processes of the server did not end by themselves")
    return Sample(values)


def _measure_start(workload, side, settings):
    ready, memory = {}, {}
    for count in (1, workload.many):
        models = [f"{workload.model}_{index}={workload.model}" for index in range(count)]
        with servers.repository(settings.models, models) as repository:
            server = servers.Server(side, repository, models, settings.root)
            with server:
                time.sleep(SETTLE_S)
                ready[count] = server.ready_s
                memory[count] = processes.memory_kb(server.pid)
            if server.killed:
                return Sample({}, 1, f"{server.killed} processes of the server did not end by themselves")
    return start_sample(ready, memory, workload.many)


def start_sample(ready, memory, many):
    """Returns the figures of a start with one and with `many` models; both arguments map the number of models."""
    return Sample({
        "ready_s_one": ready[1],
        "ready_s_many": ready[many],
        "pss_kb_one": memory[1]["pss"],
        "pss_kb_many": memory[many]["pss"],
        "private_kb_per_model": (memory[many]["private"] - memory[1]["private"]) / (many - 1),
    })  # fmt: skip
