// PythonEnvironment: an interpreter with its packages, and the warm process of it that models' workers are
// forked from.
//
// A model names its environment in the configuration's parameter EXECUTION_ENV_PATH; models that name none
// share that of the server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "model_config.pb.h"
#include "scheduling/backend.h"
#include "workers/worker_spawner.h"

namespace braid {

class PythonEnvironment final : public ModelPreparation {
 public:
  // `files`: what the environment was unpacked into, if it was. `support` outlives the environment.
  PythonEnvironment(WorkerSpawner::Options options, std::shared_ptr<TemporaryFolder> files,
                    WorkerSupport& support)
      : files_(std::move(files)), spawner_(std::move(options), support) {}

  WorkerSpawner& spawner() { return spawner_; }

 private:
  // In this order: the files go after the warm process.
  const std::shared_ptr<TemporaryFolder> files_;
  WorkerSpawner spawner_;
};

// The absolute path that a model's configuration names as its environment: $$TRITON_MODEL_DIRECTORY stands
// for the model's folder, and relative paths are relative to it. Empty when the configuration names none.
std::string EnvironmentPath(const inference::ModelConfig& config, const std::string& model_path);

// The program that runs Python in an environment's folder. Errors: the folder is no environment; a text that
// names what is missing.
Result<std::string> FindInterpreter(const std::string& folder);

// The variables "NAME=value" for processes of an environment: the `inherited` ones (ended by a null pointer),
// with VIRTUAL_ENV, PATH, LD_LIBRARY_PATH and, for conda, CONDA_PREFIX of the environment, and without what
// would lead its interpreter to packages of others.
std::vector<std::string> EnvironmentVariables(const char* const* inherited, const std::string& folder);

}  // namespace braid
