// The REST API of TensorFlow Serving and the configuration API of OpenVINO Model Server, below /v1, on the
// port of an HttpServer. They serve whatever is in the catalog.
//
//   TfsRoutes tensorflow_serving(context, config_control);   // one for each server; outlives it
//   http_options.extensions.push_back(&tensorflow_serving);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocols/kserve/http_extension.h"
#include "protocols/kserve/kserve_context.h"
#include "serving/config_control.h"

namespace braid {

class TfsRoutes final : public HttpExtension {
 public:
  // `config` is null when the server has no config.json. Both outlive this.
  TfsRoutes(KserveContext& context, ConfigControl* config);
  ~TfsRoutes() override;

  void Attach(HttpExtensionHost& host) override;
  std::optional<std::variant<HttpResponse, HttpExtensionRoute>> Find(const HttpHead& head) override;

 private:
  struct ThreadState;
  using Answer = HttpService::Answer;

  Answer Predict(const std::shared_ptr<HttpExchange>& exchange, const std::string& model, int64_t version);
  HttpResponse Status(const std::string& model, int64_t version);
  HttpResponse Metadata(const HttpExchange& exchange, const std::string& model, int64_t version);
  HttpResponse Config();
  Answer Reload(const std::shared_ptr<HttpExchange>& exchange);

  KserveContext& context_;
  ConfigControl* const config_;
  HttpExtensionHost* host_ = nullptr;
  std::vector<std::unique_ptr<ThreadState>> threads_;  // each used by its io thread alone
};

}  // namespace braid
