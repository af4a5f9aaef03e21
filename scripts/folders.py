"""The folders of src/ and tools/, their allowed dependencies, and the names of their targets."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# From the lowest layer to the highest. A folder may use the folders named here, which must come before it; "*" means
# all of them.
USES = {
    "base": "",
    "http_client": "base",
    "isolation": "base",
    "tensor": "base",
    "gpu": "base tensor",
    "ipc": "base tensor",
    "serving": "base tensor",
    "config": "base tensor serving",
    "images": "base tensor serving",
    "tracing": "base tensor serving http_client",
    "scheduling": "base tensor serving images",
    "sequences": "base http_client tensor serving images scheduling",
    "workers": "base isolation tensor ipc serving scheduling",
    "storage": "base isolation config workers",
    "backends/python": "base isolation tensor ipc config serving scheduling workers storage",
    "backends/openvino": "base tensor config serving scheduling",
    "pipeline": "base tensor config serving images scheduling sequences",
    "custom_nodes": "",
    "backends/native": "base isolation tensor ipc config serving images scheduling workers backends/openvino pipeline",
    "graph": "base",
    "mediapipe_graph": "base tensor config serving scheduling backends/python graph",
    "repository": "base tensor config serving scheduling sequences workers storage pipeline backends/openvino",
    "protocols/access": "base config",
    "protocols/net": "base tensor serving",
    "protocols/http": "base tensor serving protocols/access protocols/net",
    "protocols/http2": "base tensor",
    "protocols/grpc": "base tensor serving protocols/access protocols/net protocols/http2",
    "protocols/json": "base tensor serving protocols/http",
    "protocols/inference": "base gpu tensor serving protocols/access protocols/net protocols/http protocols/http2 protocols/grpc protocols/json",
    "protocols/kserve": "base tensor serving protocols/access protocols/net protocols/http protocols/grpc protocols/json protocols/inference",
    "protocols/tfs": "base tensor serving protocols/access protocols/net protocols/http protocols/grpc protocols/json protocols/inference",
    "protocols/openai": "base config tensor serving protocols/access protocols/net protocols/http protocols/json protocols/inference",
    "protocols/metrics": "base gpu tensor serving protocols/access protocols/net protocols/http",
    "protocols/console": "base tensor serving protocols/access protocols/net protocols/http protocols/inference",
    "protocols/openapi": "base tensor serving protocols/access protocols/net protocols/http",
    "server": "*",
    "tools/load": "base http_client",
    "tools/fleet": "base http_client tools/load",
    "tools/check": "base gpu isolation tensor config serving scheduling sequences backends/python backends/openvino pipeline graph mediapipe_graph repository server",
    "tools/commands": "*",
}
TESTS_USE = {
    "scheduling": "sequences",
    "sequences": "config repository",
    "backends/openvino": "sequences",
    "custom_nodes": "base tensor serving pipeline",
    "mediapipe_graph": "pipeline",
    "protocols/tfs": "protocols/kserve",
}


def place_of(folder: str) -> pathlib.Path:
    """Returns the path of a folder of the list."""
    return ROOT / folder if folder.startswith("tools/") else ROOT / "src" / folder


def folder_of(path: str) -> str:
    """Returns the folder of the list that contains a file of the checkout; "" if none does, as for generated headers."""
    parts = path.removeprefix("src/").split("/")
    found = "/".join(parts[:2]) if parts[0] in ("protocols", "backends", "tools") else parts[0]
    return found if found in USES and len(parts) > 1 else ""


def folder_of_include(path: str) -> str:
    """Like folder_of(), for the path in an #include, which is relative to src/ or tools/."""
    return folder_of(path) or folder_of(f"tools/{path}")


def used_by(folder: str) -> set[str]:
    """Returns the folders that a folder may use."""
    order = list(USES)
    return set(order[: order.index(folder)] if USES[folder] == "*" else USES[folder].split())


def library_of(folder: str) -> str:
    """Returns the name of a folder's library in its CMakeLists.txt. Its unit tests are the program NAME_test and the ctest NAME."""
    found = re.search(r"^braid_library\((\w+)", (place_of(folder) / "CMakeLists.txt").read_text(), re.MULTILINE)
    return found[1] if found else ""


def users_of(folder: str) -> list[str]:
    """Returns the folders that may use a folder, itself first."""
    return [folder, *(each for each in USES if folder in used_by(each))]
