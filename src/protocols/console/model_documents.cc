#include "protocols/console/model_documents.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/clock.h"
#include "base/json.h"
#include "protocols/inference/dialect.h"

namespace braid {
namespace {

uint64_t Microseconds(const DurationStatistic& duration) { return duration.ns / 1000; }

// Totals over the instances of one version.
struct Instances {
  std::vector<InstanceReport> reports;
  uint64_t count = 0;
  uint64_t ready = 0;
  uint64_t restarts = 0;
  std::optional<uint64_t> memory_bytes;  // nullopt if no process is known
};

Instances InstancesOf(const Servable& servable, const ProcessMemory& memory) {
  Instances instances;
  instances.reports = servable.instances();
  if (instances.reports.empty()) {
    instances.count = static_cast<uint64_t>(servable.info().instance_count);
    instances.ready = servable.readiness().ready ? instances.count : 0;
    return instances;
  }
  for (const InstanceReport& report : instances.reports) {
    ++instances.count;
    instances.ready += report.ready ? 1 : 0;
    instances.restarts += report.restarts;
    if (report.pid == 0) continue;
    if (const auto bytes = memory.ProportionalBytes(report.pid)) {
      instances.memory_bytes = instances.memory_bytes.value_or(0) + *bytes;
    }
  }
  if (auto shared = servable.instance_template()) {
    if (const auto bytes = memory.ProportionalBytes(shared->pid))
      instances.memory_bytes = instances.memory_bytes.value_or(0) + *bytes;
    instances.reports.push_back(*std::move(shared));
  }
  return instances;
}

// Returns the row of an index entry; `servable` is null if it is not served.
Json RowJson(const IndexEntry& entry, Servable* servable, const Instances& instances) {
  Json row = {{"name", entry.name},
              {"version", entry.version ? std::to_string(*entry.version) : ""},
              {"state", VersionStateName(entry.state)},
              {"reason", entry.reason},
              {"kind", ServableKindName(servable != nullptr ? servable->info().kind : entry.kind)}};
  if (servable == nullptr) return row;
  const ServableInfo& info = servable->info();
  const StatisticsTotals done = servable->statistics().Totals();
  const auto failures = [&done](FailureReason reason) { return done.failures[static_cast<size_t>(reason)]; };
  row["platform"] = info.platform;
  row["origin"] = RulesOf(info).Choose<std::string_view>("triton", "ovms");
  row["decoupled"] = info.decoupled;
  row["stateful"] = servable->has_sequences();
  row["last_inference_ms"] = done.last_inference_ms;
  row["requests"] = done.success.count;
  row["failures"] = done.fail.count;
  row["rejected"] = failures(FailureReason::kRejected);
  row["canceled"] = failures(FailureReason::kCanceled);
  row["rows"] = done.inference_count;
  row["executions"] = done.execution_count;
  row["pending"] = servable->pending_requests();
  row["request_us"] = Microseconds(done.success);
  row["queue_us"] = Microseconds(done.queue);
  row["compute_us"] =
      Microseconds(done.compute_input) + Microseconds(done.compute_infer) + Microseconds(done.compute_output);
  if (info.decoupled) {
    const auto responses = servable->statistics().Snapshot().responses;
    const auto first = responses.find(0);
    row["first_response_us"] = first == responses.end() ? 0 : Microseconds(first->second.compute_infer);
  }
  row["instances"] = instances.count;
  row["instances_ready"] = instances.ready;
  row["restarts"] = instances.restarts;
  if (SequenceKeeper* sequences = servable->sequences()) row["sequences"] = sequences->counts().active;
  if (instances.memory_bytes) row["memory_bytes"] = *instances.memory_bytes;
  return row;
}

// The served servables, for lookup by index entry.
class Serving {
 public:
  explicit Serving(const Catalog& catalog) : all_(catalog.All()) {
    for (const auto& servable : all_) by_name_[servable->info().name].push_back(servable.get());
  }
  Servable* Find(const IndexEntry& entry) const {
    const auto found = by_name_.find(entry.name);
    if (found == by_name_.end() || !entry.version) return nullptr;
    const auto one = std::ranges::find_if(found->second, [&entry](const Servable* servable) {
      return servable->info().version == *entry.version;
    });
    return one == found->second.end() ? nullptr : *one;
  }
  const std::vector<std::shared_ptr<Servable>>& all() const { return all_; }

 private:
  const std::vector<std::shared_ptr<Servable>> all_;
  std::unordered_map<std::string_view, std::vector<Servable*>> by_name_;  // into all_
};

Json TensorsJson(const std::vector<TensorSpec>& specs) {
  Json tensors = Json::array();
  for (const TensorSpec& spec : specs) {
    tensors.push_back({{"name", spec.name},
                       {"datatype", WireName(spec.type)},
                       {"shape", Json(std::vector<int64_t>(spec.shape.begin(), spec.shape.end()))},
                       {"optional", spec.optional},
                       {"labels", spec.labels.size()}});
  }
  return tensors;
}

Json WorkersJson(const std::vector<InstanceReport>& reports, const ProcessMemory& memory) {
  Json workers = Json::array();
  for (const InstanceReport& report : reports) {
    Json worker = {{"name", report.name},
                   {"pid", report.pid},
                   {"ready", report.ready},
                   {"reason", report.reason},
                   {"restarts", report.restarts},
                   {"started_ms", report.started_ms},
                   {"executions", report.executions}};
    if (report.pid != 0) {
      if (const auto bytes = memory.ProportionalBytes(report.pid)) worker["memory_bytes"] = *bytes;
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

Json StructureJson(const std::optional<ServableStructure>& structure) {
  if (!structure) return nullptr;
  Json nodes = Json::array();
  for (const StructureNode& node : structure->nodes) {
    nodes.push_back({{"id", nodes.size()},
                     {"kind", StructureNodeKindName(node.kind)},
                     {"name", node.name},
                     {"runs", node.runs},
                     {"version", node.version},
                     {"note", node.note},
                     {"started", node.started},
                     {"ended", node.ended},
                     {"failed", node.failed},
                     {"total_us", node.total_ns / 1000}});
  }
  Json edges = Json::array();
  for (const StructureEdge& edge : structure->edges) {
    edges.push_back({{"from", edge.from},
                     {"to", edge.to},
                     {"from_port", edge.from_port},
                     {"to_port", edge.to_port},
                     {"passed", edge.passed}});
  }
  return {{"nodes", std::move(nodes)}, {"edges", std::move(edges)}};
}

}  // namespace

std::string ModelsJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                       const MayShow& may_show) {
  const Catalog& catalog = context.server.catalog;
  const Serving serving(catalog);
  Json models = Json::array();
  for (const IndexEntry& entry : catalog.Index(false)) {
    if (!may_show(entry.name)) continue;
    Servable* servable = serving.Find(entry);
    models.push_back(
        RowJson(entry, servable, servable != nullptr ? InstancesOf(*servable, memory) : Instances()));
  }
  Json answer = RightsJson(context, may);
  answer.update(Json{{"now_ms", WallNowMs()}, {"models", std::move(models)}});
  return DumpJson(answer);
}

Result<std::string> ModelJson(const ConsoleContext& context, const ProcessMemory& memory,
                              const std::string& name, int64_t version, const DetailRights& rights) {
  const Catalog& catalog = context.server.catalog;
  const std::vector<IndexEntry> index = catalog.Index(false);
  const auto entry = std::ranges::find_if(
      index, [&](const IndexEntry& one) { return one.name == name && one.version == version; });
  if (entry == index.end()) {
    return NotFoundError("version " + std::to_string(version) + " of model '" + name + "' not found");
  }
  const Serving serving(catalog);
  Servable* servable = serving.Find(*entry);
  if (servable == nullptr) return DumpJson(RowJson(*entry, nullptr, {}));
  const ServableInfo& info = servable->info();
  const Instances instances = InstancesOf(*servable, memory);
  Json model = RowJson(*entry, servable, instances);
  model["inputs"] = rights.metadata ? TensorsJson(info.inputs) : Json::array();
  model["outputs"] = rights.metadata ? TensorsJson(info.outputs) : Json::array();
  model["max_batch_size"] = info.max_batch_size;
  const auto uses_of = [](const Servable& one) {
    const auto uses = one.uses();
    return std::set<ServableUse>(uses.begin(), uses.end());
  };
  Json uses = Json::array();
  for (const ServableUse& use : uses_of(*servable)) {
    uses.push_back({{"name", use.name}, {"version", use.version}});
  }
  model["uses"] = std::move(uses);
  std::set<std::string> used_by;
  for (const auto& other : serving.all()) {
    if (!rights.other_model(other->info().name)) continue;
    for (const ServableUse& use : uses_of(*other)) {
      if (use.name == name) used_by.insert(other->info().name);
    }
  }
  model["used_by"] = used_by;
  model["config"] = rights.config && info.config != nullptr && context.config_to_json
                        ? ParseJson(context.config_to_json(*info.config))
                        : Json();
  model["workers"] = WorkersJson(instances.reports, memory);
  model["structure"] = StructureJson(servable->structure());
  return DumpJson(model);
}

std::vector<pid_t> WorkerProcesses(const Catalog& catalog) {
  std::vector<pid_t> pids;
  for (const auto& servable : catalog.All()) {
    for (const InstanceReport& report : servable->instances()) {
      if (report.pid != 0) pids.push_back(report.pid);
    }
    if (const auto shared = servable->instance_template()) pids.push_back(shared->pid);
  }
  return pids;
}

}  // namespace braid
