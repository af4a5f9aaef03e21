#include "protocols/tfs/tfs_routes.h"

#include <simdjson.h>

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
};

TfsRoutes::TfsRoutes(ProtocolContext& context, ConfigControl* config) : context_(context), config_(config) {}
TfsRoutes::~TfsRoutes() = default;

void TfsRoutes::SetIoThreads(size_t count) {
  threads_.clear();
  for (size_t i = 0; i < count; ++i) threads_.push_back(std::make_unique<ThreadState>(context_.catalog));
}

std::span<const HttpRoute> TfsRoutes::Routes() {
  using T = TfsRoutes;
  using enum HttpScope;
  using enum HttpRouteKind;
  using enum Api;
  constexpr HttpRoute::Function kPredict = kAnsweredBy<&T::Predict>;
  constexpr HttpRoute::Function kOther = kAnsweredBy<&T::ClassifyOrRegress>;
  static constexpr HttpRoute kRoutes[] = {
      {"POST", "/v1/models/{n}:predict", kInference, kNamed, kPredict},
      {"POST", "/v1/models/{n}/versions/{v}:predict", kInference, kNamed, kPredict},
      {"POST", "/v1/models/{n}/labels/{l}:predict", kInference, kNamed, kPredict},
      {"POST", "/v1/models/{n}:classify", kInference, kNamed, kOther, kOnlyRefuses},
      {"POST", "/v1/models/{n}/versions/{v}:classify", kInference, kNamed, kOther, kOnlyRefuses},
      {"POST", "/v1/models/{n}/labels/{l}:classify", kInference, kNamed, kOther, kOnlyRefuses},
      {"POST", "/v1/models/{n}:regress", kInference, kNamed, kOther, kOnlyRefuses},
      {"POST", "/v1/models/{n}/versions/{v}:regress", kInference, kNamed, kOther, kOnlyRefuses},
      {"POST", "/v1/models/{n}/labels/{l}:regress", kInference, kNamed, kOther, kOnlyRefuses},
      {"GET", "/v1/models/{n}", kMetadata, kNamed, kAnsweredBy<&T::ModelState>},
      {"GET", "/v1/models/{n}/versions/{v}", kMetadata, kNamed, kAnsweredBy<&T::ModelState>},
      {"GET", "/v1/models/{n}/labels/{l}", kMetadata, kNamed, kAnsweredBy<&T::ModelState>},
      {"GET", "/v1/models/{n}/metadata", kMetadata, kNamed, kAnsweredBy<&T::Metadata>},
      {"GET", "/v1/models/{n}/versions/{v}/metadata", kMetadata, kNamed, kAnsweredBy<&T::Metadata>},
      {"GET", "/v1/models/{n}/labels/{l}/metadata", kMetadata, kNamed, kAnsweredBy<&T::Metadata>},
      {"GET", "/v1/config", kModelRepository, kAll, kAnsweredBy<&T::Config>},
      {"POST", "/v1/config/reload", kModelRepository, kAll, kAnsweredBy<&T::Reload>},
  };
  return kRoutes;
}

std::optional<HttpService::Answer> TfsRoutes::Answer(HttpProtocolHost& host,
                                                     const std::shared_ptr<HttpExchange>& exchange) {
  using enum HttpMatch::Found;
  const std::string_view path = PathOf(exchange->head());
  if (path != "/v1" && !path.starts_with("/v1/")) return std::nullopt;
  const auto decoded = PercentDecode(path);
  if (!decoded || decoded->find("..") != std::string::npos)
    return ErrorResponse(FaultError(Fault::kPathInvalid));
  HttpRequest request(host, exchange, Routes());
  switch (request.found) {
    case kRoute:
      return host.Dispatch(*this, request);
    case kWrongMethod:
      return ErrorResponse(FaultError(Fault::kRestUnsupportedMethod));
    case kBadVersion:
      return ErrorResponse(FaultError(Fault::kRestCouldNotParseVersion));
    case kNoSuchPath:
    case kBadEscape:  // the whole path has none
      break;
  }
  return ErrorResponse(FaultError(Fault::kRestInvalidUrl));
}

// Version 0 is the default one in this protocol.
HttpService::Answer TfsRoutes::Predict(HttpRequest& request) {
  ThreadState& thread = *threads_[request.exchange->io_thread()];
  const int64_t version = request.version == 0 ? -1 : request.version;
  auto servable = FindForPredict(thread.reader, *request.model, version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  HttpInference::Setup setup;
  const Status forwarded = context_.http_headers.Append(request.exchange->head(), setup.header_parameters);
  if (!forwarded.ok()) return ErrorResponse(forwarded);
  setup.exchange = request.exchange;
  setup.servable = std::move(servable).value();
  setup.model_name = std::move(*request.model);
  setup.model_version = version;
  setup.parser = &thread.parser;
  setup.tracer = context_.tracer;
  setup.api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kRest, ApiMethod::kPredict};
  return std::make_shared<TfsRestPredictCall>(std::move(setup));
}

HttpResponse TfsRoutes::ClassifyOrRegress(HttpRequest&) {
  return ErrorResponse(FaultError(Fault::kRestNotFound));
}

HttpResponse TfsRoutes::ModelState(HttpRequest& request) {
  const int64_t version = request.version == 0 ? -1 : request.version;
  auto status = ModelStatus(context_.catalog, *request.model, version);
  if (!status.ok()) return ErrorResponse(status.status());
  if (auto servable = context_.catalog.Find(*request.model, version); servable.ok()) {
    CountRestCall(**servable, ApiMethod::kGetModelStatus);
  }
  return Document(ToPrettyJson(*status));
}

HttpResponse TfsRoutes::Metadata(HttpRequest& request) {
  const int64_t version = request.version == 0 ? -1 : request.version;
  auto servable = threads_[request.exchange->io_thread()]->reader.Find(*request.model, version);
  if (!servable.ok()) return ErrorResponse(servable.status());
  const ServableInfo& info = (*servable)->get().info();
  if (info.kind == ServableKind::kGraph) return ErrorResponse(FaultError(Fault::kModelNameMissing));
  CountRestCall((*servable)->get(), ApiMethod::kGetModelMetadata);
  return Document(ToPrettyJson(ModelMetadata(info)));
}

HttpResponse TfsRoutes::Config(HttpRequest&) { return Document(AllModelStatusesJson(context_.catalog)); }

HttpService::Answer TfsRoutes::Reload(HttpRequest& request) {
  if (config_ == nullptr) {
    return ErrorResponse(
        FailedPreconditionError("nothing to reload: the server was started without a config.json"));
  }
  // The body is ignored.
  return request.Blocking("too many requests to reload are waiting",
                          [this](std::string_view) -> Result<HttpResponse> {
                            BRAID_ASSIGN_OR_RETURN(const bool changed, config_->Reload());
                            HttpResponse response = Document(AllModelStatusesJson(context_.catalog));
                            if (changed && response.status == 200) response.status = 201;
                            return response;
                          });
}

}  // namespace braid
