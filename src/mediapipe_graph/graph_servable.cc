#include "mediapipe_graph/graph_servable.h"

#include <algorithm>
#include <utility>

#include "config/config_file.h"
#include "mediapipe_graph/graph_stream.h"
#include "mediapipe_graph/python_node_specs.h"
#include "mediapipe_graph/session_calculator.h"
#include "mediapipe_graph/unary_graph_call.h"
#include "serving/faults.h"

namespace braid {
namespace {

std::vector<TensorSpec> SpecsOf(const std::vector<BoundaryStream>& streams) {
  std::vector<TensorSpec> specs;
  for (const BoundaryStream& stream : streams) {
    TensorSpec spec;
    spec.name = stream.name;
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Returns the servables that session nodes name; `first` is set to the first of them.
std::shared_ptr<GraphServables> ServablesOf(const graph::Topology& topology, const Catalog& catalog,
                                            const ServableReference*& first) {
  auto servables = std::make_shared<GraphServables>(catalog);
  for (int node = 0; node < topology.node_count(); ++node) {
    if (topology.calculator(node) != kSessionCalculator) continue;
    const auto named = SessionServable(topology.contract(node));
    if (!named.ok()) continue;
    const ServableReference& reference = servables->Add(named->name, named->version);
    if (first == nullptr) first = &reference;
  }
  return servables;
}

// Checks the loaded servables only; a run checks the others when it begins.
Status CheckSessions(const std::string& graph, const GraphServables& servables) {
  for (const auto& servable : servables.WithSequences()) {
    if (const Status fault = CheckMayBeAsked(servable->info()); !fault.ok()) {
      return FaultError(Fault::kGraphInitializationError,
                        std::string("graph '").append(graph).append("': ").append(fault.message()));
    }
  }
  return OkStatus();
}

struct StartedNodes {
  std::shared_ptr<PythonNodes> nodes;  // shared with the host and with side packets; null without such nodes
  graph::Packet resources;
};

Result<StartedNodes> StartPython(const OvmsGraphConfig& config, const GraphDeps& deps,
                                 const GraphDefinition& definition) {
  BRAID_ASSIGN_OR_RETURN(std::vector<PythonNodeSpec> specs,
                         ListPythonNodes(*definition.topology, config.base_path));
  StartedNodes started;
  if (specs.empty()) return started;
  if (!deps.start_python) {
    return FaultError(Fault::kNotImplemented,
                      std::string("graph '")
                          .append(config.name)
                          .append("' has Python nodes, which this server does not support"));
  }
  auto numbers = NodeNumbers(specs);
  BRAID_ASSIGN_OR_RETURN(std::unique_ptr<PythonNodes> nodes,
                         deps.start_python(config.name, std::move(specs)));
  started.nodes = std::move(nodes);
  started.resources = graph::Packet::Of(PythonNodeResources{started.nodes, std::move(numbers)});
  return started;
}

class ServablesMemory final : public BufferAllocator {
 public:
  ServablesMemory(std::shared_ptr<const GraphServables> servables, const ServableReference* first)
      : servables_(std::move(servables)), first_(first) {}

  Result<Buffer> Allocate(size_t size) override {
    // The servable may be a graph, which asks its own servable, and so on in a cycle.
    thread_local int depth = 0;
    if (first_ == nullptr || depth == kDeepest) return heap_.Allocate(size);
    auto servable = first_->Get();
    if (!servable.ok()) return heap_.Allocate(size);
    ++depth;
    Result<Buffer> buffer = (*servable)->input_allocator().Allocate(size);
    --depth;
    return buffer;
  }

 private:
  static constexpr int kDeepest = 8;

  const std::shared_ptr<const GraphServables> servables_;  // shared with the runs; `first_` is in them
  const ServableReference* const first_;
  HeapAllocator heap_;
};

}  // namespace

Result<std::shared_ptr<GraphServable>> GraphServable::Create(const OvmsGraphConfig& config,
                                                             const GraphDeps& deps) {
  BRAID_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(config.graph_path));
  const GraphDefinitionOptions options{
      deps.calculators, {std::string(kPythonSidePacket)}, deps.cores, deps.no_queue};
  BRAID_ASSIGN_OR_RETURN(GraphDefinition definition, DefineGraph(config.name, text, options));
  const ServableReference* first = nullptr;
  const auto servables = ServablesOf(*definition.topology, deps.catalog, first);
  BRAID_RETURN_IF_ERROR(CheckSessions(config.name, *servables));
  BRAID_ASSIGN_OR_RETURN(StartedNodes python, StartPython(config, deps, definition));

  ServableInfo info;
  info.name = config.name;
  info.version = 1;
  info.kind = ServableKind::kGraph;
  info.dialect = Dialect::kOvms;
  info.platform = "OpenVINO";
  info.makes_calls = true;
  info.instance_count = 0;
  info.inputs = SpecsOf(definition.inputs);
  info.outputs = SpecsOf(definition.outputs);
  if (definition.takes_payloads()) info.openai.kind = OpenAiKind::kPayload;

  auto memory = std::make_unique<ServablesMemory>(servables, first);
  auto host = std::make_shared<GraphHost>(
      std::move(definition), std::move(python.nodes), std::move(python.resources), servables,
      [&threads = deps.threads](std::function<void()> work) { threads.Run(std::move(work)); }, deps.timers);
  return std::make_shared<GraphServable>(std::move(info), std::move(host), std::move(memory));
}

GraphServable::GraphServable(ServableInfo info, std::shared_ptr<GraphHost> host,
                             std::unique_ptr<BufferAllocator> memory)
    : Servable(std::move(info)), host_(std::move(host)), memory_(std::move(memory)) {}

BufferAllocator& GraphServable::input_allocator() {
  const auto& inputs = host_->definition.inputs;
  const bool python =
      host_->python != nullptr && std::any_of(inputs.begin(), inputs.end(), [](const BoundaryStream& stream) {
        return stream.kind == BoundaryKind::kPythonTensor || stream.kind == BoundaryKind::kPayload;
      });
  return python ? host_->python->allocator() : *memory_;
}

void GraphServable::Infer(std::unique_ptr<InferenceRequest> request) {
  UnaryGraphCall::Start(host_, std::move(request));
}

Result<std::shared_ptr<ServableStream>> GraphServable::OpenStream(InferenceRequest& first, StreamSink& sink) {
  return GraphStream::Open(host_, first, sink);
}

std::vector<InstanceReport> GraphServable::instances() const {
  return host_->python != nullptr ? host_->python->instances() : std::vector<InstanceReport>();
}

Readiness GraphServable::readiness() const {
  return host_->python != nullptr ? host_->python->readiness() : Readiness();
}

void GraphServable::Stop(int64_t deadline_ns) {
  if (!gate().WaitUntilEmpty(deadline_ns)) {
    host_->StopAll(UnavailableError(std::string("Server exiting or graph '")
                                        .append(info_.name)
                                        .append("' being unloaded: the run did not end in time")));
  }
  if (host_->python != nullptr) host_->python->Stop(deadline_ns);
}

}  // namespace braid
