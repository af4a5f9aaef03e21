#include "protocols/kserve/http_parameters.h"

#include <charconv>
#include <type_traits>
#include <variant>

#include "protocols/http/message.h"
#include "protocols/kserve/http_infer_response.h"
#include "protocols/kserve/http_json.h"
#include "protocols/kserve/reserved_parameters.h"

namespace braid {

Status ReadRequestParameter(std::string_view name, simdjson::dom::element value, InferenceRequest& request) {
  if (name == "sequence_id") {
    if (value.type() == simdjson::dom::element_type::STRING) {
      request.correlation_id = std::string(value.get_string().value_unsafe());
    } else {
      BRAID_ASSIGN_OR_RETURN(request.correlation_id, JsonUnsigned(name, value));
    }
  } else if (name == "sequence_start") {
    BRAID_ASSIGN_OR_RETURN(request.sequence_start, JsonBool(name, value));
  } else if (name == "sequence_end") {
    BRAID_ASSIGN_OR_RETURN(request.sequence_end, JsonBool(name, value));
  } else if (name == "priority") {
    BRAID_ASSIGN_OR_RETURN(request.priority, JsonUnsigned(name, value));
  } else if (name == "timeout") {
    BRAID_ASSIGN_OR_RETURN(request.timeout_us, JsonUnsigned(name, value));
  } else if (HasReservedPrefix(name)) {
    return ReservedParameterError();
  } else {
    BRAID_ASSIGN_OR_RETURN(ParameterValue parameter, JsonParameter(name, value));
    request.parameters.emplace_back(name, std::move(parameter));
  }
  return OkStatus();
}

void AppendParameterValue(std::string& out, const ParameterValue& value) {
  std::visit(
      [&out](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          AppendJsonString(out, v);
        } else if constexpr (std::is_same_v<T, double>) {
          AppendJsonNumber(out, v);
        } else {
          char digits[24];
          out.append(digits, std::to_chars(digits, digits + sizeof(digits), v).ptr);
        }
      },
      value);
}

}  // namespace braid
