// ScheduledModel: the servable that runs one version of a model on the instances of a backend, with or
// without dynamic batching.
//
// A request goes to an idle instance on the thread that brought it, or waits in the model's queue until the
// thread that hears of an ended execution takes it out. No thread of the scheduler stands between; only
// time-outs, queue delays and the ends of cancelled requests come from the timers' thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "scheduling/call_graph.h"
#include "scheduling/rate_limiter.h"
#include "scheduling/request_front.h"
#include "scheduling/response_cache.h"
#include "scheduling/timer_service.h"
#include "serving/servable.h"

namespace braid {

// A thread that runs short executions itself does so this often before it leaves the rest to the instance's
// own threads: a thread of the network has other clients to look after.
inline constexpr int kMostOnCallersThread = 8;

class ScheduledModel : public Servable {
 public:
  struct Options {
    // Requests that may wait for this model, beside what the queue policies of its configuration say. The
    // default is more than a sensible client ever sends at once, and less than what would exhaust the memory.
    size_t max_queue_size = 65536;
    // How long requests wait while no instance lives. A restart takes a fraction of a second; one that takes
    // longer than this is, to a client, an outage, and more requests would only pile up: from then on they
    // fail, and so does what comes later, at once, until an instance lives again.
    int64_t outage_wait_ns = 5'000'000'000;
    // Finds requests of other models that would wait for ever. Outlives the model.
    CallGraph* call_graph = &CallGraph::OfProcess();
    // Null: none, whatever the configuration says. Outlives the model.
    ResponseCache* cache = nullptr;
    // Null: instances run whatever resources they ask for. Outlives the model.
    RateLimiter* limiter = nullptr;
    // What gives the model its requests, by Schedule() alone, and lives as long as one of them or the model's
    // instances. Null: clients do, by Infer().
    RequestFront* front = nullptr;
    // Where it is counted what the model does; null: in its own. Outlives the model's instances.
    ModelStatistics* statistics = nullptr;
  };

  // Starts the backend's instances and waits for them. `info.config` is set. `timers` and `log` outlive the
  // model. Errors: what kept the instances from starting, or INVALID_ARGUMENT for a dynamic_batching that
  // cannot be.
  static Result<std::shared_ptr<ScheduledModel>> Start(
      ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
      const std::function<void(const std::string&)>& progress, const Options& options);
  static Result<std::shared_ptr<ScheduledModel>> Start(
      ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
      const std::function<void(const std::string&)>& progress) {
    return Start(std::move(info), std::move(backend), timers, log, progress, Options{});
  }
  ~ScheduledModel() override;

  // As Infer(), for who has checked the request, given it its queue_start_ns and its notes, and traced that.
  // `here`: this thread may run executions itself. Any thread; never blocks.
  virtual void Schedule(std::unique_ptr<InferenceRequest> request, bool here) = 0;

 protected:
  using Servable::Servable;
};

}  // namespace braid
