#include "protocols/kserve/http/service.h"

#include "protocols/inference/dialect.h"
#include "protocols/json/json.h"
#include "protocols/kserve/control.h"
#include "protocols/kserve/http/documents.h"
#include "protocols/kserve/http/generate.h"
#include "protocols/kserve/http/infer.h"
#include "protocols/kserve/http/message_json.h"
#include "protocols/kserve/http/shared_memory.h"
#include "protocols/kserve/load_rights.h"
#include "protocols/kserve/trace_settings.h"

namespace braid {
namespace {

constexpr char kBusy[] = "too many model repository requests are waiting";

HttpResponse Acknowledge(const Status& status) {
  return status.ok() ? HttpResponse{} : ErrorResponse(status);
}

template <class Message>
HttpResponse Document(const Result<Message>& message) {
  if (!message.ok()) return ErrorResponse(message.status());
  return JsonResponse(DumpJson(MessageJson(*message)));
}

// Returns the status of the requested region, or of all regions of the kind for "".
template <class Message>
HttpResponse Regions(const ClientSharedMemory& memory, ClientSharedMemory::Kind kind,
                     std::string_view region) {
  const auto list = memory.List(kind, region);
  if (!list.ok()) return ErrorResponse(list.status());
  Json lines = Json::array();
  for (const RegionInfo& info : *list) {
    Message line;
    WriteRegion(info, line);
    lines.push_back(MessageJson(line));
  }
  return JsonResponse(DumpJson(lines));
}

}  // namespace

// State of one I/O thread.
struct KserveHttp::ThreadState {
  explicit ThreadState(const Catalog& catalog) : reader(catalog) {}
  CatalogReader reader;
  simdjson::dom::parser parser;
};

KserveHttp::KserveHttp(ProtocolContext& context, Options options)
    : context_(context), options_(std::move(options)) {}
KserveHttp::~KserveHttp() = default;

void KserveHttp::SetIoThreads(size_t count) {
  threads_.clear();
  for (size_t i = 0; i < count; ++i) threads_.push_back(std::make_unique<ThreadState>(context_.catalog));
}

KserveHttp::ThreadState& KserveHttp::state(const HttpExchange& exchange) {
  return *threads_[exchange.io_thread()];
}

std::span<const HttpRoute> KserveHttp::Routes() {
  using K = KserveHttp;
  using enum HttpScope;
  using enum HttpRouteKind;
  using enum Api;
  // Fixed segments precede variable ones at the same place: "/v2/models/stats" is not a model.
  static constexpr HttpRoute kRoutes[] = {
      {"POST", "/v2/models/{m}/infer", kInference, kNamed, kAnsweredBy<&K::Infer>},
      {"POST", "/v2/models/{m}/versions/{v}/infer", kInference, kNamed, kAnsweredBy<&K::Infer>},
      {"POST", "/v2/models/{m}/generate", kInference, kNamed, kAnsweredBy<&K::Generate>},
      {"POST", "/v2/models/{m}/versions/{v}/generate", kInference, kNamed, kAnsweredBy<&K::Generate>},
      {"POST", "/v2/models/{m}/generate_stream", kInference, kNamed, kAnsweredBy<&K::GenerateStream>},
      {"POST", "/v2/models/{m}/versions/{v}/generate_stream", kInference, kNamed,
       kAnsweredBy<&K::GenerateStream>},
      {"GET", "/v2", kMetadata, kNamed, kAnsweredBy<&K::ServerMetadata>},
      {"GET", "/v2/health/live", kHealth, kNamed, kAnsweredBy<&K::ServerLive>},
      {"GET", "/v2/health/ready", kHealth, kNamed, kAnsweredBy<&K::ServerReady>},
      {"GET", "/v2/models/stats", kStatistics, kNamedOrAll, kAnsweredBy<&K::Statistics>},
      {"GET", "/v2/models/{m}/stats", kStatistics, kNamedOrAll, kAnsweredBy<&K::Statistics>},
      {"GET", "/v2/models/{m}/versions/{v}/stats", kStatistics, kNamedOrAll, kAnsweredBy<&K::Statistics>},
      {"GET", "/v2/models/{m}/ready", kHealth, kNamed, kAnsweredBy<&K::ModelReady>},
      {"GET", "/v2/models/{m}/versions/{v}/ready", kHealth, kNamed, kAnsweredBy<&K::ModelReady>},
      {"GET", "/v2/models/{m}/config", kModelConfig, kNamed, kAnsweredBy<&K::ModelConfig>},
      {"GET", "/v2/models/{m}/versions/{v}/config", kModelConfig, kNamed, kAnsweredBy<&K::ModelConfig>},
      {"GET", "/v2/models/{m}", kMetadata, kNamed, kAnsweredBy<&K::ModelMetadata>},
      {"GET", "/v2/models/{m}/versions/{v}", kMetadata, kNamed, kAnsweredBy<&K::ModelMetadata>},
      {"POST", "/v2/repository/index", kModelRepository, kNamedOrAll, kAnsweredBy<&K::RepositoryIndex>},
      {"POST", "/v2/repository/models/{m}/load", kModelRepository, kNamed, kAnsweredBy<&K::Load>},
      {"POST", "/v2/repository/models/{m}/unload", kModelRepository, kNamed, kAnsweredBy<&K::Unload>},
      {"POST", "/v2/repository/{r}/index", kModelRepository, kNamed, kAnsweredBy<&K::NamedRepository>,
       kOnlyRefuses},
      {"POST", "/v2/repository/{r}/models/{m}/load", kModelRepository, kNamed,
       kAnsweredBy<&K::NamedRepository>, kOnlyRefuses},
      {"POST", "/v2/repository/{r}/models/{m}/unload", kModelRepository, kNamed,
       kAnsweredBy<&K::NamedRepository>, kOnlyRefuses},
      {"GET", "/v2/logging", kLogging, kAll, kAnsweredBy<&K::Logging>},
      {"POST", "/v2/logging", kLogging, kAll, kAnsweredBy<&K::SetLogging>},
      {"GET", "/v2/trace/setting", kTrace, kNamedOrAll, kAnsweredBy<&K::Trace>},
      {"POST", "/v2/trace/setting", kTrace, kNamedOrAll, kAnsweredBy<&K::SetTrace>},
      {"GET", "/v2/models/{m}/trace/setting", kTrace, kNamedOrAll, kAnsweredBy<&K::Trace>},
      {"POST", "/v2/models/{m}/trace/setting", kTrace, kNamedOrAll, kAnsweredBy<&K::SetTrace>},
      {"GET", "/v2/systemsharedmemory/status", kSharedMemory, kNamed, kAnsweredBy<&K::SystemMemory>},
      {"GET", "/v2/systemsharedmemory/region/{r}/status", kSharedMemory, kNamed,
       kAnsweredBy<&K::SystemMemory>},
      {"POST", "/v2/systemsharedmemory/unregister", kSharedMemory, kNamed,
       kAnsweredBy<&K::UnregisterSystemMemory>},
      {"POST", "/v2/systemsharedmemory/region/{r}/unregister", kSharedMemory, kNamed,
       kAnsweredBy<&K::UnregisterSystemMemory>},
      {"POST", "/v2/systemsharedmemory/region/{r}/register", kSharedMemory, kNamed,
       kAnsweredBy<&K::RegisterSystemMemory>},
      {"GET", "/v2/cudasharedmemory/status", kSharedMemory, kNamed, kAnsweredBy<&K::CudaMemory>},
      {"GET", "/v2/cudasharedmemory/region/{r}/status", kSharedMemory, kNamed, kAnsweredBy<&K::CudaMemory>},
      {"POST", "/v2/cudasharedmemory/unregister", kSharedMemory, kNamed,
       kAnsweredBy<&K::UnregisterCudaMemory>},
      {"POST", "/v2/cudasharedmemory/region/{r}/unregister", kSharedMemory, kNamed,
       kAnsweredBy<&K::UnregisterCudaMemory>},
      {"POST", "/v2/cudasharedmemory/region/{r}/register", kSharedMemory, kNamed,
       kAnsweredBy<&K::RegisterCudaMemory>},
  };
  return kRoutes;
}

std::optional<HttpService::Answer> KserveHttp::Answer(HttpProtocolHost& host,
                                                      const std::shared_ptr<HttpExchange>& exchange) {
  using enum HttpMatch::Found;
  const DialectRules& rules = RulesOf(context_.catalog);
  HttpRequest request(host, exchange, Routes());
  if (request.found == kRoute) return host.Dispatch(*this, request);
  if (request.found == kBadEscape) return ErrorResponse(400, "the path must be percent-encoded UTF-8");
  if (request.found == kWrongMethod && request.version_fits) {
    return rules.Choose(ErrorResponse(405, "Method Not Allowed"),
                        ErrorResponse(FaultError(Fault::kRestUnsupportedMethod)));
  }
  return rules.Choose(ErrorResponse(404, "Not Found"), ErrorResponse(FaultError(Fault::kRestInvalidUrl)));
}

HttpService::Answer KserveHttp::Infer(HttpRequest& request) {
  const HttpExchange& exchange = *request.exchange;
  auto servable = state(exchange).reader.Find(*request.model, request.version);
  if (!servable.ok()) return ErrorResponse(InferNotFound(servable.status()));
  const ServableInfo& info = (*servable)->get().info();
  if (info.decoupled) {
    return ErrorResponse(
        UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy"));
  }
  InferCall::Body body;
  auto json_size = InferCall::JsonSize(exchange, RulesOf(info));
  if (!json_size.ok()) {
    CountRefused((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelInfer);
    return ErrorResponse(json_size.status());
  }
  body.json_size = *json_size;
  if (const auto accept = FindHeader(exchange.head(), "Accept-Encoding")) {
    body.response_coding = ChooseContentCoding(*accept);
  }
  body.max_input_bytes = options_.max_input_bytes;
  if (context_.client_memory->used()) {
    body.client_memory = context_.client_memory.get();
    auto authorization = request.host.Authorize(exchange, {Api::kInference, *request.model});
    if (!authorization.ok()) return ErrorResponse(authorization.status());
    body.authorization = *std::move(authorization);
  }
  auto setup =
      SetupOf(request, std::move(*servable), RulesOf(info).Call(ApiInterface::kRest, ApiMethod::kModelInfer));
  if (!setup.ok()) return ErrorResponse(setup.status());
  return std::make_shared<InferCall>(std::move(*setup), std::move(body));
}

HttpService::Answer KserveHttp::Generate(HttpRequest& request) { return GenerateBy(request, false); }

HttpService::Answer KserveHttp::GenerateStream(HttpRequest& request) { return GenerateBy(request, true); }

HttpService::Answer KserveHttp::GenerateBy(HttpRequest& request, bool stream) {
  auto servable = state(*request.exchange).reader.Find(*request.model, request.version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  if ((*servable)->get().info().kind == ServableKind::kGraph) {
    return ErrorResponse(UnsupportedError("generate does not support graph '" + *request.model +
                                          "': its inputs have no schema; use infer"));
  }
  auto setup = SetupOf(request, std::move(*servable), std::nullopt);
  if (!setup.ok()) return ErrorResponse(setup.status());
  return std::make_shared<GenerateCall>(std::move(*setup),
                                        GenerateCall::Body{stream, options_.max_input_bytes, &context_.log});
}

Result<HttpInference::Setup> KserveHttp::SetupOf(HttpRequest& request,
                                                 std::unique_ptr<ServableHandle> servable,
                                                 std::optional<ApiCall> api) {
  HttpInference::Setup setup;
  BRAID_RETURN_IF_ERROR(context_.http_headers.Append(request.exchange->head(), setup.header_parameters));
  setup.exchange = request.exchange;
  setup.servable = std::move(servable);
  setup.model_name = std::move(*request.model);
  setup.model_version = request.version;
  setup.parser = &state(*request.exchange).parser;
  setup.tracer = context_.tracer;
  setup.api = api;
  return setup;
}

HttpResponse KserveHttp::ServerMetadata(HttpRequest&) {
  return Document<inference::ServerMetadataResponse>(braid::ServerMetadata(context_));
}

HttpResponse KserveHttp::ServerLive(HttpRequest&) { return JsonResponse(R"({"live": true})"); }

HttpResponse KserveHttp::ModelMetadata(HttpRequest& request) {
  return Document(braid::ModelMetadata(context_.catalog, state(*request.exchange).reader, ApiInterface::kRest,
                                       *request.model, request.version));
}

// User code may have a readiness check: the answer is sent when it has finished, on any thread.
HttpService::Answer KserveHttp::ServerReady(HttpRequest& request) {
  return request.Later([this](const std::shared_ptr<HttpExchange>& exchange) {
    context_.control.CheckServerReady([exchange](bool ready) {
      HttpResponse response = JsonResponse(ready ? R"({"ready": true})" : R"({"ready": false})");
      if (!ready) response.status = 400;
      exchange->Respond(std::move(response));
    });
  });
}

HttpService::Answer KserveHttp::ModelReady(HttpRequest& request) {
  return request.Later([this, model = *std::move(request.model),
                        version = request.version](const std::shared_ptr<HttpExchange>& exchange) {
    const DialectRules& rules = RulesOf(context_.catalog);
    const auto answer = [exchange, &rules](const Readiness& readiness) {
      exchange->Respond(Acknowledge(readiness.ready
                                        ? OkStatus()
                                        : rules.Word(Fault::kModelVersionNotLoadedYet,
                                                     InvalidArgumentError("Model version not ready"))));
    };
    auto servable = state(*exchange).reader.Find(model, version);
    const bool known = context_.catalog.Knows(model, rules.knows_all_versions ? -1 : version);
    if (!servable.ok() && !known) {
      exchange->Respond(ErrorResponse(servable.status()));
    } else if (!context_.control.serving() || !servable.ok()) {
      answer({context_.control.serving() && context_.catalog.IsReadyOnDemand(model, version), ""});
    } else {
      CountCall((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelReady);
      (*servable)->get().CheckReadiness(answer);
    }
  });
}

HttpResponse KserveHttp::ModelConfig(HttpRequest& request) {
  auto servable = FindConfigured(state(*request.exchange).reader, *request.model, request.version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  return JsonResponse(options_.config_to_json(*(*servable)->get().info().config));
}

HttpResponse KserveHttp::Statistics(HttpRequest& request) {
  return Document(ModelStatistics(context_.catalog, request.model.value_or(""), request.version));
}

HttpService::Answer KserveHttp::RepositoryIndex(HttpRequest& request) {
  return request.WithBody([this](std::string_view body) {
    auto ready_only = ReadIndexRequest(body);
    if (!ready_only.ok()) return ErrorResponse(ready_only.status());
    const Json index = MessageJson(braid::RepositoryIndex(context_.catalog, *ready_only), false);
    return JsonResponse(DumpJson(index.at("models")));
  });
}

HttpService::Answer KserveHttp::Load(HttpRequest& request) {
  auto authorization = request.host.Authorize(*request.exchange, request.Subject());
  if (!authorization.ok()) return ErrorResponse(authorization.status());
  return request.Blocking(kBusy,
                          [this, model = *request.model, authorization = *std::move(authorization)](
                              std::string_view body) -> Result<HttpResponse> {
                            BRAID_ASSIGN_OR_RETURN(LoadRequest load, ReadLoadRequest(model, body));
                            load.rights = RightsToLoad(authorization, load);
                            return Acknowledge(context_.control.Load(load));
                          });
}

HttpService::Answer KserveHttp::Unload(HttpRequest& request) {
  auto authorization = request.host.Authorize(*request.exchange, request.Subject());
  if (!authorization.ok()) return ErrorResponse(authorization.status());
  return request.Blocking(
      kBusy,
      [this, model = *request.model,
       authorization = *std::move(authorization)](std::string_view body) -> Result<HttpResponse> {
        BRAID_ASSIGN_OR_RETURN(const bool dependents, ReadUnloadRequest(body));
        return Acknowledge(context_.control.Unload(model, dependents, RightsToUnload(authorization)));
      });
}

HttpResponse KserveHttp::NamedRepository(HttpRequest&) {
  return ErrorResponse(UnsupportedError("'repository_name' specification is not supported"));
}

HttpResponse KserveHttp::Logging(HttpRequest&) { return JsonResponse(LoggingJson(context_.log)); }

HttpService::Answer KserveHttp::SetLogging(HttpRequest& request) {
  return request.WithBody([this](std::string_view body) {
    const Status status = ChangeLogging(body, context_.log);
    return status.ok() ? JsonResponse(LoggingJson(context_.log)) : ErrorResponse(status);
  });
}

HttpResponse KserveHttp::TraceSettings(const std::string& model) {
  if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
  return JsonResponse(TraceSettingsJson(context_.tracer->Settings(model)));
}

HttpResponse KserveHttp::Trace(HttpRequest& request) { return TraceSettings(request.model.value_or("")); }

HttpService::Answer KserveHttp::SetTrace(HttpRequest& request) {
  return request.WithBody([this, model = request.model.value_or("")](std::string_view body) {
    if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
    auto changes = ReadTraceChanges(body);
    if (!changes.ok()) return ErrorResponse(changes.status());
    Status status = context_.tracer->Change(model, *changes);
    return status.ok() ? TraceSettings(model) : ErrorResponse(status);
  });
}

HttpResponse KserveHttp::SystemMemory(HttpRequest& request) {
  return Regions<inference::SystemSharedMemoryStatusResponse::RegionStatus>(
      *context_.client_memory, ClientSharedMemory::Kind::kSystem, request.region);
}

HttpService::Answer KserveHttp::RegisterSystemMemory(HttpRequest& request) {
  return request.WithBody([memory = context_.client_memory, region = request.region](std::string_view body) {
    return Acknowledge(RegisterSystemRegion(*memory, region, body));
  });
}

HttpResponse KserveHttp::UnregisterSystemMemory(HttpRequest& request) {
  return Acknowledge(context_.client_memory->Unregister(ClientSharedMemory::Kind::kSystem, request.region));
}

HttpResponse KserveHttp::CudaMemory(HttpRequest& request) {
  return Regions<inference::CudaSharedMemoryStatusResponse::RegionStatus>(
      *context_.client_memory, ClientSharedMemory::Kind::kCuda, request.region);
}

HttpService::Answer KserveHttp::RegisterCudaMemory(HttpRequest& request) {
  return request.Blocking(
      kBusy, [memory = context_.client_memory, region = request.region](std::string_view body) {
        return Result<HttpResponse>(Acknowledge(RegisterCudaRegion(*memory, region, body)));
      });
}

HttpService::Answer KserveHttp::UnregisterCudaMemory(HttpRequest& request) {
  return request.Blocking(
      kBusy, [memory = context_.client_memory, region = request.region](std::string_view) {
        return Result<HttpResponse>(Acknowledge(memory->Unregister(ClientSharedMemory::Kind::kCuda, region)));
      });
}

}  // namespace braid
