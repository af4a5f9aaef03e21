// TfsRoutes: the REST API of TensorFlow Serving and the configuration API of OpenVINO Model Server, below
// /v1, on the port of an HttpServer. They serve all servables of the catalog.
//
//   TfsRoutes tensorflow_serving(context, config_control);   // one per server; outlives it
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocols/http/protocol.h"
#include "protocols/inference/context.h"
#include "serving/config_control.h"

namespace braid {

class TfsRoutes final : public HttpProtocol {
 public:
  // `config` is null when the server has no config.json. Both outlive this.
  TfsRoutes(ProtocolContext& context, ConfigControl* config);
  ~TfsRoutes() override;

  static std::span<const HttpRoute> Routes();

  void SetIoThreads(size_t count) override;
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  struct ThreadState;

  HttpService::Answer Predict(HttpRequest& request);
  HttpResponse ClassifyOrRegress(HttpRequest& request);
  HttpResponse ModelState(HttpRequest& request);
  HttpResponse Metadata(HttpRequest& request);
  HttpResponse Config(HttpRequest& request);
  HttpService::Answer Reload(HttpRequest& request);

  ProtocolContext& context_;
  ConfigControl* const config_;
  std::vector<std::unique_ptr<ThreadState>> threads_;  // each used only by its I/O thread
};

}  // namespace braid
