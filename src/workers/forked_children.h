// ForkedChildren: the processes that one worker's user code has forked and that call the server as well, such
// as those of a multiprocessing.Pool.
//
// Each gets a channel and a thread "brd-py-fork" of its own, for calls (BLS) and questions to the server. It
// ends with the process, or with the worker; its calls are cancelled then.
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

// Of one worker's life. Not for two threads at once.
class ForkedChildren {
 public:
  // Of one worker that live at the same time; more are refused.
  static constexpr size_t kMostChildren = 256;

  // The references outlive this; `arena` also the calls' last buffers. `chain` is that of calls which block
  // no execution: nobody can know what the worker's own process waits for. `imports` is the worker's, which
  // the processes have a share in.
  ForkedChildren(const WorkerServices& services, Arena& arena, Logger& log,
                 std::shared_ptr<const CallChain> chain, std::shared_ptr<SegmentBudget> imports);
  // Ends all: their calls are cancelled, and what they say is heard no more.
  ~ForkedChildren();

  // A forked process asks for a channel on this socket (see ipc/fork_rendezvous.h); it gets one or is refused.
  void Admit(UniqueFd fork_socket);
  // How many there are now.
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
