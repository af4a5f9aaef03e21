// A sink that counts ends, for tests with many requests. It deletes itself at the end, like the calls of
// protocols.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "serving/request.h"

namespace braid {

class CountingSink final : public ResponseSink {
 public:
  // `open` is incremented by the test and decremented here.
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
