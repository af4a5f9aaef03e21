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
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "protocols/console/console_context.h"
#include "protocols/console/console_paths.h"
#include "protocols/console/overview.h"
#include "protocols/http/protocol.h"

namespace braid {

class ConsoleRoutes final : public HttpProtocol {
 public:
  // `context` outlives this.
  explicit ConsoleRoutes(const ConsoleContext& context);

  void Attach(HttpProtocolHost& host) override;
  // Answers what is below /console, and nothing else.
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  // One look at the fleet at a time, on a thread that may block; who shows the same header meanwhile shares the next one.
  HttpService::Answer Fleet(const std::shared_ptr<HttpExchange>& exchange);
  void LookAtFleet();
  HttpResponse Answer(const HttpExchange& exchange, const ConsoleRouteMatch& match);
  // For any model.
  ConsoleRights RightsOf(const HttpExchange& exchange);
  HttpResponse Overview(const HttpExchange& exchange);
  HttpResponse Models(const HttpExchange& exchange);
  HttpResponse Model(const HttpExchange& exchange, const ConsoleRouteMatch& match);
  HttpResponse History(const ConsoleRouteMatch& match);
  HttpResponse Sequences(const ConsoleRouteMatch& match);
  HttpResponse Log(const HttpExchange& exchange, const ConsoleRouteMatch& match);
  HttpResponse Traces(const ConsoleRouteMatch& match);
  HttpResponse Watch(const ConsoleRouteMatch& match);
  void LookAtMemory();

  const ConsoleContext& context_;
  HttpProtocolHost* host_ = nullptr;        // the server, from Attach() on
  std::vector<ConsoleRouteMatch> matches_;  // of what is being routed; each used by its io thread alone

  struct FleetQuestion {
    std::shared_ptr<HttpExchange> exchange;
    std::string authorization;
  };
  Mutex fleet_mutex_;
  bool looking_at_fleet_ BRAID_GUARDED_BY(fleet_mutex_) = false;
  std::vector<FleetQuestion> fleet_questions_ BRAID_GUARDED_BY(fleet_mutex_);  // that no look has taken yet
};

}  // namespace braid
