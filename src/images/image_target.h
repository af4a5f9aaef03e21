// What an input wants of the images that it is given, as its specification tells it.
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
  // Of rank 5: each image is a batch of its own.
  bool nested = false;

  int64_t channels() const { return gray ? 1 : 3; }
  // The size that an image of this size gets: each side as near to its own as may be.
  ImageSize SizeFor(ImageSize image) const;
  // The shape of `count` images.
  Shape ShapeOf(int64_t count, ImageSize size) const;
};

// REQUIRES: `input` is of rank 4 or 5. Errors: kUnsupportedLayout when its layout is not NHWC (or one that
// may be), or there is none and the dimensions are those of NCHW; kInvalidNoOfChannels when it takes neither
// three channels nor one.
Result<ImageTarget> ImageTargetOf(const TensorSpec& input);

}  // namespace braid
