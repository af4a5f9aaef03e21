// PythonEnvironment: an interpreter with its packages, and the warm process from which models' workers are
// forked.
//
// A model names its environment in the configuration's parameter EXECUTION_ENV_PATH. Models without this
// parameter share the server's environment.
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
  // The unpacked environment is in `files`; null for one in a folder. `support` outlives the environment.
  PythonEnvironment(WorkerSpawner::Options options, std::shared_ptr<TemporaryFolder> files,
                    WorkerSupport& support)
      : files_(std::move(files)), spawner_(std::move(options), support) {}

  WorkerSpawner& spawner() { return spawner_; }

 private:
  // In this order: the files are deleted after the warm process has ended.
  const std::shared_ptr<TemporaryFolder> files_;
  WorkerSpawner spawner_;
};

// Returns the path or URL of the environment in a model's configuration; empty when there is none.
// $$TRITON_MODEL_DIRECTORY is replaced by the model's folder, and relative paths are relative to it.
std::string EnvironmentPath(const inference::ModelConfig& config, const std::string& model_path);

// Returns the Python interpreter in an environment's folder. Errors: the folder is not an environment; the
// text names the missing file.
Result<std::string> FindInterpreter(const std::string& folder);

// Returns the variables "NAME=value" for processes of an environment: the `inherited` ones (ended by a null
// pointer), with VIRTUAL_ENV, PATH, LD_LIBRARY_PATH and, for conda, CONDA_PREFIX of the environment. Leaves
// out variables that would lead its interpreter to packages of other environments.
std::vector<std::string> EnvironmentVariables(const char* const* inherited, const std::string& folder);

}  // namespace braid
