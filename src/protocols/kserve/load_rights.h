// A client's rights to further models that its load or unload affects.
#pragma once

#include "protocols/access/access_control.h"
#include "serving/model_control.h"

namespace braid {

// Checks the right to the API model-repository. If the request has a configuration, also the right to
// inference: the new model could answer in place of its dependencies.
ModelRights RightsToLoad(const Authorization& authorization, const LoadRequest& request);
ModelRights RightsToUnload(const Authorization& authorization);

}  // namespace braid
