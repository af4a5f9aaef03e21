// Which servable a call of the TensorFlow Serving APIs means.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "serving/catalog.h"

namespace braid {

// The version for the catalog: -1 for 0, which is the default version to these APIs.
// Errors: INVALID_ARGUMENT for a negative one.
Result<int64_t> CatalogVersion(int64_t version);

// The servable that answers Predict; `version` is the catalog's. Errors: those of the catalog, but for a name
// that is unknown, which ends where pipelines are looked for; graphs are not found either. UNSUPPORTED for
// models that answer a request more than once.
Result<std::unique_ptr<ServableHandle>> FindForPredict(CatalogReader& reader, std::string_view name,
                                                       int64_t version);

}  // namespace braid
