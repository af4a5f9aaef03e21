// The parts that the document is made of: the JSON files of this folder, as they are in the tree.
//
// A part has "paths" as an OpenAPI document has them, each as the route without a version or a label, and
// without what OpenApiDocument() adds; "tags" and "components" go into the document as they are. server.json is
// the frame of all others.
#pragma once

#include <string_view>

namespace braid {

std::string_view OpenApiServerPart();
std::string_view OpenApiKservePart();
std::string_view OpenApiTensorFlowServingPart();
std::string_view OpenApiMetricsPart();

}  // namespace braid
