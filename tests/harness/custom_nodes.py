"""The built-in custom nodes."""

from harness.server import BINARY

NAMES = (
    "add_one",
    "east_ocr",
    "face_blur",
    "horizontal_ocr",
    "image_transformation",
    "model_zoo_intel_object_detection",
)
# The names of their libraries, sorted, and the folder of the build that has them.
FILES = [f"libcustom_node_{name}.so" for name in NAMES]
FOLDER = BINARY.parent / "lib" / "custom_nodes"
