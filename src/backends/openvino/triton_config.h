// The configuration of a Triton model and the model itself: completing the one from the other, and seeing
// whether they agree.
#pragma once

#include <memory>
#include <string>

#include <openvino/openvino.hpp>

#include "backends/openvino/tensor_names.h"
#include "base/status.h"
#include "model_config.pb.h"

namespace braid {

// Adds inputs where the configuration names none, outputs likewise, and types and dims that it leaves out.
// max_batch_size stays as it is: with one, the first dimension of every tensor is that of the batch. Errors: INVALID_ARGUMENT for
// tensors that cannot have such a form.
Status CompleteTritonConfig(const ov::Model& model, const ModelNames& names, inference::ModelConfig& config);

// Gives the tensors the names that the configuration has for them, lets batches be of any size up to
// max_batch_size, and checks that names, types and dims are those of the model. Errors: INVALID_ARGUMENT,
// which names the tensor.
Status FitTritonModel(const inference::ModelConfig& config, ov::Model& model, ModelNames& names);

}  // namespace braid
