// Turn: one execution, from its message to its answer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/extension/worker.h"

namespace braid {

struct Worker::Turn {
  std::vector<std::shared_ptr<OpenRequest>> requests;  // shared with the Python objects
  Ref list;                                            // of InferenceRequest
  Ref result;                                          // of execute()
  std::vector<std::shared_ptr<Lending>> lendings;      // shared with the Python objects
  std::vector<OutgoingResponse> responses;
  // Outputs that lie in memory of the server, which go back as they are if nobody else looks at them.
  struct Deferred {
    size_t response;
    size_t output;
    Lending* lending;
    std::span<const std::byte> bytes;
  };
  std::vector<Deferred> deferred;
  ExecutedMessage executed;
  // What execute() did against the rules; otherwise, a failure is a Python exception.
  std::string violation;
  // A task has it, and it is answered later.
  bool handed_over = false;

  bool Violates(std::string text) {
    violation = std::move(text);
    return false;
  }
  Lending* LendingOf(const PyTensor& tensor) const {
    for (const auto& lending : lendings) {
      if (lending->Contains(tensor.data, tensor.size)) return lending.get();
    }
    return nullptr;
  }
};

struct Worker::Started {
  Turn turn;
  Ref task;
};

}  // namespace braid
