// WorkerConversation: the server's end of a channel with a process that runs users' code, as all such processes use it:
// memory that comes back, calls (BLS), questions, log lines. A worker has one, and each of its forked children.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "serving/custom_metrics.h"
#include "workers/worker_calls.h"
#include "workers/worker_memory.h"
#include "workers/worker_services.h"

namespace braid {

// Belongs to the thread that receives, apart from what channel() and memory() allow.
class WorkerConversation {
 public:
  // What a call is made for. `chain` must not be null.
  struct Origin {
    std::shared_ptr<const CallChain> chain;
    std::shared_ptr<RequestTrace> trace;  // may be null
    int64_t begun_ns = 0;                 // when the execution began that it is made for; 0: not known
  };

  using OriginOf = std::function<Origin(const CallMessage&)>;

  // The references outlive this, and `arena` the last buffer that is lent.
  WorkerConversation(std::shared_ptr<Channel> channel, Arena& arena, const WorkerServices& services,
                     Logger& log, OriginOf origin_of);

  const std::shared_ptr<Channel>& channel() const { return channel_; }
  const std::shared_ptr<WorkerMemory>& memory() const { return memory_; }
  // The process does not take the responses to its calls, and is to be ended.
  bool stuck() const { return calls_->stuck(); }

  // Handles a message of these; false for another. Errors: the process broke the rules.
  Result<bool> Handle(const std::vector<std::byte>& message);

  // The process has ended: cancels its calls, and takes back the memory that it borrowed.
  void Abandon();

  // The error of a message that is none of its type.
  static Status Malformed();

 private:
  const WorkerServices& services_;
  Logger& log_;
  const OriginOf origin_of_;
  const int64_t begun_ns_;
  const std::shared_ptr<Channel> channel_;           // shared with holders of the process's memory
  const std::shared_ptr<WorkerMemory> memory_;       // shared with the buffers that the process lends
  const std::shared_ptr<WorkerCalls> calls_;         // shared with the calls that have not ended
  std::unique_ptr<CustomMetrics::Session> metrics_;  // what the process refers to
};

// Writes a line of user code's Logger to the server's log.
void WriteWorkerLog(Logger& log, const LogMessage& message);

}  // namespace braid
