// Inputs and outputs in a region of system shared memory, which the server is told of by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expectation.h"
#include "payload.h"

namespace braid::bench {

// The inputs, then as much room for an output each. For one request at a time.
class SharedPayload {
 public:
  static Result<std::shared_ptr<SharedPayload>> Make(const std::vector<InputTensor>& inputs);
  ~SharedPayload();
  SharedPayload(const SharedPayload&) = delete;
  SharedPayload& operator=(const SharedPayload&) = delete;

  // The key is the region's name, too.
  const std::string& key() const { return key_; }
  size_t byte_size() const { return byte_size_; }
  size_t input_offset(size_t i) const { return offsets_[i]; }
  size_t output_offset(size_t i) const { return byte_size_ / 2 + offsets_[i]; }

  // Before a request: what was there must not pass for its answer.
  void SpoilOutputs();
  // Puts what is in the region in the place of the outputs' bytes, which the response does not have.
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
