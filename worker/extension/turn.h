// Turn: one execution, from its message to its response.
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
  // Outputs in memory of the server. They are handed back without a copy if they have no other owner.
  struct Deferred {
    size_t response;
    size_t output;
    Lending* lending;
    std::span<const std::byte> bytes;
  };
  std::vector<Deferred> deferred;
  ExecutedMessage executed;
  // How execute() violated its contract; if empty, a failure is a Python exception.
  std::string violation;
  // A task runs it, and the response follows later.
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
