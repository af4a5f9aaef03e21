// Answers of both KServe transports about the server and its models. These functions fill the gRPC service's
// messages; HTTP writes the messages as JSON. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/log.h"
#include "base/status.h"
#include "grpc_service.pb.h"
#include "protocols/inference/context.h"
#include "serving/api_counters.h"
#include "serving/catalog.h"

namespace braid {

inference::ServerMetadataResponse ServerMetadata(const ProtocolContext& context);

// Returns the metadata of a ready version; -1 is the default one. Counts as a call over `interface`. Errors:
// those of the catalog.
Result<inference::ModelMetadataResponse> ModelMetadata(const Catalog& catalog, CatalogReader& reader,
                                                       ApiInterface interface, const std::string& name,
                                                       int64_t version);

// Returns the servable whose configuration was requested. Errors: those of the catalog; UNSUPPORTED if it has
// no configuration.
Result<std::unique_ptr<ServableHandle>> FindConfigured(CatalogReader& reader, const std::string& name,
                                                       int64_t version);

// Returns the statistics of a model; "" is all models, and -1 all ready versions. Errors: those of the
// catalog; INVALID_ARGUMENT for a known version that is not ready.
Result<inference::ModelStatisticsResponse> ModelStatistics(const Catalog& catalog, const std::string& name,
                                                           int64_t version);

inference::RepositoryIndexResponse RepositoryIndex(const Catalog& catalog, bool ready_only);

void WriteRegion(const RegionInfo& info, inference::SystemSharedMemoryStatusResponse::RegionStatus& region);
void WriteRegion(const RegionInfo& info, inference::CudaSharedMemoryStatusResponse::RegionStatus& region);

// A client's changes to log settings: all are read before any is applied.
class LogChanges {
 public:
  // The value as the client sent it; monostate for a value of another kind.
  using Value = std::variant<std::monostate, bool, uint64_t, std::string_view>;
  // Returns the error for a value of the wrong kind; `kind` is the index in Value of the setting's kind.
  using WrongKind = Status (*)(std::string_view setting, size_t kind);

  Status Read(std::string_view setting, const Value& value, WrongKind wrong_kind);
  void Apply(Logger& log) const;

 private:
  std::optional<bool> levels_[3];
  std::optional<int> verbose_level_;
  std::optional<LogFormat> format_;
};

// Returns "ISO8601" or "default".
std::string_view LogFormatName(LogFormat format);

}  // namespace braid
