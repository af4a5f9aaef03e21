// OpenVinoRuntime: OpenVINO's core, which finds devices, reads and compiles models. Made with the first
// model, since it loads libraries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/model_files.h"
#include "backends/openvino/request_source.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

// What a model is compiled with.
struct CompileOptions {
  std::string device = "CPU";
  ov::AnyMap properties;
  bool use_cache = true;
  uint32_t infer_requests = 0;  // 0: as many as the device finds best
  bool trusted = false;         // its owner wants it inside the server
};

struct Compiled {
  ov::CompiledModel model;
  uint32_t infer_requests = 1;
  int streams = 0;        // 0: the device does not tell
  std::string precision;  // in which it computes FP32; empty: the device does not tell
};

class OpenVinoRuntime {
 public:
  // `cache_directory`: where compiled models are kept; `extension`: a library with operators. Empty: none.
  // `output_memory`: where models write their outputs; null: the heap. `contain_crashes`,
  // `smaller_types`: see OpenVinoBackend::Options.
  OpenVinoRuntime(std::string cache_directory, std::string extension,
                  BufferAllocator* output_memory = nullptr, bool contain_crashes = false,
                  bool smaller_types = true)
      : cache_directory_(std::move(cache_directory)),
        extension_(std::move(extension)),
        output_memory_(output_memory),
        contain_crashes_(contain_crashes),
        smaller_types_(smaller_types) {}

  BufferAllocator* output_memory() const { return output_memory_; }
  bool smaller_types() const { return smaller_types_; }

  // Makes the core, if there is none yet. Errors: INVALID_ARGUMENT for an extension that cannot be used.
  Status Load();

  // Any thread; blocks. Errors: Fault::kFileInvalid.
  Result<std::shared_ptr<ov::Model>> Read(const ModelFile& file);
  // Any thread; blocks; changes `model` (GuardMatrixProducts(), GuardPassedInputs(), GuardStrings()). Errors:
  // Fault::kNeedsProcess; Fault::kCannotCompileModel, which names the devices that there are when the wanted one is not among
  // them.
  Result<Compiled> Compile(const std::shared_ptr<ov::Model>& model, const CompileOptions& options);
  // What makes the infer requests of a model that Compile() has compiled. The runtime and `log` outlive it.
  std::unique_ptr<RequestSource> MakeSource(const std::string& name, Compiled compiled,
                                            std::shared_ptr<ov::Model> model, CompileOptions options,
                                            Logger& log);
  // The names of the devices that there are: "CPU", "GPU.0".
  Result<std::vector<std::string>> Devices();
  // The names of what can be set for a device.
  Result<std::vector<std::string>> Properties(const std::string& device);

 private:
  Result<ov::Core*> Core();
  Status CheckDevice(const std::string& device);

  const std::string cache_directory_;
  const std::string extension_;
  BufferAllocator* const output_memory_;
  const bool contain_crashes_;
  const bool smaller_types_;
  Mutex mutex_;
  std::unique_ptr<ov::Core> core_ BRAID_GUARDED_BY(mutex_);  // constant once it is made
};

}  // namespace braid
