// BatchedModel: the policy of a model whose requests wait in one queue, with or without dynamic batching. The
// requests that leave it first go together (DecideBatch()), to an idle instance, or ahead to the busy one
// that has the least to do, as far as that is worth it (PipelineDepth()).
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
  // Lets a request wait for an instance, or run at once; one that cannot ends.
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
  // Lets the call graph know of the first `count` requests, which are about to stand behind what the slot
  // runs; false when one of them would never run there.
  bool WaitAheadLocked(Slot& slot, size_t count) BRAID_REQUIRES(mutex_);
  std::unique_ptr<Execution> TakeFirstLocked(size_t count) BRAID_REQUIRES(mutex_);

  const BatchingPolicy policy_;
  const std::unique_ptr<const CacheLink> cache_;  // null when the model's responses are not kept
  // Null unless preserve_ordering; shared with the responses on their way.
  const std::shared_ptr<ResponseOrder> order_;

  RequestQueue queue_ BRAID_GUARDED_BY(mutex_);
  std::vector<WaitingRequest> waiting_ BRAID_GUARDED_BY(mutex_);  // scratch of DecideLocked()
};

}  // namespace braid
