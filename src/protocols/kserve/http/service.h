// KserveHttp: KServe v2 over HTTP with its extensions.
//
//   KserveHttp kserve(context, {});        // one per server; outlives it
//   HttpServer::Start(context.http_access, context.control, {&kserve}, options);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/http/protocol.h"
#include "protocols/inference/context.h"
#include "protocols/inference/http_inference.h"

namespace inference {
class ModelConfig;
}

namespace braid {

// Answers every path, because unknown paths get an error in the words of the server's dialect. So it must be
// the last of a server's protocols.
class KserveHttp final : public HttpProtocol {
 public:
  struct Options {
    // Limit for each input in the body.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    // JSON text of a configuration, for the config route.
    std::function<std::string(const inference::ModelConfig&)> config_to_json;
  };
  // `context` outlives this.
  KserveHttp(ProtocolContext& context, Options options);
  ~KserveHttp() override;

  static std::span<const HttpRoute> Routes();

  void SetIoThreads(size_t count) override;
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  struct ThreadState;

  ThreadState& state(const HttpExchange& exchange);

  HttpService::Answer Infer(HttpRequest& request);
  HttpService::Answer Generate(HttpRequest& request);
  HttpService::Answer GenerateStream(HttpRequest& request);
  HttpService::Answer GenerateBy(HttpRequest& request, bool stream);
  Result<HttpInference::Setup> SetupOf(HttpRequest& request, std::unique_ptr<ServableHandle> servable,
                                       std::optional<ApiCall> api);
  HttpResponse ServerMetadata(HttpRequest& request);
  HttpResponse ServerLive(HttpRequest& request);
  HttpService::Answer ServerReady(HttpRequest& request);
  HttpResponse ModelMetadata(HttpRequest& request);
  HttpService::Answer ModelReady(HttpRequest& request);
  HttpResponse ModelConfig(HttpRequest& request);
  HttpResponse Statistics(HttpRequest& request);
  HttpService::Answer RepositoryIndex(HttpRequest& request);
  HttpService::Answer Load(HttpRequest& request);
  HttpService::Answer Unload(HttpRequest& request);
  HttpResponse NamedRepository(HttpRequest& request);
  HttpResponse Logging(HttpRequest& request);
  HttpService::Answer SetLogging(HttpRequest& request);
  HttpResponse Trace(HttpRequest& request);
  HttpService::Answer SetTrace(HttpRequest& request);
  HttpResponse SystemMemory(HttpRequest& request);
  HttpService::Answer RegisterSystemMemory(HttpRequest& request);
  HttpResponse UnregisterSystemMemory(HttpRequest& request);
  HttpResponse CudaMemory(HttpRequest& request);
  HttpService::Answer RegisterCudaMemory(HttpRequest& request);
  HttpService::Answer UnregisterCudaMemory(HttpRequest& request);

  // Returns the settings of a model; "" is the global ones.
  HttpResponse TraceSettings(const std::string& model);

  ProtocolContext& context_;
  const Options options_;
  std::vector<std::unique_ptr<ThreadState>> threads_;  // each used only by its I/O thread
};

}  // namespace braid
