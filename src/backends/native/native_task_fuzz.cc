// Decodes arbitrary bytes as the answer of a native worker.
#include "backends/native/native_task.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)braid::DecodeAnswer({reinterpret_cast<const char*>(data), size});
  return 0;
}
