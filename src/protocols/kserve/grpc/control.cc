#include "protocols/kserve/grpc/control.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "health.pb.h"
#include "model_config.pb.h"
#include "protocols/grpc/method_call.h"
#include "protocols/inference/dialect.h"
#include "protocols/kserve/control.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/service.h"
#include "protocols/kserve/load_rights.h"
#include "protocols/kserve/trace_settings.h"

namespace braid {
namespace {

using namespace inference;  // NOLINT: the messages of this protocol
using Method = GrpcMethod<KserveGrpc>;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// --- Health. User code may have a readiness check. So `done` is called once, perhaps before these return,
// perhaps later on any thread.

template <class Response>
using Done = std::function<void(Result<Response>)>;

void ServerReadyLater(ProtocolContext& context, const ServerReadyRequest&, Done<ServerReadyResponse> done) {
  context.control.CheckServerReady([done = std::move(done)](bool ready) {
    ServerReadyResponse response;
    response.set_ready(ready);
    done(std::move(response));
  });
}

void ModelReadyLater(ProtocolContext& context, const ModelReadyRequest& request,
                     Done<ModelReadyResponse> done) {
  const auto version = ParseModelVersion(request.version(), RulesOf(context.catalog));
  if (!version.ok()) {
    done(version.status());
    return;
  }
  // Clients poll this to learn when a model is loaded or unloaded. So a missing model is "not ready" and not
  // an error, except that OpenVINO Model Server reports unknown names as errors.
  auto handle = CatalogReader(context.catalog).Find(request.name(), *version);
  if (handle.status().fault() == Fault::kModelNameMissing) {
    done(handle.status());
    return;
  }
  const auto answer = [done = std::move(done)](const Readiness& readiness) {
    ModelReadyResponse response;
    response.set_ready(readiness.ready);
    done(std::move(response));
  };
  const bool on_demand = !handle.ok() && context.catalog.IsReadyOnDemand(request.name(), *version);
  if (!context.control.serving() || !handle.ok()) {
    answer({context.control.serving() && on_demand, ""});
  } else {
    CountCall((*handle)->get(), ApiInterface::kGrpc, ApiMethod::kModelReady);
    (*handle)->get().CheckReadiness(answer);
  }
}

void HealthCheckLater(ProtocolContext& context, const HealthCheckRequest& request,
                      Done<HealthCheckResponse> done) {
  if (!request.service().empty() && request.service() != "inference.GRPCInferenceService") {
    done(NotFoundError("unknown service '" + Shortened(request.service()) + "'"));
    return;
  }
  context.control.CheckServerReady([done = std::move(done)](bool ready) {
    HealthCheckResponse response;
    response.set_status(ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
    done(std::move(response));
  });
}

// --- The server and its models ---

// Returns UNAVAILABLE while the server starts or exits.
Status CheckServing(const ProtocolContext& context) {
  return context.control.serving() ? OkStatus() : UnavailableError("Server not ready");
}

Result<int64_t> VersionOf(const ProtocolContext& context, const std::string& text) {
  return ParseModelVersion(text, RulesOf(context.catalog));
}

Status AnswerServerLive(ProtocolContext&, const Authorization&, const ServerLiveRequest&,
                        ServerLiveResponse& response) {
  response.set_live(true);
  return OkStatus();
}

Status AnswerServerMetadata(ProtocolContext& context, const Authorization&, const ServerMetadataRequest&,
                            ServerMetadataResponse& response) {
  response = ServerMetadata(context);
  return OkStatus();
}

Status AnswerModelMetadata(ProtocolContext& context, const Authorization&,
                           const ModelMetadataRequest& request, ModelMetadataResponse& response) {
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(context, request.version()));
  CatalogReader reader(context.catalog);
  BRAID_ASSIGN_OR_RETURN(
      response, ModelMetadata(context.catalog, reader, ApiInterface::kGrpc, request.name(), version));
  return OkStatus();
}

Status AnswerModelConfig(ProtocolContext& context, const Authorization&, const ModelConfigRequest& request,
                         ModelConfigResponse& response) {
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(context, request.version()));
  CatalogReader reader(context.catalog);
  BRAID_ASSIGN_OR_RETURN(const auto handle, FindConfigured(reader, request.name(), version));
  *response.mutable_config() = *handle->get().info().config;
  return OkStatus();
}

Status AnswerModelStatistics(ProtocolContext& context, const Authorization&,
                             const ModelStatisticsRequest& request, ModelStatisticsResponse& response) {
  BRAID_ASSIGN_OR_RETURN(const int64_t version, VersionOf(context, request.version()));
  BRAID_ASSIGN_OR_RETURN(response, ModelStatistics(context.catalog, request.name(), version));
  return OkStatus();
}

// --- The repository ---

Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return OkStatus();
  return UnsupportedError("'repository_name' specification is not supported");
}

std::string_view ParameterTypeName(const ModelRepositoryParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case ModelRepositoryParameter::kBoolParam:
      return "BOOL";
    case ModelRepositoryParameter::kInt64Param:
      return "INT";
    case ModelRepositoryParameter::kStringParam:
      return "STRING";
    case ModelRepositoryParameter::kBytesParam:
      return "BYTES";
    default:
      return "<invalid>";
  }
}

Status AnswerRepositoryIndex(ProtocolContext& context, const Authorization&,
                             const RepositoryIndexRequest& request, RepositoryIndexResponse& response) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  response = RepositoryIndex(context.catalog, request.ready());
  return OkStatus();
}

// Both block until the repository has finished.
Status AnswerModelLoad(ProtocolContext& context, const Authorization& authorization,
                       const RepositoryModelLoadRequest& request, RepositoryModelLoadResponse&) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  BRAID_RETURN_IF_ERROR(CheckServing(context));
  LoadRequest load;
  load.model_name = request.model_name();
  for (const auto& [key, value] : request.parameters()) {
    const auto choice = value.parameter_choice_case();
    if (key == "config" && choice == ModelRepositoryParameter::kStringParam) {
      load.config_json = value.string_param();
    } else if (key.starts_with("file:") && choice == ModelRepositoryParameter::kBytesParam) {
      load.files.emplace(key.substr(5), value.bytes_param());
    } else {
      return InvalidArgumentError("Unrecognized load parameter '" + Shortened(key) + "' with type '" +
                                  std::string(ParameterTypeName(value)) + "'");
    }
  }
  load.rights = RightsToLoad(authorization, load);
  return context.control.Load(load);
}

Status AnswerModelUnload(ProtocolContext& context, const Authorization& authorization,
                         const RepositoryModelUnloadRequest& request, RepositoryModelUnloadResponse&) {
  BRAID_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  BRAID_RETURN_IF_ERROR(CheckServing(context));
  bool dependents = false;
  for (const auto& [key, value] : request.parameters()) {
    if (key != "unload_dependents") continue;
    if (value.parameter_choice_case() != ModelRepositoryParameter::kBoolParam) {
      return InvalidArgumentError(
          "invalid value type for 'unload_dependents' parameter, expected bool_param.");
    }
    dependents = value.bool_param();
  }
  return context.control.Unload(request.model_name(), dependents, RightsToUnload(authorization));
}

// --- Regions of clients ---

template <ClientSharedMemory::Kind kind, class Request, class Response>
Status AnswerRegions(ProtocolContext& context, const Authorization&, const Request& request,
                     Response& response) {
  BRAID_ASSIGN_OR_RETURN(const auto regions, context.client_memory->List(kind, request.name()));
  for (const RegionInfo& info : regions) WriteRegion(info, (*response.mutable_regions())[info.name]);
  return OkStatus();
}

Status AnswerRegister(ProtocolContext& context, const Authorization&,
                      const SystemSharedMemoryRegisterRequest& request, SystemSharedMemoryRegisterResponse&) {
  return context.client_memory->Register(
      {request.name(), request.key(), request.offset(), request.byte_size()});
}

// Blocks.
Status AnswerCudaRegister(ProtocolContext& context, const Authorization&,
                          const CudaSharedMemoryRegisterRequest& request, CudaSharedMemoryRegisterResponse&) {
  RegionInfo info{.name = request.name(), .key = {}, .byte_size = request.byte_size()};
  // Larger numbers do not name a device.
  info.gpu = static_cast<int>(std::clamp<int64_t>(request.device_id(), -1, INT_MAX));
  return context.client_memory->RegisterCuda(std::move(info), request.raw_handle());
}

template <ClientSharedMemory::Kind kind, class Request, class Response>
Status AnswerUnregister(ProtocolContext& context, const Authorization&, const Request& request, Response&) {
  return context.client_memory->Unregister(kind, request.name());
}

// --- Settings ---

LogChanges::Value ValueOf(const LogSettingsRequest::SettingValue& value) {
  switch (value.parameter_choice_case()) {
    case LogSettingsRequest::SettingValue::kBoolParam:
      return value.bool_param();
    case LogSettingsRequest::SettingValue::kUint32Param:
      return uint64_t{value.uint32_param()};
    case LogSettingsRequest::SettingValue::kStringParam:
      return std::string_view(value.string_param());
    default:
      return {};
  }
}

Status WrongLogKind(std::string_view setting, size_t kind) {
  constexpr const char* kKinds[] = {"", "boolean", "int32", "string"};
  return InvalidArgumentError("expect " + std::string(kKinds[kind]) + " for '" + std::string(setting) + "'");
}

Status AnswerLogSettings(ProtocolContext& context, const Authorization&, const LogSettingsRequest& request,
                         LogSettingsResponse& response) {
  Logger& log = context.log;
  LogChanges changes;
  for (const auto& [setting, value] : request.settings()) {
    BRAID_RETURN_IF_ERROR(changes.Read(setting, ValueOf(value), &WrongLogKind));
  }
  changes.Apply(log);
  const auto setting = [&](const std::string& key) -> auto& { return (*response.mutable_settings())[key]; };
  setting("log_file").set_string_param(log.file());
  setting("log_info").set_bool_param(log.enabled(LogLevel::kInfo));
  setting("log_warning").set_bool_param(log.enabled(LogLevel::kWarning));
  setting("log_error").set_bool_param(log.enabled(LogLevel::kError));
  setting("log_verbose_level").set_uint32_param(static_cast<uint32_t>(std::max(log.verbose_level(), 0)));
  setting("log_format").set_string_param(std::string(LogFormatName(log.format())));
  return OkStatus();
}

Status AnswerTraceSetting(ProtocolContext& context, const Authorization&, const TraceSettingRequest& request,
                          TraceSettingResponse& response) {
  const std::string& model = request.model_name();
  BRAID_RETURN_IF_ERROR(CheckTraceModel(context, model));
  TraceChanges changes;
  for (const auto& [key, value] : request.settings()) {
    auto& values = changes[key];
    // A setting without a value is reset.
    if (value.value_size() > 0) values.emplace(value.value().begin(), value.value().end());
  }
  if (!changes.empty()) BRAID_RETURN_IF_ERROR(context.tracer->Change(model, changes));
  const TraceSettings settings = context.tracer->Settings(model);
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

// --- The table ---

// The model of a request: "" for all models, nullopt if the method has no model.
using Model = std::optional<std::string_view>;
Model ModelOf(const google::protobuf::Message&) { return std::nullopt; }
Model ModelOf(const ModelReadyRequest& request) { return request.name(); }
Model ModelOf(const ModelMetadataRequest& request) { return request.name(); }
Model ModelOf(const ModelConfigRequest& request) { return request.name(); }
Model ModelOf(const ModelStatisticsRequest& request) { return request.name(); }
Model ModelOf(const RepositoryIndexRequest&) { return ""; }
Model ModelOf(const RepositoryModelLoadRequest& request) { return request.model_name(); }
Model ModelOf(const RepositoryModelUnloadRequest& request) { return request.model_name(); }
Model ModelOf(const TraceSettingRequest& request) { return request.model_name(); }
Model ModelOf(const LogSettingsRequest&) { return ""; }

// Reads the message and checks the client's rights.
template <class Request>
Status ReadPermitted(const Authorization& authorization, const GrpcMessage& message, Request& request) {
  BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
  const Model model = ModelOf(request);
  return model ? authorization.Check(*model) : OkStatus();
}

// `serves`: refused while the server starts or exits, after the check of the client's rights.
template <class Request, class Response>
Result<EncodedMessage> AnswerTyped(Status (*function)(ProtocolContext&, const Authorization&, const Request&,
                                                      Response&),
                                   bool serves, ProtocolContext& context, const Authorization& authorization,
                                   const GrpcMessage& message) {
  Request request;
  BRAID_RETURN_IF_ERROR(ReadPermitted(authorization, message, request));
  if (serves) BRAID_RETURN_IF_ERROR(CheckServing(context));
  Response response;
  BRAID_RETURN_IF_ERROR(function(context, authorization, request, response));
  return WriteGrpcMessage(response);
}

template <class Request, class Response>
void AnswerTypedLater(void (*function)(ProtocolContext&, const Request&, Done<Response>),
                      ProtocolContext& context, const Authorization& authorization,
                      const GrpcMessage& message, Method::Done done) {
  Request request;
  if (Status read = ReadPermitted(authorization, message, request); !read.ok()) {
    done(std::move(read));
    return;
  }
  function(context, request, [done = std::move(done)](Result<Response> response) {
    done(response.ok() ? WriteGrpcMessage(*response) : Result<EncodedMessage>(response.status()));
  });
}

template <auto function>
constexpr Method LaterEntry(const char* path, Api api) {
  return {path,
          api,
          GrpcMethodPlace::kLater,
          false,
          nullptr,
          [](KserveGrpc& kserve, const Authorization& authorization, const GrpcMessage& message,
             Method::Done done) {
            AnswerTypedLater(function, kserve.context, authorization, message, std::move(done));
          }};
}

template <auto function, bool serves = false>
constexpr Method Entry(const char* path, Api api, GrpcMethodPlace place) {
  return {path, api, place, false,
          [](KserveGrpc& kserve, const Authorization& authorization, const GrpcMessage& message) {
            return AnswerTyped(function, serves, kserve.context, authorization, message);
          }};
}

template <class Request>
std::string NameIn(const GrpcMessage& message) {
  Request request;
  return ReadGrpcMessage(message, request).ok() ? request.name() : "";
}

// The entry of a method that describes a model, which is loaded if it is not.
template <auto function, class Request>
constexpr Method DescribingEntry(const char* path, Api api) {
  Method method = Entry<function, true>(path, api, GrpcMethodPlace::kTask);
  method.model = &NameIn<Request>;
  return method;
}

}  // namespace

std::vector<GrpcRoute> ControlRoutes(KserveGrpc& kserve) {
  using enum Api;
  using enum GrpcMethodPlace;
  constexpr auto kSystem = ClientSharedMemory::Kind::kSystem;
  constexpr auto kCuda = ClientSharedMemory::Kind::kCuda;
  constexpr bool kServes = true;
  // All methods of the services except the two for inference.
  static constexpr Method kMethods[] = {
      Entry<&AnswerServerLive>("/inference.GRPCInferenceService/ServerLive", kHealth, kIoThread),
      LaterEntry<&ServerReadyLater>("/inference.GRPCInferenceService/ServerReady", kHealth),
      LaterEntry<&ModelReadyLater>("/inference.GRPCInferenceService/ModelReady", kHealth),
      LaterEntry<&HealthCheckLater>("/grpc.health.v1.Health/Check", kHealth),
      Entry<&AnswerServerMetadata>("/inference.GRPCInferenceService/ServerMetadata", kMetadata, kIoThread),
      DescribingEntry<&AnswerModelMetadata, ModelMetadataRequest>(
          "/inference.GRPCInferenceService/ModelMetadata", kMetadata),
      DescribingEntry<&AnswerModelConfig, ModelConfigRequest>("/inference.GRPCInferenceService/ModelConfig",
                                                              kModelConfig),
      Entry<&AnswerModelStatistics, kServes>("/inference.GRPCInferenceService/ModelStatistics", kStatistics,
                                             kTask),
      Entry<&AnswerRepositoryIndex>("/inference.GRPCInferenceService/RepositoryIndex", kModelRepository,
                                    kTask),
      Entry<&AnswerModelLoad>("/inference.GRPCInferenceService/RepositoryModelLoad", kModelRepository, kPool),
      Entry<&AnswerModelUnload>("/inference.GRPCInferenceService/RepositoryModelUnload", kModelRepository,
                                kPool),
      Entry<&AnswerRegions<kSystem, SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse>,
            kServes>("/inference.GRPCInferenceService/SystemSharedMemoryStatus", kSharedMemory, kIoThread),
      Entry<&AnswerRegister, kServes>("/inference.GRPCInferenceService/SystemSharedMemoryRegister",
                                      kSharedMemory, kIoThread),
      Entry<&AnswerUnregister<kSystem, SystemSharedMemoryUnregisterRequest,
                              SystemSharedMemoryUnregisterResponse>,
            kServes>("/inference.GRPCInferenceService/SystemSharedMemoryUnregister", kSharedMemory,
                     kIoThread),
      Entry<&AnswerRegions<kCuda, CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse>, kServes>(
          "/inference.GRPCInferenceService/CudaSharedMemoryStatus", kSharedMemory, kIoThread),
      Entry<&AnswerCudaRegister, kServes>("/inference.GRPCInferenceService/CudaSharedMemoryRegister",
                                          kSharedMemory, kTask),
      Entry<&AnswerUnregister<kCuda, CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse>,
            kServes>("/inference.GRPCInferenceService/CudaSharedMemoryUnregister", kSharedMemory, kTask),
      Entry<&AnswerTraceSetting>("/inference.GRPCInferenceService/TraceSetting", kTrace, kIoThread),
      Entry<&AnswerLogSettings>("/inference.GRPCInferenceService/LogSettings", kLogging, kIoThread),
  };
  std::vector<GrpcRoute> routes;
  for (const Method& method : kMethods) routes.push_back(MethodRoute(kserve, &kserve.loads, method));
  return routes;
}

}  // namespace braid
