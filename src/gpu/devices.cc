#include "gpu/devices.h"

#include <array>

#include <spdlog/fmt/fmt.h>

namespace braid {
namespace {

std::string UuidText(const CudaUuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

Result<GpuDevice> Describe(const CudaDriver& driver, int ordinal) {
  GpuDevice found;
  found.id = ordinal;
  CudaDevice device = 0;
  BRAID_RETURN_IF_ERROR(driver.Check("cuDeviceGet", driver.device_get(&device, ordinal)));
  std::array<char, 256> name{};
  BRAID_RETURN_IF_ERROR(driver.Check(
      "cuDeviceGetName", driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device)));
  found.name = name.data();
  CudaUuid uuid{};
  BRAID_RETURN_IF_ERROR(driver.Check("cuDeviceGetUuid", driver.device_get_uuid(&uuid, device)));
  found.uuid = UuidText(uuid);
  size_t bytes = 0;
  BRAID_RETURN_IF_ERROR(driver.Check("cuDeviceTotalMem", driver.device_total_mem(&bytes, device)));
  found.memory_bytes = bytes;
  for (auto [attribute, value] : {std::pair(CudaDriver::kComputeCapabilityMajor, &found.capability_major),
                                  std::pair(CudaDriver::kComputeCapabilityMinor, &found.capability_minor)}) {
    BRAID_RETURN_IF_ERROR(
        driver.Check("cuDeviceGetAttribute", driver.device_get_attribute(value, attribute, device)));
  }
  return found;
}

Status Find(double least_capability, GpuDevices& gpus) {
  auto driver = CudaDriver::Open();
  // Most machines have no driver, so it is not logged.
  if (!driver.ok() && driver.status().code() == StatusCode::kNotFound) return OkStatus();
  BRAID_RETURN_IF_ERROR(driver.status());
  int count = 0;
  BRAID_RETURN_IF_ERROR((*driver)->Check("cuDeviceGetCount", (*driver)->device_get_count(&count)));
  for (int i = 0; i < count; ++i) {
    BRAID_ASSIGN_OR_RETURN(GpuDevice device, Describe(**driver, i));
    // Compared as versions: 10.0 is above 9.0.
    if (device.capability_major + device.capability_minor / 10.0 + 1e-6 < least_capability) {
      gpus.notes.push_back(fmt::format(
          "GPU {} ({}) is not used: its compute capability is {}.{}, and "
          "--min-supported-compute-capability is {:.1f}",
          device.id, device.name, device.capability_major, device.capability_minor, least_capability));
      continue;
    }
    gpus.devices.push_back(std::move(device));
  }
  if (!gpus.devices.empty()) gpus.driver = *driver;
  return OkStatus();
}

}  // namespace

GpuDevices FindGpus(double least_capability) {
  GpuDevices gpus;
  if (Status found = Find(least_capability, gpus); !found.ok()) {
    gpus = {};
    gpus.notes.push_back("GPUs are not used: " + found.message());
  }
  return gpus;
}

}  // namespace braid
