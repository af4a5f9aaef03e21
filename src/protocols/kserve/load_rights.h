// The rights of a client to the models that its load or unload reaches beside the one that it names.
#pragma once

#include "protocols/access/access_control.h"
#include "serving/model_control.h"

namespace braid {

// Rights to the API model-repository; to inference too where the configuration comes with the request, since the model that
// it makes can be asked in place of those that it uses.
ModelRights RightsToLoad(const Authorization& authorization, const LoadRequest& request);
ModelRights RightsToUnload(const Authorization& authorization);

}  // namespace braid
