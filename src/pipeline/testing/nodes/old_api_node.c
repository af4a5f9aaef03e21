/* A node with the interface from before 2022.1: no initialize, deinitialize or manager. Output "out" is
 * input "in" of I32, doubled. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct CustomNodeTensor {
  const char* name;
  uint8_t* data;
  uint64_t dataBytes;
  uint64_t* dims;
  uint64_t dimsCount;
  int precision;
};

struct CustomNodeTensorInfo {
  const char* name;
  uint64_t* dims;
  uint64_t dimsCount;
  int precision;
};

struct CustomNodeParam;

#define PUBLIC __attribute__((visibility("default")))
enum { kI32 = 7 };

PUBLIC int execute(const struct CustomNodeTensor* inputs, int inputs_count, struct CustomNodeTensor** outputs,
                   int* outputs_count, const struct CustomNodeParam* params, int params_count) {
  (void)params;
  if (params_count != 0 || inputs_count != 1 || strcmp(inputs[0].name, "in") != 0 ||
      inputs[0].precision != kI32)
    return 1;
  struct CustomNodeTensor* output = calloc(1, sizeof(*output));
  output->name = "out";
  output->dataBytes = inputs[0].dataBytes;
  output->data = malloc(output->dataBytes);
  output->dimsCount = inputs[0].dimsCount;
  output->dims = malloc(output->dimsCount * sizeof(uint64_t));
  memcpy(output->dims, inputs[0].dims, output->dimsCount * sizeof(uint64_t));
  output->precision = kI32;
  for (uint64_t i = 0; i < output->dataBytes / sizeof(int32_t); ++i) {
    ((int32_t*)output->data)[i] = 2 * ((const int32_t*)inputs[0].data)[i];
  }
  *outputs = output;
  *outputs_count = 1;
  return 0;
}

static int Describe(const char* name, struct CustomNodeTensorInfo** info, int* count) {
  *info = calloc(1, sizeof(**info));
  (*info)->name = name;
  (*info)->dims = calloc(1, sizeof(uint64_t));
  (*info)->dimsCount = 1;
  (*info)->precision = kI32;
  *count = 1;
  return 0;
}

PUBLIC int getInputsInfo(struct CustomNodeTensorInfo** info, int* count, const struct CustomNodeParam* params,
                         int params_count) {
  (void)params;
  return params_count != 0 ? 1 : Describe("in", info, count);
}

PUBLIC int getOutputsInfo(struct CustomNodeTensorInfo** info, int* count,
                          const struct CustomNodeParam* params, int params_count) {
  (void)params;
  return params_count != 0 ? 1 : Describe("out", info, count);
}

PUBLIC int release(void* memory) {
  free(memory);
  return 0;
}
