#include "protocols/console/console_routes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
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

constexpr std::string_view kPage = "/console";

// Numbers of log lines in one answer: default and limit.
constexpr uint64_t kLogLines = 500;
constexpr uint64_t kMostLogLines = 5000;
constexpr uint64_t kWatchSeconds = 60;
constexpr std::string_view kNoTraces = "this server does not record slow requests";

// Returns a response that must not be cached.
HttpResponse Fresh(std::string body) {
  HttpResponse response = JsonResponse(std::move(body));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

Status BadEscape() { return InvalidArgumentError("the model name must be percent-encoded UTF-8"); }

Status NoNumber() {
  return InvalidArgumentError("expected a whole number for the version and for each number of the query");
}

template <class Number>
Status ReadNumber(std::string_view digits, std::optional<Number>& number) {
  Number value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return NoNumber();
  number = value;
  return OkStatus();
}

}  // namespace

Status ConsoleRequest::ReadQuery(std::string_view query) {
  const bool has_model = model.has_value();
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const size_t equals = std::min(one.find('='), one.size());
    const std::string_view name = one.substr(0, equals);
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    if (name == "model") {
      auto decoded = PercentDecode(value);
      if (!decoded) return BadEscape();
      if (!has_model) model = std::move(decoded);
    }
    if (name == "version") BRAID_RETURN_IF_ERROR(ReadNumber(value, version_asked));
    if (name == "after") BRAID_RETURN_IF_ERROR(ReadNumber(value, after));
    if (name == "limit") BRAID_RETURN_IF_ERROR(ReadNumber(value, limit));
    if (name == "seconds") BRAID_RETURN_IF_ERROR(ReadNumber(value, seconds));
  }
  return OkStatus();
}

std::span<const HttpRoute> ConsoleRoutes::Routes() {
  using C = ConsoleRoutes;
  using enum HttpScope;
  using enum HttpRouteKind;
  using enum Api;
  static constexpr HttpRoute kRoutes[] = {
      // These two show the activity of all models.
      {"GET", "/console/api/overview", kStatistics, kAll, kAnsweredBy<&C::Overview>, kAtAnyTime},
      {"GET", "/console/api/fleet", kStatistics, kAll, kAnsweredBy<&C::Fleet>, kAtAnyTime},
      {"GET", "/console/api/models", kStatistics, kNamed, kAnsweredBy<&C::Models>, kAtAnyTime},
      {"GET", "/console/api/models/{m}/versions/{v}", kStatistics, kNamed, kAnsweredBy<&C::Model>,
       kAtAnyTime},
      {"GET", "/console/api/history", kStatistics, kNamedOrAll, kAnsweredBy<&C::History>, kAtAnyTime},
      {"GET", "/console/api/sequences", kStatistics, kOne, kAnsweredBy<&C::Sequences>, kAtAnyTime},
      {"GET", "/console/api/log", kLogging, kNamed, kAnsweredBy<&C::Log>, kAtAnyTime},
      {"GET", "/console/api/traces", kTrace, kOne, kAnsweredBy<&C::Traces>, kAtAnyTime},
      {"POST", "/console/api/traces", kTrace, kOne, kAnsweredBy<&C::Watch>, kAtAnyTime},
  };
  return kRoutes;
}

std::optional<HttpService::Answer> ConsoleRoutes::Answer(HttpProtocolHost& host,
                                                         const std::shared_ptr<HttpExchange>& exchange) {
  using enum HttpMatch::Found;
  const HttpHead& head = exchange->head();
  const std::string_view path = PathOf(head);
  if (!path.starts_with(kPage) || (path.size() > kPage.size() && path[kPage.size()] != '/'))
    return std::nullopt;
  if (!path.starts_with("/console/api/")) {
    if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
    if (path.size() > kPage.size()) {
      return StaticFile(context_.assets, path.substr(kPage.size() + 1), head);
    }
    HttpResponse moved;
    moved.status = 308;
    moved.headers.emplace_back("Location", "/console/");
    return moved;
  }
  ConsoleRequest request(host, exchange, Routes());
  if (request.found == kNoSuchPath) return ErrorResponse(404, "Not Found");
  if (request.found == kWrongMethod) return ErrorResponse(405, "Method Not Allowed");
  const Status read = request.ReadQuery(QueryOf(head));
  if (!read.ok()) return ErrorResponse(read);
  if (request.found == kBadEscape) return ErrorResponse(BadEscape());
  if (request.found == kBadVersion) return ErrorResponse(NoNumber());
  if (request.route->scope == HttpScope::kOne && !request.model)
    return ErrorResponse(400, "expected the name of a model: ?model=NAME");
  return host.Dispatch(*this, request);
}

HttpService::Answer ConsoleRoutes::Fleet(ConsoleRequest& request) {
  if (!context_.fleet) return ErrorResponse(404, "no other servers are configured (--fleet-endpoints)");
  return request.Later([this, &host = request.host](const std::shared_ptr<HttpExchange>& exchange) {
    {
      RetryingLock lock(fleet_mutex_);
      fleet_questions_.push_back(
          {exchange, std::string(FindHeader(exchange->head(), "Authorization").value_or(""))});
      if (looking_at_fleet_) return;
      looking_at_fleet_ = true;
    }
    if (host.RunBlocking([this, &host] { LookAtFleet(host); })) return;
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

void ConsoleRoutes::LookAtFleet(HttpProtocolHost& host) {
  while (true) {
    std::vector<FleetQuestion> taken;
    {
      RetryingLock lock(fleet_mutex_);
      if (fleet_questions_.empty()) {
        looking_at_fleet_ = false;
        return;
      }
      // Takes the longest waiting request, and all others with the same header.
      const std::string shown = fleet_questions_.front().authorization;
      const auto same = std::stable_partition(
          fleet_questions_.begin(), fleet_questions_.end(),
          [&](const FleetQuestion& question) { return question.authorization != shown; });
      taken.assign(std::make_move_iterator(same), std::make_move_iterator(fleet_questions_.end()));
      fleet_questions_.erase(same, fleet_questions_.end());
    }
    const HttpResponse response = MakeResponse([&]() -> Result<HttpResponse> {
      if (host.exiting()) return UnavailableError("Server exiting");
      BRAID_ASSIGN_OR_RETURN(std::string json, context_.fleet(taken.front().authorization));
      return Fresh(std::move(json));
    });
    for (const FleetQuestion& question : taken) question.exchange->Respond(HttpResponse(response));
  }
}

ConsoleRights ConsoleRoutes::RightsOf(const ConsoleRequest& request) {
  const auto may = [&](Api api) { return request.host.Allows(*request.exchange, {api, std::nullopt}); };
  return {may(Api::kInference), may(Api::kModelRepository), may(Api::kLogging), may(Api::kTrace)};
}

HttpResponse ConsoleRoutes::Overview(ConsoleRequest& request) {
  LookAtMemory();
  return Fresh(OverviewJson(context_, context_.memory, RightsOf(request), request.host.exiting()));
}

HttpResponse ConsoleRoutes::Models(ConsoleRequest& request) {
  LookAtMemory();
  return Fresh(ModelsJson(context_, context_.memory, RightsOf(request), [&](std::string_view model) {
    return request.host.Allows(*request.exchange, {Api::kStatistics, model});
  }));
}

HttpResponse ConsoleRoutes::Model(ConsoleRequest& request) {
  LookAtMemory();
  const auto may = [&](Api api) { return request.host.Allows(*request.exchange, {api, *request.model}); };
  auto model = ModelJson(context_, context_.memory, *request.model, request.version,
                         {may(Api::kMetadata), may(Api::kModelConfig), [&](std::string_view other) {
                            return request.host.Allows(*request.exchange, {Api::kStatistics, other});
                          }});
  return model.ok() ? Fresh(*std::move(model)) : ErrorResponse(model.status());
}

HttpResponse ConsoleRoutes::History(ConsoleRequest& request) {
  if (!request.model) return Fresh(HistoryJson(context_.history.OfServer()));
  if (!request.version_asked)
    return ErrorResponse(400, "expected the version of the model: ?model=NAME&version=N");
  return Fresh(HistoryJson(context_.history.Of(*request.model, *request.version_asked)));
}

HttpResponse ConsoleRoutes::Sequences(ConsoleRequest& request) {
  auto sequences = SequencesJson(context_.server.catalog, *request.model, request.version_asked.value_or(-1));
  return sequences.ok() ? Fresh(*std::move(sequences)) : ErrorResponse(sequences.status());
}

HttpResponse ConsoleRoutes::Log(ConsoleRequest& request) {
  if (context_.log == nullptr) return ErrorResponse(404, "log lines are not kept");
  const auto limit = static_cast<size_t>(std::min(request.limit.value_or(kLogLines), kMostLogLines));
  // Lines without a model are for senders who may see all models.
  std::map<std::string, bool, std::less<>> shown;
  const auto wanted = [&](const RecentLog::Line& line) {
    if (request.model) return line.model == *request.model;
    const auto known = shown.find(line.model);
    if (known != shown.end()) return known->second;
    return shown.emplace(line.model, request.host.Allows(*request.exchange, {Api::kLogging, line.model}))
        .first->second;
  };
  return Fresh(LogJson(request.after ? context_.log->After(*request.after, limit, wanted)
                                     : context_.log->Newest(limit, wanted)));
}

HttpResponse ConsoleRoutes::Traces(ConsoleRequest& request) {
  if (context_.traces == nullptr) return ErrorResponse(UnsupportedError(std::string(kNoTraces)));
  return Fresh(TracesJson(*context_.traces, *request.model));
}

HttpResponse ConsoleRoutes::Watch(ConsoleRequest& request) {
  if (context_.traces == nullptr) return ErrorResponse(UnsupportedError(std::string(kNoTraces)));
  if (!context_.server.catalog.Knows(*request.model, -1)) {
    return ErrorResponse(404, "model '" + *request.model + "' not found");
  }
  const auto seconds =
      static_cast<int64_t>(std::min<uint64_t>(request.seconds.value_or(kWatchSeconds), INT32_MAX));
  const Status watched = context_.traces->Watch(*request.model, seconds);
  if (!watched.ok()) return ErrorResponse(watched);
  return Fresh("{\"watched_s\":" + std::to_string(seconds) + "}");
}

void ConsoleRoutes::LookAtMemory() {
  std::vector<pid_t> pids = WorkerProcesses(context_.server.catalog);
  pids.push_back(::getpid());
  context_.memory.Ask(pids, 0);
}

}  // namespace braid
