// BatchedModel: the policy of a model whose requests wait in one queue, with or without dynamic batching. The
// first requests of the queue form an execution (DecideBatch()). It goes to an idle instance. If none is
// idle, it goes ahead of time to the least busy one, within PipelineDepth().
#pragma once

#include <memory>
#include <vector>

#include "scheduling/batching_policy.h"
#include "scheduling/cache_link.h"
#include "scheduling/instance_pool.h"
#include "scheduling/request_queue.h"
#include "scheduling/response_order.h"

namespace braid {

class BatchedModel : public InstancePool {
 public:
  BatchedModel(ServableInfo info, std::unique_ptr<BackendModel> backend, BatchingPolicy policy,
               Timers& timers, Logger& log, const Options& options);
  ~BatchedModel() override { StopIfStarted(); }

  void Infer(std::unique_ptr<InferenceRequest> request) override;

 protected:
  // Queues a request for an instance, or runs it at once. A request that can do neither ends.
  void EnqueueLocked(std::unique_ptr<InferenceRequest> request, int64_t now_ns, Work& work)
      BRAID_REQUIRES(mutex_);

  int64_t RunLocked(int64_t now_ns, Work& work) override BRAID_REQUIRES(mutex_);
  size_t QueuedLocked() const override BRAID_REQUIRES(mutex_) { return queue_.size(); }
  void EndWaitingLocked(EndReason why, int64_t now_ns, Endings& endings) override BRAID_REQUIRES(mutex_);
  void CancelLocked(InferenceRequest& request, int64_t now_ns, Endings& endings) override
      BRAID_REQUIRES(mutex_);
  void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work) override
      BRAID_REQUIRES(mutex_);
  bool TakeResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse>& response,
                    bool final) override;

 private:
  bool AnswerFromCache(InferenceRequest& request);
  Slot* PickSlotLocked(int64_t now_ns) BRAID_REQUIRES(mutex_);
  BatchDecision DecideLocked(int64_t now_ns) BRAID_REQUIRES(mutex_);
  // Registers the first `count` requests in the call graph, before they are queued at the slot's instance.
  // Returns false if one of them would never run there.
  bool WaitAheadLocked(Slot& slot, size_t count) BRAID_REQUIRES(mutex_);
  std::unique_ptr<Execution> TakeFirstLocked(size_t count) BRAID_REQUIRES(mutex_);

  const BatchingPolicy policy_;
  const std::unique_ptr<const CacheLink> cache_;  // null if the model's responses are not cached
  // Null unless preserve_ordering. Shared with responses that are being delivered.
  const std::shared_ptr<ResponseOrder> order_;

  RequestQueue queue_ BRAID_GUARDED_BY(mutex_);
  std::vector<WaitingRequest> waiting_ BRAID_GUARDED_BY(mutex_);  // scratch space of DecideLocked()
};

}  // namespace braid
