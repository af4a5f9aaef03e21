// libnvidia-ml.so.1 with the functions that Braid calls, on the folder that standin.h describes. Like the
// real library, it ignores CUDA_VISIBLE_DEVICES and sees all devices. The figures are fixed, except the
// memory in use.
#include <string_view>

#include "standin.h"

namespace {

using standin::Device;

constexpr int kInvalidArgument = 2;
constexpr int kNotFound = 6;

std::vector<Device>& Devices() {
  static std::vector<Device> devices;
  return devices;
}

const Device& Of(void* handle) { return *static_cast<Device*>(handle); }

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

#define BEGIN(name) \
  if (const int failure = standin::Failure(#name); failure != 0) return failure

extern "C" {

int nvmlInit_v2() {
  BEGIN(nvmlInit_v2);
  standin::Note("nvmlInit_v2");
  Devices() = standin::AllDevices();
  return 0;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotFound:
      return "Not Found";
    case 15:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  BEGIN(nvmlDeviceGetHandleByUUID);
  for (Device& device : Devices()) {
    if (device.uuid() != std::string_view(uuid)) continue;
    *handle = &device;
    return 0;
  }
  return kNotFound;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  BEGIN(nvmlDeviceGetUtilizationRates);
  *rates = {static_cast<unsigned>(25 + Of(device).number), 10};
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  BEGIN(nvmlDeviceGetMemoryInfo);
  const uint64_t used = standin::UsedBytes(Of(device).number);
  *memory = {Of(device).bytes, Of(device).bytes - used, used};
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  BEGIN(nvmlDeviceGetPowerUsage);
  *milliwatts = 61500;
  return 0;
}

int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) {
  BEGIN(nvmlDeviceGetPowerManagementLimit);
  *milliwatts = 300000;
  return 0;
}

// Increases with each call.
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  BEGIN(nvmlDeviceGetTotalEnergyConsumption);
  static unsigned long long energy = 5'000'000;
  *millijoules = energy += 250;
  return 0;
}

}  // extern "C"
