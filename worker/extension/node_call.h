// What a NodeRunner keeps of a call and of a run of the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/extension/node_runner.h"

namespace braid {

// One execution of a node, from its message to its last step.
struct NodeRunner::Call {
  enum class State : uint8_t {
    kQueued,     // has a place in the queue
    kRunning,    // a thread is at it
    kSuspended,  // its generator may not go on
  };
  std::vector<std::byte> message;  // what `execute` has views of
  NodeExecuteMessage execute;
  std::vector<Ref> objects;  // the inputs that are objects of this worker, by their place; null for others
  State state = State::kQueued;
  bool begun = false;
  bool closed = false;  // nobody wants more of it
  uint64_t credit = 0;  // items that may be sent
  Ref iterator;         // null until execute() has returned one
};

// One run of the graph.
struct NodeRunner::Session {
  std::string parameters_json;
  size_t calls = 0;  // under way
  bool ending = false;
  std::map<uint32_t, Ref> states;  // pyovms.Session, by the place of the node
};

// A step on its way. The texts in its message are views of what it holds.
struct NodeRunner::Step {
  NodeStepMessage message;
  std::vector<Ref> holds;
  std::vector<bool> filled;  // by the place of the output
};

}  // namespace braid
