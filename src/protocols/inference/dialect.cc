#include "protocols/inference/dialect.h"

#include "serving/request_check_ovms.h"

namespace braid {

const DialectRules& RulesOf(Dialect dialect) {
  static const DialectRules triton(Dialect::kTriton);
  static const DialectRules ovms(Dialect::kOvms);
  return dialect == Dialect::kOvms ? ovms : triton;
}

Status DialectRules::WithDetails(Fault fault, Status status) const {
  const bool clients =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kInternal;
  if (!ovms_ || !clients || status.fault() != Fault::kNone) return status;
  return FaultError(fault, status.message());
}

Status DialectRules::FirstFault(const ServableInfo& info, const InferenceRequest& request,
                                Status fault) const {
  if (ovms_) BRAID_RETURN_IF_ERROR(CheckOvmsTensors(info, request));
  return fault;
}

std::optional<ApiCall> DialectRules::Call(ApiInterface interface, ApiMethod method) const {
  if (!counts_calls) return std::nullopt;
  return ApiCall{ApiProtocol::kKServe, interface, method};
}

Status InferNotFound(const Status& status) {
  return status.fault() == Fault::kModelNameMissing ? FaultError(Fault::kGraphNameMissing) : status;
}

Status NoModelConfig(const ServableInfo& info) {
  return UnsupportedError("'" + info.name +
                          "' comes from a config.json and has no model configuration; ask for its metadata");
}

void CountCall(Servable& servable, ApiInterface interface, ApiMethod method) {
  if (const auto call = RulesOf(servable.info()).Call(interface, method)) {
    servable.api_counters().Count(*call, true);
  }
}

void CountRefused(Servable& servable, ApiInterface interface, ApiMethod method) {
  if (const auto call = RulesOf(servable.info()).Call(interface, method)) {
    servable.api_counters().CountRefused(*call);
  }
}

}  // namespace braid
