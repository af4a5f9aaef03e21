#include "protocols/kserve/http/service.h"

#include "protocols/inference/dialect.h"
#include "protocols/json/json.h"
#include "protocols/kserve/http/documents.h"
#include "protocols/kserve/http/generate.h"
#include "protocols/kserve/http/infer.h"
#include "protocols/kserve/http/routes.h"
#include "protocols/kserve/http/shared_memory.h"
#include "protocols/kserve/load_rights.h"
#include "protocols/kserve/trace_settings.h"

namespace braid {
namespace {

using Answer = HttpService::Answer;
using Exchange = std::shared_ptr<HttpExchange>;

// A request whose body is of no interest, and whose answer comes when it comes.
Answer Later(const Exchange& exchange, std::function<void(const Exchange&)> function) {
  return std::make_shared<WholeBodyCall>(
      exchange,
      [function = std::move(function)](const Exchange& exchange, std::string) { function(exchange); });
}

Answer WithBody(const Exchange& exchange, std::function<HttpResponse(std::string_view body)> function) {
  return std::make_shared<WholeBodyCall>(
      exchange, [function = std::move(function)](const Exchange& exchange, std::string body) {
        exchange->Respond(function(body));
      });
}

// What the policy is asked about. What may name a model and does not is about all of them.
Rights::Subject SubjectOf(const HttpRouteMatch& match) {
  switch (match.route->action) {
    case HttpAction::kStatistics:
    case HttpAction::kRepositoryIndex:
    case HttpAction::kGetTrace:
    case HttpAction::kSetTrace:
    case HttpAction::kGetLogging:
    case HttpAction::kSetLogging:
      return {match.route->api, match.model};
    default:
      if (match.model.empty()) return {match.route->api, std::nullopt};
      return {match.route->api, match.model};
  }
}

}  // namespace

// What an io thread has for itself.
struct KserveHttp::ThreadState {
  explicit ThreadState(const Catalog& catalog) : reader(catalog) {}
  CatalogReader reader;
  simdjson::dom::parser parser;
  HttpRouteMatch match;  // of the request that is being routed
};

KserveHttp::KserveHttp(ProtocolContext& context, Options options)
    : context_(context), options_(std::move(options)) {}
KserveHttp::~KserveHttp() = default;

void KserveHttp::Attach(HttpProtocolHost& host) {
  host_ = &host;
  threads_.clear();
  for (size_t i = 0; i < host.io_threads(); ++i) {
    threads_.push_back(std::make_unique<ThreadState>(context_.catalog));
  }
}

KserveHttp::ThreadState& KserveHttp::state(const HttpExchange& exchange) {
  return *threads_[exchange.io_thread()];
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> KserveHttp::Find(const HttpExchange& exchange) {
  using Found = std::variant<HttpResponse, HttpProtocolRoute>;
  const HttpHead& head = exchange.head();
  const DialectRules& rules = RulesOf(context_.catalog);
  HttpRouteMatch& match = state(exchange).match;
  match = MatchHttpRoute(RouteMethod(head), ToStd(head.target()));
  switch (match.kind) {
    case HttpRouteMatch::Kind::kFound:
      break;
    case HttpRouteMatch::Kind::kNoSuchPath:
      return Found(
          rules.Choose(ErrorResponse(404, "Not Found"), ErrorResponse(FaultError(Fault::kRestInvalidUrl))));
    case HttpRouteMatch::Kind::kWrongMethod:
      return Found(rules.Choose(ErrorResponse(405, "Method Not Allowed"),
                                ErrorResponse(FaultError(Fault::kRestUnsupportedMethod))));
    case HttpRouteMatch::Kind::kBadEscape:
      return Found(ErrorResponse(400, "invalid percent-encoding in the path, which must be UTF-8"));
  }
  return Found(HttpProtocolRoute{SubjectOf(match), [this](const Exchange& exchange) {
                                   return Dispatch(exchange, state(*exchange).match);
                                 }});
}

KserveHttp::Answer KserveHttp::Dispatch(const Exchange& exchange, HttpRouteMatch& match) {
  switch (match.route->action) {
    case HttpAction::kInfer:
      return Infer(exchange, match);
    case HttpAction::kServerMetadata:
      return JsonResponse(ServerMetadataJson(context_));
    case HttpAction::kServerLive:
      return JsonResponse(R"({"live": true})");
    case HttpAction::kServerReady:
      return Later(exchange, [this](const Exchange& exchange) { ServerReady(exchange); });
    case HttpAction::kModelMetadata:
      return ModelMetadata(*exchange, match);
    case HttpAction::kModelReady:
      return Later(exchange, [this, match = std::move(match)](const Exchange& exchange) {
        ModelReady(exchange, match);
      });
    case HttpAction::kModelConfig:
      return ModelConfig(*exchange, match);
    case HttpAction::kStatistics:
      return Statistics(match);
    case HttpAction::kRepositoryIndex:
      return WithBody(exchange, [this](std::string_view body) { return RepositoryIndex(body); });
    case HttpAction::kRepositoryLoad:
    case HttpAction::kRepositoryUnload: {
      auto permit = host_->Authorize(*exchange, SubjectOf(match));
      if (!permit.ok()) return ErrorResponse(permit.status());
      const auto answer =
          match.route->action == HttpAction::kRepositoryLoad ? &KserveHttp::Load : &KserveHttp::Unload;
      return OnControlThread(
          exchange, [this, answer, model = match.model, permit = *std::move(permit)](std::string_view body) {
            return (this->*answer)(model, permit, body);
          });
    }
    case HttpAction::kNamedRepository:
      return ErrorResponse(UnsupportedError("'repository_name' specification is not supported"));
    case HttpAction::kGetLogging:
      return JsonResponse(LoggingJson(context_.log));
    case HttpAction::kSetLogging:
      return WithBody(exchange, [this](std::string_view body) { return SetLogging(body); });
    case HttpAction::kGenerate:
      return Generate(exchange, match, false);
    case HttpAction::kGenerateStream:
      return Generate(exchange, match, true);
    case HttpAction::kGetTrace:
      return TraceSettings(match.model);
    case HttpAction::kSetTrace:
      return WithBody(exchange,
                      [this, model = match.model](std::string_view body) { return SetTrace(model, body); });
    case HttpAction::kSystemMemoryStatus:
      return SystemMemoryStatus(*context_.client_memory, match.region);
    case HttpAction::kSystemMemoryRegister:
      return WithBody(exchange,
                      [memory = context_.client_memory, region = match.region](std::string_view body) {
                        return RegisterSystemMemory(*memory, region, body);
                      });
    case HttpAction::kSystemMemoryUnregister:
      return UnregisterSystemMemory(*context_.client_memory, match.region);
    case HttpAction::kCudaMemoryStatus:
      return CudaMemoryStatus(*context_.client_memory, match.region);
    case HttpAction::kCudaMemoryRegister:
      return OnControlThread(exchange,
                             [memory = context_.client_memory, region = match.region](std::string_view body) {
                               return RegisterCudaMemory(*memory, region, body);
                             });
    case HttpAction::kCudaMemoryUnregister:
      return OnControlThread(exchange,
                             [memory = context_.client_memory, region = match.region](std::string_view) {
                               return UnregisterCudaMemory(*memory, region);
                             });
  }
  return ErrorResponse(404, "Not Found");
}

KserveHttp::Answer KserveHttp::Infer(const Exchange& exchange, HttpRouteMatch& match) {
  const HttpHead& head = exchange->head();
  auto servable = state(*exchange).reader.Find(match.model, match.version);
  if (!servable.ok()) return ErrorResponse(InferNotFound(servable.status()));
  const ServableInfo& info = (*servable)->get().info();
  if (info.decoupled) {
    return ErrorResponse(
        UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy"));
  }
  InferCall::Body body;
  auto json_size = InferCall::JsonSize(*exchange, RulesOf(info));
  if (!json_size.ok()) {
    CountRefused((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelInfer);
    return ErrorResponse(json_size.status());
  }
  body.json_size = *json_size;
  if (const auto accept = FindHeader(head, "Accept-Encoding")) {
    body.response_coding = ChooseContentCoding(*accept);
  }
  body.max_input_bytes = options_.max_input_bytes;
  if (context_.client_memory->used()) {
    body.client_memory = context_.client_memory.get();
    auto permit = host_->Authorize(*exchange, {Api::kInference, match.model});
    if (!permit.ok()) return ErrorResponse(permit.status());
    body.permit = *std::move(permit);
  }
  auto setup = SetupOf(exchange, match, std::move(*servable),
                       RulesOf(info).Call(ApiInterface::kRest, ApiMethod::kModelInfer));
  if (!setup.ok()) return ErrorResponse(setup.status());
  return std::make_shared<InferCall>(std::move(*setup), std::move(body));
}

KserveHttp::Answer KserveHttp::Generate(const Exchange& exchange, HttpRouteMatch& match, bool stream) {
  auto servable = state(*exchange).reader.Find(match.model, match.version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  if ((*servable)->get().info().kind == ServableKind::kGraph) {
    return ErrorResponse(UnsupportedError("'" + match.model +
                                          "' is a graph, whose inputs have no schema: generate does not "
                                          "support it, infer does"));
  }
  auto setup = SetupOf(exchange, match, std::move(*servable), std::nullopt);
  if (!setup.ok()) return ErrorResponse(setup.status());
  return std::make_shared<GenerateCall>(std::move(*setup),
                                        GenerateCall::Body{stream, options_.max_input_bytes, &context_.log});
}

Result<HttpInference::Setup> KserveHttp::SetupOf(const Exchange& exchange, HttpRouteMatch& match,
                                                 std::unique_ptr<ServableHandle> servable,
                                                 std::optional<ApiCall> api) {
  HttpInference::Setup setup;
  BRAID_RETURN_IF_ERROR(context_.http_headers.Append(exchange->head(), setup.header_parameters));
  setup.exchange = exchange;
  setup.servable = std::move(servable);
  setup.model_name = std::move(match.model);
  setup.model_version = match.version;
  setup.parser = &state(*exchange).parser;
  setup.tracer = context_.tracer;
  setup.api = api;
  return setup;
}

HttpResponse KserveHttp::ModelMetadata(const HttpExchange& exchange, const HttpRouteMatch& match) {
  auto servable = state(exchange).reader.Find(match.model, match.version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  auto ready = context_.catalog.Versions(match.model, -1);
  if (!ready.ok()) return ErrorResponse(ready.status());
  std::vector<int64_t> versions;
  for (const auto& version : *ready) versions.push_back(version->info().version);
  CountCall((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelMetadata);
  return JsonResponse(ModelMetadataJson((*servable)->get().info(), versions));
}

// User code may have a say in readiness: the answer comes when it has spoken, on whichever thread.
void KserveHttp::ServerReady(const Exchange& exchange) {
  context_.control.CheckServerReady([exchange](bool ready) {
    HttpResponse response = JsonResponse(ready ? R"({"ready": true})" : R"({"ready": false})");
    if (!ready) response.status = 400;
    exchange->Respond(std::move(response));
  });
}

void KserveHttp::ModelReady(const Exchange& exchange, const HttpRouteMatch& match) {
  const DialectRules& rules = RulesOf(context_.catalog);
  const auto answer = [exchange, &rules](const Readiness& readiness) {
    if (readiness.ready) {
      exchange->Respond(HttpResponse{});
    } else {
      exchange->Respond(ErrorResponse(
          rules.Word(Fault::kModelVersionNotLoadedYet, InvalidArgumentError("Model version not ready"))));
    }
  };
  auto servable = state(*exchange).reader.Find(match.model, match.version);
  const bool known = context_.catalog.Knows(match.model, rules.knows_all_versions ? -1 : match.version);
  if (!servable.ok() && !known) {
    exchange->Respond(ErrorResponse(servable.status()));
  } else if (!context_.control.serving() || !servable.ok()) {
    answer({false, ""});
  } else {
    CountCall((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelReady);
    (*servable)->get().CheckReadiness(answer);
  }
}

HttpResponse KserveHttp::ModelConfig(const HttpExchange& exchange, const HttpRouteMatch& match) {
  auto servable = state(exchange).reader.Find(match.model, match.version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  const ServableInfo& info = (*servable)->get().info();
  if (!RulesOf(info).tells_configuration) return ErrorResponse(NoModelConfig(info));
  if (info.config == nullptr || !options_.config_to_json) {
    return ErrorResponse(UnsupportedError("model '" + info.name + "' has no model configuration"));
  }
  return JsonResponse(options_.config_to_json(*info.config));
}

HttpResponse KserveHttp::Statistics(const HttpRouteMatch& match) {
  if (match.model.empty()) return JsonResponse(StatisticsJson(context_.catalog.All()));
  auto servables = context_.catalog.Versions(match.model, match.version);
  if (servables.ok()) return JsonResponse(StatisticsJson(*servables));
  if (context_.catalog.Knows(match.model, match.version)) {
    return ErrorResponse(InvalidArgumentError("requested model '" + match.model + "' is not available"));
  }
  return ErrorResponse(servables.status());
}

HttpResponse KserveHttp::RepositoryIndex(std::string_view body) {
  auto ready_only = ReadIndexRequest(body);
  if (!ready_only.ok()) return ErrorResponse(ready_only.status());
  return JsonResponse(RepositoryIndexJson(context_.catalog.Index(*ready_only)));
}

HttpResponse KserveHttp::Load(const std::string& model, const Permit& permit, std::string_view body) {
  auto request = ReadLoadRequest(model, body);
  if (!request.ok()) return ErrorResponse(request.status());
  request->rights = RightsToLoad(permit, *request);
  Status status = context_.control.Load(*request);
  return status.ok() ? HttpResponse{} : ErrorResponse(status);
}

HttpResponse KserveHttp::Unload(const std::string& model, const Permit& permit, std::string_view body) {
  auto dependents = ReadUnloadRequest(body);
  if (!dependents.ok()) return ErrorResponse(dependents.status());
  Status status = context_.control.Unload(model, *dependents, RightsToUnload(permit));
  return status.ok() ? HttpResponse{} : ErrorResponse(status);
}

HttpResponse KserveHttp::SetLogging(std::string_view body) {
  Status status = ChangeLogging(body, context_.log);
  return status.ok() ? JsonResponse(LoggingJson(context_.log)) : ErrorResponse(status);
}

HttpResponse KserveHttp::TraceSettings(const std::string& model) {
  if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
  return JsonResponse(TraceSettingsJson(context_.tracer->Settings(model)));
}

HttpResponse KserveHttp::SetTrace(const std::string& model, std::string_view body) {
  if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
  auto changes = ReadTraceChanges(body);
  if (!changes.ok()) return ErrorResponse(changes.status());
  Status status = context_.tracer->Change(model, *changes);
  return status.ok() ? TraceSettings(model) : ErrorResponse(status);
}

KserveHttp::Answer KserveHttp::OnControlThread(const Exchange& exchange, BodyFunction function) {
  return std::make_shared<WholeBodyCall>(exchange, [this, function = std::move(function)](
                                                       const Exchange& exchange, std::string body) {
    const bool taken = host_->RunBlocking([exchange, function, body = std::move(body)] {
      exchange->Respond(MakeResponse([&] { return Result<HttpResponse>(function(body)); }));
    });
    if (!taken)
      exchange->Respond(ErrorResponse(UnavailableError("too many model repository requests are waiting")));
  });
}

}  // namespace braid
