// StatefulModel: the servable that runs one version of a stateful model of a config.json (ServableInfo::
// stateful). It keeps the states of each sequence between its requests, so that any instance may serve any of
// them.
//
//  - Requests of one sequence run in the order in which they came, one at a time, whatever connections they
//    came by; different sequences run beside each other. One whose encoded images have to be decoded first
//    has its place from when it came; those behind it wait for it, nobody else does.
//  - Whether a request may begin, continue or end a sequence is decided when it comes, by the rules of
//    OpenVINO Model Server: SequenceMissing, SequenceAlreadyExists, SequenceTerminated, MaxSequenceNumber-
//    Reached (before anything else), an id given by the server where a start names none.
//  - Each good response carries one more output, `sequence_id` UINT64 [1].
//  - A failed or cancelled start leaves no sequence behind; those of its requests that wait are refused. A
//    failed end leaves the sequence as it was before that request, so that it can be ended again; one whose
//    client has gone before it ran ends the sequence when it is its turn, wherever it has waited.
//
// Behind it stands a ScheduledModel, which it gives requests with the states behind their inputs, one of each
// sequence at a time; waiting, instances, statistics, warm-up and cancellation are the same as those of any
// model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "scheduling/scheduled_model.h"
#include "scheduling/timer_service.h"
#include "serving/sequences.h"
#include "serving/servable.h"

namespace braid {

class StatefulModel : public Servable {
 public:
  // Starts the backend's instances and waits for them. `info` has `stateful` and is what clients see: without
  // states. `timers` and `log` outlive the model. Errors: as ScheduledModel::Start().
  static Result<std::shared_ptr<StatefulModel>> Start(ServableInfo info,
                                                      std::unique_ptr<BackendModel> backend, Timers& timers,
                                                      Logger& log,
                                                      const std::function<void(const std::string&)>& progress,
                                                      const ScheduledModel::Options& options);
  ~StatefulModel() override;

 protected:
  using Servable::Servable;
};

}  // namespace braid
