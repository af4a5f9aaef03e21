// Headers of encoded images, which say how large the picture is before anything is decoded.
#include "images/image_size.h"

#include <string>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  // In memory of its own, behind which no byte may be read.
  const std::string encoded(reinterpret_cast<const char*>(data), size);
  const auto image = ReadImageSize(encoded);
  if (image) BRAID_CHECK(image->width > 0 && image->height > 0);
  return 0;
}
