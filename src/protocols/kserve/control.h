// What both transports of KServe answer about the server and its models: plain functions that fill the messages of the gRPC
// service, which HTTP writes as JSON. Any thread.
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

// Of a ready version; -1 stands for the default one. Counts as a call over `interface`. Errors: those of the catalog.
Result<inference::ModelMetadataResponse> ModelMetadata(const Catalog& catalog, CatalogReader& reader,
                                                       ApiInterface interface, const std::string& name,
                                                       int64_t version);

// The servable whose configuration is told. Errors: those of the catalog, and UNSUPPORTED where there is none to tell.
Result<std::unique_ptr<ServableHandle>> FindConfigured(CatalogReader& reader, const std::string& name,
                                                       int64_t version);

// Of all models where the name is "", of all ready versions where the version is -1. Errors: those of the catalog, and
// INVALID_ARGUMENT for a known version that is not ready.
Result<inference::ModelStatisticsResponse> ModelStatistics(const Catalog& catalog, const std::string& name,
                                                           int64_t version);

inference::RepositoryIndexResponse RepositoryIndex(const Catalog& catalog, bool ready_only);

void WriteRegion(const RegionInfo& info, inference::SystemSharedMemoryStatusResponse::RegionStatus& region);
void WriteRegion(const RegionInfo& info, inference::CudaSharedMemoryStatusResponse::RegionStatus& region);

// Settings of the log that a client changes: all are read before any is applied.
class LogChanges {
 public:
  // Monostate: a value of another kind.
  using Value = std::variant<std::monostate, bool, uint64_t, std::string_view>;
  // The error of a value that is not of the kind that the setting has, which is one of the three above.
  using WrongKind = Status (*)(std::string_view setting, size_t kind);

  Status Read(std::string_view setting, const Value& value, WrongKind wrong_kind);
  void Apply(Logger& log) const;

 private:
  std::optional<bool> levels_[3];
  std::optional<int> verbose_level_;
  std::optional<LogFormat> format_;
};

// "ISO8601" or "default".
std::string_view LogFormatName(LogFormat format);

}  // namespace braid
