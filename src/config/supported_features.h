// What a configuration may ask for and this server does not do. Nothing is accepted and then ignored: each
// such feature is refused when the model is loaded. The list gets shorter with every feature that is built.
#pragma once

#include "base/status.h"
#include "config/field_fault.h"
#include "model_config.pb.h"

namespace braid {

// Errors: UNSUPPORTED, with a message that names the model, the field, and what is possible instead. Backends
// are not looked at here: the repository knows which it has.
Status CheckSupportedFeatures(const inference::ModelConfig& config);
// The same, and which field it is.
FieldFault FindUnsupportedFeature(const inference::ModelConfig& config);

}  // namespace braid
