#include "fleet/replica.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <set>
#include <thread>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/thread.h"
#include "load/messages.h"

namespace braid::fleet {
namespace {

constexpr size_t kMostThreads = 64;
// A bound beyond the size of any server's response.
constexpr size_t kMostAnswerBytes = size_t{64} << 20;

ModelView& Take(std::vector<ModelView>& models, const std::string& name) {
  auto place = std::ranges::lower_bound(models, name, {}, &ModelView::name);
  if (place == models.end() || place->name != name) {
    place = models.insert(place, ModelView());
    place->name = name;
  }
  return *place;
}

ModelView* Find(std::vector<ModelView>& models, std::string_view name) {
  const auto place = std::ranges::lower_bound(
      models, name, {}, [](const ModelView& model) { return std::string_view(model.name); });
  return place == models.end() || place->name != name ? nullptr : &*place;
}

Status ReadIndex(const std::string& answer, std::vector<ModelView>& models) {
  const Json index = ParseJson(answer);
  if (!index.is_array()) return UnavailableError("it does not speak KServe v2: its index is not a list");
  for (const Json& each : index) {
    if (!each.is_object()) return UnavailableError("it does not speak KServe v2: its index is malformed");
    Take(models, each.value("name", ""))
        .versions.push_back({each.value("version", ""), each.value("state", ""), each.value("reason", "")});
  }
  return OkStatus();
}

void ReadStatistics(const Json& statistics, std::vector<ModelView>& models) {
  for (const Json& each : statistics.value("model_stats", Json::array())) {
    ModelView* const model = Find(models, each.value("name", ""));
    if (model == nullptr) continue;
    const Json parts = each.value("inference_stats", Json::object());
    const auto of = [&](const char* part, const char* key) {
      return parts.value(part, Json::object()).value(key, uint64_t{0});
    };
    model->requests += of("success", "count");
    model->failures += of("fail", "count");
    model->queue_ns += of("queue", "ns");
  }
}

// Returns the value of `label` in `labels`, which have the form "a=\"x\",b=\"y\"".
std::string LabelOf(std::string_view labels, std::string_view label) {
  const std::string key = std::string(label) + "=\"";
  size_t at = labels.find(key);
  while (at != std::string_view::npos && at != 0 && labels[at - 1] != ',') at = labels.find(key, at + 1);
  if (at == std::string_view::npos) return "";
  std::string value;
  for (size_t i = at + key.size(); i < labels.size() && labels[i] != '"'; ++i) {
    if (labels[i] == '\\' && i + 1 < labels.size()) ++i;
    value += labels[i];
  }
  return value;
}

// Returns 0 for text that is not a number or not a plausible counter.
double NumberOf(std::string_view text) {
  double value = 0;
  const size_t number = std::min(text.find_first_not_of(' '), text.size());
  std::from_chars(text.data() + number, text.data() + text.size(), value);
  return value > 0 && value < 1e15 ? value : 0;
}

Status AskAll(load::Client& client, const Asking& asking, Replica& replica) {
  const auto late = [&asking] { return SteadyNowNs() > asking.deadline_ns; };
  const Status gave_up = UnavailableError("not all queries ended in time");
  if (late()) return gave_up;
  BRAID_ASSIGN_OR_RETURN(const std::string index, client.AskHttp("POST", "/v2/repository/index", "{}"));
  BRAID_RETURN_IF_ERROR(ReadIndex(index, replica.models));
  replica.server = client.ServerName();
  replica.ready = client.AskHttp("GET", "/v2/health/ready").ok();
  BRAID_ASSIGN_OR_RETURN(const std::string statistics, client.AskHttp("GET", "/v2/models/stats"));
  replica.at_ms = WallNowMs();
  ReadStatistics(ParseJson(statistics), replica.models);
  for (ModelView& model : replica.models) {
    if (!model.ready()) continue;
    if (late()) return gave_up;
    const Result<std::string> config = client.AskHttp("GET", load::ModelPath(model.name, "") + "/config");
    if (!config.ok()) continue;
    model.config = ParseJson(*config);
    if (!model.config.is_object()) continue;
    const Json batching = model.config.value("sequence_batching", Json());
    model.sequences = batching.is_object() && !batching.value("iterative_sequence", false);
  }
  const Endpoint& endpoint = replica.endpoint;
  const uint16_t port = endpoint.metrics != 0 ? endpoint.metrics : endpoint.http;
  Result<load::Client> scraped = ClientOf(endpoint, port, asking);
  if (!scraped.ok()) return scraped.status();
  const Result<std::string> metrics = scraped->AskHttp("GET", "/metrics");
  replica.metrics = metrics.status();
  if (metrics.ok()) ReadMetrics(*metrics, replica);
  MarkEnsembles(replica.models);
  return OkStatus();
}

// Returns "a at x, y; b at z": each value with the replicas that report it.
std::string Sides(const std::map<std::string, std::vector<std::string>>& sides) {
  std::string text;
  for (const auto& [what, replicas] : sides) {
    text += fmt::format("{}{} at {}", text.empty() ? "" : "; ", what, fmt::join(replicas, ", "));
  }
  return text;
}

std::string VersionsText(const ModelView* model) {
  if (model == nullptr) return "missing";
  std::string text;
  for (const VersionView& version : model->versions) {
    if (!text.empty()) text += ", ";
    text += version.version.empty() ? "no version" : "version " + version.version;
    if (!version.state.empty() && version.state != "READY") text += " " + version.state;
  }
  return text;
}

}  // namespace

bool ModelView::ready() const {
  return std::ranges::any_of(versions, [](const VersionView& each) { return each.state == "READY"; });
}

const ModelView* Replica::Find(const std::string& model) const {
  const auto place = std::ranges::find(models, model, &ModelView::name);
  return place == models.end() ? nullptr : &*place;
}

Result<load::Client> ClientOf(const Endpoint& endpoint, uint16_t port, const Asking& asking) {
  BRAID_ASSIGN_OR_RETURN(const auto dialer,
                         load::Dialer::Make({endpoint.host, std::to_string(port)}, asking.tls));
  return load::Client(load::Protocol::kHttp, dialer, asking.headers, asking.timeout_s, kMostAnswerBytes);
}

Replica LookAt(const Endpoint& endpoint, const Asking& asking) {
  Replica replica;
  replica.endpoint = endpoint;
  Result<load::Client> client = ClientOf(endpoint, endpoint.http, asking);
  try {
    replica.answer = client.ok() ? AskAll(*client, asking, replica) : client.status();
  } catch (const std::exception& error) {
    // nlohmann's exception for a value of an unexpected type.
    replica.answer = UnavailableError(std::string("it does not speak KServe v2: ") + error.what());
  }
  if (replica.answer.ok()) return replica;
  Replica silent;
  silent.endpoint = endpoint;
  silent.answer = replica.answer;
  return silent;
}

std::vector<Replica> LookAtAll(const std::vector<Endpoint>& endpoints, const Asking& asking) {
  std::vector<Replica> replicas(endpoints.size());
  std::atomic<size_t> next = 0;
  const auto look = [&] {
    for (size_t i = next++; i < endpoints.size(); i = next++) replicas[i] = LookAt(endpoints[i], asking);
  };
  // This thread queries too. It does all the work if the system refuses more threads.
  std::vector<std::thread> threads;
  threads.reserve(kMostThreads);
  while (threads.size() + 1 < std::min(kMostThreads, endpoints.size())) {
    Result<std::thread> thread = TryStartThread("brd-fleet", look);
    if (!thread.ok()) break;
    threads.push_back(std::move(*thread));
  }
  look();
  for (std::thread& thread : threads) thread.join();
  return replicas;
}

void ReadMetrics(std::string_view text, Replica& replica) {
  constexpr std::string_view kStarted = "process_start_time_seconds ";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kStarted)) {
      replica.started_ms = static_cast<int64_t>(NumberOf(line.substr(kStarted.size())) * 1e3);
    }
    const size_t open = line.find('{');
    const size_t close = line.rfind('}');
    if (line.starts_with('#') || open == std::string_view::npos || close == std::string_view::npos) continue;
    const std::string_view family = line.substr(0, open);
    const bool sequences = family == "braid_sequences_active";
    if (!sequences && family != "nv_inference_pending_request_count") continue;
    const std::string_view labels = line.substr(open + 1, close - open - 1);
    std::string name = LabelOf(labels, "model");
    if (name.empty()) name = LabelOf(labels, "name");
    ModelView* const model = Find(replica.models, name);
    if (model == nullptr) continue;
    const double value = NumberOf(line.substr(close + 1));
    std::optional<uint64_t>& sum = sequences ? model->live_sequences : model->waiting;
    sum = sum.value_or(0) + static_cast<uint64_t>(value);
    // A configuration takes precedence: with an iterative sequence, each request is a sequence by itself.
    if (sequences && !model->config.is_object()) model->sequences = true;
  }
}

void MarkEnsembles(std::vector<ModelView>& models) {
  // A step may itself be an ensemble: repeats until nothing changes.
  for (bool marked = true; marked;) {
    marked = false;
    for (ModelView& model : models) {
      if (model.sequences || !model.config.is_object()) continue;
      const Json steps =
          model.config.value("ensemble_scheduling", Json::object()).value("step", Json::array());
      model.sequences = std::ranges::any_of(steps, [&](const Json& step) {
        const ModelView* const used = Find(models, step.value("model_name", ""));
        return used != nullptr && used->sequences;
      });
      marked = marked || model.sequences;
    }
  }
}

std::vector<Difference> Differences(const std::vector<Replica>& replicas) {
  std::vector<Difference> found;
  std::set<std::string> names;
  std::map<std::string, std::vector<std::string>> servers;
  for (const Replica& replica : replicas) {
    if (!replica.answer.ok()) continue;
    servers[replica.server].push_back(replica.endpoint.name());
    for (const ModelView& model : replica.models) names.insert(model.name);
  }
  if (servers.size() > 1) found.push_back({"", "the server is " + Sides(servers)});
  for (const std::string& name : names) {
    std::map<std::string, std::vector<std::string>> versions;
    std::map<std::string, std::map<std::string, std::vector<std::string>>> fields;
    std::set<std::string> keys;
    for (const Replica& replica : replicas) {
      const ModelView* const model = replica.Find(name);
      if (replica.answer.ok()) versions[VersionsText(model)].push_back(replica.endpoint.name());
      if (model == nullptr || !model->config.is_object()) continue;
      for (const auto& [key, value] : model->config.items()) keys.insert(key);
    }
    if (versions.size() > 1) found.push_back({name, fmt::format("model {}: {}", name, Sides(versions))});
    for (const std::string& key : keys) {
      std::map<std::string, std::vector<std::string>> values;
      for (const Replica& replica : replicas) {
        const ModelView* const model = replica.Find(name);
        if (model == nullptr || !model->config.is_object()) continue;
        values[model->config.contains(key) ? DumpJson(model->config[key]) : "nothing"].push_back(
            replica.endpoint.name());
      }
      if (values.size() > 1) {
        found.push_back({name, fmt::format("model {}: its {} is {}", name, key, Sides(values))});
      }
    }
  }
  return found;
}

}  // namespace braid::fleet
