// Removes this machine's paths from texts that clients see.
//
//   WithoutMachinePaths("/srv/models/m/1/model.py(7): execute", {"/srv/models"})   // "m/1/model.py(7):
//   execute"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

// Returns `text` with each absolute path of this machine made relative to the first of `roots` (absolute
// folders) that contains it, or reduced to its last part if none does. Other texts that begin with a slash
// (routes, JSON pointers, names of tensors) stay: the root of the file system has no such folder.
std::string WithoutMachinePaths(std::string_view text, std::span<const std::string> roots);

}  // namespace braid
