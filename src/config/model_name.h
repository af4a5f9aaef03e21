// What a name of a model, pipeline or graph is. Every place where one comes in asks here: the repository API,
// folders of repositories, models that load others, the config.json, paths of requests.
#pragma once

#include <string_view>

#include "base/status.h"

namespace braid {

// Text in UTF-8 without control characters that is not blank. Errors: INVALID_ARGUMENT.
Status CheckServableName(std::string_view name);

// The same for a name that is also a folder's: neither "." nor "..", whatever blanks are around it, without '/', and with 255
// bytes at most. Errors:
// INVALID_ARGUMENT.
Status CheckModelName(std::string_view name);

// A name that can be looked up, and under which yet nothing can be loaded from a repository: names reach
// process names, paths and logs of others, and some characters have a meaning somewhere on the way. Errors:
// INVALID_ARGUMENT.
Status CheckLoadableName(std::string_view name);

}  // namespace braid
