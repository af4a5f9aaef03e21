// The REST API of TensorFlow Serving and the configuration API of OpenVINO Model Server, below /v1, on the
// port of an HttpServer. They serve whatever is in the catalog.
//
//   TfsRoutes tensorflow_serving(context, config_control);   // one for each server; outlives it
//   HttpServer::Start(access, control, {&tensorflow_serving, &kserve}, options);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
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

  void Attach(HttpProtocolHost& host) override;
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  struct ThreadState;
  using Answer = HttpService::Answer;

  Answer Dispatch(const std::shared_ptr<HttpExchange>& exchange);
  Answer Predict(const std::shared_ptr<HttpExchange>& exchange, const std::string& model, int64_t version);
  HttpResponse Status(const std::string& model, int64_t version);
  HttpResponse Metadata(const HttpExchange& exchange, const std::string& model, int64_t version);
  HttpResponse Config();
  Answer Reload(const std::shared_ptr<HttpExchange>& exchange);

  ProtocolContext& context_;
  ConfigControl* const config_;
  HttpProtocolHost* host_ = nullptr;
  std::vector<std::unique_ptr<ThreadState>> threads_;  // each used by its io thread alone
};

}  // namespace braid
