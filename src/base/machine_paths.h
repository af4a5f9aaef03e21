// Texts without the paths of this machine: where what the server runs lies is nobody's business but its
// operator's.
//
//   WithoutMachinePaths("/srv/models/m/1/model.py(7): execute", {"/srv/models"})   // "m/1/model.py(7):
//   execute"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

// `text` with each absolute path of this machine named relative to the first of `roots` (absolute folders)
// that it lies in, and by its last part when it lies in none. What begins with a slash and is no path here
// (routes, pointers into JSON, names of tensors) stays: there is no such folder at the root of the file
// system.
std::string WithoutMachinePaths(std::string_view text, std::span<const std::string> roots);

}  // namespace braid
