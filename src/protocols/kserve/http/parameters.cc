#include "protocols/kserve/http/parameters.h"

#include "protocols/inference/reserved_parameters.h"
#include "protocols/json/json.h"

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

}  // namespace braid
