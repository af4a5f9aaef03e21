// KServe v2 over HTTP: its routes, and those of its extensions.
//
//   KserveHttp kserve(context, {});        // one for each server; outlives it
//   HttpServer::Start(context.http_access, context.control, {&kserve}, options);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocols/http/protocol.h"
#include "protocols/inference/context.h"
#include "protocols/inference/http_inference.h"

namespace inference {
class ModelConfig;
}

namespace braid {

struct HttpRouteMatch;

// It answers every path, since what none of the routes has is told in the words of the server's dialect: it
// is the last of a server's protocols.
class KserveHttp final : public HttpProtocol {
 public:
  struct Options {
    // Of one input that is in the body.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    // JSON text of a configuration, for the config route.
    std::function<std::string(const inference::ModelConfig&)> config_to_json;
  };
  // `context` outlives this.
  KserveHttp(ProtocolContext& context, Options options);
  ~KserveHttp() override;

  void Attach(HttpProtocolHost& host) override;
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  using Answer = HttpService::Answer;
  using Exchange = std::shared_ptr<HttpExchange>;
  using BodyFunction = std::function<HttpResponse(std::string_view body)>;
  struct ThreadState;

  ThreadState& state(const HttpExchange& exchange);

  Answer Dispatch(const Exchange& exchange, HttpRouteMatch& match);
  Answer Infer(const Exchange& exchange, HttpRouteMatch& match);
  Result<HttpInference::Setup> SetupOf(const Exchange& exchange, HttpRouteMatch& match,
                                       std::unique_ptr<ServableHandle> servable, std::optional<ApiCall> api);
  Answer Generate(const Exchange& exchange, HttpRouteMatch& match, bool stream);
  HttpResponse ModelMetadata(const HttpExchange& exchange, const HttpRouteMatch& match);
  void ServerReady(const Exchange& exchange);
  void ModelReady(const Exchange& exchange, const HttpRouteMatch& match);
  HttpResponse ModelConfig(const HttpExchange& exchange, const HttpRouteMatch& match);
  HttpResponse Statistics(const HttpRouteMatch& match);
  HttpResponse RepositoryIndex(std::string_view body);
  HttpResponse Load(const std::string& model, const Permit& permit, std::string_view body);
  HttpResponse Unload(const std::string& model, const Permit& permit, std::string_view body);
  HttpResponse SetLogging(std::string_view body);
  HttpResponse TraceSettings(const std::string& model);
  HttpResponse SetTrace(const std::string& model, std::string_view body);
  Answer OnControlThread(const Exchange& exchange, BodyFunction function);

  ProtocolContext& context_;
  const Options options_;
  HttpProtocolHost* host_ = nullptr;                   // the server, from Attach() on
  std::vector<std::unique_ptr<ThreadState>> threads_;  // each used by its io thread alone
};

}  // namespace braid
