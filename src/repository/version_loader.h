// VersionLoader: from a model's folder and configuration to a servable that can serve.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "model_config.pb.h"
#include "repository/manager_options.h"
#include "repository/model_source.h"

namespace braid {

// Stateless; called by several threads at once.
class VersionLoader {
 public:
  // The end of the sentence "ensemble 'e' depends on 'm'", for a model without a loaded version.
  using WhyMissing = std::function<std::string(const std::string& model)>;

  // `options`, which has folders, the backends and `log` outlive the loader.
  VersionLoader(const ManagerOptions& options, FolderMakers makers, Logger& log, WhyMissing why_missing)
      : options_(options), makers_(std::move(makers)), why_missing_(std::move(why_missing)), log_(log) {}

  // Lets the model, unless it is an ensemble, complete its configuration, checks it, and starts the version.
  // Blocks on user code. Errors: whatever makes the version unavailable; nothing is left running then.
  Result<std::shared_ptr<Servable>> Load(const ModelSource& source, int64_t version,
                                         const std::function<void(const std::string&)>& progress) const;
  // Loads that still prepare fail soon. Any thread.
  void BeginShutdown() const;

 private:
  // Load() without its timing.
  Result<std::shared_ptr<Servable>> Make(const ModelSource& source, int64_t version,
                                         const std::function<void(const std::string&)>& progress) const;
  Result<std::shared_ptr<Servable>> LoadEnsemble(const ModelSource& source, int64_t version) const;
  // Sets location.model_file. Errors: INVALID_ARGUMENT when no backend runs such models.
  Result<Backend*> FindBackend(const inference::ModelConfig& config, ModelLocation& location) const;

  const ManagerOptions& options_;
  const FolderMakers makers_;
  const WhyMissing why_missing_;
  Logger& log_;
};

}  // namespace braid
