// WorkerCalls: the requests that one worker's user code runs on servables of the server (BLS).
//
// A call is a request like any other: found in the catalog, checked, scheduled and counted by its servable.
// It starts on the thread that receives from the worker; its responses go into the worker's channel from
// whichever thread brings them. Nothing here blocks, and no bytes of tensors are copied.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/gate.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "serving/catalog.h"
#include "serving/request.h"
#include "workers/worker_memory.h"

namespace braid {

// Shared by the instance and by the calls that have not ended, which may outlive the worker.
class WorkerCalls : public std::enable_shared_from_this<WorkerCalls> {
 public:
  // Calls of one worker that may be pending at once: more than user code that waits for its answers ever has,
  // and less than what would exhaust the memory.
  static constexpr size_t kMostPending = 65536;

  // `catalog` outlives the last call.
  WorkerCalls(std::shared_ptr<Channel> channel, std::shared_ptr<WorkerMemory> memory, const Catalog& catalog);
  ~WorkerCalls();

  // Runs a call. `trace` is that of the request which it is made for, or null; `begun_ns` is when that began:
  // the call cannot have been made before. The receiving thread. Errors: the worker broke the rules and is to
  // be ended; what is wrong with the call itself is answered.
  Status Begin(const CallMessage& message, std::shared_ptr<const CallChain> chain, RequestTrace* trace,
               int64_t begun_ns);
  // Cancels a call; one that has ended already is no error. Its responses stop, but for the final one. The
  // receiving thread.
  void Cancel(const CancelCallMessage& message);

  // The worker is gone: cancels all its calls. When this returns, no response is on its way any more; those
  // that come later are dropped.
  void Abandon();

  // Calls that have not ended. Any thread.
  size_t pending() const;
  // The worker does not take its responses, and is to be ended. Any thread.
  bool stuck() const { return stuck_.load(std::memory_order_acquire); }

 private:
  class Call;

  Result<std::unique_ptr<InferenceRequest>> MakeRequest(const CallMessage& message);
  Result<std::unique_ptr<ServableHandle>> FindServable(const CallMessage& message);
  void Answer(Call& call, std::optional<InferenceResponse> response, bool final);
  void Pass(Call& call, std::optional<InferenceResponse> response, bool final);
  Status Send(uint64_t id, const std::optional<InferenceResponse>& response, bool final);

  const std::shared_ptr<Channel> channel_;      // shared with the instance
  const std::shared_ptr<WorkerMemory> memory_;  // shared with the instance and lent buffers
  const Catalog& catalog_;
  CatalogReader reader_;  // the receiving thread's
  Gate responses_;        // closed when the worker is gone
  std::atomic<bool> stuck_{false};

  mutable Mutex mutex_;  // a leaf lock
  // A call is shared with its request, which cancels by it.
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
