"""Converts image files (JPEG, PNG, WebP, ...) to inputs for networks trained on ImageNet, with Pillow."""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image, ImageOps

SHORTER, SIDE = 256, 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def pixels(file):
    """Returns the middle of an image, [3,224,224]. Raises an OSError if the bytes are not an image, or it is too large."""
    try:
        image = Image.open(io.BytesIO(file))
        # A JPEG is decoded at a half, a quarter or an eighth of its size if that is enough.
        image.draft("RGB", (SHORTER, SHORTER))
        # Rotated by the camera's orientation tag. A PNG's transparency is dropped.
        image = ImageOps.exif_transpose(image).convert("RGB")
    except Image.DecompressionBombError as error:
        raise OSError(str(error)) from error
    scale = SHORTER / min(image.size)
    size = tuple(max(SIDE, round(side * scale)) for side in image.size)
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = (size[0] - SIDE) // 2, (size[1] - SIDE) // 2
    middle = np.asarray(image.crop((left, top, left + SIDE, top + SIDE)), np.float32)
    return ((middle / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)


class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()[:, 0]
        try:
            return pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", np.stack([pixels(file) for file in files]))])
        except (OSError, ValueError) as error:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(f"IMAGE: {error}", pb_utils.TritonError.INVALID_ARG)
            )
