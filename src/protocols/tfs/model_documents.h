// Model information of the TensorFlow Serving APIs: states of versions, and signatures.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/catalog.h"
#include "tensorflow_serving.pb.h"

namespace braid {

// Returns the states of a model's versions, including retired ones, or of one if `version` is above 0.
// Pipelines and graphs have one version, which answers to any number. Errors: the catalog's for unknown
// models and versions.
Result<tensorflow::serving::GetModelStatusResponse> ModelStatus(const Catalog& catalog,
                                                                const std::string& name, int64_t version);

// Returns the states of everything in the catalog, as a JSON object from names to states.
Result<std::string> AllModelStatusesJson(const Catalog& catalog);

// Returns the signature "serving_default" of a servable.
tensorflow::serving::GetModelMetadataResponse ModelMetadata(const ServableInfo& info);

// Returns JSON on several lines, with 64-bit numbers as strings and with fields of default value.
Result<std::string> ToPrettyJson(const google::protobuf::Message& message);

}  // namespace braid
