// Nvml: live statistics of GPUs from libnvidia-ml.so.1. It opens no context, and loads the library at the
// first query.
//
//   Nvml nvml;
//   Result<NvmlMemory> memory = nvml.Memory(gpu.uuid);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

struct NvmlMemory {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;  // by all processes
};

// Thread-safe.
class Nvml {
 public:
  // Query the device with this UUID ("GPU-8a5e3c1c-..."). Errors: NOT_FOUND without the library; otherwise
  // the library's error, for example "nvmlDeviceGetPowerUsage: Not Supported", because many devices lack some
  // queries.
  Result<NvmlMemory> Memory(const std::string& uuid);
  Result<double> Utilization(const std::string& uuid);  // 0 to 1
  Result<double> PowerWatts(const std::string& uuid);
  Result<double> PowerLimitWatts(const std::string& uuid);
  // Since the driver was loaded.
  Result<double> EnergyJoules(const std::string& uuid);

 private:
  struct Functions {
    using Handle = void*;
    // The library's layout.
    struct Utilization {
      unsigned gpu, memory;
    };
    struct Memory {
      unsigned long long total, free, used;
    };

    int (*init)() = nullptr;
    const char* (*error_string)(int result) = nullptr;
    int (*handle_by_uuid)(const char* uuid, Handle* handle) = nullptr;
    int (*utilization_rates)(Handle handle, Utilization* rates) = nullptr;
    int (*memory_info)(Handle handle, Memory* memory) = nullptr;
    int (*power_usage)(Handle handle, unsigned* milliwatts) = nullptr;
    int (*power_management_limit)(Handle handle, unsigned* milliwatts) = nullptr;
    int (*total_energy_consumption)(Handle handle, unsigned long long* millijoules) = nullptr;
  };

  static Result<Functions> Load();
  static Status Check(const Functions& functions, std::string_view function, int result);
  // Makes `call` with the functions and the device's handle.
  template <class Value, class Call>
  Result<Value> Ask(const std::string& uuid, std::string_view function, Call call);

  Mutex mutex_;
  bool tried_ BRAID_GUARDED_BY(mutex_) = false;
  Status failed_ BRAID_GUARDED_BY(mutex_);  // the error of loading the functions, once tried
  Functions functions_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
