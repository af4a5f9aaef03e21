// Features that a configuration may ask for and this server does not support. A model that uses one is
// refused when it is loaded, rather than served without it.
#pragma once

#include "base/status.h"
#include "config/field_fault.h"
#include "model_config.pb.h"

namespace braid {

// Errors: UNSUPPORTED, with a message that names the model, the field, and an alternative. Does not check
// backends, because only the repository knows which exist.
Status CheckSupportedFeatures(const inference::ModelConfig& config);
// Like CheckSupportedFeatures(), with the field.
FieldFault FindUnsupportedFeature(const inference::ModelConfig& config);

}  // namespace braid
