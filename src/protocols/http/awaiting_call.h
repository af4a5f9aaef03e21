// AwaitingCall: a request whose model is loaded on demand. It reads the whole body, has the model loaded, and
// then passes exchange and body to the route, as if the request had just arrived.
#pragma once

#include <memory>
#include <string>

#include "base/memory_use.h"
#include "protocols/http/protocol.h"
#include "serving/on_demand_loader.h"

namespace braid {

class AwaitingCall final : public HttpCall, public std::enable_shared_from_this<AwaitingCall> {
 public:
  // `match` has a route and a model. All references outlive the exchange.
  AwaitingCall(HttpProtocolHost& host, HttpProtocol& protocol, std::shared_ptr<HttpExchange> exchange,
               HttpMatch match, OnDemandLoader& loader)
      : host_(host),
        protocol_(protocol),
        exchange_(std::move(exchange)),
        match_(std::move(match)),
        loader_(loader) {}

  // Whether the requests of a route have their models loaded: for inference and descriptions, not for states.
  static bool Loads(const HttpRoute& route);

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override;
  void OnBody() override;

 private:
  void Load();
  // These run on the io thread.
  void OnLoaded(const Status& loaded);
  // Returns whether to load the model once more, because it was unloaded again. Errors are the response.
  Result<bool> Answer();
  Status Begin(std::shared_ptr<HttpCall> call);

  HttpProtocolHost& host_;
  HttpProtocol& protocol_;
  const std::shared_ptr<HttpExchange> exchange_;
  const HttpMatch match_;
  OnDemandLoader& loader_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::string body_;  // kFrontPadding bytes follow its front
  size_t size_ = 0;   // of the body
  MemoryCharge charge_;
  int64_t since_ns_ = 0;
  std::shared_ptr<HttpCall> call_;  // the route's; kept until the response
};

}  // namespace braid
