#include "protocols/kserve/grpc/control.h"

#include <algorithm>
#include <climits>
#include <limits>

#include "base/utf8.h"
#include "model_config.pb.h"
#include "protocols/inference/dialect.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/statistics.h"
#include "protocols/kserve/trace_settings.h"

namespace braid {
namespace {

Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return OkStatus();
  return UnsupportedError("'repository_name' specification is not supported");
}

std::string_view ParameterTypeName(const inference::ModelRepositoryParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::ModelRepositoryParameter::kBoolParam:
      return "BOOL";
    case inference::ModelRepositoryParameter::kInt64Param:
      return "INT";
    case inference::ModelRepositoryParameter::kStringParam:
      return "STRING";
    case inference::ModelRepositoryParameter::kBytesParam:
      return "BYTES";
    default:
      return "<invalid>";
  }
}

void WriteTensors(const std::vector<TensorSpec>& specs,
                  google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>& to) {
  for (const TensorSpec& spec : specs) {
    auto& tensor = *to.Add();
    tensor.set_name(spec.name);
    tensor.set_datatype(std::string(WireName(spec.type)));
    for (int64_t dimension : spec.shape) tensor.add_shape(dimension);
  }
}

using LogValue = inference::LogSettingsRequest::SettingValue;

Status ReadLogFlag(const std::string& key, const LogValue& value, std::optional<bool>& to) {
  if (value.parameter_choice_case() != LogValue::kBoolParam) {
    return InvalidArgumentError("expect boolean for '" + key + "'");
  }
  to = value.bool_param();
  return OkStatus();
}

}  // namespace

Status GrpcControl::CheckServing() const {
  return context_.control.serving() ? OkStatus() : UnavailableError("Server not ready");
}

Result<std::unique_ptr<ServableHandle>> GrpcControl::Find(const std::string& name,
                                                          const std::string& version) const {
  BRAID_ASSIGN_OR_RETURN(const int64_t number, ParseModelVersion(version, RulesOf(context_.catalog)));
  return CatalogReader(context_.catalog).Find(name, number);
}

Status GrpcControl::ServerLive(const inference::ServerLiveRequest&, inference::ServerLiveResponse& response) {
  response.set_live(true);
  return OkStatus();
}

void GrpcControl::ServerReady(const inference::ServerReadyRequest&,
                              Done<inference::ServerReadyResponse> done) {
  context_.control.CheckServerReady([done = std::move(done)](bool ready) {
    inference::ServerReadyResponse response;
    response.set_ready(ready);
    done(std::move(response));
  });
}

void GrpcControl::ModelReady(const inference::ModelReadyRequest& request,
                             Done<inference::ModelReadyResponse> done) {
  const auto version = ParseModelVersion(request.version(), RulesOf(context_.catalog));
  if (!version.ok()) {
    done(version.status());
    return;
  }
  // Clients ask this to learn when a model has come or gone: one that is not there is not ready, which is no
  // error. OpenVINO Model Server makes one of names that it does not know.
  auto handle = CatalogReader(context_.catalog).Find(request.name(), *version);
  if (handle.status().fault() == Fault::kModelNameMissing) {
    done(handle.status());
    return;
  }
  const auto answer = [done = std::move(done)](const Readiness& readiness) {
    inference::ModelReadyResponse response;
    response.set_ready(readiness.ready);
    done(std::move(response));
  };
  if (handle.ok() && context_.control.serving()) {
    CountCall((*handle)->get(), ApiInterface::kGrpc, ApiMethod::kModelReady);
    (*handle)->get().CheckReadiness(answer);
  } else {
    answer({false, ""});
  }
}

Status GrpcControl::ServerMetadata(const inference::ServerMetadataRequest&,
                                   inference::ServerMetadataResponse& response) {
  response.set_name(context_.server_name);
  response.set_version(context_.server_version);
  for (const std::string& extension : context_.extensions) response.add_extensions(extension);
  return OkStatus();
}

void GrpcControl::HealthCheck(const grpc::health::v1::HealthCheckRequest& request,
                              Done<grpc::health::v1::HealthCheckResponse> done) {
  using Response = grpc::health::v1::HealthCheckResponse;
  if (!request.service().empty() && request.service() != "inference.GRPCInferenceService") {
    done(NotFoundError("unknown service '" + Shortened(request.service()) + "'"));
    return;
  }
  context_.control.CheckServerReady([done = std::move(done)](bool ready) {
    Response response;
    response.set_status(ready ? Response::SERVING : Response::NOT_SERVING);
    done(std::move(response));
  });
}

Status GrpcControl::ModelMetadata(const inference::ModelMetadataRequest& request,
                                  inference::ModelMetadataResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  BRAID_ASSIGN_OR_RETURN(auto handle, Find(request.name(), request.version()));
  const ServableInfo& info = handle->get().info();
  BRAID_ASSIGN_OR_RETURN(auto versions, context_.catalog.Versions(request.name(), -1));
  response.set_name(info.name);
  for (const auto& servable : versions) response.add_versions(std::to_string(servable->info().version));
  response.set_platform(info.platform);
  WriteTensors(info.inputs, *response.mutable_inputs());
  WriteTensors(info.outputs, *response.mutable_outputs());
  CountCall(handle->get(), ApiInterface::kGrpc, ApiMethod::kModelMetadata);
  return OkStatus();
}

Status GrpcControl::ModelConfig(const inference::ModelConfigRequest& request,
                                inference::ModelConfigResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  BRAID_ASSIGN_OR_RETURN(auto handle, Find(request.name(), request.version()));
  const ServableInfo& info = handle->get().info();
  if (!RulesOf(info).tells_configuration) return NoModelConfig(info);
  if (info.config == nullptr) return UnsupportedError("model '" + info.name + "' has no model configuration");
  *response.mutable_config() = *info.config;
  return OkStatus();
}

Status GrpcControl::ModelStatistics(const inference::ModelStatisticsRequest& request,
                                    inference::ModelStatisticsResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  BRAID_ASSIGN_OR_RETURN(const int64_t version,
                         ParseModelVersion(request.version(), RulesOf(context_.catalog)));
  std::vector<std::shared_ptr<Servable>> servables;
  if (request.name().empty()) {
    servables = context_.catalog.All();
  } else {
    auto found = context_.catalog.Versions(request.name(), version);
    if (!found.ok()) {
      const std::vector<IndexEntry> index = context_.catalog.Index(false);
      const bool known = std::any_of(index.begin(), index.end(), [&](const IndexEntry& entry) {
        return entry.name == request.name() && (version == -1 || entry.version == version);
      });
      if (!known) return found.status();
      return InvalidArgumentError("requested model '" + request.name() + "' is not available");
    }
    servables = std::move(*found);
  }
  for (const auto& servable : servables) {
    WriteStatistics(servable->info(), servable->statistics().Snapshot(), *response.add_model_stats());
  }
  return OkStatus();
}

Status GrpcControl::RepositoryIndex(const inference::RepositoryIndexRequest& request,
                                    inference::RepositoryIndexResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  for (const IndexEntry& entry : context_.catalog.Index(request.ready())) {
    auto& model = *response.add_models();
    model.set_name(entry.name);
    if (!entry.version && entry.reason.empty()) continue;
    if (entry.version) model.set_version(std::to_string(*entry.version));
    model.set_state(std::string(VersionStateName(entry.state)));
    if (entry.state != VersionState::kReady) model.set_reason(ToUtf8(entry.reason));
  }
  return OkStatus();
}

Status GrpcControl::LogSettings(const inference::LogSettingsRequest& request,
                                inference::LogSettingsResponse& response) {
  Logger& log = context_.log;
  std::optional<bool> info, warning, error;
  std::optional<int> verbose;
  std::optional<LogFormat> format;
  // All settings are read before any is applied.
  for (const auto& [key, value] : request.settings()) {
    if (key == "log_file") {
      return UnsupportedError("log file location can not be updated through network protocol");
    } else if (key == "log_info") {
      BRAID_RETURN_IF_ERROR(ReadLogFlag(key, value, info));
    } else if (key == "log_warning") {
      BRAID_RETURN_IF_ERROR(ReadLogFlag(key, value, warning));
    } else if (key == "log_error") {
      BRAID_RETURN_IF_ERROR(ReadLogFlag(key, value, error));
    } else if (key == "log_verbose_level") {
      if (value.parameter_choice_case() != LogValue::kUint32Param) {
        return InvalidArgumentError("expect int32 for '" + key + "'");
      }
      verbose = static_cast<int>(
          std::min<uint32_t>(value.uint32_param(), static_cast<uint32_t>(std::numeric_limits<int>::max())));
    } else if (key == "log_format") {
      if (value.parameter_choice_case() != LogValue::kStringParam) {
        return InvalidArgumentError("expect string for '" + key + "'");
      }
      if (value.string_param() == "default") {
        format = LogFormat::kDefault;
      } else if (value.string_param() == "ISO8601") {
        format = LogFormat::kIso8601;
      } else {
        return UnavailableError("invalid argument for --log_format, got: " + Shortened(value.string_param()));
      }
    } else {
      return InvalidArgumentError("unknown log setting '" + Shortened(key) + "'");
    }
  }
  if (info) log.set_enabled(LogLevel::kInfo, *info);
  if (warning) log.set_enabled(LogLevel::kWarning, *warning);
  if (error) log.set_enabled(LogLevel::kError, *error);
  if (verbose) log.set_verbose_level(*verbose);
  if (format) log.set_format(*format);

  const auto setting = [&](const std::string& key) -> auto& { return (*response.mutable_settings())[key]; };
  setting("log_file").set_string_param(log.file());
  setting("log_info").set_bool_param(log.enabled(LogLevel::kInfo));
  setting("log_warning").set_bool_param(log.enabled(LogLevel::kWarning));
  setting("log_error").set_bool_param(log.enabled(LogLevel::kError));
  setting("log_verbose_level").set_uint32_param(static_cast<uint32_t>(std::max(log.verbose_level(), 0)));
  setting("log_format").set_string_param(log.format() == LogFormat::kIso8601 ? "ISO8601" : "default");
  return OkStatus();
}

Status GrpcControl::RepositoryModelLoad(const Permit& permit,
                                        const inference::RepositoryModelLoadRequest& request,
                                        inference::RepositoryModelLoadResponse&) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  BRAID_RETURN_IF_ERROR(CheckServing());
  LoadRequest load;
  load.model_name = request.model_name();
  for (const auto& [key, value] : request.parameters()) {
    const auto choice = value.parameter_choice_case();
    if (key == "config" && choice == inference::ModelRepositoryParameter::kStringParam) {
      load.config_json = value.string_param();
    } else if (key.starts_with("file:") && choice == inference::ModelRepositoryParameter::kBytesParam) {
      load.files.emplace(key.substr(5), value.bytes_param());
    } else {
      return InvalidArgumentError("Unrecognized load parameter '" + Shortened(key) + "' with type '" +
                                  std::string(ParameterTypeName(value)) + "'");
    }
  }
  load.rights = RightsToLoad(permit, load);
  return context_.control.Load(load);
}

Status GrpcControl::RepositoryModelUnload(const Permit& permit,
                                          const inference::RepositoryModelUnloadRequest& request,
                                          inference::RepositoryModelUnloadResponse&) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  BRAID_RETURN_IF_ERROR(CheckServing());
  bool dependents = false;
  for (const auto& [key, value] : request.parameters()) {
    if (key != "unload_dependents") continue;
    if (value.parameter_choice_case() != inference::ModelRepositoryParameter::kBoolParam) {
      return InvalidArgumentError(
          "invalid value type for 'unload_dependents' parameter, expected bool_param.");
    }
    dependents = value.bool_param();
  }
  return context_.control.Unload(request.model_name(), dependents, RightsToUnload(permit));
}

Status GrpcControl::SystemSharedMemoryStatus(const inference::SystemSharedMemoryStatusRequest& request,
                                             inference::SystemSharedMemoryStatusResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  BRAID_ASSIGN_OR_RETURN(auto regions,
                         context_.client_memory->List(ClientSharedMemory::Kind::kSystem, request.name()));
  for (const RegionInfo& info : regions) {
    auto& region = (*response.mutable_regions())[info.name];
    region.set_name(info.name);
    region.set_key(info.key);
    region.set_offset(info.offset);
    region.set_byte_size(info.byte_size);
  }
  return OkStatus();
}

Status GrpcControl::SystemSharedMemoryRegister(const inference::SystemSharedMemoryRegisterRequest& request,
                                               inference::SystemSharedMemoryRegisterResponse&) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  return context_.client_memory->Register(
      {request.name(), request.key(), request.offset(), request.byte_size()});
}

Status GrpcControl::SystemSharedMemoryUnregister(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    inference::SystemSharedMemoryUnregisterResponse&) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  return context_.client_memory->Unregister(ClientSharedMemory::Kind::kSystem, request.name());
}

Status GrpcControl::CudaSharedMemoryStatus(const inference::CudaSharedMemoryStatusRequest& request,
                                           inference::CudaSharedMemoryStatusResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  BRAID_ASSIGN_OR_RETURN(auto regions,
                         context_.client_memory->List(ClientSharedMemory::Kind::kCuda, request.name()));
  for (const RegionInfo& info : regions) {
    auto& region = (*response.mutable_regions())[info.name];
    region.set_name(info.name);
    region.set_device_id(static_cast<uint64_t>(*info.gpu));
    region.set_byte_size(info.byte_size);
  }
  return OkStatus();
}

Status GrpcControl::CudaSharedMemoryRegister(const inference::CudaSharedMemoryRegisterRequest& request,
                                             inference::CudaSharedMemoryRegisterResponse&) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  RegionInfo info{.name = request.name(), .key = {}, .byte_size = request.byte_size()};
  // Numbers beyond it are those of no device.
  info.gpu = static_cast<int>(std::clamp<int64_t>(request.device_id(), -1, INT_MAX));
  return context_.client_memory->RegisterCuda(std::move(info), request.raw_handle());
}

Status GrpcControl::CudaSharedMemoryUnregister(const inference::CudaSharedMemoryUnregisterRequest& request,
                                               inference::CudaSharedMemoryUnregisterResponse&) {
  BRAID_RETURN_IF_ERROR(CheckServing());
  return context_.client_memory->Unregister(ClientSharedMemory::Kind::kCuda, request.name());
}

Status GrpcControl::TraceSetting(const inference::TraceSettingRequest& request,
                                 inference::TraceSettingResponse& response) {
  const std::string& model = request.model_name();
  BRAID_RETURN_IF_ERROR(CheckTraceModel(context_, model));
  TraceChanges changes;
  for (const auto& [key, value] : request.settings()) {
    auto& values = changes[key];
    // A setting without a value is reset.
    if (value.value_size() > 0) values.emplace(value.value().begin(), value.value().end());
  }
  if (!changes.empty()) BRAID_RETURN_IF_ERROR(context_.tracer->Change(model, changes));
  const TraceSettings settings = context_.tracer->Settings(model);
  const auto add = [&](const char* key, const std::string& value) {
    (*response.mutable_settings())[key].add_value(value);
  };
  for (const std::string& level : settings.levels()) add("trace_level", level);
  add("trace_rate", std::to_string(settings.rate));
  add("trace_count", std::to_string(settings.count));
  add("log_frequency", std::to_string(settings.log_frequency));
  add("trace_file", settings.file);
  add("trace_mode", settings.mode);
  return OkStatus();
}

}  // namespace braid
