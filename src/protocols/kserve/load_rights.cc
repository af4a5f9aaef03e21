#include "protocols/kserve/load_rights.h"

namespace braid {

ModelRights RightsToLoad(const Authorization& authorization, const LoadRequest& request) {
  return [authorization, configured = request.config_json.has_value()](const std::string& model) {
    BRAID_RETURN_IF_ERROR(authorization.CheckAlso(Api::kModelRepository, model));
    return configured ? authorization.CheckAlso(Api::kInference, model) : OkStatus();
  };
}

ModelRights RightsToUnload(const Authorization& authorization) {
  return [authorization](const std::string& model) {
    return authorization.CheckAlso(Api::kModelRepository, model);
  };
}

}  // namespace braid
