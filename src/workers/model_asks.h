// ModelAsks: what user code asks about models: load_model, unload_model and is_model_ready, and its worker for it: where
// they take tensors.
//
// A load blocks until the model is there, and the model's own `initialize` may load further ones. So each
// gets a thread of its own for its time, up to a limit, rather than a place in a pool where the outer ones
// would keep the inner ones waiting.
#pragma once

#include <string>

#include "base/mutex.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "workers/worker_services.h"

namespace braid {

class ModelAsks {
 public:
  // Loads and unloads that run at the same time; more are refused.
  static constexpr int kMostRunning = 64;

  // Both outlive this.
  ModelAsks(const Catalog& catalog, ModelControl& control) : catalog_(catalog), control_(control) {}
  // Waits for the loads that run.
  ~ModelAsks();

  // Adds the handlers, which are not called after this object's end.
  void AddTo(WorkerServices& services);

 private:
  void Load(const AskMessage& ask, AskAnswer answer);
  void Unload(const AskMessage& ask, AskAnswer answer);
  void IsReady(const AskMessage& ask, AskAnswer answer);
  void TakesDeviceInputs(const AskMessage& ask, const AskAnswer& answer);
  // Runs `task` on a thread of its own. Errors: too many run.
  void RunApart(std::function<Result<std::string>()> task, AskAnswer answer);

  const Catalog& catalog_;
  ModelControl& control_;
  Mutex mutex_;
  CondVar ended_;
  int running_ BRAID_GUARDED_BY(mutex_) = 0;
};

// The version that is meant by `text`: -1 for "". Errors: INTERNAL with Triton's text.
Result<int64_t> VersionFromText(const std::string& text);

}  // namespace braid
