// Checks for names of models, pipelines and graphs. All names from outside are checked here: those of the
// repository API, repository folders, models that load others, the config.json, and request paths.
#pragma once

#include <string_view>

#include "base/status.h"

namespace braid {

// Checks that a name is UTF-8 without control characters, and not blank. Errors: INVALID_ARGUMENT.
Status CheckServableName(std::string_view name);

// Also checks that the name can be a folder's: at most 255 bytes, no '/', and neither "." nor ".." with or
// without surrounding blanks. Errors: INVALID_ARGUMENT.
Status CheckModelName(std::string_view name);

// Checks that a model can be loaded under a valid name. Names reach other programs' process names, paths and
// logs, where some characters have a meaning. Errors: INVALID_ARGUMENT.
Status CheckLoadableName(std::string_view name);

}  // namespace braid
