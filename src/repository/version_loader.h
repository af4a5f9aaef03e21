// VersionLoader: makes a servable that can serve, from a model's folder and configuration.
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

// Stateless and thread-safe.
class VersionLoader {
 public:
  // Returns the end of the sentence "ensemble 'e' depends on 'm'", for a model without a loaded version.
  using WhyMissing = std::function<std::string(const std::string& model)>;

  // REQUIRES: `options` has folders. `options`, the backends and `log` outlive the loader.
  VersionLoader(const ManagerOptions& options, FolderMakers makers, Logger& log, WhyMissing why_missing)
      : options_(options), makers_(std::move(makers)), why_missing_(std::move(why_missing)), log_(log) {}

  // Lets the model complete its configuration (not for an ensemble), checks it, and starts the version.
  // Blocks on user code. Errors: the reason why the version is unavailable; nothing is left running then.
  Result<std::shared_ptr<Servable>> Load(const ModelSource& source, int64_t version,
                                         const std::function<void(const std::string&)>& progress) const;
  // Makes loads that are still preparing fail soon.
  void BeginShutdown() const;

 private:
  // Load() without its timing.
  Result<std::shared_ptr<Servable>> Make(const ModelSource& source, int64_t version,
                                         const std::function<void(const std::string&)>& progress) const;
  Result<std::shared_ptr<Servable>> LoadEnsemble(const ModelSource& source, int64_t version) const;
  // Finds the backend and sets location.model_file. Errors: INVALID_ARGUMENT if no backend runs such models.
  Result<Backend*> FindBackend(const inference::ModelConfig& config, ModelLocation& location) const;

  const ManagerOptions& options_;
  const FolderMakers makers_;
  const WhyMissing why_missing_;
  Logger& log_;
};

}  // namespace braid
