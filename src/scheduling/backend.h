// Backend: what can run models of one kind. A new one is a folder in backends/ and one line in server/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduling/instance.h"
#include "serving/gpu_placement.h"
#include "serving/servable.h"
#include "tensor/buffer.h"

namespace braid {

// What a backend has made ready for a model before its code can run; the backend knows what it is.
struct ModelPreparation {
  virtual ~ModelPreparation() = default;
};

// Where a model's files are. Kept by value: the folder may change while the model runs.
struct ModelLocation {
  std::string model_path;    // absolute path of the model's folder
  std::string version_path;  // {model_path}/{version}
  int64_t version = 1;
  // Absolute path of what runs: {version_path}/{default_model_filename or Backend::DefaultFile()}, or Backend::HostedFile().
  std::string model_file;
  // Set when the files came with a load request: keeps their temporary folder until nobody needs it.
  std::shared_ptr<const void> temporary_files;
  // Set by Backend::Prepare(), for the other calls of this load. Shared by the models which need the same.
  std::shared_ptr<ModelPreparation> preparation;
};

// One loaded version of a model: its instances and its memory.
class BackendModel {
 public:
  virtual ~BackendModel() = default;

  virtual BufferAllocator& input_allocator() = 0;
  // All instances, passive ones too; constant.
  virtual std::vector<Instance*> instances() = 0;

  // Starts the instances, in parallel, and waits until each is initialised (user code may take as long as it
  // needs). From here on `listener` is called; it outlives Stop(). `progress` is told now and then what is
  // waited for. Errors: what kept an instance from starting; nothing is left running then.
  virtual Status Start(ExecutionListener& listener,
                       const std::function<void(const std::string&)>& progress) = 0;

  // Finalizes and ends the instances; at `deadline_ns` (SteadyNowNs()) by force. Requests still inside are
  // failed through the listener. No listener call comes after it has returned.
  virtual void Stop(int64_t deadline_ns) = 0;

  // Not ready while an instance is being restarted, with the reason. Any thread.
  virtual Readiness readiness() const = 0;
  // Which of its tensors may lie on a GPU, see ServableInfo. Constant.
  struct DeviceTensors {
    bool inputs = false;
    bool outputs = false;
  };
  virtual DeviceTensors device_tensors() const { return {}; }
  // Whether its instances give what they keep of a sequence with each answer, and take it again, see
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

  // These two are asked when no backend has the name `backend` itself.
  // The file that all models of `backend` run, if that is a backend which this one hosts; empty: it is none.
  // {backend_directory}/{backend}/ is the folder of such a one.
  virtual std::string HostedFile(std::string_view /*backend*/,
                                 const std::string& /*backend_directory*/) const {
    return {};
  }
  // Whether it also runs models of another backend, whose files it can read.
  virtual bool StandsInFor(std::string_view /*backend*/) const { return false; }

  // Its models are users' code, which may call other servables and may give what it keeps of sequences.
  virtual bool RunsUserCode() const { return false; }

  // The file or folder of a version's folder that runs when the configuration names none.
  virtual std::string DefaultFile(const inference::ModelConfig& config,
                                  const std::string& version_path) const = 0;

  // The GPUs that a model with this configuration can be placed on.
  virtual GpuPlacement Gpus(const inference::ModelConfig& /*config*/) { return {}; }

  // Makes ready what the model needs before its code can run, e.g. unpacks its environment, and leaves it in
  // location.preparation. Called first, once for each load of a version; may take minutes. `progress` is told
  // about each second what is done.
  virtual Status Prepare(const inference::ModelConfig& /*config*/, ModelLocation& /*location*/,
                         const std::function<void(const std::string&)>& /*progress*/) {
    return OkStatus();
  }
  // From here on Prepare() fails, also where it is in progress. Any thread.
  virtual void BeginShutdown() {}

  // Lets the model complete its own configuration; blocks on user code. Called before the configuration is
  // validated, unless it is switched off.
  virtual Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) = 0;

  // Makes a model from its validated configuration; starts nothing yet.
  virtual Result<std::unique_ptr<BackendModel>> Create(
      const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) = 0;
};

}  // namespace braid
