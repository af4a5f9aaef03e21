// The state of a NodeRunner's calls and sessions.
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
    kQueued,     // is in the queue
    kRunning,    // a thread runs it
    kSuspended,  // its generator has no credit left
  };
  std::vector<std::byte> message;  // holds the bytes of `execute`
  NodeExecuteMessage execute;
  std::vector<Ref> objects;  // inputs that are objects of this worker, by input; null for others
  State state = State::kQueued;
  bool begun = false;
  bool closed = false;  // the server wants no more results
  uint64_t credit = 0;  // items that the generator may send
  Ref iterator;         // null until execute() returns a generator
};

// The state of one run of the graph.
struct NodeRunner::Session {
  std::string parameters_json;
  size_t calls = 0;  // in progress
  bool ending = false;
  std::map<uint32_t, Ref> states;  // pyovms.Session, by node index
};

// A step message to be sent. `holds` owns the texts that it refers to.
struct NodeRunner::Step {
  NodeStepMessage message;
  std::vector<Ref> holds;
  std::vector<bool> filled;  // by output index
};

}  // namespace braid
