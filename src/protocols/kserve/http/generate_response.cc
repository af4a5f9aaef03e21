#include "protocols/kserve/http/generate_response.h"

#include <algorithm>
#include <charconv>

#include "protocols/http/message.h"
#include "protocols/json/values.h"

namespace braid {
namespace {

bool IsTaken(std::string_view name, std::string_view id, const InferenceResponse& response) {
  if (name == "model_name" || name == "model_version" || (name == "id" && !id.empty())) return true;
  return std::any_of(response.outputs.begin(), response.outputs.end(),
                     [name](const Tensor& output) { return output.name == name; });
}

}  // namespace

Status AppendGenerateResponse(std::string& out, std::string_view id, const InferenceResponse& response) {
  out += "{\"model_name\":";
  AppendJsonString(out, response.model_name);
  char digits[24];
  out += ",\"model_version\":\"";
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), response.model_version).ptr);
  out += '"';
  const auto key = [&out](std::string_view name) {
    out += ',';
    AppendJsonString(out, name);
    out += ':';
  };
  if (!id.empty()) {
    key("id");
    AppendJsonString(out, id);
  }
  for (const auto& [name, value] : response.parameters) {
    if (IsTaken(name, id, response)) continue;
    key(name);
    AppendParameterValue(out, value);
  }
  for (const Tensor& output : response.outputs) {
    key(output.name);
    const bool scalar = ElementCount(output.shape) == 1;
    if (!scalar) out += '[';
    BRAID_RETURN_IF_ERROR(AppendTensorValues(out, output));
    if (!scalar) out += ']';
  }
  out += '}';
  return OkStatus();
}

void AppendGenerateError(std::string& out, std::string_view text) {
  out += "{\"error\":";
  AppendJsonString(out, text);
  out += '}';
}

}  // namespace braid
