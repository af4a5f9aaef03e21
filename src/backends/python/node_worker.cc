#include "backends/python/node_worker.h"

#include "base/check.h"
#include "base/json.h"

namespace braid {
namespace {

WorkerFacts Facts(const std::string& graph_name, const std::vector<PythonNodeSpec>& nodes,
                  uint64_t arena_keep_bytes, WorkerIsolation isolation, std::string debugger) {
  WorkerFacts facts;
  facts.model_config_json = NodesToJson(nodes);
  facts.model_name = graph_name;
  facts.model_version = "1";
  facts.arena_keep_bytes = arena_keep_bytes;
  facts.isolation = std::move(isolation);
  facts.debugger = std::move(debugger);
  return facts;
}

WorkerHost::Options HostOptions(const std::string& graph_name, const ModelBounds& bounds,
                                WorkerCounters* counters) {
  return {.mode = LoadMode::kNodes,
          .thread_name = "brd-nodes",
          .title = "the Python worker of graph '" + graph_name + "'",
          .noun = "worker",
          .initialize_timeout_ns = bounds.initialize_timeout_ns(),
          .finalize_timeout_ns = bounds.finalize_timeout_ns(),
          .counters = counters == nullptr ? nullptr : counters->Add({graph_name, "1", graph_name})};
}

}  // namespace

std::string NodesToJson(const std::vector<PythonNodeSpec>& nodes) {
  auto list = Json::array();
  for (const PythonNodeSpec& node : nodes) {
    list.push_back({{"name", node.name},
                    {"handler_path", node.handler_path},
                    {"input_names", node.input_names},
                    {"output_names", node.output_names},
                    {"loopback", node.loopback},
                    {"exported", node.exported},
                    {"kept", node.kept}});
  }
  return DumpJson(Json{{"nodes", std::move(list)}});
}

NodeWorker::NodeWorker(const std::string& graph_name, const std::vector<PythonNodeSpec>& nodes,
                       WorkerIsolation isolation, std::string debugger, const Arena::Options& arena,
                       const WorkerServices& services, std::shared_ptr<PythonEnvironment> environment,
                       const ModelBounds& bounds)
    : node_count_(nodes.size()),
      execute_timeout_ns_(bounds.execute_timeout_ns()),
      spec_{.name = graph_name, .kind = "CPU"},
      facts_(Facts(graph_name, nodes, arena.keep_bytes, std::move(isolation), std::move(debugger))),
      // Differs from the graph's name: user code may call its own graph again, and that recursion may end.
      chain_(std::make_shared<CallChain>(
          CallChain{.model = "Python nodes of " + graph_name, .instance = graph_name, .parents = {}})),
      environment_(std::move(environment)),
      arena_(environment_->spawner().support().segment_ids, arena),
      host_(HostOptions(graph_name, bounds, services.worker_counters), spec_, facts_, services,
            environment_->spawner(), arena_, *this) {
  calls_.SetTimeLimit(execute_timeout_ns_,
                      fmt::format("execute() of a Python node of graph '{}' has not answered for {} ms "
                                  "(--execute-timeout-ms)",
                                  graph_name, bounds.execute_timeout_ms));
}

NodeWorker::~NodeWorker() = default;

Status NodeWorker::Start() { return host_.StartAndWait(); }

void NodeWorker::Stop(int64_t deadline_ns) {
  host_.BeginStop(deadline_ns);
  host_.Join();
  environment_.reset();
}

uint64_t NodeWorker::Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                             std::shared_ptr<NodeCallListener> listener) {
  BRAID_CHECK(node < node_count_);
  executions_.fetch_add(1, std::memory_order_relaxed);
  return calls_.Execute(node, session, std::move(inputs), std::move(listener));
}

std::vector<InstanceReport> NodeWorker::instances() const {
  InstanceReport report;
  report.name = spec_.name;
  const Readiness now = readiness();
  report.ready = now.ready;
  report.reason = now.reason;
  report.executions = executions_.load(std::memory_order_relaxed);
  host_.Describe(report);
  return {std::move(report)};
}

Status NodeWorker::OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) {
  next_watch_ns_ = 0;
  calls_.Open(link, loaded.wants_sessions);
  return OkStatus();
}

int64_t NodeWorker::OnRound(int64_t now_ns) {
  if (execute_timeout_ns_ == 0) return INT64_MAX;
  if (now_ns < next_watch_ns_) return next_watch_ns_;
  next_watch_ns_ = calls_.Expire(now_ns);
  next_watch_ns_ =
      host_.WatchStuck(now_ns, next_watch_ns_, calls_.stuck(), [this] { return calls_.overdue_text(); });
  return next_watch_ns_;
}

Status NodeWorker::OnMessage(const std::vector<std::byte>& message) {
  NodeStepMessage step;
  if (TypeOf(message) != MessageType::kNodeStep || !Decode(message, step))
    return WorkerConversation::Malformed();
  BRAID_RETURN_IF_ERROR(calls_.OnStep(step));
  host_.NoteServed();
  return OkStatus();
}

// The request of the run waits for this call too. But user code made the call, and it may end a recursion
// that would otherwise be a cycle. The second parent tells this call from one that a graph makes by itself.
WorkerConversation::Origin NodeWorker::OriginOf(const CallMessage& call) {
  auto waiting = calls_.ChainOf(call.blocked_execution);
  if (waiting == nullptr) return {chain_, nullptr, 0};
  auto chain = std::make_shared<CallChain>(*chain_);
  chain->blocked_instance = waiting->blocked_instance;
  chain->parents = {std::move(waiting), chain_};
  return {std::move(chain), nullptr, 0};
}

}  // namespace braid
