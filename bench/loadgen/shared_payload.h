// SharedPayload: inputs and outputs in a region of system shared memory, registered with the server by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expectation.h"
#include "payload.h"

namespace braid::bench {

// The inputs, and then equal space for each output. Used by one request at a time.
class SharedPayload {
 public:
  static Result<std::shared_ptr<SharedPayload>> Make(const std::vector<InputTensor>& inputs);
  ~SharedPayload();
  SharedPayload(const SharedPayload&) = delete;
  SharedPayload& operator=(const SharedPayload&) = delete;

  // The key is also the region's name.
  const std::string& key() const { return key_; }
  size_t byte_size() const { return byte_size_; }
  size_t input_offset(size_t i) const { return offsets_[i]; }
  size_t output_offset(size_t i) const { return byte_size_ / 2 + offsets_[i]; }

  // Overwrites the outputs before a request, so that old bytes are not taken for its response.
  void SpoilOutputs();
  // Sets the outputs' bytes, which the response does not contain, to those in the region.
  void FillIn(std::vector<OutputView>& outputs) const;

 private:
  SharedPayload(std::string key, char* base, size_t byte_size)
      : key_(std::move(key)), base_(base), byte_size_(byte_size) {}

  const std::string key_;
  char* const base_;
  const size_t byte_size_;
  std::vector<size_t> offsets_;
  std::vector<size_t> sizes_;
};

}  // namespace braid::bench
