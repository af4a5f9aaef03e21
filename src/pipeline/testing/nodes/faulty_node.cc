// A node with a fault that its param "fault" names. It counts the memory that it has handed out.
//
// Input "in": FP32. Outputs "first", "sum" and "last", each FP32 of the input's shape, with the input's
// values plus the param "addend". A fault of an output is one of "sum". Without "in" the outputs have shape
// [1]. The node describes a second input and output "other", without a precision, unless the param "items" is
// "1".
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "include/custom_node_interface.h"

namespace {

// Allocations not yet released; managers not yet deinitialized; all releases; the address of the last input's
// data.
std::atomic<long> live_memory{0};
std::atomic<long> live_managers{0};
std::atomic<long> releases{0};
std::atomic<const void*> last_input{nullptr};

struct Manager {
  char text[8] = "manager";
};

template <class T>
T* Allocate(size_t count) {
  ++live_memory;
  // At least one byte, so that an empty tensor has an address.
  return static_cast<T*>(std::calloc(count * sizeof(T) + 1, 1));
}

void Free(void* memory) {
  --live_memory;
  std::free(memory);
}

std::string Param(const CustomNodeParam* params, int count, const std::string& key) {
  for (int i = 0; i < count; ++i) {
    if (key == params[i].key) return params[i].value;
  }
  return "";
}

bool Good(void* manager) {
  return manager != nullptr && std::strcmp(static_cast<Manager*>(manager)->text, "manager") == 0;
}

CustomNodeTensor Sum(const char* name, const CustomNodeTensor* in, float addend) {
  static uint64_t one = 1;
  CustomNodeTensor output{};
  output.name = name;
  output.dimsCount = in == nullptr ? 1 : in->dimsCount;
  output.dims = Allocate<uint64_t>(output.dimsCount);
  std::memcpy(output.dims, in == nullptr ? &one : in->dims, output.dimsCount * sizeof(uint64_t));
  output.dataBytes = in == nullptr ? sizeof(float) : in->dataBytes;
  output.data = Allocate<uint8_t>(output.dataBytes);
  output.precision = FP32;
  auto* values = reinterpret_cast<float*>(output.data);
  const size_t count = output.dataBytes / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    values[i] = addend + (in == nullptr ? 0 : reinterpret_cast<const float*>(in->data)[i]);
  }
  return output;
}

// Applies a fault to one output.
void Spoil(CustomNodeTensor& output, const std::string& fault) {
  if (fault == "no_name") output.name = nullptr;
  if (fault == "no_dims") Free(std::exchange(output.dims, nullptr));
  if (fault == "scalar") output.dimsCount = 0;
  if (fault == "absurd_dims") output.dimsCount = uint64_t{1} << 40;
  if (fault == "huge_dims") output.dims[0] = UINT64_MAX;
  if (fault == "overflow") {
    Free(output.dims);
    output.dims = Allocate<uint64_t>(2);
    output.dims[0] = output.dims[1] = uint64_t{1} << 33;
    output.dimsCount = 2;
  }
  if (fault == "unspecified") output.precision = UNSPECIFIED;
  if (fault == "unknown_precision") std::memset(&output.precision, 0x7f, sizeof(output.precision));
  if (fault == "wrong_bytes") output.dataBytes += 4;
  if (fault == "no_data") Free(std::exchange(output.data, nullptr));
  if (fault == "empty" || fault == "empty_no_data") {
    output.dims[0] = 0;
    output.dataBytes = 0;
  }
  if (fault == "empty_no_data") Free(std::exchange(output.data, nullptr));
}

int Describe(const char* name, CustomNodeTensorInfo** info, int* count, const CustomNodeParam* params,
             int params_count) {
  const std::string fault = Param(params, params_count, "fault");
  const int items = Param(params, params_count, "items") == "1" ? 1 : 2;
  if (fault == "info_fail") return 3;
  if (fault == "info_throw") throw std::runtime_error("no idea");
  if (fault == "info_null") {
    *count = 2;
    return 0;
  }
  *info = Allocate<CustomNodeTensorInfo>(2);
  *count = fault == "info_zero" ? 0 : fault == "info_absurd" ? 1 << 30 : items;
  if (fault == "info_zero" || fault == "info_absurd") return 0;
  for (int i = 0; i < items; ++i) {
    CustomNodeTensorInfo& item = (*info)[i];
    item.name = i == 0 ? name : fault == "info_no_name" ? nullptr : "other";
    item.dims = Allocate<uint64_t>(2);
    item.dims[1] = 10;
    item.dimsCount = 2;
    item.precision = i == 0 ? FP32 : UNSPECIFIED;
  }
  if (fault == "info_no_dims") Free(std::exchange((*info)[1].dims, nullptr));
  if (fault == "info_huge") (*info)[1].dims[0] = UINT64_MAX;
  return 0;
}

}  // namespace

extern "C" {

DLL_PUBLIC long LiveMemory() { return live_memory; }
DLL_PUBLIC long LiveManagers() { return live_managers; }
DLL_PUBLIC long Releases() { return releases; }
DLL_PUBLIC const void* LastInput() { return last_input; }

int initialize(void** manager, const CustomNodeParam* params, int count) {
  if ((params == nullptr) != (count == 0) || *manager != nullptr) return 9;
  const std::string fault = Param(params, count, "fault");
  if (fault == "init_fail") return 5;
  if (fault == "init_throw") throw std::runtime_error("not today");
  if (fault == "init_crash") std::raise(SIGKILL);
  *manager = new Manager;
  ++live_managers;
  return 0;
}

int deinitialize(void* manager) {
  if (!Good(manager)) std::abort();
  delete static_cast<Manager*>(manager);
  --live_managers;
  return 1;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam* params, int params_count, void* manager) {
  if (!Good(manager)) return 8;
  const std::string fault = Param(params, params_count, "fault");
  if (fault == "fail") return 7;
  if (fault == "throw") throw std::runtime_error("out of luck");
  if (fault == "throw_number") throw 17;
  while (fault == "hang") pause();
  if (fault == "no_file" && !std::ifstream(Param(params, params_count, "file")).good()) return 21;
  if (fault == "null") {
    *outputs_count = 3;
    return 0;
  }
  *outputs = Allocate<CustomNodeTensor>(3);
  *outputs_count = fault == "none" ? 0 : fault == "negative" ? -1 : fault == "absurd" ? 1 << 30 : 3;
  if (*outputs_count != 3) return 0;

  const CustomNodeTensor* in = nullptr;
  for (int i = 0; i < inputs_count; ++i) {
    if (std::string(inputs[i].name) == "in" && inputs[i].precision == FP32) in = &inputs[i];
  }
  if (in != nullptr) last_input = in->data;
  if (fault == "crash_of_666" && in != nullptr && *reinterpret_cast<const float*>(in->data) == 666)
    std::raise(SIGKILL);
  const float addend = std::strtof(Param(params, params_count, "addend").c_str(), nullptr);
  (*outputs)[0] = Sum("first", in, addend);
  (*outputs)[1] = Sum("sum", in, addend);
  (*outputs)[2] = Sum("last", in, addend);
  Spoil((*outputs)[1], fault);
  return 0;
}

int getInputsInfo(CustomNodeTensorInfo** info, int* count, const CustomNodeParam* params, int params_count,
                  void* manager) {
  return Good(manager) ? Describe("in", info, count, params, params_count) : 8;
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* count, const CustomNodeParam* params, int params_count,
                   void* manager) {
  return Good(manager) ? Describe("sum", info, count, params, params_count) : 8;
}

int release(void* memory, void* manager) {
  if (!Good(manager) || memory == nullptr) std::abort();
  Free(memory);
  ++releases;
  return 0;
}

}  // extern "C"
