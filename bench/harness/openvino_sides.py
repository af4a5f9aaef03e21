"""The two sides of measurements of OpenVINO models: OpenVINO's own API in one process, and a server under load."""

import json
import subprocess

from harness import measure

SERVER = (
    "{braid} serve --config_path {{repo}}/config.json --grpc-port {{grpc}} --http-port {{http}} --host 127.0.0.1 "
    "--allow-metrics=false --file_system_poll_wait_seconds 0"
)


class Failed(Exception):
    """The sample cannot be used."""


def _run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


def direct(arguments, model, concurrency, *more):
    """Returns the figures of a model file that this many threads call. `arguments`: build, duration, warmup."""
    run = _run(
        [
            arguments.build / "braid_openvino_direct", "--model", model, "--concurrency", concurrency,
            "--duration", arguments.duration, "--warmup", arguments.warmup, *more,
        ]
    )  # fmt: skip
    if run.returncode:
        raise Failed(run.stderr.strip())
    return json.loads(run.stdout)


def served(arguments, server, protocol, concurrency, *more):
    """Like direct(), for a running server; `more` names model and inputs."""
    port = server.grpc_port if protocol == "grpc" else server.http_port
    run = _run(
        [
            arguments.build / "braid_loadgen", "--protocol", protocol, "--address", f"127.0.0.1:{port}",
            "--concurrency", concurrency, "--duration", arguments.duration, "--warmup", arguments.warmup,
            "--server-pid", server.pid, *more,
        ]
    )  # fmt: skip
    sample = measure.load_sample(run.returncode, run.stdout, run.stderr, 0)
    if not sample.usable:
        raise Failed(sample.error)
    return sample.values
