// DagServable: a servable that runs a DAG, for ensembles and for pipelines. They differ in their DagPlan.
//
// Each request has a session. The session looks up its steps when it begins and keeps those versions to its
// end, so models may be reloaded meanwhile. The servable owns no threads, processes or memory.
//
// If `info.stateful` is set, every request has a sequence. Its id goes to all steps, and every response
// carries it as an additional output. The requests of a sequence run one at a time, in the order of arrival
// (see sequence_queue.h). A start, an end and the id go to every step that has sequences. A client that gives
// no id gets one that all steps share. When a request fails, its effects on the steps' sequences are taken
// back (see Compensation) before the client is notified.
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

// The dependencies of the DAGs of a server; they outlive the DAGs.
struct DagDeps {
  const Catalog& catalog;
  Timers& timers;
  CallGraph& call_graph;
  ImageDecoder* images = nullptr;  // null if requests cannot contain images
  ResponseCache* cache = nullptr;  // null without a cache
};

class DagServable final : public Servable, private SequenceQueue::Runner {
 public:
  // The outputs of `info` are those of the DAG, in order. A stateful servable takes over the queue of the
  // catalog's servable with this name and version.
  static std::shared_ptr<Servable> Create(ServableInfo info, std::shared_ptr<const DagPlan> plan,
                                          const DagDeps& deps);
  // `queue` may be null unless the servable is stateful.
  DagServable(ServableInfo info, std::shared_ptr<const DagPlan> plan, std::shared_ptr<SequenceQueue> queue,
              const DagDeps& deps);
  ~DagServable() override;

  // Returns an allocator that uses the memory of the first step that takes an input of the DAG. The step's
  // instances then map the input without a copy. Each allocation asks the version that is loaded at that
  // time.
  BufferAllocator& input_allocator() override;
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override;
  // Asks every step's servable. Once all have answered, reports the first that is not ready.
  void CheckReadiness(std::function<void(Readiness)> done) override;
  // Returns the number of requests that wait for others of their sequence.
  int64_t pending_requests() const override;
  std::optional<ServableStructure> structure() const override { return plan_->structure->Read(); }
  // Returns reports on the processes of custom nodes, in the order of the nodes.
  std::vector<InstanceReport> instances() const override;
  // Returns the servables behind the nodes, in order.
  std::vector<ServableUse> uses() const override;
  void DropSequence(const CorrelationId& id) override;
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) override;
  void Stop(int64_t deadline_ns) override;

  // Removes the session of this request after its end. Called by the session's client.
  void Remove(const InferenceRequest* request);
  // Caches the single response to a request before it is delivered. Called by the session's client.
  void Keep(InferenceRequest& request, const InferenceResponse& response) const;

 private:
  class Memory;

  // Waits for running sessions until the deadline and fails the rest.
  void EndSessions(int64_t deadline_ns);
  // Returns the first step that takes an input of the DAG and has an allocator for it; null if there is none.
  const DagStep* FirstStep() const;
  // Returns the indexes of the DAG's outputs that a request wants.
  std::vector<uint32_t> Wanted(const InferenceRequest& request) const;
  // Errors: the error of a request that finds a step without a loaded version.
  Result<std::vector<EnteredStep>> EnterSteps() const;
  // `entry` is null without sequences.
  void Run(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);
  void BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) override;
  void Begin(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);

  const std::shared_ptr<const DagPlan> plan_;   // shared with the sessions
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the sessions and the successor
  const std::unique_ptr<Memory> memory_;
  ImageDecoder* const images_;
  const std::unique_ptr<const CacheLink> cache_;  // null if its responses are not cached

  Mutex mutex_;
  // The running sessions, so that Stop() can end them.
  std::unordered_map<const InferenceRequest*, std::weak_ptr<Session>> sessions_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
