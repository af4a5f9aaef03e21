// DagServable: the servable that runs a DAG: an ensemble or a pipeline. What differs between those two is in
// its DagPlan.
//
// Each request has a session. Its steps are looked up when the session begins, so that models may be reloaded
// meanwhile; what was found then serves that request to its end. It owns no thread, no process and no memory.
//
// One that says of itself that it is stateful has a sequence in each request, whose name goes to all steps
// and, as one more output, back with each response. The requests of a sequence run one at a time, in the
// order in which they have come (see sequence_queue.h). A start or an end goes to each step that has
// sequences, and so does the name: a client that names none gets one which they all know. When a request
// fails, what steps have done for it is taken back (see Compensation) before the client hears of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "images/encoded_images.h"
#include "pipeline/dag_plan.h"
#include "pipeline/session.h"
#include "scheduling/cache_link.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "sequences/sequence_queue.h"
#include "serving/catalog.h"
#include "serving/servable.h"

namespace braid {

// What the DAGs of a server share, and which outlives them.
struct DagDeps {
  const Catalog& catalog;
  Timers& timers;
  CallGraph& call_graph;
  ImageDecoder* images = nullptr;  // null where no request has images
  ResponseCache* cache = nullptr;  // null without one
};

class DagServable final : public Servable, private SequenceQueue::Runner {
 public:
  // Outputs of `info` are those of the DAG, in order. What the catalog has under this name and version gives
  // its queue to the new one.
  static std::shared_ptr<Servable> Create(ServableInfo info, std::shared_ptr<const DagPlan> plan,
                                          const DagDeps& deps);
  // `queue` may be null unless the servable is stateful.
  DagServable(ServableInfo info, std::shared_ptr<const DagPlan> plan, std::shared_ptr<SequenceQueue> queue,
              const DagDeps& deps);
  ~DagServable() override;

  // That of the first step that takes an input of the DAG, so that its instances map it as it is; whichever
  // version of it there is now.
  BufferAllocator& input_allocator() override;
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override;
  // Asks every step's servable; the first that says no is the answer, which waits for all of them.
  void CheckReadiness(std::function<void(Readiness)> done) override;
  // How many requests wait for others of their sequence.
  int64_t pending_requests() const override;
  std::optional<ServableStructure> structure() const override { return plan_->structure->Read(); }
  // The processes of custom nodes that have some, in order.
  std::vector<InstanceReport> instances() const override;
  // The servables behind the nodes, in order.
  std::vector<ServableUse> uses() const override;
  void DropSequence(const CorrelationId& id) override;
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) override;
  void Stop(int64_t deadline_ns) override;

  // The session for this request has ended. For its client.
  void Remove(const InferenceRequest* request);
  // Puts the one response to a request, before it is delivered, into the cache. For its client.
  void Keep(InferenceRequest& request, const InferenceResponse& response) const;

 private:
  class Memory;

  // Waits for those that run, and fails those that have not ended then.
  void EndSessions(int64_t deadline_ns);
  // The first step that takes an input of the DAG and has memory of its own for it; null when there is none.
  const DagStep* FirstStep() const;
  // The indexes among the DAG's outputs that a request wants.
  std::vector<uint32_t> Wanted(const InferenceRequest& request) const;
  // Errors: as a request ends with that finds a step without a version.
  Result<std::vector<EnteredStep>> EnterSteps() const;
  // `entry` is null where there are no sequences.
  void Run(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);
  void BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) override;
  void Begin(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);

  const std::shared_ptr<const DagPlan> plan_;   // shared with the sessions
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the sessions, and what comes after this
  const std::unique_ptr<Memory> memory_;
  ImageDecoder* const images_;
  const std::unique_ptr<const CacheLink> cache_;  // null when its responses are not kept

  Mutex mutex_;
  // The sessions that run now, so that a stop can end them.
  std::unordered_map<const InferenceRequest*, std::weak_ptr<Session>> sessions_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
