#include "protocols/inference/ovms_dialect.h"

namespace braid {

Status AsOvmsError(OvmsCode code, Status status) {
  const bool clients_fault =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kInternal;
  if (status.http_status() != 0 || !clients_fault) return status;
  return OvmsError(code, status.message());
}

Status InferNotFound(const Catalog& catalog, std::string_view model, Status status) {
  if (catalog.dialect() != Dialect::kOvms || IsRegistered(catalog, model)) return status;
  return OvmsError(OvmsCode::kGraphNameMissing);
}

bool IsRegistered(const Catalog& catalog, std::string_view model) { return catalog.Knows(model, -1); }

void CheckServerReady(const ProtocolContext& context, std::function<void(bool)> done) {
  if (context.catalog.dialect() == Dialect::kOvms) {
    done(context.control.serving() && !context.control.draining());
  } else {
    context.control.CheckServerReady(std::move(done));
  }
}

Status NoModelConfig(const ServableInfo& info) {
  return UnsupportedError("'" + info.name +
                          "' comes from a config.json and has no model configuration; ask for its metadata");
}

void CountCall(Servable& servable, ApiInterface interface, ApiMethod method) {
  if (servable.info().dialect != Dialect::kOvms) return;
  servable.api_counters().Count({ApiProtocol::kKServe, interface, method}, true);
}

void CountRefused(Servable& servable, ApiInterface interface, ApiMethod method) {
  if (servable.info().dialect != Dialect::kOvms) return;
  servable.api_counters().CountRefused({ApiProtocol::kKServe, interface, method});
}

}  // namespace braid
