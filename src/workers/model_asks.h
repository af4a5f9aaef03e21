// ModelAsks: operations of user code on models: load_model, unload_model and is_model_ready. It also tells
// workers which models take tensors on a GPU.
//
// A load blocks until the model is loaded, and the model's own `initialize` may load further models. So each
// load has its own thread, up to a limit. In a pool, outer loads could block the inner ones that they wait
// for.
#pragma once

#include <string>

#include "base/mutex.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "workers/worker_services.h"

namespace braid {

class ModelAsks {
 public:
  // The most concurrent loads and unloads; further ones are refused.
  static constexpr int kMostRunning = 64;

  // Both outlive this.
  ModelAsks(const Catalog& catalog, ModelControl& control) : catalog_(catalog), control_(control) {}
  // Waits for running loads.
  ~ModelAsks();

  // Adds the handlers, which must not be called after the end of this object.
  void AddTo(WorkerServices& services);

 private:
  void Load(const AskMessage& ask, AskAnswer answer);
  void Unload(const AskMessage& ask, AskAnswer answer);
  void IsReady(const AskMessage& ask, AskAnswer answer);
  void TakesDeviceInputs(const AskMessage& ask, const AskAnswer& answer);
  // Runs `task` on its own thread. Errors: too many are running.
  void RunApart(std::function<Result<std::string>()> task, AskAnswer answer);

  const Catalog& catalog_;
  ModelControl& control_;
  Mutex mutex_;
  CondVar ended_;
  int running_ BRAID_GUARDED_BY(mutex_) = 0;
};

// Returns the version in `text`: -1 for "". Errors: INTERNAL with Triton's text.
Result<int64_t> VersionFromText(const std::string& text);

}  // namespace braid
