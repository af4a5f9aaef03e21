"""The table of workloads. Add lines for new features here, with their targets."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    title: str
    higher_is_better: bool = False
    # The divisor and the unit in which an absolute figure is shown.
    divisor: float = 1.0
    unit: str = ""


THROUGHPUT = Metric("throughput", "throughput", higher_is_better=True, unit="/s")
P50 = Metric("p50_us", "p50", unit="us")
P99 = Metric("p99_us", "p99", unit="us")
CPU = Metric("cpu_us", "CPU/request", unit="us")
RSS = Metric("peak_rss_kb", "peak RSS", divisor=1024, unit="MiB")
PSS = Metric("peak_pss_kb", "peak PSS", divisor=1024, unit="MiB")
LOAD_METRICS = (THROUGHPUT, P50, CPU, P99, RSS, PSS)

READY_ONE = Metric("ready_s_one", "ready, 1 model", unit="s")
READY_MANY = Metric("ready_s_many", "ready, 10 models", unit="s")
PSS_ONE = Metric("pss_kb_one", "PSS, 1 model", divisor=1024, unit="MiB")
PSS_MANY = Metric("pss_kb_many", "PSS, 10 models", divisor=1024, unit="MiB")
PRIVATE_PER_MODEL = Metric("private_kb_per_model", "own memory a model", divisor=1024, unit="MiB")
START_METRICS = (READY_ONE, READY_MANY, PSS_ONE, PSS_MANY, PRIVATE_PER_MODEL)


def load_targets(throughput, p50, cpu):
    """Returns bounds of the ratio subject / peer: at least `throughput`, at most the other two."""
    return ((THROUGHPUT.key, throughput), (P50.key, p50), (CPU.key, cpu))


@dataclasses.dataclass(frozen=True)
class LoadWorkload:
    """Requests in a closed loop to a server that has only `models`.

    A model is a folder of bench/models, or COPY=FOLDER for a copy of it under another name.
    """

    id: str
    title: str
    models: tuple
    protocol: str
    concurrency: int
    arguments: tuple  # more options of braid_loadgen
    targets: tuple = ()  # of (metric key, bound)
    metrics: tuple = LOAD_METRICS


@dataclasses.dataclass(frozen=True)
class StartWorkload:
    """The time from start to ready, and memory at rest, with one and with `many` copies of a model."""

    id: str
    title: str
    model: str
    many: int
    targets: tuple = ()  # of (metric key, bound)
    metrics: tuple = START_METRICS


_ADD_SUB = tuple("--model add_sub --input INPUT0:FP32:4 --input INPUT1:FP32:4 --validate add_sub".split())
_IDENTITY_1MIB = tuple("--model identity --input INPUT0:FP32:262144 --validate identity".split())
_IDENTITY_16MIB = tuple("--model identity --input INPUT0:FP32:4194304 --validate identity".split())
_BATCHED = tuple("--model batched --input INPUT0:FP32:1x16 --validate identity".split())
_REPEAT = tuple("--model repeat --input INPUT0:FP32:4 --responses 1000 --validate identity".split())
_BLS_CHAIN = tuple("--model bls_chain --input INPUT0:FP32:4 --validate identity".split())
_BLS_ASYNC = tuple("--model bls_async --input INPUT0:FP32:4 --validate identity".split())
_ENSEMBLE = tuple("--model ensemble3 --input INPUT0:FP32:262144 --validate identity".split())
_STEPS = tuple(f"identity_{step}=identity" for step in "abc")
_SLEEP = tuple("--model sleep_async --input INPUT0:FP32:4 --validate identity".split())
_ECHO_BYTES = tuple("--model echo_bytes --input INPUT0:BYTES:1000 --validate identity".split())

WORKLOADS = (
    LoadWorkload(
        "W1", "add_sub 16 B, gRPC, c=1", ("add_sub",), "grpc", 1, _ADD_SUB, load_targets(2.4, 0.55, 0.27)
    ),
    LoadWorkload(
        "W1s", "add_sub 16 B, gRPC stream, c=1", ("add_sub",), "grpc-stream", 1, _ADD_SUB,
        load_targets(2.5, 0.55, 0.25),
    ),
    LoadWorkload(
        "W2", "add_sub 16 B, HTTP binary, c=1", ("add_sub",), "http", 1, _ADD_SUB, load_targets(2.2, 0.7, 0.36)
    ),
    LoadWorkload("W2j", "add_sub 16 B, HTTP JSON, c=1", ("add_sub",), "http-json", 1, _ADD_SUB),
    LoadWorkload(
        "W3", "add_sub 16 B, gRPC, c=16", ("add_sub",), "grpc", 16, _ADD_SUB, load_targets(10.0, 0.35, 0.08)
    ),
    LoadWorkload(
        "W3h", "add_sub 16 B, HTTP binary, c=16", ("add_sub",), "http", 16, _ADD_SUB, load_targets(8.0, 0.5, 0.12)
    ),
    LoadWorkload(
        "W4", "identity 1 MiB, gRPC, c=4", ("identity",), "grpc", 4, _IDENTITY_1MIB, load_targets(2.8, 0.6, 0.28)
    ),
    LoadWorkload(
        "W4h", "identity 1 MiB, HTTP binary, c=4", ("identity",), "http", 4, _IDENTITY_1MIB, load_targets(4.0, 0.5, 0.2)
    ),
    LoadWorkload(
        "W5g", "identity 16 MiB, gRPC, c=1", ("identity",), "grpc", 1, _IDENTITY_16MIB, load_targets(2.8, 0.65, 0.3)
    ),
    LoadWorkload(
        "W5h", "identity 16 MiB, HTTP binary, c=1", ("identity",), "http", 1, _IDENTITY_16MIB,
        load_targets(5.9, 0.35, 0.12),
    ),
    LoadWorkload(
        "W6", "1000 decoupled responses of 16 B, gRPC stream, c=1", ("repeat",), "grpc-stream", 1, _REPEAT,
        load_targets(4.0, 0.25, 0.25),
    ),
    LoadWorkload(
        "W7", "BLS, 10 calls one after the other, 16 B, gRPC, c=1", ("bls_chain", "identity"), "grpc", 1, _BLS_CHAIN,
        load_targets(4.0, 0.4, 0.22),
    ),
    LoadWorkload(
        "W7a", "BLS, 10 calls at once, 16 B, gRPC, c=1", ("bls_async", "identity"), "grpc", 1, _BLS_ASYNC,
        load_targets(2.5, 0.4, 0.4),
    ),
    LoadWorkload(
        "W8", "ensemble of 3 identities, 1 MiB, gRPC, c=1", _STEPS + ("ensemble3",), "grpc", 1, _ENSEMBLE,
        load_targets(3.0, 0.6, 0.28),
    ),
    LoadWorkload(
        "W9", "64 at once on an async model that waits 10 ms, gRPC stream", ("sleep_async",), "grpc-stream", 64, _SLEEP,
        load_targets(1.7, 0.6, 0.5),
    ),
    LoadWorkload(
        "W10", "dynamic batching (1 ms a batch, at most 32), gRPC, c=32", ("batched",), "grpc", 32, _BATCHED,
        load_targets(2.5, 0.8, 0.25),
    ),
    LoadWorkload(
        "W11", "echo of 1000 BYTES, gRPC, c=1", ("echo_bytes",), "grpc", 1, _ECHO_BYTES, load_targets(2.5, 0.4, 0.4)
    ),
    StartWorkload(
        "W12", "start to ready and memory at rest, 1 and 10 Python models", "add_sub", 10,
        ((READY_MANY.key, 0.25), (PRIVATE_PER_MODEL.key, 0.4)),
    ),
    LoadWorkload(
        "W13", "identity 16 MiB through system shared memory, gRPC, c=1", ("identity",), "grpc", 1,
        (*_IDENTITY_16MIB, "--shared-memory"), load_targets(4.0, 0.4, 0.22),
    ),
)  # fmt: skip


def _beside_floor(id, cpu, title="", concurrency=None):
    """Returns a workload of the table, or a variant of it, with a bound of its CPU time beside the floor's."""
    origin = next(each for each in WORKLOADS if each.id == id)
    return dataclasses.replace(
        origin,
        id=id if concurrency is None else f"{id}-{concurrency}",
        title=title or origin.title,
        concurrency=concurrency or origin.concurrency,
        targets=((CPU.key, cpu),),
    )


FLOOR_WORKLOADS = (
    *(_beside_floor(id, 1.25) for id in ("W1", "W1s", "W2", "W2j")),
    *(_beside_floor(id, 1.5) for id in ("W3", "W3h")),
    *(
        _beside_floor(id, 1.5, f"add_sub 16 B, {protocol}, c={concurrency}", concurrency)
        for concurrency in (64, 256)
        for id, protocol in (("W3", "gRPC"), ("W3h", "HTTP binary"))
    ),
    *(_beside_floor(id, 1.15) for id in ("W4", "W4h")),
    *(_beside_floor(id, 1.1) for id in ("W5g", "W5h")),
)


def select(ids, workloads=WORKLOADS):
    """Returns the workloads of a comma-separated list, in the table's order; all for an empty list. Raises ValueError."""
    wanted = [each.strip() for each in ids.split(",") if each.strip()]
    known = {each.id for each in workloads}
    unknown = [each for each in wanted if each not in known]
    if unknown:
        raise ValueError(f"no workload {', '.join(unknown)}; there are {', '.join(each.id for each in workloads)}")
    return [each for each in workloads if not wanted or each.id in wanted]
