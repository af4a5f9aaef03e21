"""Classes of requests: the protocol knowledge of the recorder, the player and the mutations."""

import re

# Methods with streams of messages; all others have one message and one answer.
STREAMS = {"ModelStreamInfer", "ServerReflectionInfo", "Watch"}

# Requests that change nothing, and can be repeated until a server has settled.
READ_METHODS = {
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics",
    "RepositoryIndex", "GetModelStatus", "GetModelMetadata", "Check",
}  # fmt: skip
READ_TARGET = re.compile(rb"GET /|HEAD /|POST /v2/repository/index[ ?]")

# Requests that are mutated: they do not change the loaded models.
MUTATED_METHODS = {
    "/inference.GRPCInferenceService/" + name
    for name in ("ModelInfer", "ModelStreamInfer", "ModelMetadata", "ModelReady", "ModelConfig", "ServerMetadata")
} | {
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
    "/tensorflow.serving.ModelService/GetModelStatus",
}
MUTATED_TARGET = re.compile(
    rb"POST /v2/models/[^? ]*/(infer|generate|generate_stream)[? ]|POST /v1/models/[^? ]*:\w+[? ]|"
    rb"GET /v2/(models/[^? ]*)?[? ]|GET /v2/?[? ]|GET /v1/models/"
)
# Targets that a mutation must not produce.
KEPT_AWAY = re.compile(rb"(repository|reload|shutdown|trace|logging|sharedmemory)", re.IGNORECASE)


def method_name(method):
    return method.rpartition("/")[2]


def is_stream(method):
    return method_name(method) in STREAMS


def is_read(begin, data):
    """Whether the request of a `begin` event, with the bytes `data`, changes nothing."""
    if begin["kind"] == "grpc":
        return method_name(begin["method"]) in READ_METHODS
    return bool(READ_TARGET.match(data)) and not begin.get("partial")


def may_be_mutated(begin, data):
    if begin["kind"] == "grpc":
        return begin["method"] in MUTATED_METHODS
    return begin["kind"] == "http" and bool(MUTATED_TARGET.match(data)) and not begin.get("partial")
