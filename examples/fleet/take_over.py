"""Runs two servers and a Redis on free ports. A sequence begins at one server, which is killed, and goes on at the other.

    take_over.py [running_mean | running_median]

For running_mean the server keeps the state of a sequence; running_median keeps it itself.
"""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]
MODELS = {"running_mean": EXAMPLES / "models", "running_median": EXAMPLES / "fleet/models"}
MODEL = sys.argv[1] if len(sys.argv) > 1 else "running_mean"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_server(store):
    command = ["braid", "serve", MODELS[MODEL], "--host", "127.0.0.1"]
    command += ["--model-control-mode", "explicit", "--load-model", MODEL, "--python", sys.executable]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--sequence_state_store", store]
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if line.startswith("listening: "):
            server.address = json.loads(line.removeprefix("listening: "))["http"]
            break
    while True:
        try:
            urllib.request.urlopen(f"http://{server.address}/v2/health/ready", timeout=10)
            return server
        except OSError:
            time.sleep(0.05)


def send(server, value, **parameters):
    body = {
        "parameters": {"sequence_id": 7, **parameters},
        "inputs": [{"name": "VALUE", "shape": [1, 1], "datatype": "FP64", "data": [value]}],
    }
    url = f"http://{server.address}/v2/models/{MODEL}/infer"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=30) as answer:
        told = json.load(answer)
    [output] = told["outputs"]
    print(f"step {told['parameters']['sequence_step']}: {output['name'].lower()} {output['data'][0]:g}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        redis = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder]
        processes = [subprocess.Popen(redis, stdout=subprocess.DEVNULL)]
        try:
            for _ in range(2):
                processes.append(start_server(f"redis://localhost:{port}/0"))
            one, two = processes[1:]
            send(one, 2, sequence_start=True)
            send(one, 4)
            one.kill()
            print("the server is killed")
            send(two, 9)
            send(two, 5, sequence_end=True)
        finally:
            for process in processes:
                process.kill()
                process.wait()


main()
