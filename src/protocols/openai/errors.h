// Errors in the form that OpenAI's clients read:
// {"error": {"message": "...", "type": "...", "param": null, "code": null}}.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocols/http/message.h"

namespace braid {

// Returns the JSON text of an error with this HTTP status. `param`: the field of the request, or "". `code`:
// OpenAI's name of the cause, or "" for that of the status.
std::string OpenAiErrorJson(unsigned status, std::string_view message, std::string_view param = {},
                            std::string_view code = {});

// Returns the response to a failed request. Clients do not repeat it if it would fail again.
HttpResponse OpenAiError(const Status& status, std::string_view param = {}, std::string_view code = {});

// Returns an error of the server with its body in OpenAI's form. Other responses stay as they are.
HttpResponse InOpenAiForm(HttpResponse response);

// The header of a request, and of its response, with the request's id.
inline constexpr std::string_view kRequestIdHeader = "x-request-id";
// "model_not_found".
inline constexpr std::string_view kModelNotFound = "model_not_found";

}  // namespace braid
