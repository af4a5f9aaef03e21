#include "protocols/kserve/control.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "protocols/inference/dialect.h"

namespace braid {
namespace {

constexpr LogLevel kLogLevels[] = {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError};

void WriteTensors(const std::vector<TensorSpec>& specs,
                  google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>& to) {
  for (const TensorSpec& spec : specs) {
    auto& tensor = *to.Add();
    tensor.set_name(spec.name);
    tensor.set_datatype(std::string(WireName(spec.type)));
    for (int64_t dimension : spec.shape) tensor.add_shape(dimension);
  }
}

void Write(const DurationStatistic& statistic, inference::StatisticDuration& message) {
  message.set_count(statistic.count);
  message.set_ns(statistic.ns);
}

void WriteStatistics(const ServableInfo& info, const StatisticsSnapshot& snapshot,
                     inference::ModelStatistics& message) {
  message.set_name(info.name);
  message.set_version(std::to_string(info.version));
  message.set_last_inference(snapshot.last_inference_ms);
  message.set_inference_count(snapshot.inference_count);
  message.set_execution_count(snapshot.execution_count);
  inference::InferStatistics& stats = *message.mutable_inference_stats();
  Write(snapshot.success, *stats.mutable_success());
  Write(snapshot.fail, *stats.mutable_fail());
  Write(snapshot.queue, *stats.mutable_queue());
  Write(snapshot.compute_input, *stats.mutable_compute_input());
  Write(snapshot.compute_infer, *stats.mutable_compute_infer());
  Write(snapshot.compute_output, *stats.mutable_compute_output());
  Write(snapshot.cache_hit, *stats.mutable_cache_hit());
  Write(snapshot.cache_miss, *stats.mutable_cache_miss());
  for (const auto& [rows, batch] : snapshot.batches) {
    inference::InferBatchStatistics& entry = *message.add_batch_stats();
    entry.set_batch_size(static_cast<uint64_t>(rows));
    Write(batch.compute_input, *entry.mutable_compute_input());
    Write(batch.compute_infer, *entry.mutable_compute_infer());
    Write(batch.compute_output, *entry.mutable_compute_output());
  }
  for (const auto& [index, response] : snapshot.responses) {
    inference::InferResponseStatistics& entry = (*message.mutable_response_stats())[std::to_string(index)];
    Write(response.compute_infer, *entry.mutable_compute_infer());
    Write(response.compute_output, *entry.mutable_compute_output());
    Write(response.success, *entry.mutable_success());
    Write(response.fail, *entry.mutable_fail());
    Write(response.empty_response, *entry.mutable_empty_response());
    Write(DurationStatistic(), *entry.mutable_cancel());
  }
}

}  // namespace

inference::ServerMetadataResponse ServerMetadata(const ProtocolContext& context) {
  inference::ServerMetadataResponse response;
  response.set_name(context.server_name);
  response.set_version(context.server_version);
  for (const std::string& extension : context.extensions) response.add_extensions(extension);
  return response;
}

Result<inference::ModelMetadataResponse> ModelMetadata(const Catalog& catalog, CatalogReader& reader,
                                                       ApiInterface interface, const std::string& name,
                                                       int64_t version) {
  BRAID_ASSIGN_OR_RETURN(auto handle, reader.Find(name, version));
  BRAID_ASSIGN_OR_RETURN(auto versions, catalog.Versions(name, -1));
  const ServableInfo& info = handle->get().info();
  inference::ModelMetadataResponse response;
  response.set_name(info.name);
  for (const auto& servable : versions) response.add_versions(std::to_string(servable->info().version));
  response.set_platform(info.platform);
  WriteTensors(info.inputs, *response.mutable_inputs());
  WriteTensors(info.outputs, *response.mutable_outputs());
  CountCall(handle->get(), interface, ApiMethod::kModelMetadata);
  return response;
}

Result<std::unique_ptr<ServableHandle>> FindConfigured(CatalogReader& reader, const std::string& name,
                                                       int64_t version) {
  BRAID_ASSIGN_OR_RETURN(auto handle, reader.Find(name, version));
  const ServableInfo& info = handle->get().info();
  if (!RulesOf(info).tells_configuration) return NoModelConfig(info);
  if (info.config == nullptr) return UnsupportedError("model '" + info.name + "' has no model configuration");
  return handle;
}

Result<inference::ModelStatisticsResponse> ModelStatistics(const Catalog& catalog, const std::string& name,
                                                           int64_t version) {
  std::vector<std::shared_ptr<Servable>> servables;
  if (name.empty()) {
    servables = catalog.All();
  } else {
    auto found = catalog.Versions(name, version);
    if (!found.ok() && catalog.Knows(name, version)) {
      return InvalidArgumentError("requested model '" + name + "' is not available");
    }
    BRAID_ASSIGN_OR_RETURN(servables, std::move(found));
  }
  inference::ModelStatisticsResponse response;
  for (const auto& servable : servables) {
    WriteStatistics(servable->info(), servable->statistics().Snapshot(), *response.add_model_stats());
  }
  return response;
}

inference::RepositoryIndexResponse RepositoryIndex(const Catalog& catalog, bool ready_only) {
  inference::RepositoryIndexResponse response;
  for (const IndexEntry& entry : catalog.Index(ready_only)) {
    auto& model = *response.add_models();
    model.set_name(entry.name);
    if (!entry.version && entry.reason.empty()) continue;
    if (entry.version) model.set_version(std::to_string(*entry.version));
    model.set_state(std::string(VersionStateName(entry.state)));
    model.set_reason(ToUtf8(entry.reason));
  }
  return response;
}

void WriteRegion(const RegionInfo& info, inference::SystemSharedMemoryStatusResponse::RegionStatus& region) {
  region.set_name(info.name);
  region.set_key(info.key);
  region.set_offset(info.offset);
  region.set_byte_size(info.byte_size);
}

void WriteRegion(const RegionInfo& info, inference::CudaSharedMemoryStatusResponse::RegionStatus& region) {
  region.set_name(info.name);
  region.set_device_id(static_cast<uint64_t>(*info.gpu));
  region.set_byte_size(info.byte_size);
}

Status LogChanges::Read(std::string_view setting, const Value& value, WrongKind wrong_kind) {
  constexpr std::string_view kLevelSettings[] = {"log_info", "log_warning", "log_error"};
  const size_t level = static_cast<size_t>(std::ranges::find(kLevelSettings, setting) - kLevelSettings);
  if (level < std::size(kLevelSettings)) {
    const bool* on = std::get_if<bool>(&value);
    if (on == nullptr) return wrong_kind(setting, 1);
    levels_[level] = *on;
  } else if (setting == "log_verbose_level") {
    const uint64_t* number = std::get_if<uint64_t>(&value);
    if (number == nullptr) return wrong_kind(setting, 2);
    verbose_level_ = static_cast<int>(std::min<uint64_t>(*number, std::numeric_limits<int>::max()));
  } else if (setting == "log_format") {
    const std::string_view* name = std::get_if<std::string_view>(&value);
    if (name == nullptr) return wrong_kind(setting, 3);
    format_ = *name == "default" ? LogFormat::kDefault : LogFormat::kIso8601;
    if (*name != LogFormatName(*format_))
      return UnavailableError("invalid argument for --log_format, got: " + Shortened(*name));
  } else if (setting == "log_file") {
    return UnsupportedError("log file location can not be updated through network protocol");
  } else {
    return InvalidArgumentError("unknown log setting '" + Shortened(setting) + "'");
  }
  return OkStatus();
}

void LogChanges::Apply(Logger& log) const {
  for (size_t i = 0; i < std::size(kLogLevels); ++i) {
    if (levels_[i]) log.set_enabled(kLogLevels[i], *levels_[i]);
  }
  if (verbose_level_) log.set_verbose_level(*verbose_level_);
  if (format_) log.set_format(*format_);
}

std::string_view LogFormatName(LogFormat format) {
  return format == LogFormat::kIso8601 ? "ISO8601" : "default";
}

}  // namespace braid
