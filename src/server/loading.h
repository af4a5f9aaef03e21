// Loading: the part of a server that owns the models: backends with their processes, schedulers, sequence
// stores, and the manager of the served versions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/native/isolated_images.h"
#include "backends/native/native_function.h"
#include "backends/native/native_workers.h"
#include "backends/native/openvino_isolation.h"
#include "backends/python/python_backend.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/thread_watch.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "images/encoded_images.h"
#include "protocols/net/client_limits.h"
#include "repository/manager.h"
#include "scheduling/call_graph.h"
#include "scheduling/rate_limiter.h"
#include "scheduling/response_cache.h"
#include "scheduling/timer_service.h"
#include "sequences/sequence_cleaner.h"
#include "sequences/sequence_vault.h"
#include "sequences/state_store.h"
#include "server/makers.h"
#include "server/observability.h"
#include "server/options.h"
#include "serving/catalog.h"
#include "serving/input_limit.h"
#include "storage/object_storage.h"
#include "workers/model_asks.h"

namespace braid {

class Loading {
 public:
  // The references outlive every loaded model. `limits` counts the models' refusals.
  Loading(const ServerOptions& options, Logger& log, ClientLimits& limits, Observability& seen);

  // Creates the backends and the manager, without loading models. Errors: an unusable value of an option.
  Status Prepare();
  // Retires every served version, by force Drains::kStopGraceNs after the deadline. Errors: user code or a
  // store did not end in time.
  Status Stop(int64_t deadline_ns);

  Catalog& catalog() { return catalog_; }
  const Catalog& catalog() const { return catalog_; }
  Timers& timers() { return timers_; }
  Manager& manager() { return *manager_; }  // REQUIRES: Prepare() succeeded
  const GpuDevices& gpus() const { return gpus_; }
  Nvml& nvml() { return nvml_; }

  // Returns the metrics selected on the command line, otherwise those of the config.json; nullopt if
  // disabled.
  std::optional<OvmsMetricsConfig> OvmsMetricsWanted() const;
  // Returns the workers that belong to no model. Any thread.
  std::vector<InstanceReport> OwnWorkers() const;

 private:
  Result<std::shared_ptr<WorkerSupport>> Support();
  ObjectStorage::Options StorageOptions();
  NativeWorkers::Options NativeWorkerOptions();
  ImageDecoder::Options ImageOptions();
  Makers::Steps MakerSteps();
  Status MakeOpenVino();
  Result<std::shared_ptr<const CustomNodeLibrary>> OpenLibrary(const OvmsCustomNodeLibrary& library);
  Status CheckLoad(const std::string& model, int gpu);
  Result<IsolatedCalculators> OpenCalculators(const std::string& path);
  Result<PythonBackend*> Python();
  Status OpenSequenceStore();
  Status OpenSequenceVault();
  Status MakeManager();
  Result<LatencyOptions> LatencyOf(const ServableInfo& info) const;
  Result<std::shared_ptr<Servable>> CreateModel(ServableInfo info, std::unique_ptr<BackendModel> model,
                                                const std::function<void(const std::string&)>& progress);
  void Configure(Servable& servable, const LatencyOptions& latency) const;

  const ServerOptions& options_;
  Logger& log_;
  const GpuDevices gpus_ = FindGpus(options_.min_supported_compute_capability);
  Nvml nvml_;
  InputLimit input_limit_;
  std::unique_ptr<StateStore> state_store_;  // null if replicas do not share sequences
  // The start options select the dialect of its errors: Triton's with model repositories.
  Catalog catalog_;
  TimerService timers_;
  const std::unique_ptr<ThreadWatch::Watched> timers_watched_;
  CallGraph call_graph_;
  SharedArrays shared_arrays_;
  WorkerServices worker_services_;
  WorkerServices native_services_;
  // Shared with backends.
  const std::shared_ptr<UserIds> user_ids_ = std::make_shared<UserIds>(
      options_.workers.isolation.first_user_id, options_.workers.isolation.last_user_id);
  Mutex support_mutex_;
  std::shared_ptr<WorkerSupport> support_ BRAID_GUARDED_BY(support_mutex_);  // shared with backends
  ObjectStorage storage_{StorageOptions(), log_};
  NativeWorkers native_workers_{NativeWorkerOptions()};
  std::shared_ptr<IsolatedImageCodec> isolated_images_;  // shared with the decoder; null: decoded in-process
  ImageDecoder images_{ImageOptions()};
  // Null: no cache.
  const std::unique_ptr<ResponseCache> cache_ =
      options_.response_cache_bytes > 0 ? std::make_unique<ResponseCache>(options_.response_cache_bytes)
                                        : nullptr;
  SequenceCleaner sequence_cleaner_{catalog_, timers_,
                                    options_.sequence_cleaner_poll_wait_seconds* kSecondNs};
  std::unique_ptr<RateLimiter> limiter_;                               // null: no rate limit
  std::vector<std::shared_ptr<NativeFunction>> isolated_calculators_;  // shared with the registry
  Makers makers_{options_, {catalog_, timers_, call_graph_, &images_, cache_.get()}, MakerSteps()};
  std::unique_ptr<SequenceVault> sequence_vault_;  // null if sequences are not kept
  std::unique_ptr<OpenVinoIsolation> openvino_;
  Mutex python_mutex_;
  std::unique_ptr<PythonBackend> python_ BRAID_GUARDED_BY(python_mutex_);
  std::unique_ptr<Manager> manager_;
  std::unique_ptr<ModelAsks> model_asks_;  // null without model repositories
};

}  // namespace braid
