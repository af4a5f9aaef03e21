// Request bodies of the KServe v2 HTTP protocol except inference, as pure functions between text and internal
// types.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "serving/model_control.h"

namespace braid {

std::string LoggingJson(const Logger& log);

// Reads the body of a repository index request: whether to list only ready models. May be empty.
Result<bool> ReadIndexRequest(std::string_view body);
// Reads the body of a load request; may be empty.
Result<LoadRequest> ReadLoadRequest(std::string model_name, std::string_view body);
// Reads the body of an unload request: whether to unload an ensemble's dependencies too. May be empty.
Result<bool> ReadUnloadRequest(std::string_view body);
// Changes the settings in the body of POST /v2/logging; changes none if one is invalid.
Status ChangeLogging(std::string_view body, Logger& log);

}  // namespace braid
