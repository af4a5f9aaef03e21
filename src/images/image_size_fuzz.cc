// Fuzzes the headers of encoded images, which give the size before decoding.
#include "images/image_size.h"

#include <string>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  // A separate allocation, so that reads beyond its end are detected.
  const std::string encoded(reinterpret_cast<const char*>(data), size);
  const auto image = ReadImageSize(encoded);
  if (image) BRAID_CHECK(image->width > 0 && image->height > 0);
  return 0;
}
