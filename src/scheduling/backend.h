// Backend: runs models of one kind. A new backend is a folder in backends/ and one line in server/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduling/instance.h"
#include "serving/gpu_placement.h"
#include "serving/servable.h"
#include "tensor/buffer.h"

namespace braid {

// The result of Backend::Prepare(). Only the backend knows its content.
struct ModelPreparation {
  virtual ~ModelPreparation() = default;
};

// The location of a model's files. Kept by value: the folder may change while the model runs.
struct ModelLocation {
  std::string model_path;    // absolute path of the model's folder
  std::string version_path;  // {model_path}/{version}
  int64_t version = 1;
  // Absolute path of the file or folder that runs: {version_path}/{default_model_filename or
  // Backend::DefaultFile()}, or Backend::HostedFile().
  std::string model_file;
  // Set if the files came with a load request. Keeps their temporary folder until the last owner releases it.
  std::shared_ptr<const void> temporary_files;
  // Set by Backend::Prepare() for the other calls of this load. Models with equal needs share it.
  std::shared_ptr<ModelPreparation> preparation;
};

// One loaded version of a model: its instances and its memory.
class BackendModel {
 public:
  virtual ~BackendModel() = default;

  virtual BufferAllocator& input_allocator() = 0;
  // All instances, including passive ones; constant.
  virtual std::vector<Instance*> instances() = 0;

  // Starts the instances in parallel and waits until each is initialised (user code may take as long as it
  // needs). The `listener` is called from here on and outlives Stop(). From time to time the call reports the
  // reason for the wait to `progress`. Errors: the error of an instance that did not start; all instances
  // have ended then.
  virtual Status Start(ExecutionListener& listener,
                       const std::function<void(const std::string&)>& progress) = 0;

  // Finalizes and ends the instances, by force at `deadline_ns` (SteadyNowNs()). Requests that are still
  // inside fail through the listener. The listener is not called after Stop() has returned.
  virtual void Stop(int64_t deadline_ns) = 0;

  // Not ready while an instance is being restarted; it includes the reason. Any thread.
  virtual Readiness readiness() const = 0;
  // Whether its input and output tensors may lie on a GPU, see ServableInfo. Constant.
  struct DeviceTensors {
    bool inputs = false;
    bool outputs = false;
  };
  virtual DeviceTensors device_tensors() const { return {}; }
  // See Servable::instance_template().
  virtual std::optional<InstanceReport> instance_template() const { return std::nullopt; }
  // Whether its instances return a sequence's state with each answer and can restore it, see
  // kSequenceStateTensor. Constant once it has started.
  virtual bool saves_sequences() const { return false; }
  // See Servable::CheckReadiness().
  virtual void CheckReadiness(std::function<void(Readiness)> done) { done(readiness()); }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // The value of `backend` in a model's configuration, e.g. "openvino".
  virtual std::string_view name() const = 0;

  // The next two are called if no backend has the name `backend` itself.
  //
  // Returns the file that all models of `backend` run, if this backend hosts it in
  // {backend_directory}/{backend}/; otherwise "".
  virtual std::string HostedFile(std::string_view /*backend*/,
                                 const std::string& /*backend_directory*/) const {
    return {};
  }
  // Whether it also runs the models of another backend, whose file format it can read.
  virtual bool StandsInFor(std::string_view /*backend*/) const { return false; }

  // Whether its models are user code, which may call other servables and may save the state of sequences.
  virtual bool RunsUserCode() const { return false; }

  // Returns the file or folder in a version's folder that runs if the configuration names none.
  virtual std::string DefaultFile(const inference::ModelConfig& config,
                                  const std::string& version_path) const = 0;

  // Returns the GPUs that a model with this configuration can be placed on.
  virtual GpuPlacement Gpus(const inference::ModelConfig& /*config*/) { return {}; }

  // Prepares what the model needs before its code can run, for example unpacks its environment, and stores
  // the result in location.preparation. It is the first call of each load of a version and may take minutes.
  // `progress` is called about once a second.
  virtual Status Prepare(const inference::ModelConfig& /*config*/, ModelLocation& /*location*/,
                         const std::function<void(const std::string&)>& /*progress*/) {
    return OkStatus();
  }
  // Makes Prepare() fail from now on, including calls in progress. Any thread.
  virtual void BeginShutdown() {}

  // Lets the model complete its configuration; blocks on user code. Called before the configuration is
  // validated, unless it is switched off.
  virtual Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) = 0;

  // Creates a model from its validated configuration, without starting it.
  virtual Result<std::unique_ptr<BackendModel>> Create(
      const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) = 0;
};

}  // namespace braid
