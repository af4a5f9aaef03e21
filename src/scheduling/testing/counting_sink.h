// A sink that counts ends, for tests with many requests. Deletes itself with the end, as the calls of
// protocols do.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "serving/request.h"

namespace braid {

class CountingSink final : public ResponseSink {
 public:
  // `open` counts down from what the test has counted up.
  CountingSink(std::atomic<int>& ended, std::atomic<int>& open) : ended_(ended), open_(open) {}
  void Respond(std::optional<InferenceResponse>, bool final) override {
    EXPECT_FALSE(inside_.exchange(true));
    inside_ = false;
    if (!final) return;
    ++ended_;
    --open_;
    delete this;
  }

 private:
  std::atomic<int>& ended_;
  std::atomic<int>& open_;
  std::atomic<bool> inside_{false};
};

}  // namespace braid
