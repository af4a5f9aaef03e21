// WorkerCalls: requests by one worker's user code to servables of the server (BLS).
//
// A call is a request like any other: its servable is found in the catalog, and checks, schedules and counts
// it. It starts on the thread that receives from the worker. Any thread may put its responses into the
// worker's channel. Nothing here blocks, and no tensor bytes are copied.
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
#include "workers/shared_arrays.h"
#include "workers/worker_memory.h"

namespace braid {

// Shared by the instance and by unfinished calls, which may outlive the worker.
class WorkerCalls : public std::enable_shared_from_this<WorkerCalls> {
 public:
  // The most pending calls of one worker: more than user code that waits for its answers needs, and few
  // enough to fit in memory.
  static constexpr size_t kMostPending = 65536;

  // `catalog` and `arrays` outlive the last call. Without `arrays` there are no shared arrays.
  WorkerCalls(std::shared_ptr<Channel> channel, std::shared_ptr<WorkerMemory> memory, const Catalog& catalog,
              SharedArrays* arrays = nullptr);
  ~WorkerCalls();

  // Starts a call. The request that it is made for has the trace `trace`, or null, and began at `begun_ns`, so
  // the call is not older. Only the receiving thread. Errors: the worker broke the rules and must be ended. An
  // error of the call itself is sent as its answer.
  Status Begin(const CallMessage& message, std::shared_ptr<const CallChain> chain,
               std::shared_ptr<RequestTrace> trace, int64_t begun_ns);
  // Cancels a call; ignores one that has already ended. Its responses stop, except for the final one. Only
  // the receiving thread.
  void Cancel(const CancelCallMessage& message);

  // Cancels all calls of a dead worker. When this returns, no response is being sent; later ones are dropped.
  void Abandon();

  // The number of unfinished calls. Any thread.
  size_t pending() const;
  // Whether the worker does not read its responses, and must be ended. Any thread.
  bool stuck() const { return stuck_.load(std::memory_order_acquire); }

 private:
  class Call;
  // A call that has not reached its servable.
  struct NewCall;

  Result<std::unique_ptr<InferenceRequest>> MakeRequest(const CallMessage& message);
  // Finds the servable and begins the request, or has the servable loaded first. Answers any error.
  void Start(NewCall call, CatalogReader& reader);
  Status FindServable(NewCall& call, CatalogReader& reader);
  void StartAfterLoad(NewCall call);
  void Answer(Call& call, std::optional<InferenceResponse> response, bool final);
  void Pass(Call& call, std::optional<InferenceResponse> response, bool final);
  Status Send(uint64_t id, const std::optional<InferenceResponse>& response, bool final);

  const std::shared_ptr<Channel> channel_;      // shared with the instance
  const std::shared_ptr<WorkerMemory> memory_;  // shared with the instance and lent buffers
  const Catalog& catalog_;
  SharedArrays* const arrays_;
  CatalogReader reader_;  // the receiving thread's
  Gate responses_;        // closed when the worker is gone
  std::atomic<bool> stuck_{false};

  mutable Mutex mutex_;  // a leaf lock
  // A call is shared with its request, which uses it to cancel.
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
