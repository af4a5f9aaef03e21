// ConsoleRoutes: the console, a page about the server's activity, and its JSON API.
//
//   /console/                  the page (console/), the same for all clients
//   /console/api/overview      the server, and the sender's rights
//   /console/api/fleet         the replicas that the operator has named, queried for this answer
//   /console/api/models        a row for each version
//   /console/api/models/{model}/versions/{version}
//   /console/api/history       counters of the last ten minutes
//   /console/api/sequences     sequences of a model
//   /console/api/log           the last lines, of one model or of all
//   /console/api/traces        the slowest requests of a model; POST starts their recording
//
// Reading needs the usual rights by API group: "statistics" for activity of models, "logging" for the log and
// "trace" for traces. A list contains only entries that its sender may see. All other changes go through the
// protocols that share the port.
//
//   ConsoleRoutes console(context);   // one per server; outlives it
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

// A request with the parameters of its query: numbers, and the model if its path has none.
struct ConsoleRequest : HttpRequest {
  using HttpRequest::HttpRequest;

  // Reads the query; ignores unknown names. Errors: INVALID_ARGUMENT for invalid numbers and for texts that
  // are not percent-encoded UTF-8.
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

  // Answers paths below /console, and no others.
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  // Queries the fleet on a thread that may block, one query at a time. Requests that wait with the same
  // header share the next query.
  HttpService::Answer Fleet(ConsoleRequest& request);
  void LookAtFleet(HttpProtocolHost& host);
  // The sender's rights to all models.
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
  std::vector<FleetQuestion> fleet_questions_ BRAID_GUARDED_BY(fleet_mutex_);  // not yet part of a query
};

}  // namespace braid
