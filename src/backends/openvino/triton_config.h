// Completes the configuration of a Triton model from the model, and checks that they agree.
#pragma once

#include <memory>
#include <string>

#include <openvino/openvino.hpp>

#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Adds missing inputs, outputs, types and dims to the configuration. Inputs are added only if it names none;
// outputs likewise. max_batch_size stays as it is: if it is set, the first dimension of every tensor is the
// batch. Errors: INVALID_ARGUMENT for tensors that cannot have such a form.
Status CompleteTritonConfig(const ov::Model& model, const ModelNames& names, inference::ModelConfig& config);

// Renames the tensors as the configuration does, and allows batches of any size up to max_batch_size. Checks
// that names, types and dims are those of the model. Errors: INVALID_ARGUMENT; the text names the tensor.
Status FitTritonModel(const inference::ModelConfig& config, ov::Model& model, ModelNames& names);

}  // namespace braid
