// ImageTarget: the images that an input accepts, derived from its specification.
#pragma once

#include <string>

#include "base/status.h"
#include "images/image_size.h"
#include "serving/servable.h"

namespace braid {

struct ImageTarget {
  DimensionRange batch;
  DimensionRange height;
  DimensionRange width;
  bool gray = false;
  // For rank 5: each image is a batch by itself.
  bool nested = false;

  int64_t channels() const { return gray ? 1 : 3; }
  // Returns the size to which an image is resized: each side as close to its own as the input allows.
  ImageSize SizeFor(ImageSize image) const;
  // Returns the shape of `count` images.
  Shape ShapeOf(int64_t count, ImageSize size) const;
};

// REQUIRES: `input` has rank 4 or 5. Errors: kUnsupportedLayout if its layout cannot be NHWC, or if it has no
// layout and the dimensions are those of NCHW. kInvalidNoOfChannels if it takes neither three channels nor
// one.
Result<ImageTarget> ImageTargetOf(const TensorSpec& input);

}  // namespace braid
