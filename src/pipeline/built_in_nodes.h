// The custom node libraries that belong to the server (src/custom_nodes). They have the file names of OpenVINO
// Model Server's.
#pragma once

#include <optional>
#include <string>

namespace braid {

// Returns the path of the server's own library of this file name, if `base_path` does not exist.
std::optional<std::string> BuiltInNodeFor(const std::string& base_path);

}  // namespace braid
