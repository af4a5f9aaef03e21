#include "fleet/status_report.h"

#include <algorithm>
#include <map>
#include <set>

#include <spdlog/fmt/fmt.h>

#include "base/log.h"

namespace braid::fleet {
namespace {

// Totals over models or over replicas. A total is unknown if one of its figures is missing.
struct Load {
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t queue_ns = 0;
  std::optional<uint64_t> waiting = 0;
  std::optional<uint64_t> sequences = 0;

  void Add(const ModelView& model, bool metrics) {
    requests += model.requests;
    failures += model.failures;
    queue_ns += model.queue_ns;
    if (!metrics) waiting = sequences = std::nullopt;
    if (waiting) *waiting += model.waiting.value_or(0);
    if (sequences) *sequences += model.live_sequences.value_or(0);
  }
};

std::string Known(const std::optional<uint64_t>& figure) { return figure ? std::to_string(*figure) : "-"; }

Json KnownJson(const std::optional<uint64_t>& figure) { return figure ? Json(*figure) : Json(); }

std::vector<std::string> LoadCells(const Load& load) {
  const uint64_t all = load.requests + load.failures;
  const double queue_us = all == 0 ? 0 : static_cast<double>(load.queue_ns) / 1e3 / static_cast<double>(all);
  return {Known(load.sequences), Known(load.waiting), std::to_string(load.requests),
          std::to_string(load.failures), all == 0 ? "-" : fmt::format("{:.0f} us", queue_us)};
}

Json LoadJson(const Load& load) {
  return {{"requests", load.requests},
          {"failures", load.failures},
          {"queue_ns", load.queue_ns},
          {"waiting", KnownJson(load.waiting)},
          {"live_sequences", KnownJson(load.sequences)}};
}

// Escapes other servers' texts, so that they cannot control the terminal.
std::string Table(std::vector<std::vector<std::string>> rows) {
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = EscapeForLog(cell);
  }
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i] + "\n";
    }
  }
  return text;
}

// One model on all replicas.
struct ModelOverview {
  std::set<std::string> versions;  // ready ones
  std::set<std::string> states;
  size_t ready = 0;
  bool sequences = false;
  Load load;
};

std::map<std::string, ModelOverview> Overviews(const std::vector<Replica>& replicas) {
  std::map<std::string, ModelOverview> overviews;
  for (const Replica& replica : replicas) {
    for (const ModelView& model : replica.models) {
      ModelOverview& overview = overviews[model.name];
      for (const VersionView& version : model.versions) {
        overview.states.insert(version.state.empty() ? "not loaded" : version.state);
        if (version.state == "READY") overview.versions.insert(version.version);
      }
      overview.ready += model.ready() ? 1 : 0;
      overview.sequences = overview.sequences || model.sequences;
      overview.load.Add(model, replica.metrics.ok());
    }
  }
  return overviews;
}

size_t Answered(const std::vector<Replica>& replicas) {
  return static_cast<size_t>(
      std::ranges::count_if(replicas, [](const Replica& replica) { return replica.answer.ok(); }));
}

std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::string StatusText(const std::vector<Replica>& replicas) {
  std::vector<std::vector<std::string>> rows = {
      {"REPLICA", "STATE", "SERVER", "MODELS", "SEQUENCES", "WAITING", "REQUESTS", "FAILED", "QUEUE"}};
  for (const Replica& replica : replicas) {
    if (!replica.answer.ok()) {
      rows.push_back({replica.endpoint.name(), "no answer", OneLine(replica.answer.message())});
      continue;
    }
    Load load;
    for (const ModelView& model : replica.models) load.Add(model, replica.metrics.ok());
    const auto ready = std::ranges::count_if(replica.models, &ModelView::ready);
    rows.push_back({replica.endpoint.name(), replica.ready ? "ready" : "not ready", replica.server,
                    std::to_string(ready)});
    for (std::string& cell : LoadCells(load)) rows.back().push_back(std::move(cell));
  }
  std::string text = Table(rows);
  rows = {{"MODEL", "VERSIONS", "STATE", "READY AT", "SEQUENCES", "WAITING", "REQUESTS", "FAILED", "QUEUE"}};
  for (const auto& [name, overview] : Overviews(replicas)) {
    rows.push_back({name,
                    overview.versions.empty() ? "-" : fmt::format("{}", fmt::join(overview.versions, ",")),
                    fmt::format("{}", fmt::join(overview.states, ",")),
                    fmt::format("{} of {}", overview.ready, replicas.size())});
    std::vector<std::string> cells = LoadCells(overview.load);
    if (!overview.sequences && overview.load.sequences == 0) cells.front() = "";
    for (std::string& cell : cells) rows.back().push_back(std::move(cell));
  }
  text += "\n" + Table(rows) + "\n";
  const std::vector<Difference> differences = Differences(replicas);
  for (const Difference& difference : differences)
    text += fmt::format("differs: {}\n", EscapeForLog(difference.text));
  const size_t answered = Answered(replicas);
  if (differences.empty() && answered > 1) text += "the replicas that answered serve the same\n";
  if (answered < replicas.size()) {
    text += fmt::format("{} of {} did not answer\n", replicas.size() - answered, replicas.size());
  }
  return text;
}

Json StatusJson(const std::vector<Replica>& replicas) {
  Json list = Json::array();
  for (const Replica& replica : replicas) {
    Json each = {{"endpoint", replica.endpoint.name()}, {"answered", replica.answer.ok()}};
    if (!replica.answer.ok()) {
      each["error"] = replica.answer.message();
      list.push_back(std::move(each));
      continue;
    }
    each["server"] = replica.server;
    each["ready"] = replica.ready;
    each["at_ms"] = replica.at_ms;
    each["started_ms"] = replica.started_ms ? Json(*replica.started_ms) : Json();
    if (!replica.metrics.ok()) each["no_metrics"] = replica.metrics.message();
    each["models"] = Json::array();
    for (const ModelView& model : replica.models) {
      Load load;
      load.Add(model, replica.metrics.ok());
      Json one = {{"name", model.name}, {"sequence_model", model.sequences}, {"versions", Json::array()}};
      for (const VersionView& version : model.versions) {
        one["versions"].push_back(
            {{"version", version.version}, {"state", version.state}, {"reason", version.reason}});
      }
      one["load"] = LoadJson(load);
      each["models"].push_back(std::move(one));
    }
    list.push_back(std::move(each));
  }
  Json differences = Json::array();
  std::set<std::string> different;
  for (const Difference& difference : Differences(replicas)) {
    differences.push_back(difference.text);
    different.insert(difference.model);
  }
  Json models = Json::array();
  for (const auto& [name, overview] : Overviews(replicas)) {
    models.push_back(
        {{"name", name},
         {"ready_versions", Json(std::vector<Json>(overview.versions.begin(), overview.versions.end()))},
         {"ready_at", overview.ready},
         {"differs", different.contains(name)},
         {"sequence_model", overview.sequences},
         {"load", LoadJson(overview.load)}});
  }
  return {
      {"replicas", std::move(list)}, {"models", std::move(models)}, {"differences", std::move(differences)}};
}

}  // namespace braid::fleet
