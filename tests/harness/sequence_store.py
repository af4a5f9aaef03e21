"""Replicas of a model "sum" (see sequence_settings) that share a store, and what tests of it ask them."""


def replica(setting, redis, *options, mode="durable"):
    return setting.serve("--sequence_state_store", redis.url, "--sequence_state_store_mode", mode, *options)


def send(setting, server, value, sequence, step=None, start=False, end=False):
    """(status, answer) of one step."""
    path, body = setting.request(value)
    body["parameters"] = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
    if step is not None:
        body["parameters"]["sequence_step"] = step
    return server.json("POST", path, body)


def value_of(answer):
    return next(each["data"][0] for each in answer["outputs"] if each["name"] == "y")


def refusal(setting, server, value, sequence, **flags):
    status, answer = send(setting, server, value, sequence, **flags)
    assert status != 200, answer
    return status, answer["error"]


def counted(server, what):
    """The metric braid_sequence_store_{what}, at whichever endpoint."""
    address = server.metrics or server.http
    status, _, body = server.request("GET", "/metrics", address=address)
    assert status == 200
    lines = [line for line in body.decode().splitlines() if line.startswith(f"braid_sequence_store_{what}")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
