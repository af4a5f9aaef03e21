// OpenVinoRuntime: OpenVINO's core, which finds devices, and reads and compiles models. The core is made with
// the first model, since it loads libraries.
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

// Options for compiling a model.
struct CompileOptions {
  std::string device = "CPU";
  ov::AnyMap properties;
  bool use_cache = true;
  uint32_t infer_requests = 0;  // 0: the device chooses
  bool trusted = false;         // its configuration turns isolation off
};

struct Compiled {
  ov::CompiledModel model;
  uint32_t infer_requests = 1;
  int streams = 0;        // 0: not reported by the device
  std::string precision;  // in which the device computes FP32; empty: not reported
};

class OpenVinoRuntime {
 public:
  // `cache_directory`: a cache of compiled models; `extension`: a library with operators. Empty: none.
  // `output_memory`: memory for outputs; null: the heap. `contain_crashes`, `smaller_types`: see
  // OpenVinoBackend::Options.
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

  // Makes the core if there is none yet. Errors: INVALID_ARGUMENT for an extension that cannot be used.
  Status Load();

  // Reads a model. Any thread; blocks. Errors: Fault::kFileInvalid.
  Result<std::shared_ptr<ov::Model>> Read(const ModelFile& file);
  // Guards `model` (GuardMatrixProducts(), GuardPassedInputs(), GuardStrings()) and compiles it. Any thread;
  // blocks. Errors: Fault::kNeedsProcess; Fault::kCannotCompileModel, whose text lists the devices if the
  // wanted one is missing.
  Result<Compiled> Compile(const std::shared_ptr<ov::Model>& model, const CompileOptions& options);
  // Returns the source of infer requests for a model from Compile(). The runtime and `log` outlive it.
  std::unique_ptr<RequestSource> MakeSource(const std::string& name, Compiled compiled,
                                            std::shared_ptr<ov::Model> model, CompileOptions options,
                                            Logger& log);
  // Returns the names of the devices found: "CPU", "GPU.0".
  Result<std::vector<std::string>> Devices();
  // Returns the names of a device's properties.
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
  std::unique_ptr<ov::Core> core_ BRAID_GUARDED_BY(mutex_);  // constant once made
};

}  // namespace braid
