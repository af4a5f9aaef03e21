#include "protocols/kserve/load_rights.h"

namespace braid {

ModelRights RightsToLoad(const Permit& permit, const LoadRequest& request) {
  return [permit, configured = request.config_json.has_value()](const std::string& model) {
    BRAID_RETURN_IF_ERROR(permit.CheckAlso(Api::kModelRepository, model));
    return configured ? permit.CheckAlso(Api::kInference, model) : OkStatus();
  };
}

ModelRights RightsToUnload(const Permit& permit) {
  return [permit](const std::string& model) { return permit.CheckAlso(Api::kModelRepository, model); };
}

}  // namespace braid
