// ScheduledModel: the servable that runs one version of a model on the instances of a backend, with or
// without dynamic batching.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "serving/servable.h"

namespace braid {

class TimerService;

class ScheduledModel : public Servable {
 public:
  // Starts the backend's instances and waits for them. `info.config` is set. `timers` and `log` outlive the
  // model.
  static Result<std::shared_ptr<ScheduledModel>> Start(
      ServableInfo info, std::unique_ptr<BackendModel> backend, TimerService& timers, Logger& log,
      const std::function<void(const std::string&)>& progress);
  ~ScheduledModel() override;

 protected:
  using Servable::Servable;
};

}  // namespace braid
