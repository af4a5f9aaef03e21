/* Argmax: which class of a classification is the best, as a custom node in plain C.
 *
 * Inputs   scores      FP32 [N, C]  a row of scores for each item
 * Outputs  best_index  I64  [N]     where the largest score of each row stands; of equal ones the first
 *          best_score  FP32 [N]     the score
 * Params   none
 */
#include <stdlib.h>
#include <string.h>

#include "custom_node_interface.h"

/* The node keeps nothing between calls. */
int initialize(void** manager, const struct CustomNodeParam* params, int params_count) {
  (void)manager, (void)params, (void)params_count;
  return 0;
}

int deinitialize(void* manager) {
  (void)manager;
  return 0;
}

/* Makes room for a tensor of one dimension; 0 when there is none. */
static int make_vector(struct CustomNodeTensor* tensor, const char* name, uint64_t count, uint64_t item_bytes,
                       CustomNodeTensorPrecision precision) {
  tensor->name = name;
  tensor->dataBytes = count * item_bytes;
  tensor->data = malloc(tensor->dataBytes + 1);
  tensor->dims = malloc(sizeof(uint64_t));
  tensor->dimsCount = 1;
  tensor->precision = precision;
  if (tensor->data == NULL || tensor->dims == NULL) return 0;
  tensor->dims[0] = count;
  return 1;
}

int execute(const struct CustomNodeTensor* inputs, int inputs_count, struct CustomNodeTensor** outputs,
            int* outputs_count, const struct CustomNodeParam* params, int params_count, void* manager) {
  (void)params, (void)params_count, (void)manager;
  const struct CustomNodeTensor* scores = NULL;
  for (int i = 0; i < inputs_count; ++i) {
    if (strcmp(inputs[i].name, "scores") == 0) scores = &inputs[i];
  }
  if (scores == NULL || scores->precision != FP32 || scores->dimsCount != 2 || scores->dims[1] == 0) return 1;
  const uint64_t rows = scores->dims[0];
  const uint64_t classes = scores->dims[1];

  struct CustomNodeTensor* made = calloc(2, sizeof(*made));
  if (made == NULL) return 2;
  const int enough = make_vector(&made[0], "best_index", rows, sizeof(int64_t), I64) &&
                     make_vector(&made[1], "best_score", rows, sizeof(float), FP32);
  if (!enough) {
    /* Of a call that fails, the server takes nothing. */
    for (int i = 0; i < 2; ++i) {
      free(made[i].data);
      free(made[i].dims);
    }
    free(made);
    return 2;
  }

  int64_t* indices = (int64_t*)made[0].data;
  float* bests = (float*)made[1].data;
  for (uint64_t row = 0; row < rows; ++row) {
    const float* values = (const float*)scores->data + row * classes;
    uint64_t best = 0;
    for (uint64_t i = 1; i < classes; ++i) {
      if (values[i] > values[best]) best = i;
    }
    indices[row] = (int64_t)best;
    bests[row] = values[best];
  }
  *outputs = made;
  *outputs_count = 2;
  return 0;
}

/* One description; a dimension of 0 is any size. */
static int describe(struct CustomNodeTensorInfo* info, const char* name, uint64_t dims_count,
                    CustomNodeTensorPrecision precision) {
  info->name = name;
  info->dims = calloc(dims_count, sizeof(uint64_t));
  info->dimsCount = dims_count;
  info->precision = precision;
  return info->dims != NULL;
}

int getInputsInfo(struct CustomNodeTensorInfo** info, int* info_count, const struct CustomNodeParam* params,
                  int params_count, void* manager) {
  (void)params, (void)params_count, (void)manager;
  struct CustomNodeTensorInfo* made = calloc(1, sizeof(*made));
  if (made == NULL) return 2;
  if (!describe(&made[0], "scores", 2, FP32)) {
    free(made);
    return 2;
  }
  *info = made;
  *info_count = 1;
  return 0;
}

int getOutputsInfo(struct CustomNodeTensorInfo** info, int* info_count, const struct CustomNodeParam* params,
                   int params_count, void* manager) {
  (void)params, (void)params_count, (void)manager;
  struct CustomNodeTensorInfo* made = calloc(2, sizeof(*made));
  if (made == NULL) return 2;
  if (!describe(&made[0], "best_index", 1, I64) || !describe(&made[1], "best_score", 1, FP32)) {
    free(made[0].dims);
    free(made);
    return 2;
  }
  *info = made;
  *info_count = 2;
  return 0;
}

int release(void* memory, void* manager) {
  (void)manager;
  free(memory);
  return 0;
}
