#include "backends/python/node_worker.h"

#include <future>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"

namespace braid {
namespace {

WorkerFacts Facts(const std::string& graph_name, const std::vector<PythonNodeSpec>& nodes,
                  uint64_t arena_keep_bytes, WorkerIsolation isolation) {
  WorkerFacts facts;
  facts.model_config_json = NodesToJson(nodes);
  facts.model_name = graph_name;
  facts.model_version = "1";
  facts.arena_keep_bytes = arena_keep_bytes;
  facts.isolation = std::move(isolation);
  return facts;
}

WorkerHost::Options HostOptions(const std::string& graph_name, int64_t sign_in_timeout_ns,
                                const ModelBounds& bounds) {
  return {.mode = LoadMode::kNodes,
          .thread_name = "brd-nodes",
          .title = "the Python worker of graph '" + graph_name + "'",
          .noun = "worker",
          .sign_in_timeout_ns = sign_in_timeout_ns,
          .initialize_timeout_ns = bounds.initialize_timeout_ns(),
          .finalize_timeout_ns = bounds.finalize_timeout_ns()};
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
                       WorkerIsolation isolation, SegmentIds& ids, const Arena::Options& arena,
                       const WorkerServices& services, std::shared_ptr<PythonEnvironment> environment,
                       ChildReaper& reaper, Logger& log, int64_t sign_in_timeout_ns,
                       const ModelBounds& bounds)
    : node_count_(nodes.size()),
      log_(log),
      execute_timeout_ns_(bounds.execute_timeout_ns()),
      counters_(services.worker_counters == nullptr
                    ? nullptr
                    : services.worker_counters->Add({graph_name, "1", graph_name})),
      spec_{.name = graph_name, .kind = "CPU"},
      facts_(Facts(graph_name, nodes, arena.keep_bytes, std::move(isolation))),
      // Not the graph's own name: user code may call its graph again and come to an end.
      chain_(std::make_shared<CallChain>(
          CallChain{.model = "Python nodes of " + graph_name, .instance = graph_name, .parents = {}})),
      environment_(std::move(environment)),
      arena_(ids, arena),
      host_(HostOptions(graph_name, sign_in_timeout_ns, bounds), spec_, facts_, services,
            environment_->spawner(), reaper, arena_, log, *this) {
  calls_.SetTimeLimit(execute_timeout_ns_,
                      fmt::format("execute() of a Python node of graph '{}' has given no answer for {} ms "
                                  "(--execute-timeout-ms)",
                                  graph_name, bounds.execute_timeout_ms));
}

NodeWorker::~NodeWorker() = default;

Status NodeWorker::Start() {
  auto started = std::make_shared<std::promise<Status>>();
  auto result = started->get_future();
  host_.Start([started](Status status) { started->set_value(std::move(status)); });
  Status status = result.get();
  if (!status.ok()) host_.Join();
  return status;
}

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
  overdue_ = {};
  calls_.Open(link, loaded.wants_sessions);
  return OkStatus();
}

int64_t NodeWorker::OnRound(int64_t now_ns) {
  if (execute_timeout_ns_ == 0) return INT64_MAX;
  if (now_ns < next_watch_ns_) return next_watch_ns_;
  next_watch_ns_ = calls_.Expire(now_ns);
  const bool stuck = calls_.stuck();
  if (stuck && !overdue_.passed()) {
    overdue_ = UserCodeLimit::PassedAt(now_ns);
    if (counters_ != nullptr) counters_->execute_timeouts.fetch_add(1);
    BRAID_LOG_ERROR(log_, "{}; the stacks of the worker follow", calls_.overdue_text());
    host_.WriteStacks();
  } else if (stuck && overdue_.over(now_ns)) {
    overdue_ = {};
    host_.End(calls_.overdue_text());
  } else if (!stuck && overdue_.passed()) {
    overdue_ = {};
  }
  next_watch_ns_ =
      std::max(std::min(next_watch_ns_, overdue_.next_ns()), now_ns + UserCodeLimit::kShortestLookNs);
  return next_watch_ns_;
}

Status NodeWorker::OnMessage(const std::vector<std::byte>& message) {
  NodeStepMessage step;
  if (TypeOf(message) != MessageType::kNodeStep || !Decode(message, step))
    return InvalidArgumentError("the worker sent a message that cannot be read");
  BRAID_RETURN_IF_ERROR(calls_.OnStep(step));
  host_.NoteServed();
  return OkStatus();
}

// Whoever waits for the run waits for the call, too. It is user code's call, though, which may end what would
// otherwise go in a circle: the second parent tells it from a link that a graph has made by itself.
WorkerUser::Origin NodeWorker::OriginOf(const CallMessage& call) {
  auto waiting = calls_.ChainOf(call.blocked_execution);
  if (waiting == nullptr) return {chain_, nullptr, 0};
  auto chain = std::make_shared<CallChain>(*chain_);
  chain->blocked_instance = waiting->blocked_instance;
  chain->parents = {std::move(waiting), chain_};
  return {std::move(chain), nullptr, 0};
}

void NodeWorker::OnIdle() {
  if (!arena_.has_excess()) return;
  for (uint32_t segment : arena_.Trim(SteadyNowNs())) host_.RetireSegment(segment);
}

}  // namespace braid
