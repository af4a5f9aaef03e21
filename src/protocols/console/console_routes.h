// The console: a page that shows what the server does, and the JSON behind it.
//
//   /console/                  the page (console/), the same for everybody
//   /console/api/overview      the server, and what the sender may do
//   /console/api/fleet         the replicas that the operator has named, asked for this answer
//   /console/api/models        a row for each version
//   /console/api/models/{model}/versions/{version}
//   /console/api/history       counters of the last ten minutes
//   /console/api/sequences     that a model has
//   /console/api/log           the last lines, of one model or of all
//   /console/api/traces        the slowest requests of a model; POST has them recorded
//
// What is read rides on the groups of APIs that operators know: what a model does is "statistics", the log
// "logging", traces "trace". A list shows what its sender may see. What else changes something is not here but
// in the protocols that share the port.
//
//   ConsoleRoutes console(context);   // one for each server; outlives it
//   HttpServer::Start(access, control, {&console, &tfs, &kserve}, options);
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "protocols/console/console_context.h"
#include "protocols/console/overview.h"
#include "protocols/http/protocol.h"

namespace braid {

// A request with what its query names: a model, where its path has none, and numbers.
struct ConsoleRequest : HttpRequest {
  using HttpRequest::HttpRequest;

  // Errors: INVALID_ARGUMENT for a text that is no percent-encoded UTF-8, or no number. What has another name is left out.
  Status ReadQuery(std::string_view query);

  std::optional<int64_t> version_asked;
  std::optional<uint64_t> after;
  std::optional<uint64_t> limit;
  std::optional<uint64_t> seconds;
};

class ConsoleRoutes final : public HttpProtocol {
 public:
  // `context` outlives this.
  explicit ConsoleRoutes(const ConsoleContext& context) : context_(context) {}

  static std::span<const HttpRoute> Routes();

  // Answers what is below /console, and nothing else.
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  // One look at the fleet at a time, on a thread that may block; who shows the same header meanwhile shares the next one.
  HttpService::Answer Fleet(ConsoleRequest& request);
  void LookAtFleet(HttpProtocolHost& host);
  // For any model.
  static ConsoleRights RightsOf(const ConsoleRequest& request);
  HttpResponse Overview(ConsoleRequest& request);
  HttpResponse Models(ConsoleRequest& request);
  HttpResponse Model(ConsoleRequest& request);
  HttpResponse History(ConsoleRequest& request);
  HttpResponse Sequences(ConsoleRequest& request);
  HttpResponse Log(ConsoleRequest& request);
  HttpResponse Traces(ConsoleRequest& request);
  HttpResponse Watch(ConsoleRequest& request);
  void LookAtMemory();

  const ConsoleContext& context_;

  struct FleetQuestion {
    std::shared_ptr<HttpExchange> exchange;
    std::string authorization;
  };
  Mutex fleet_mutex_;
  bool looking_at_fleet_ BRAID_GUARDED_BY(fleet_mutex_) = false;
  std::vector<FleetQuestion> fleet_questions_ BRAID_GUARDED_BY(fleet_mutex_);  // that no look has taken yet
};

}  // namespace braid
