// The parts of the OpenAPI document: the JSON files of this folder.
//
// The "paths" of a part are those of OpenAPI, each a route without a version or a label. OpenApiDocument()
// adds the rest. "tags" and "components" are copied into the document. server.json is the frame of all other
// parts.
#pragma once

#include <string_view>

namespace braid {

std::string_view OpenApiServerPart();
std::string_view OpenApiKservePart();
std::string_view OpenApiTensorFlowServingPart();
std::string_view OpenApiMetricsPart();

}  // namespace braid
