// RequestCycle: the requests of one slot of the generator, in order: always the same, one for each model in
// turn, or the steps of sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"

namespace braid::bench {

// `Message` is the driver's message type; one is made for each different request.
template <class Message>
class RequestCycle {
 public:
  // Makes the cycles of one run. `encode` makes a Message from Options; `options` outlives the object.
  class Maker {
   public:
    Maker(const Options& options, Message (*encode)(const Options&)) : options_(options), encode_(encode) {
      if (options_.sequence_steps > 0) return;
      if (options_.models.size() == 1) {  // without a copy of its tensors
        same_.push_back(std::make_shared<const Message>(encode_(options_)));
        return;
      }
      for (const std::string& model : options_.models) {
        Options one = options_;
        one.models = {model};
        same_.push_back(std::make_shared<const Message>(encode_(one)));
      }
    }

    // Makes the cycle of one more slot. Its sequences have their own id, and it begins with another model.
    // Thread-safe.
    RequestCycle Make() const {
      const uint64_t slot = slots_.fetch_add(1, std::memory_order_relaxed);
      if (!same_.empty()) {
        RequestCycle cycle(same_, static_cast<int>(same_.size()));
        cycle.next_ = static_cast<int>(slot % same_.size());
        return cycle;
      }
      const std::string id = std::to_string(1 + slot);
      std::vector<std::shared_ptr<const Message>> messages;
      for (const int step : {0, 1, options_.sequence_steps - 1}) {
        Options one = options_;
        one.parameters["sequence_id"] = id;
        if (step == 0) one.parameters["sequence_start"] = "true";
        if (step == options_.sequence_steps - 1) one.parameters["sequence_end"] = "true";
        messages.push_back(std::make_shared<const Message>(encode_(one)));
      }
      return RequestCycle(std::move(messages), options_.sequence_steps);
    }

   private:
    const Options& options_;
    Message (*const encode_)(const Options&);
    std::vector<std::shared_ptr<const Message>> same_;  // shared by all slots; empty with sequences
    mutable std::atomic<uint64_t> slots_{0};
  };

  explicit RequestCycle(std::shared_ptr<const Message> same) : messages_{std::move(same)} {}

  // Returns the next request.
  const Message& Next() {
    const int step = next_;
    next_ = (next_ + 1) % steps_;
    if (messages_.size() == static_cast<size_t>(steps_)) return *messages_[static_cast<size_t>(step)];
    return *messages_[step == 0 ? 0 : step + 1 == steps_ ? 2 : 1];
  }

 private:
  RequestCycle(std::vector<std::shared_ptr<const Message>> messages, int steps)
      : messages_(std::move(messages)), steps_(steps) {}

  std::vector<std::shared_ptr<const Message>> messages_;  // one for each step; or first, middle and last
  int steps_ = 1;
  int next_ = 0;
};

}  // namespace braid::bench
