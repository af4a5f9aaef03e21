/* A library that lacks getInputsInfo. */
#include "include/custom_node_interface.h"

int initialize(void** manager, const struct CustomNodeParam* params, int count) { return 0; }

int deinitialize(void* manager) { return 0; }

int execute(const struct CustomNodeTensor* inputs, int inputs_count, struct CustomNodeTensor** outputs,
            int* outputs_count, const struct CustomNodeParam* params, int params_count, void* manager) {
  return 1;
}

int getOutputsInfo(struct CustomNodeTensorInfo** info, int* count, const struct CustomNodeParam* params,
                   int params_count, void* manager) {
  return 1;
}

int release(void* memory, void* manager) { return 0; }
