#include "protocols/tfs/tfs_routes.h"

#include <simdjson.h>

#include "protocols/tfs/http_paths.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/model_documents.h"
#include "protocols/tfs/rest_predict.h"
#include "serving/faults.h"

namespace braid {
namespace {

void CountRestCall(Servable& servable, ApiMethod method) {
  servable.api_counters().Count({ApiProtocol::kTensorFlowServing, ApiInterface::kRest, method}, true);
}

HttpResponse Document(Result<std::string> json) {
  return json.ok() ? JsonResponse(std::move(json).value()) : ErrorResponse(json.status());
}

}  // namespace

struct TfsRoutes::ThreadState {
  explicit ThreadState(const Catalog& catalog) : reader(catalog) {}
  CatalogReader reader;
  simdjson::dom::parser parser;
  TfsRouteMatch match;  // of the request that is being routed
};

TfsRoutes::TfsRoutes(ProtocolContext& context, ConfigControl* config) : context_(context), config_(config) {}
TfsRoutes::~TfsRoutes() = default;

void TfsRoutes::Attach(HttpProtocolHost& host) {
  host_ = &host;
  threads_.clear();
  for (size_t i = 0; i < host.io_threads(); ++i) {
    threads_.push_back(std::make_unique<ThreadState>(context_.catalog));
  }
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> TfsRoutes::Find(const HttpExchange& exchange) {
  using Kind = TfsRouteMatch::Kind;
  using Found = std::variant<HttpResponse, HttpProtocolRoute>;
  const HttpHead& head = exchange.head();
  TfsRouteMatch& match = threads_[exchange.io_thread()]->match;
  match = MatchTfsRoute(RouteMethod(head), ToStd(head.target()));
  switch (match.kind) {
    case Kind::kFound:
      break;
    case Kind::kNotOurs:
      return std::nullopt;
    case Kind::kNoSuchPath:
      return Found(ErrorResponse(FaultError(Fault::kRestInvalidUrl)));
    case Kind::kWrongMethod:
      return Found(ErrorResponse(FaultError(Fault::kRestUnsupportedMethod)));
    case Kind::kBadPath:
      return Found(ErrorResponse(FaultError(Fault::kPathInvalid)));
    case Kind::kBadVersion:
      return Found(ErrorResponse(FaultError(Fault::kRestCouldNotParseVersion)));
  }
  // Without a model it is about all of them: their states, or the configuration.
  return Found(HttpProtocolRoute{
      {match.route->api, match.model},
      [this](const std::shared_ptr<HttpExchange>& exchange) { return Dispatch(exchange); }});
}

TfsRoutes::Answer TfsRoutes::Dispatch(const std::shared_ptr<HttpExchange>& exchange) {
  const TfsRouteMatch& match = threads_[exchange->io_thread()]->match;
  switch (match.route->action) {
    case TfsAction::kPredict:
      return Predict(exchange, match.model, match.version);
    case TfsAction::kNotServed:
      break;
    case TfsAction::kStatus:
      return Status(match.model, match.version);
    case TfsAction::kMetadata:
      return Metadata(*exchange, match.model, match.version);
    case TfsAction::kConfig:
      return Config();
    case TfsAction::kReload:
      return Reload(exchange);
  }
  return ErrorResponse(FaultError(Fault::kRestNotFound));
}

TfsRoutes::Answer TfsRoutes::Predict(const std::shared_ptr<HttpExchange>& exchange, const std::string& model,
                                     int64_t version) {
  ThreadState& thread = *threads_[exchange->io_thread()];
  const int64_t catalog_version = version == 0 ? -1 : version;
  auto servable = FindForPredict(thread.reader, model, catalog_version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  HttpInference::Setup setup;
  const braid::Status forwarded = context_.http_headers.Append(exchange->head(), setup.header_parameters);
  if (!forwarded.ok()) return ErrorResponse(forwarded);
  setup.exchange = exchange;
  setup.servable = std::move(servable).value();
  setup.model_name = model;
  setup.model_version = catalog_version;
  setup.parser = &thread.parser;
  setup.tracer = context_.tracer;
  setup.api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kRest, ApiMethod::kPredict};
  return std::make_shared<TfsRestPredictCall>(std::move(setup));
}

HttpResponse TfsRoutes::Status(const std::string& model, int64_t version) {
  auto status = ModelStatus(context_.catalog, model, version);
  if (!status.ok()) return ErrorResponse(status.status());
  if (auto servable = context_.catalog.Find(model, version == 0 ? -1 : version); servable.ok()) {
    CountRestCall(**servable, ApiMethod::kGetModelStatus);
  }
  return Document(ToPrettyJson(*status));
}

HttpResponse TfsRoutes::Metadata(const HttpExchange& exchange, const std::string& model, int64_t version) {
  auto servable = threads_[exchange.io_thread()]->reader.Find(model, version == 0 ? -1 : version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  const ServableInfo& info = (*servable)->get().info();
  if (info.kind == ServableKind::kGraph) return ErrorResponse(FaultError(Fault::kModelNameMissing));
  CountRestCall((*servable)->get(), ApiMethod::kGetModelMetadata);
  return Document(ToPrettyJson(ModelMetadata(info)));
}

HttpResponse TfsRoutes::Config() { return Document(AllModelStatusesJson(context_.catalog)); }

TfsRoutes::Answer TfsRoutes::Reload(const std::shared_ptr<HttpExchange>& exchange) {
  if (config_ == nullptr) {
    return ErrorResponse(FailedPreconditionError(
        "the server was not started with a config.json, so that there is nothing to reload"));
  }
  // The body is of no interest.
  return std::make_shared<WholeBodyCall>(
      exchange, [this](const std::shared_ptr<HttpExchange>& exchange, std::string) {
        const bool taken = host_->RunBlocking([this, exchange] {
          exchange->Respond(MakeResponse([this]() -> Result<HttpResponse> {
            BRAID_ASSIGN_OR_RETURN(const bool changed, config_->Reload());
            HttpResponse response = Config();
            if (changed && response.status == 200) response.status = 201;
            return response;
          }));
        });
        if (!taken) {
          exchange->Respond(ErrorResponse(UnavailableError("too many requests to reload are waiting")));
        }
      });
}

}  // namespace braid
