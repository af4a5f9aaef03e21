// Lookup of the servable for a call of the TensorFlow Serving APIs.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "serving/catalog.h"

namespace braid {

// Returns the catalog's version: -1 for 0, the default version in these APIs. Errors: INVALID_ARGUMENT for a
// negative version.
Result<int64_t> CatalogVersion(int64_t version);

// Returns the servable that answers Predict; `version` is the catalog's. Errors: those of the catalog, except
// that an unknown name or a graph gives the error of a missing pipeline. UNSUPPORTED for decoupled models.
Result<std::unique_ptr<ServableHandle>> FindForPredict(CatalogReader& reader, std::string_view name,
                                                       int64_t version);

}  // namespace braid
