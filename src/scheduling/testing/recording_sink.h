// A sink that records its responses.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "serving/request.h"

namespace braid {

class RecordingSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool final) override {
    BRAID_CHECK(!ended);
    ended = final;
    if (response) responses.push_back(std::move(*response));
    if (on_response) on_response();
  }

  // The status of the last response; OK if there is none.
  Status status() const { return responses.empty() ? OkStatus() : responses.back().status; }

  std::vector<InferenceResponse> responses;
  bool ended = false;
  std::function<void()> on_response;
};

}  // namespace braid
