#include "protocols/kserve/http_server.h"

#include <re2/re2.h>
#include <simdjson.h>

#include <array>
#include <atomic>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/utf8.h"
#include "protocols/http/listener.h"
#include "protocols/kserve/control_pool.h"
#include "protocols/kserve/http_documents.h"
#include "protocols/kserve/http_extension.h"
#include "protocols/kserve/http_gate.h"
#include "protocols/kserve/http_generate.h"
#include "protocols/kserve/http_infer.h"
#include "protocols/kserve/http_json.h"
#include "protocols/kserve/http_routes.h"
#include "protocols/kserve/http_shared_memory.h"
#include "protocols/kserve/ovms_dialect.h"
#include "protocols/kserve/tracing.h"

#include "protocols/kserve/reserved_parameters.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

constexpr size_t kMaxWaitingControlCalls = 256;

}  // namespace

class HttpServer::Service final : public HttpService, private HttpExtensionHost {
 public:
  Service(KserveContext& context, Options options)
      : context_(context),
        options_(std::move(options)),
        gate_(context_.http_access,
              {options_.allowed_origins, options_.allowed_hosts, IsLoopback(options_.address)}),
        control_pool_(options_.control_threads, "brd-http-ctl", kMaxWaitingControlCalls) {
    for (int i = 0; i < std::max(1, options_.threads); ++i) {
      thread_states_.push_back(std::make_unique<ThreadState>(context_.catalog));
    }
    for (HttpExtension* extension : options_.extensions) extension->Attach(*this);
  }

  Status Start() {
    if (!options_.header_forward_pattern.empty()) {
      RE2::Options re2;
      re2.set_case_sensitive(false);
      re2.set_log_errors(false);
      header_pattern_ = std::make_unique<RE2>(options_.header_forward_pattern, re2);
      if (!header_pattern_->ok()) {
        return InvalidArgumentError("invalid header forward pattern '" + options_.header_forward_pattern +
                                    "': " + header_pattern_->error());
      }
    }
    HttpListenerOptions listener;
    listener.address = options_.address;
    listener.port = options_.port;
    listener.reuse_port = options_.reuse_port;
    listener.threads = options_.threads;
    listener.max_body_bytes = options_.max_input_bytes;
    listener.body_limit_hint = " Use --http-max-input-size to increase the limit.";
    BRAID_ASSIGN_OR_RETURN(listener_, HttpListener::Start(listener, *this));
    return OkStatus();
  }

  uint16_t port() const { return listener_->port(); }

  void Shutdown(int64_t deadline_ns) {
    exiting_.store(true, std::memory_order_relaxed);
    if (listener_) listener_->Shutdown(deadline_ns);
    control_pool_.Stop();
  }

  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    const HttpHead& head = exchange->head();
    if (auto refusal = gate_.RefuseSender(head)) return std::move(*refusal);
    for (HttpExtension* extension : options_.extensions) {
      auto found = extension->Find(head);
      if (!found) continue;
      if (auto* response = std::get_if<HttpResponse>(&*found)) return std::move(*response);
      auto& route = std::get<HttpExtensionRoute>(*found);
      if (auto refusal = Refuse(head, route.api)) return std::move(*refusal);
      return route.answer(exchange);
    }
    HttpRouteMatch match = MatchHttpRoute(RouteMethod(head), ToStd(head.target()));
    switch (match.kind) {
      case HttpRouteMatch::Kind::kFound:
        break;
      case HttpRouteMatch::Kind::kNoSuchPath:
        return ovms() ? ErrorResponse(OvmsError(OvmsCode::kRestInvalidUrl)) : ErrorResponse(404, "Not Found");
      case HttpRouteMatch::Kind::kWrongMethod:
        return ovms() ? ErrorResponse(OvmsError(OvmsCode::kRestUnsupportedMethod))
                      : ErrorResponse(405, "Method Not Allowed");
      case HttpRouteMatch::Kind::kBadEscape:
        return ErrorResponse(400, "invalid percent-encoding in the path, which must be UTF-8");
    }
    if (auto refusal = Refuse(head, match.route->api)) return std::move(*refusal);
    return Dispatch(exchange, match);
  }

 private:
  // What an io thread has for itself.
  struct ThreadState {
    explicit ThreadState(const Catalog& catalog) : reader(catalog) {}
    CatalogReader reader;
    simdjson::dom::parser parser;
  };

  ThreadState& state(const HttpExchange& exchange) { return *thread_states_[exchange.io_thread()]; }
  // Whether routes that do not exist are told as OpenVINO Model Server tells them.
  bool ovms() const { return context_.catalog.dialect() == Dialect::kOvms; }
  bool exiting() const { return exiting_.load(std::memory_order_relaxed); }

  // Why the request is not answered, if it is not.
  std::optional<HttpResponse> Refuse(const HttpHead& head, Api api) const {
    if (auto refusal = gate_.RefuseApi(head, api)) return refusal;
    if (api == Api::kHealth) return std::nullopt;
    if (exiting()) return ErrorResponse(UnavailableError("Server exiting"));
    if (!context_.control.serving()) return ErrorResponse(UnavailableError("Server not ready"));
    return std::nullopt;
  }

  Answer Dispatch(const std::shared_ptr<HttpExchange>& exchange, HttpRouteMatch& match) {
    switch (match.route->action) {
      case HttpAction::kInfer:
        return Infer(exchange, match);
      case HttpAction::kServerMetadata:
        return JsonResponse(ServerMetadataJson(context_));
      case HttpAction::kServerLive:
        return JsonResponse(R"({"live": true})");
      case HttpAction::kServerReady:
        return Later(exchange,
                     [this](const std::shared_ptr<HttpExchange>& exchange) { ServerReady(exchange); });
      case HttpAction::kModelMetadata:
        return ModelMetadata(*exchange, match);
      case HttpAction::kModelReady:
        return Later(exchange,
                     [this, match = std::move(match)](const std::shared_ptr<HttpExchange>& exchange) {
                       ModelReady(exchange, match);
                     });
      case HttpAction::kModelConfig:
        return ModelConfig(*exchange, match);
      case HttpAction::kStatistics:
        return Statistics(match);
      case HttpAction::kRepositoryIndex:
        return WithBody(exchange, [this](std::string_view body) { return RepositoryIndex(body); });
      case HttpAction::kRepositoryLoad:
        return OnControlThread(
            exchange, [this, model = match.model](std::string_view body) { return Load(model, body); });
      case HttpAction::kRepositoryUnload:
        return OnControlThread(
            exchange, [this, model = match.model](std::string_view body) { return Unload(model, body); });
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
        return CudaMemoryStatus(match.region);
      case HttpAction::kCudaMemoryRegister:
        return RegisterCudaMemory(match.region);
      case HttpAction::kCudaMemoryUnregister:
        return HttpResponse{};
    }
    return ErrorResponse(404, "Not Found");
  }

  Answer Infer(const std::shared_ptr<HttpExchange>& exchange, HttpRouteMatch& match) {
    const HttpHead& head = exchange->head();
    ThreadState& thread = state(*exchange);
    auto servable = thread.reader.Find(match.model, match.version);
    if (!servable.ok()) {
      return ErrorResponse(InferNotFound(context_.catalog, match.model, servable.status()));
    }
    const Dialect dialect = (*servable)->get().info().dialect;
    if ((*servable)->get().info().decoupled) {
      return ErrorResponse(
          UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy"));
    }
    auto json_size = InferCall::JsonSize(*exchange, dialect);
    if (!json_size.ok()) {
      CountRefused((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelInfer);
      return ErrorResponse(json_size.status());
    }
    InferCall::Setup setup;
    if (Status status = ForwardHeaders(head, setup.header_parameters); !status.ok())
      return ErrorResponse(status);
    setup.exchange = exchange;
    setup.servable = std::move(servable).value();
    setup.model_name = std::move(match.model);
    setup.model_version = match.version;
    setup.json_size = *json_size;
    if (const auto accept = FindHeader(head, "Accept-Encoding"))
      setup.response_coding = ChooseContentCoding(*accept);
    setup.max_input_bytes = options_.max_input_bytes;
    setup.parser = &thread.parser;
    setup.client_memory = context_.client_memory.get();
    setup.tracer = context_.tracer;
    return std::make_shared<InferCall>(std::move(setup));
  }

  Answer Generate(const std::shared_ptr<HttpExchange>& exchange, HttpRouteMatch& match, bool stream) {
    ThreadState& thread = state(*exchange);
    auto servable = thread.reader.Find(match.model, match.version);
    if (!servable.ok()) return ErrorResponse(servable.status());
    if ((*servable)->get().info().kind == ServableKind::kGraph) {
      return ErrorResponse(UnsupportedError("'" + match.model +
                                            "' is a graph, whose inputs have no schema: generate does not "
                                            "support it, infer does"));
    }
    GenerateCall::Setup setup;
    if (Status status = ForwardHeaders(exchange->head(), setup.header_parameters); !status.ok())
      return ErrorResponse(status);
    setup.exchange = exchange;
    setup.servable = std::move(servable).value();
    setup.model_name = std::move(match.model);
    setup.model_version = match.version;
    setup.stream = stream;
    setup.max_input_bytes = options_.max_input_bytes;
    setup.parser = &thread.parser;
    setup.tracer = context_.tracer;
    setup.log = &context_.log;
    return std::make_shared<GenerateCall>(std::move(setup));
  }

  size_t io_threads() const override { return thread_states_.size(); }

  bool RunBlocking(std::function<void()> task) override { return control_pool_.Submit(std::move(task)); }

  Status ForwardHeaders(const HttpHead& head, Parameters& parameters) const override {
    if (!header_pattern_) return OkStatus();
    for (const auto& field : head) {
      const std::string_view name = ToStd(field.name_string());
      if (!RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *header_pattern_)) continue;
      if (IsReservedParameter(name)) {
        return InvalidArgumentError("Header '" + std::string(name) +
                                    "' is reserved for Triton usage and cannot be forwarded.");
      }
      parameters.emplace_back(name, ToUtf8(ToStd(field.value())));
    }
    return OkStatus();
  }

  HttpResponse ModelMetadata(const HttpExchange& exchange, const HttpRouteMatch& match) {
    auto servable = state(exchange).reader.Find(match.model, match.version);
    if (!servable.ok()) return ErrorResponse(servable.status());
    auto ready = context_.catalog.Versions(match.model, -1);
    if (!ready.ok()) return ErrorResponse(ready.status());
    std::vector<int64_t> versions;
    for (const auto& version : *ready) versions.push_back(version->info().version);
    CountCall((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelMetadata);
    return JsonResponse(ModelMetadataJson((*servable)->get().info(), versions));
  }

  // Whether the catalog has the model, and the version if there is one, in any state.
  bool IsKnown(const std::string& model, int64_t version) const {
    for (const IndexEntry& entry : context_.catalog.Index(false)) {
      if (entry.name == model && (version < 0 || entry.version == version)) return true;
    }
    return false;
  }

  // User code may have a say in readiness: the answer comes when it has spoken, on whichever thread.
  void ServerReady(const std::shared_ptr<HttpExchange>& exchange) {
    CheckServerReady(context_, [exchange, exiting = exiting()](bool ready) {
      const bool yes = ready && !exiting;
      HttpResponse response = JsonResponse(yes ? R"({"ready": true})" : R"({"ready": false})");
      if (!yes) response.status = 400;
      exchange->Respond(std::move(response));
    });
  }

  void ModelReady(const std::shared_ptr<HttpExchange>& exchange, const HttpRouteMatch& match) {
    const bool ovms = context_.catalog.dialect() == Dialect::kOvms;
    const auto answer = [exchange, ovms](const Readiness& readiness) {
      if (readiness.ready) {
        exchange->Respond(HttpResponse{});
      } else {
        exchange->Respond(ErrorResponse(ovms ? OvmsError(OvmsCode::kModelVersionNotLoadedYet)
                                             : InvalidArgumentError("Model version not ready")));
      }
    };
    auto servable = state(*exchange).reader.Find(match.model, match.version);
    if (!servable.ok() && !IsKnown(match.model, ovms ? -1 : match.version)) {
      exchange->Respond(ErrorResponse(servable.status()));
    } else if (exiting() || !servable.ok()) {
      answer({false, ""});
    } else {
      CountCall((*servable)->get(), ApiInterface::kRest, ApiMethod::kModelReady);
      (*servable)->get().CheckReadiness(answer);
    }
  }

  HttpResponse ModelConfig(const HttpExchange& exchange, const HttpRouteMatch& match) {
    auto servable = state(exchange).reader.Find(match.model, match.version);
    if (!servable.ok()) return ErrorResponse(servable.status());
    const ServableInfo& info = (*servable)->get().info();
    if (info.dialect == Dialect::kOvms) return ErrorResponse(NoModelConfig(info));
    if (info.config == nullptr || !options_.config_to_json) {
      return ErrorResponse(UnsupportedError("model '" + info.name + "' has no model configuration"));
    }
    return JsonResponse(options_.config_to_json(*info.config));
  }

  HttpResponse Statistics(const HttpRouteMatch& match) {
    if (match.model.empty()) return JsonResponse(StatisticsJson(context_.catalog.All()));
    auto servables = context_.catalog.Versions(match.model, match.version);
    if (servables.ok()) return JsonResponse(StatisticsJson(*servables));
    if (IsKnown(match.model, match.version)) {
      return ErrorResponse(InvalidArgumentError("requested model '" + match.model + "' is not available"));
    }
    return ErrorResponse(servables.status());
  }

  HttpResponse RepositoryIndex(std::string_view body) {
    auto ready_only = ReadIndexRequest(body);
    if (!ready_only.ok()) return ErrorResponse(ready_only.status());
    return JsonResponse(RepositoryIndexJson(context_.catalog.Index(*ready_only)));
  }

  HttpResponse Load(const std::string& model, std::string_view body) {
    auto request = ReadLoadRequest(model, body);
    if (!request.ok()) return ErrorResponse(request.status());
    Status status = context_.control.Load(*request);
    return status.ok() ? HttpResponse{} : ErrorResponse(status);
  }

  HttpResponse Unload(const std::string& model, std::string_view body) {
    auto dependents = ReadUnloadRequest(body);
    if (!dependents.ok()) return ErrorResponse(dependents.status());
    Status status = context_.control.Unload(model, *dependents);
    return status.ok() ? HttpResponse{} : ErrorResponse(status);
  }

  HttpResponse SetLogging(std::string_view body) {
    Status status = ChangeLogging(body, context_.log);
    return status.ok() ? JsonResponse(LoggingJson(context_.log)) : ErrorResponse(status);
  }

  HttpResponse TraceSettings(const std::string& model) {
    if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
    return JsonResponse(TraceSettingsJson(context_.tracer->Settings(model)));
  }

  HttpResponse SetTrace(const std::string& model, std::string_view body) {
    if (Status status = CheckTraceModel(context_, model); !status.ok()) return ErrorResponse(status);
    auto changes = ReadTraceChanges(body);
    if (!changes.ok()) return ErrorResponse(changes.status());
    Status status = context_.tracer->Change(model, *changes);
    return status.ok() ? TraceSettings(model) : ErrorResponse(status);
  }

  // A request whose body is of no interest, and whose answer comes when it comes.
  static Answer Later(const std::shared_ptr<HttpExchange>& exchange,
                      std::function<void(const std::shared_ptr<HttpExchange>&)> function) {
    return std::make_shared<WholeBodyCall>(
        exchange, [function = std::move(function)](const std::shared_ptr<HttpExchange>& exchange,
                                                   std::string) { function(exchange); });
  }

  using BodyFunction = std::function<HttpResponse(std::string_view body)>;

  static Answer WithBody(const std::shared_ptr<HttpExchange>& exchange, BodyFunction function) {
    return std::make_shared<WholeBodyCall>(
        exchange, [function = std::move(function)](const std::shared_ptr<HttpExchange>& exchange,
                                                   std::string body) { exchange->Respond(function(body)); });
  }

  Answer OnControlThread(const std::shared_ptr<HttpExchange>& exchange, BodyFunction function) {
    return std::make_shared<WholeBodyCall>(exchange, [this, function = std::move(function)](
                                                         const std::shared_ptr<HttpExchange>& exchange,
                                                         std::string body) {
      const bool taken = control_pool_.Submit([exchange, function, body = std::move(body)] {
        exchange->Respond(MakeResponse([&] { return Result<HttpResponse>(function(body)); }));
      });
      if (!taken)
        exchange->Respond(ErrorResponse(UnavailableError("too many model repository requests are waiting")));
    });
  }

  KserveContext& context_;
  const Options options_;
  const HttpGate gate_;
  std::unique_ptr<RE2> header_pattern_;
  std::atomic<bool> exiting_{false};
  std::vector<std::unique_ptr<ThreadState>> thread_states_;  // each used by its io thread alone
  ControlPool control_pool_;
  std::unique_ptr<HttpListener> listener_;
};

HttpServer::HttpServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}

HttpServer::~HttpServer() { Shutdown(SteadyNowNs()); }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(KserveContext& context, Options options) {
  auto service = std::make_unique<Service>(context, std::move(options));
  BRAID_RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(service)));
}

uint16_t HttpServer::bound_port() const { return service_->port(); }

void HttpServer::Shutdown(int64_t deadline_ns) { service_->Shutdown(deadline_ns); }

}  // namespace braid
