// CallChain: on whose behalf a request runs, from the model that called it outwards.
//
// A model's instance that waits for a call of its own (BLS) cannot run anything meanwhile. A request that
// waits for an instance which itself waits, directly or not, for that request would wait for ever; the chain
// is what such a cycle is found by, and what the error names.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace braid {

struct CallChain {
  // The caller, as it is named to users.
  std::string model;
  std::string instance;
  // Identifies the instance that is blocked by the call (its Instance object); null when it is not blocked,
  // for instance in a call from a thread of its own.
  const void* blocked_instance = nullptr;
  // The chains of the requests that the blocked execution works on, each once: they wait for this call too.
  // Shared by all calls made for them. None when the caller is not blocked.
  std::vector<std::shared_ptr<const CallChain>> parents;
  // It asks for each request that it gets, as graphs and pipelines do, while user code may have an end.
  bool passes_on = false;
};

}  // namespace braid
