// Bodies of requests of the KServe v2 HTTP protocol other than inference: pure functions between text and our own types.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "serving/model_control.h"

namespace braid {

std::string LoggingJson(const Logger& log);

// The body of a repository index request: whether only ready models are asked for. May be empty.
Result<bool> ReadIndexRequest(std::string_view body);
// The body of a load request; may be empty.
Result<LoadRequest> ReadLoadRequest(std::string model_name, std::string_view body);
// The body of an unload request: whether the models that an ensemble uses go too. May be empty.
Result<bool> ReadUnloadRequest(std::string_view body);
// Changes the settings that the body of POST /v2/logging names; none when one of them is wrong.
Status ChangeLogging(std::string_view body, Logger& log);

}  // namespace braid
