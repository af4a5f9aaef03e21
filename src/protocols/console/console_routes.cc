#include "protocols/console/console_routes.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/guard.h"
#include "protocols/console/activity_documents.h"
#include "protocols/console/model_documents.h"
#include "protocols/console/overview.h"
#include "protocols/console/static_files.h"

namespace braid {
namespace {

using Found = std::variant<HttpResponse, HttpProtocolRoute>;

constexpr std::string_view kPage = "/console";

// Of the log, in one answer.
constexpr uint64_t kLogLines = 500;
constexpr uint64_t kMostLogLines = 5000;
constexpr uint64_t kWatchSeconds = 60;
constexpr std::string_view kNoTraces = "this server does not record slow requests";

// A document that changes all the time.
HttpResponse Fresh(std::string body) {
  HttpResponse response = JsonResponse(std::move(body));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

ConsoleRoutes::ConsoleRoutes(const ConsoleContext& context) : context_(context) {}

void ConsoleRoutes::Attach(HttpProtocolHost& host) {
  host_ = &host;
  matches_.resize(host.io_threads());
}

std::optional<Found> ConsoleRoutes::Find(const HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  std::string_view path = ToStd(head.target());
  path = path.substr(0, path.find('?'));
  if (!path.starts_with(kPage) || (path.size() > kPage.size() && path[kPage.size()] != '/'))
    return std::nullopt;
  const std::string_view method = RouteMethod(head);
  if (!path.starts_with("/console/api/")) {
    if (method != "GET") return Found(ErrorResponse(405, "Method Not Allowed"));
    if (path.size() > kPage.size()) {
      return Found(StaticFile(context_.assets, path.substr(kPage.size() + 1), head));
    }
    HttpResponse moved;
    moved.status = 308;
    moved.headers.emplace_back("Location", "/console/");
    return Found(std::move(moved));
  }
  ConsoleRouteMatch& match = matches_[exchange.io_thread()];
  match = MatchConsoleRoute(method, ToStd(head.target()));
  switch (match.kind) {
    case ConsoleRouteMatch::Kind::kFound:
      break;
    case ConsoleRouteMatch::Kind::kNoSuchPath:
      return Found(ErrorResponse(404, "Not Found"));
    case ConsoleRouteMatch::Kind::kWrongMethod:
      return Found(ErrorResponse(405, "Method Not Allowed"));
    case ConsoleRouteMatch::Kind::kBadEscape:
      return Found(ErrorResponse(400, "invalid percent-encoding of the model's name, which must be UTF-8"));
    case ConsoleRouteMatch::Kind::kNoModel:
      return Found(ErrorResponse(400, "expected the name of a model: ?model=NAME"));
    case ConsoleRouteMatch::Kind::kBadNumber:
      return Found(
          ErrorResponse(400, "expected a whole number for the version and for each number of the query"));
  }
  HttpProtocolRoute found;
  found.subject.api = match.route->api;
  if (match.model) found.subject.model = *match.model;
  found.at_any_time = true;
  const bool of_server = match.route->action == ConsoleAction::kOverview ||
                         (match.route->action == ConsoleAction::kHistory && !match.model);
  if (of_server) found.subject.model = "";  // it shows what all models do
  if (match.route->action == ConsoleAction::kFleet) {
    found.subject.model = "";  // it shows all models
    found.answer = [this](const std::shared_ptr<HttpExchange>& exchange) { return Fleet(exchange); };
    return Found(std::move(found));
  }
  found.answer = [this](const std::shared_ptr<HttpExchange>& exchange) {
    return HttpService::Answer(Answer(*exchange, matches_[exchange->io_thread()]));
  };
  return Found(std::move(found));
}

HttpResponse ConsoleRoutes::Answer(const HttpExchange& exchange, const ConsoleRouteMatch& match) {
  switch (match.route->action) {
    case ConsoleAction::kOverview:
      return Overview(exchange);
    case ConsoleAction::kFleet:
      break;  // not answered at once
    case ConsoleAction::kModels:
      return Models(exchange);
    case ConsoleAction::kModel:
      return Model(exchange, match);
    case ConsoleAction::kHistory:
      return History(match);
    case ConsoleAction::kSequences:
      return Sequences(match);
    case ConsoleAction::kLog:
      return Log(exchange, match);
    case ConsoleAction::kTraces:
      return Traces(match);
    case ConsoleAction::kWatch:
      return Watch(match);
  }
  return ErrorResponse(404, "Not Found");
}

HttpService::Answer ConsoleRoutes::Fleet(const std::shared_ptr<HttpExchange>& exchange) {
  if (!context_.fleet)
    return ErrorResponse(404, "this server knows of no others: it has no --fleet-endpoints");
  return std::make_shared<WholeBodyCall>(
      exchange, [this](const std::shared_ptr<HttpExchange>& exchange, std::string) {
        {
          const PatientAllocation patience;
          MutexLock lock(fleet_mutex_);
          fleet_questions_.push_back(
              {exchange, std::string(FindHeader(exchange->head(), "Authorization").value_or(""))});
          if (looking_at_fleet_) return;
          looking_at_fleet_ = true;
        }
        if (host_->RunBlocking([this] { LookAtFleet(); })) return;
        std::vector<FleetQuestion> refused;
        {
          MutexLock lock(fleet_mutex_);
          refused = std::exchange(fleet_questions_, {});
          looking_at_fleet_ = false;
        }
        for (const FleetQuestion& question : refused) {
          question.exchange->Respond(ErrorResponse(UnavailableError("too many requests are waiting")));
        }
      });
}

void ConsoleRoutes::LookAtFleet() {
  while (true) {
    std::vector<FleetQuestion> taken;
    {
      const PatientAllocation patience;
      MutexLock lock(fleet_mutex_);
      if (fleet_questions_.empty()) {
        looking_at_fleet_ = false;
        return;
      }
      // Those who wait longest, and whoever has shown the same.
      const std::string shown = fleet_questions_.front().authorization;
      const auto same = std::stable_partition(
          fleet_questions_.begin(), fleet_questions_.end(),
          [&](const FleetQuestion& question) { return question.authorization != shown; });
      taken.assign(std::make_move_iterator(same), std::make_move_iterator(fleet_questions_.end()));
      fleet_questions_.erase(same, fleet_questions_.end());
    }
    const HttpResponse response = MakeResponse([&]() -> Result<HttpResponse> {
      if (host_->exiting()) return UnavailableError("Server exiting");
      BRAID_ASSIGN_OR_RETURN(std::string json, context_.fleet(taken.front().authorization));
      return Fresh(std::move(json));
    });
    for (const FleetQuestion& question : taken) question.exchange->Respond(HttpResponse(response));
  }
}

ConsoleRights ConsoleRoutes::RightsOf(const HttpExchange& exchange) {
  const auto may = [&](Api api) { return host_->Allows(exchange, {api, std::nullopt}); };
  return {may(Api::kInference), may(Api::kModelRepository), may(Api::kLogging), may(Api::kTrace)};
}

HttpResponse ConsoleRoutes::Overview(const HttpExchange& exchange) {
  LookAtMemory();
  return Fresh(OverviewJson(context_, context_.memory, RightsOf(exchange), host_->exiting()));
}

HttpResponse ConsoleRoutes::Models(const HttpExchange& exchange) {
  LookAtMemory();
  return Fresh(ModelsJson(context_, context_.memory, RightsOf(exchange), [&](std::string_view model) {
    return host_->Allows(exchange, {Api::kStatistics, model});
  }));
}

HttpResponse ConsoleRoutes::Model(const HttpExchange& exchange, const ConsoleRouteMatch& match) {
  LookAtMemory();
  const auto may = [&](Api api) { return host_->Allows(exchange, {api, *match.model}); };
  auto model = ModelJson(context_, context_.memory, *match.model, *match.version,
                         {may(Api::kMetadata), may(Api::kModelConfig), [&](std::string_view other) {
                            return host_->Allows(exchange, {Api::kStatistics, other});
                          }});
  return model.ok() ? Fresh(*std::move(model)) : ErrorResponse(model.status());
}

HttpResponse ConsoleRoutes::History(const ConsoleRouteMatch& match) {
  if (!match.model) return Fresh(HistoryJson(context_.history.OfServer()));
  if (!match.version) return ErrorResponse(400, "expected the version of the model: ?model=NAME&version=N");
  return Fresh(HistoryJson(context_.history.Of(*match.model, *match.version)));
}

HttpResponse ConsoleRoutes::Sequences(const ConsoleRouteMatch& match) {
  auto sequences = SequencesJson(context_.server.catalog, *match.model, match.version.value_or(-1));
  return sequences.ok() ? Fresh(*std::move(sequences)) : ErrorResponse(sequences.status());
}

HttpResponse ConsoleRoutes::Log(const HttpExchange& exchange, const ConsoleRouteMatch& match) {
  if (context_.log == nullptr) return ErrorResponse(404, "the lines of the log are not kept");
  const auto limit = static_cast<size_t>(std::min(match.limit.value_or(kLogLines), kMostLogLines));
  // A line of no model is for those who may see all of them.
  std::map<std::string, bool, std::less<>> shown;
  const auto wanted = [&](const RecentLog::Line& line) {
    if (match.model) return line.model == *match.model;
    const auto known = shown.find(line.model);
    if (known != shown.end()) return known->second;
    return shown.emplace(line.model, host_->Allows(exchange, {Api::kLogging, line.model})).first->second;
  };
  return Fresh(LogJson(match.after ? context_.log->After(*match.after, limit, wanted)
                                   : context_.log->Newest(limit, wanted)));
}

HttpResponse ConsoleRoutes::Traces(const ConsoleRouteMatch& match) {
  if (context_.traces == nullptr) return ErrorResponse(UnsupportedError(std::string(kNoTraces)));
  return Fresh(TracesJson(*context_.traces, *match.model));
}

HttpResponse ConsoleRoutes::Watch(const ConsoleRouteMatch& match) {
  if (context_.traces == nullptr) return ErrorResponse(UnsupportedError(std::string(kNoTraces)));
  if (!context_.server.catalog.Knows(*match.model, -1)) {
    return ErrorResponse(404, "there is no model '" + *match.model + "'");
  }
  const auto seconds =
      static_cast<int64_t>(std::min<uint64_t>(match.seconds.value_or(kWatchSeconds), INT32_MAX));
  const Status watched = context_.traces->Watch(*match.model, seconds);
  if (!watched.ok()) return ErrorResponse(watched);
  return Fresh("{\"watched_s\":" + std::to_string(seconds) + "}");
}

void ConsoleRoutes::LookAtMemory() {
  std::vector<pid_t> pids = WorkerProcesses(context_.server.catalog);
  pids.push_back(::getpid());
  context_.memory.Ask(pids, 0);
}

}  // namespace braid
