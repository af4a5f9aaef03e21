#include "protocols/openai/routes.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "protocols/openai/call.h"
#include "protocols/openai/errors.h"
#include "serving/faults.h"

namespace braid {
namespace {

// "/v3/v1" comes before its beginning.
constexpr std::string_view kPrefixes[] = {"/v1", "/v3/v1", "/v3"};
// Parts of OpenAI's API that this server lacks, and that TensorFlow Serving's API does not know either.
constexpr std::string_view kLacking[] = {"/v1/responses",   "/v1/files",   "/v1/images", "/v1/audio",
                                         "/v1/moderations", "/v1/batches", "/v1/rerank", "/v1/fine_tuning"};

bool TakesRequests(const Servable& servable) { return servable.info().openai.kind != OpenAiKind::kNone; }

Json ModelObject(const Servable& servable) {
  return {{"id", servable.info().name},
          {"object", "model"},
          {"created", servable.made_ms() / 1000},
          {"owned_by", "braid"}};
}

// Returns the newest version that takes requests; null for none.
std::shared_ptr<Servable> Find(const Catalog& catalog, const std::string& name) {
  auto found = catalog.Find(name, -1);
  return found.ok() && TakesRequests(**found) ? *found : nullptr;
}

}  // namespace

OpenAiRoutes::OpenAiRoutes(ProtocolContext& context, HttpProtocol* tfs) : context_(context), tfs_(tfs) {}
OpenAiRoutes::~OpenAiRoutes() = default;

void OpenAiRoutes::SetIoThreads(size_t count) {
  readers_.clear();
  for (size_t i = 0; i < count; ++i) readers_.emplace_back(context_.catalog);
}

std::span<const HttpRoute> OpenAiRoutes::Routes() {
  using R = OpenAiRoutes;
  using enum HttpScope;
  using enum Api;
  constexpr HttpRoute::Function kModels = kAnsweredBy<&R::Models>;
  constexpr HttpRoute::Function kModel = kAnsweredBy<&R::Model>;
  constexpr HttpRoute::Function kChat = kAnsweredBy<&R::Chat>;
  constexpr HttpRoute::Function kCompletion = kAnsweredBy<&R::Completion>;
  constexpr HttpRoute::Function kEmbedding = kAnsweredBy<&R::Embedding>;
  static constexpr HttpRoute kRoutes[] = {
      {"GET", "/v1/models", kMetadata, kNamed, kModels},
      {"POST", "/v1/chat/completions", kInference, kNamed, kChat},
      {"POST", "/v1/completions", kInference, kNamed, kCompletion},
      {"POST", "/v1/embeddings", kInference, kNamed, kEmbedding},
      // Described by TensorFlow Serving's API, or the same at another place.
      {"GET", "/v1/models/{n}", kMetadata, kNamed, kModel},
      {"GET", "/v3/v1/models", kMetadata, kNamed, kModels},
      {"GET", "/v3/v1/models/{n}", kMetadata, kNamed, kModel},
      {"POST", "/v3/v1/chat/completions", kInference, kNamed, kChat},
      {"POST", "/v3/v1/completions", kInference, kNamed, kCompletion},
      {"POST", "/v3/v1/embeddings", kInference, kNamed, kEmbedding},
      {"GET", "/v3/models", kMetadata, kNamed, kModels},
      {"GET", "/v3/models/{n}", kMetadata, kNamed, kModel},
      {"POST", "/v3/chat/completions", kInference, kNamed, kChat},
      {"POST", "/v3/completions", kInference, kNamed, kCompletion},
      {"POST", "/v3/embeddings", kInference, kNamed, kEmbedding},
  };
  return kRoutes;
}

std::span<const HttpRoute> OpenAiRoutes::DescribedRoutes() { return Routes().first(4); }

std::optional<HttpService::Answer> OpenAiRoutes::Answer(HttpProtocolHost& host,
                                                        const std::shared_ptr<HttpExchange>& exchange) {
  using enum HttpMatch::Found;
  const std::string_view path = PathOf(exchange->head());
  if (std::none_of(std::begin(kPrefixes), std::end(kPrefixes), [path](std::string_view prefix) {
        return path.starts_with(prefix) && path.substr(prefix.size()).starts_with('/');
      })) {
    return std::nullopt;
  }
  HttpRequest request(host, exchange, Routes());
  const bool shared = path.starts_with("/v1/");
  if (request.found == kRoute) {
    // TensorFlow Serving's API describes models that this one does not serve.
    if (shared && tfs_ != nullptr && request.model && Find(context_.catalog, *request.model) == nullptr)
      return std::nullopt;
    return host.Dispatch(*this, request);
  }
  // Other paths below /v1 are TensorFlow Serving's.
  const bool lacking = std::any_of(std::begin(kLacking), std::end(kLacking),
                                   [path](std::string_view part) { return path.starts_with(part); });
  const bool own = request.found == kWrongMethod && !path.starts_with("/v1/models/");
  if (shared && !lacking && !own) return std::nullopt;
  HttpResponse response =
      request.found == kWrongMethod
          ? ErrorResponse(405, std::string(RouteMethod(exchange->head())) + " is not allowed here")
          : ErrorResponse(404, "there is no route '" + std::string(path) + "'");
  return InOpenAiForm(std::move(response));
}

HttpResponse OpenAiRoutes::Shape(const HttpHead& head, HttpResponse refusal) {
  const HttpMatch match = MatchRoute(Routes(), RouteMethod(head), PathOf(head));
  // TensorFlow Serving's clients ask for a model below /v1, too.
  const bool shared = match.model && PathOf(head).starts_with("/v1/");
  const bool own = match.found == HttpMatch::Found::kRoute && !shared;
  return own ? InOpenAiForm(std::move(refusal)) : std::move(refusal);
}

HttpResponse OpenAiRoutes::Models(HttpRequest& request) {
  Json list = Json::array();
  for (const std::shared_ptr<Servable>& servable : context_.catalog.All()) {
    const std::string& name = servable->info().name;
    if (!TakesRequests(*servable) || !servable->readiness().ready) continue;
    if (!request.host.Allows(*request.exchange, {Api::kMetadata, name})) continue;
    // Several versions are one model.
    if (!list.empty() && list.back().at("id") == name) list.erase(list.end() - 1);
    list.push_back(ModelObject(*servable));
  }
  return JsonResponse(DumpJson({{"object", "list"}, {"data", std::move(list)}}));
}

HttpService::Answer OpenAiRoutes::Model(HttpRequest& request) {
  const std::shared_ptr<Servable> servable = Find(context_.catalog, *request.model);
  if (servable == nullptr) {
    return OpenAiError(NotFoundError("there is no model '" + *request.model + "' for this API"), "model",
                       kModelNotFound);
  }
  Json object = ModelObject(*servable);
  if (tfs_ != nullptr && PathOf(request.exchange->head()).starts_with("/v1/")) {
    auto answer = tfs_->Answer(request.host, request.exchange);
    const auto* states = answer ? std::get_if<HttpResponse>(&*answer) : nullptr;
    if (states != nullptr && states->status == 200) {
      const Json described = ParseJson(states->body);
      for (const auto& [name, value] : described.items()) object[name] = value;
    }
  }
  return JsonResponse(DumpJson(object));
}

HttpService::Answer OpenAiRoutes::Chat(HttpRequest& request) { return Post(request, OpenAiRoute::kChat); }
HttpService::Answer OpenAiRoutes::Completion(HttpRequest& request) {
  return Post(request, OpenAiRoute::kCompletion);
}
HttpService::Answer OpenAiRoutes::Embedding(HttpRequest& request) {
  return Post(request, OpenAiRoute::kEmbedding);
}

HttpService::Answer OpenAiRoutes::Post(HttpRequest& request, OpenAiRoute route) {
  return std::make_shared<OpenAiCall>(OpenAiCall::Setup{request.exchange, route, &request.host, &context_,
                                                        &readers_[request.exchange->io_thread()]});
}

}  // namespace braid
