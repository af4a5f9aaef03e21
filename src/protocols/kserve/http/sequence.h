// Reads the sequence of an HTTP request from the two inputs of stateful models and from the header.
// Parameters are read elsewhere.
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

// One of the two inputs, as read from the JSON part.
struct HttpSequenceInput {
  std::optional<SequenceInput> input;
  // The index of its value among the binary parts after the JSON part, if its value is there.
  std::optional<size_t> part;
};

// Both inputs, for a request where the value of at least one follows the JSON part.
class HttpBinarySequence {
 public:
  HttpBinarySequence(HttpSequenceInput id, HttpSequenceInput control)
      : id_(std::move(id)), control_(std::move(control)) {}

  // Sets the destinations of those values. REQUIRES: there is a destination for each part; this object
  // outlives them.
  void SetDestinations(std::vector<std::span<std::byte>>& destinations);

  // Does the checks of NameSequence() that do not need the values.
  Status Check() const;
  // Calls NameSequence() once the values have arrived.
  Status Name(std::string_view header, InferenceRequest& request) const;

 private:
  HttpSequenceInput id_;
  HttpSequenceInput control_;
  uint64_t id_bytes_ = 0;
  uint32_t control_bytes_ = 0;
};

}  // namespace braid
