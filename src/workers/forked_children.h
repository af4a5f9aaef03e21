// ForkedChildren: processes forked by one worker's user code that also call the server, such as those of a
// multiprocessing.Pool.
//
// Each gets its own channel and its own thread "brd-py-fork", for calls (BLS) and questions to the server.
// These end with the process or with the worker; pending calls are cancelled.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "serving/call_chain.h"
#include "workers/worker_services.h"

namespace braid {

// Belongs to one life of a worker. Not thread-safe.
class ForkedChildren {
 public:
  // The most children of a worker at one time; further ones are refused.
  static constexpr size_t kMostChildren = 256;

  // The references outlive this, and `arena` also the calls' last buffers. The chain of all calls is `chain`:
  // they block no execution, since the server cannot know which process the worker waits for. The children
  // share the worker's budget `imports`.
  ForkedChildren(const WorkerServices& services, Arena& arena, Logger& log,
                 std::shared_ptr<const CallChain> chain, std::shared_ptr<SegmentBudget> imports);
  // Ends all conversations: cancels their calls, and ignores further messages.
  ~ForkedChildren();

  // Handles a forked process's request for a channel (see ipc/fork_rendezvous.h): grants or refuses it.
  void Admit(UniqueFd fork_socket);
  // The number of children now.
  size_t size();

 private:
  class Child;

  void DropEnded();

  const WorkerServices& services_;
  Arena& arena_;
  Logger& log_;
  const std::shared_ptr<const CallChain> chain_;  // shared by all their calls
  const std::shared_ptr<SegmentBudget> imports_;  // shared by their channels and the worker's
  std::list<std::unique_ptr<Child>> children_;
};

}  // namespace braid
