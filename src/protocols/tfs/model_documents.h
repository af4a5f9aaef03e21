// What the TensorFlow Serving APIs say of models: the states of their versions and their signatures.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/catalog.h"
#include "tensorflow_serving.pb.h"

namespace braid {

// The states of a model's versions, or of one when `version` is above 0; pipelines and graphs have one,
// whatever is asked for. Retired versions are in it. Errors: the catalog's for what is not known.
Result<tensorflow::serving::GetModelStatusResponse> ModelStatus(const Catalog& catalog,
                                                                const std::string& name, int64_t version);

// The states of all that the catalog knows, as a JSON object from names to states.
Result<std::string> AllModelStatusesJson(const Catalog& catalog);

// The signature "serving_default" of a servable.
tensorflow::serving::GetModelMetadataResponse ModelMetadata(const ServableInfo& info);

// JSON in lines, with numbers of 64 bits as texts and with fields that have their default value.
Result<std::string> ToPrettyJson(const google::protobuf::Message& message);

}  // namespace braid
