// SequenceModel: the servable that runs one version of a model with `sequence_batching`. The requests of a
// sequence run in their order, one at a time, on one instance, which keeps a place for the sequence until it
// ends, or until another one needs it in a drain.
//
// The rules of sequences are SequenceTable's; when requests go together is decided by DecideSlots() (direct)
// and DecideBatch() (oldest). Threads are as in ScheduledModel.
//
// An instance that dies takes its sequences along: the requests in it fail with the cause, those that wait
// and later ones with UNAVAILABLE and a text that says so. A sequence of which no request had begun starts on
// another instance instead.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "serving/servable.h"

namespace braid {

class SequenceModel : public Servable {
 public:
  struct Options {
    // Requests that may wait for this model, those of all its sequences together.
    size_t max_queue_size = 65536;
    // As that of ScheduledModel.
    int64_t outage_wait_ns = 5'000'000'000;
    // Whether instances run only with the resources they ask for, which this model cannot.
    bool limits_rate = false;
    // What finds calls that wait for themselves; outlives the model.
    CallGraph* call_graph = &CallGraph::OfProcess();
  };

  // Starts the backend's instances and waits for them. `info.config` has sequence_batching and is valid.
  // `timers` and `log` outlive the model. Errors: what kept the instances from starting; UNSUPPORTED for
  // instances that ask for resources when the rate is limited.
  static Result<std::shared_ptr<SequenceModel>> Start(ServableInfo info,
                                                      std::unique_ptr<BackendModel> backend, Timers& timers,
                                                      Logger& log,
                                                      const std::function<void(const std::string&)>& progress,
                                                      const Options& options);
  ~SequenceModel() override;

  // Sequences that live, for tests and diagnosis.
  virtual size_t sequence_count() const = 0;

 protected:
  using Servable::Servable;
};

}  // namespace braid
