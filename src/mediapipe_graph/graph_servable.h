// GraphServable: the servable that an entry of `mediapipe_config_list` is. A request is one run of the graph,
// a client's stream is one too.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/python/python_nodes.h"
#include "base/elastic_threads.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "graph/registry.h"
#include "mediapipe_graph/graph_run.h"
#include "scheduling/timer_service.h"
#include "serving/catalog.h"
#include "serving/servable.h"

namespace braid {

// What graphs are made with. All that is referred to outlives them.
struct GraphDeps {
  const Catalog& catalog;
  std::shared_ptr<const graph::CalculatorRegistry> calculators;  // shared with the graphs
  Timers& timers;
  // Where nodes run that are not quick.
  ElasticThreads& threads;
  // Starts the Python nodes of a graph and waits until they are initialized. Null: there are none here, and
  // a graph that has some is refused.
  std::function<Result<std::unique_ptr<PythonNodes>>(const std::string& graph,
                                                     std::vector<PythonNodeSpec> nodes)>
      start_python = {};
  // How many runs a graph with a queue of AUTO has at once, and the most that any queue lets in.
  size_t cores = 1;
  // OVMS_GRAPH_QUEUE_OFF=1: no graph has a queue.
  bool no_queue = false;
};

class GraphServable final : public Servable {
 public:
  // Reads the entry's file and checks it (see DefineGraph()), then starts its Python nodes; blocks
  // meanwhile. The servable has Dialect::kOvms, version 1, platform "OpenVINO", and inputs and outputs with
  // names alone. Errors: FaultError(): kFileInvalid, those of DefineGraph(), of ListPythonNodes() and of
  // start_python, kNotImplemented without it; kGraphInitializationError when its sessions ask a stateful
  // model that is there and does not allow it.
  static Result<std::shared_ptr<GraphServable>> Create(const OvmsGraphConfig& config, const GraphDeps& deps);

  // For Create() alone.
  GraphServable(ServableInfo info, std::shared_ptr<GraphHost> host, std::unique_ptr<BufferAllocator> memory);

  // That of the Python nodes, if a stream of the boundary carries their tensors; else that of the first
  // servable which the graph's nodes ask.
  BufferAllocator& input_allocator() override;
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  bool takes_streams() const override { return true; }
  Result<std::shared_ptr<ServableStream>> OpenStream(InferenceRequest& first, StreamSink& sink) override;
  Readiness readiness() const override;
  std::vector<ServableUse> uses() const override { return host_->servables->uses(); }
  // Whether a servable that its sessions ask has.
  bool has_sequences() const override { return host_->servables->has_sequences(); }
  void DropSequence(const CorrelationId& id) override { host_->servables->DropSequence(id); }
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) override {
    host_->servables->MarkSequence(id, marks);
  }
  std::optional<ServableStructure> structure() const override { return host_->structure.Read(); }
  // The worker of its Python nodes.
  std::vector<InstanceReport> instances() const override;
  int64_t pending_requests() const override { return static_cast<int64_t>(host_->slots.waiting()); }
  void Stop(int64_t deadline_ns) override;

  const GraphDefinition& definition() const { return host_->definition; }
  // Runs that are under way or wait for a slot: requests and streams.
  size_t runs() const { return host_->runs(); }

 private:
  const std::shared_ptr<GraphHost> host_;          // shared with the runs
  const std::unique_ptr<BufferAllocator> memory_;  // for graphs without Python tensors
};

}  // namespace braid
