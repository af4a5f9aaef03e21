// Files that are installed with the program for its commands to copy.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// Returns the folder of that name in share/braid of the installation, or in the source tree of a build at
// `in_source`. Errors: NOT_FOUND.
Result<std::filesystem::path> FindDataFolder(std::string_view name, std::string_view in_source);

// Copies a folder to `to`, which must not exist or be empty, and its parents. In paths, "NAME" becomes
// `name`; in contents, "@NAME@" does. With an empty `name`, copies the files as they are. Errors:
// ALREADY_EXISTS; those of the file system.
Status CopyDataFolder(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::string& name);

}  // namespace braid
