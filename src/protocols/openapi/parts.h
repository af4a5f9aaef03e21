// The parts of the OpenAPI document: the JSON files of this folder.
//
// The "paths" of a part are those of OpenAPI, each a route without a version or a label. OpenApiDocument()
// adds the rest. "tags" and "components" are copied into the document. server.json is the frame of all other
// parts.
#pragma once

#include <string_view>

namespace braid {

// Returns the text of NAME.json. REQUIRES: the file exists.
std::string_view OpenApiPartText(std::string_view name);

}  // namespace braid
