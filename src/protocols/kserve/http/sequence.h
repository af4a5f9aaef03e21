// What of a request over HTTP names its sequence, beside its parameters: two inputs of stateful models, and
// the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "serving/sequence_inputs.h"
#include "serving/servable.h"

namespace braid {

// One of the two inputs, as it was read.
struct HttpSequenceInput {
  std::optional<SequenceInput> input;
  // Its value comes behind the JSON part, as this one of the parts there.
  std::optional<size_t> part;
};

// The two, when bytes of at least one come behind the JSON part.
class HttpBinarySequence {
 public:
  HttpBinarySequence(HttpSequenceInput id, HttpSequenceInput control)
      : id_(std::move(id)), control_(std::move(control)) {}

  // Where those bytes go. REQUIRES: there is a destination for each part; this outlives them.
  void SetDestinations(std::vector<std::span<std::byte>>& destinations);

  // All of NameSequence() that can be said before the bytes have come.
  Status Check() const;
  // NameSequence(), when they have.
  Status Name(std::string_view header, InferenceRequest& request) const;

 private:
  HttpSequenceInput id_;
  HttpSequenceInput control_;
  uint64_t id_bytes_ = 0;
  uint32_t control_bytes_ = 0;
};

}  // namespace braid
