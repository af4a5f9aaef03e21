// WorkerConversation: the server's end of a channel with a process that runs user code: returned memory,
// calls (BLS), questions, log lines. A worker has one, and so has each of its forked children.
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

// Belongs to the receiving thread; channel() and memory() have their own rules.
class WorkerConversation {
 public:
  // The origin of a call. `chain` must not be null.
  struct Origin {
    std::shared_ptr<const CallChain> chain;
    std::shared_ptr<RequestTrace> trace;  // may be null
    int64_t begun_ns = 0;                 // start of the execution that the call is made for; 0: unknown
  };

  using OriginOf = std::function<Origin(const CallMessage&)>;

  // The references outlive this, and `arena` the last buffer lent to the process.
  WorkerConversation(std::shared_ptr<Channel> channel, Arena& arena, const WorkerServices& services,
                     Logger& log, OriginOf origin_of);

  const std::shared_ptr<Channel>& channel() const { return channel_; }
  const std::shared_ptr<WorkerMemory>& memory() const { return memory_; }
  // Whether the process does not read the responses to its calls, and must be ended.
  bool stuck() const { return calls_->stuck(); }

  // Handles a message of a conversation; returns false for any other. Errors: the process broke the rules.
  Result<bool> Handle(const std::vector<std::byte>& message);

  // Ends the conversation of a dead process: cancels its calls, and takes back the memory lent to it.
  void Abandon();

  // The error for a malformed message.
  static Status Malformed();

 private:
  const WorkerServices& services_;
  Logger& log_;
  const OriginOf origin_of_;
  const int64_t begun_ns_;
  const std::shared_ptr<Channel> channel_;           // shared with holders of the process's memory
  const std::shared_ptr<WorkerMemory> memory_;       // shared with the buffers that the process lends
  const std::shared_ptr<WorkerCalls> calls_;         // shared with unfinished calls
  std::unique_ptr<CustomMetrics::Session> metrics_;  // the metrics of the process
};

// Writes a line of user code's Logger to the server's log.
void WriteWorkerLog(Logger& log, const LogMessage& message);

}  // namespace braid
