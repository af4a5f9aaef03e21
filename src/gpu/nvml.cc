#include "gpu/nvml.h"

#include <string_view>
#include <utility>

#include "gpu/shared_library.h"

namespace braid {

Status Nvml::Check(const Functions& functions, std::string_view function, int result) {
  if (result == 0) return OkStatus();
  return InternalError(std::string(function) + ": " + functions.error_string(result));
}

Result<Nvml::Functions> Nvml::Load() {
  BRAID_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libnvidia-ml.so.1"));
  Functions found;
  BRAID_RETURN_IF_ERROR(library.Find("nvmlInit_v2", found.init));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlErrorString", found.error_string));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetHandleByUUID", found.handle_by_uuid));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetUtilizationRates", found.utilization_rates));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetMemoryInfo", found.memory_info));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetPowerUsage", found.power_usage));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetPowerManagementLimit", found.power_management_limit));
  BRAID_RETURN_IF_ERROR(library.Find("nvmlDeviceGetTotalEnergyConsumption", found.total_energy_consumption));
  BRAID_RETURN_IF_ERROR(Check(found, "nvmlInit", found.init()));
  return found;
}

template <class Value, class Call>
Result<Value> Nvml::Ask(const std::string& uuid, std::string_view function, Call call) {
  MutexLock lock(mutex_);
  if (!std::exchange(tried_, true)) {
    auto loaded = Load();
    if (loaded.ok()) {
      functions_ = *loaded;
    } else {
      failed_ = loaded.status();
    }
  }
  BRAID_RETURN_IF_ERROR(failed_);
  // Looked up each time: a device that was lost and has come back has another handle.
  Functions::Handle handle = nullptr;
  BRAID_RETURN_IF_ERROR(
      Check(functions_, "nvmlDeviceGetHandleByUUID", functions_.handle_by_uuid(uuid.c_str(), &handle)));
  Value value{};
  BRAID_RETURN_IF_ERROR(Check(functions_, function, call(functions_, handle, &value)));
  return value;
}

Result<NvmlMemory> Nvml::Memory(const std::string& uuid) {
  BRAID_ASSIGN_OR_RETURN(const Functions::Memory memory,
                         Ask<Functions::Memory>(uuid, "nvmlDeviceGetMemoryInfo",
                                                [](const Functions& f, auto device, auto* value) {
                                                  return f.memory_info(device, value);
                                                }));
  return NvmlMemory{memory.total, memory.used};
}

Result<double> Nvml::Utilization(const std::string& uuid) {
  BRAID_ASSIGN_OR_RETURN(const Functions::Utilization rates,
                         Ask<Functions::Utilization>(uuid, "nvmlDeviceGetUtilizationRates",
                                                     [](const Functions& f, auto device, auto* value) {
                                                       return f.utilization_rates(device, value);
                                                     }));
  return rates.gpu / 100.0;
}

Result<double> Nvml::PowerWatts(const std::string& uuid) {
  BRAID_ASSIGN_OR_RETURN(
      const unsigned milliwatts,
      Ask<unsigned>(uuid, "nvmlDeviceGetPowerUsage", [](const Functions& f, auto device, auto* value) {
        return f.power_usage(device, value);
      }));
  return milliwatts / 1000.0;
}

Result<double> Nvml::PowerLimitWatts(const std::string& uuid) {
  BRAID_ASSIGN_OR_RETURN(const unsigned milliwatts,
                         Ask<unsigned>(uuid, "nvmlDeviceGetPowerManagementLimit",
                                       [](const Functions& f, auto device, auto* value) {
                                         return f.power_management_limit(device, value);
                                       }));
  return milliwatts / 1000.0;
}

Result<double> Nvml::EnergyJoules(const std::string& uuid) {
  BRAID_ASSIGN_OR_RETURN(const unsigned long long millijoules,
                         Ask<unsigned long long>(uuid, "nvmlDeviceGetTotalEnergyConsumption",
                                                 [](const Functions& f, auto device, auto* value) {
                                                   return f.total_energy_consumption(device, value);
                                                 }));
  return static_cast<double>(millijoules) / 1000.0;
}

}  // namespace braid
