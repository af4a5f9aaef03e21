#include "protocols/tfs/lookup.h"

#include "serving/faults.h"

namespace braid {

Result<int64_t> CatalogVersion(int64_t version) {
  if (version < 0) return FaultError(Fault::kModelVersionInvalidFormat);
  return version == 0 ? -1 : version;
}

Result<std::unique_ptr<ServableHandle>> FindForPredict(CatalogReader& reader, std::string_view name,
                                                       int64_t version) {
  auto found = reader.Find(name, version);
  if (found.status().fault() == Fault::kModelNameMissing) return FaultError(Fault::kPipelineNameMissing);
  if (!found.ok()) return found;
  const ServableInfo& info = (*found)->get().info();
  if (info.kind == ServableKind::kGraph) return FaultError(Fault::kPipelineNameMissing);
  if (info.decoupled) {
    return UnsupportedError("Predict doesn't support models with decoupled transaction policy");
  }
  return found;
}

}  // namespace braid
