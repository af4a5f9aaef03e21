"""Converts image files (JPEG, PNG, WebP, ...) to inputs for networks trained on ImageNet, with OpenCV."""

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

SHORTER, SIDE = 256, 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def pixels(file):
    """Returns the middle of an image, [3,224,224]. Raises a ValueError if the bytes are not an image."""
    # In BGR, rotated by the camera's orientation tag. A PNG's transparency is dropped.
    image = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR) if file else None
    if image is None:
        raise ValueError("not an image that OpenCV can decode")
    height, width = image.shape[:2]
    scale = SHORTER / min(height, width)
    size = (max(SIDE, round(width * scale)), max(SIDE, round(height * scale)))
    # INTER_AREA averages the pixels that fall into one; for enlarging it would give blocks.
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    left, top = (size[0] - SIDE) // 2, (size[1] - SIDE) // 2
    middle = cv2.cvtColor(image[top : top + SIDE, left : left + SIDE], cv2.COLOR_BGR2RGB)
    return ((middle.astype(np.float32) / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)


class TritonPythonModel:
    def initialize(self, args):
        # One thread per instance: several instances run in parallel instead.
        cv2.setNumThreads(1)

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()[:, 0]
        try:
            return pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", np.stack([pixels(file) for file in files]))])
        except (ValueError, cv2.error) as error:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(f"IMAGE: {error}", pb_utils.TritonError.INVALID_ARG)
            )
