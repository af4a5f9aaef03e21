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
#include "repository/model_repository.h"
#include "repository/model_source.h"

namespace braid {

// Stateless; called by several threads at once.
class VersionLoader {
 public:
  using EnsembleMaker = std::function<Result<std::shared_ptr<Servable>>(ServableInfo info)>;

  // `options`, the backends and `log` outlive the loader.
  VersionLoader(const RepositoryOptions& options, std::vector<Backend*> backends,
                ModelRepository::ServableFactory factory, Logger& log, EnsembleMaker ensembles)
      : options_(options),
        backends_(std::move(backends)),
        factory_(std::move(factory)),
        ensembles_(std::move(ensembles)),
        log_(log) {}

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

  const RepositoryOptions& options_;
  const std::vector<Backend*> backends_;
  const ModelRepository::ServableFactory factory_;
  const EnsembleMaker ensembles_;
  Logger& log_;
};

}  // namespace braid
