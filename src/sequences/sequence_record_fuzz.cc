// Fuzzes the states of a sequence as a store returns them.
#include "sequences/sequence_record.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  const auto states = DecodeSequenceRecord(record);
  // The encoding of a value is unique.
  if (states.ok()) BRAID_CHECK(EncodeSequenceRecord(*states) == record);
  return 0;
}
