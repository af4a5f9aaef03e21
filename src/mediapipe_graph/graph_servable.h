// GraphServable: the servable of an entry of `mediapipe_config_list`. Each request and each client's stream
// is one run of the graph.
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

// The dependencies of graphs. All referenced objects outlive the graphs.
struct GraphDeps {
  const Catalog& catalog;
  std::shared_ptr<const graph::CalculatorRegistry> calculators;  // shared with the graphs
  Timers& timers;
  // Runs nodes that are not quick.
  ElasticThreads& threads;
  // Starts a graph's Python nodes and waits until they are initialized. Null: graphs with Python nodes are
  // refused.
  std::function<Result<std::unique_ptr<PythonNodes>>(const std::string& graph,
                                                     std::vector<PythonNodeSpec> nodes)>
      start_python = {};
  // The number of runs for a queue of AUTO, and the maximum for any queue.
  size_t cores = 1;
  // OVMS_GRAPH_QUEUE_OFF=1: no graph has a queue.
  bool no_queue = false;
};

class GraphServable final : public Servable {
 public:
  // Reads the entry's file and checks it (see DefineGraph()), then starts its Python nodes; blocks meanwhile.
  // The servable has Dialect::kOvms, version 1, platform "OpenVINO", and inputs and outputs with names only.
  // Errors, as FaultError(): kFileInvalid, those of DefineGraph(), ListPythonNodes() and start_python,
  // kNotImplemented without start_python. kGraphInitializationError when its sessions name a loaded stateful
  // model that does not allow it.
  static Result<std::shared_ptr<GraphServable>> Create(const OvmsGraphConfig& config, const GraphDeps& deps);

  // For Create() alone.
  GraphServable(ServableInfo info, std::shared_ptr<GraphHost> host, std::unique_ptr<BufferAllocator> memory);

  // Returns the allocator of the Python nodes if a stream of the boundary carries their tensors. Otherwise it
  // uses the allocator of the first servable that the graph's nodes call.
  BufferAllocator& input_allocator() override;
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  bool takes_streams() const override { return true; }
  Result<std::shared_ptr<ServableStream>> OpenStream(InferenceRequest& first, StreamSink& sink) override;
  Readiness readiness() const override;
  std::vector<ServableUse> uses() const override { return host_->servables->uses(); }
  // Whether a servable that its sessions name has sequences.
  bool has_sequences() const override { return host_->servables->has_sequences(); }
  void DropSequence(const CorrelationId& id) override { host_->servables->DropSequence(id); }
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) override {
    host_->servables->MarkSequence(id, marks);
  }
  std::optional<ServableStructure> structure() const override { return host_->structure.Read(); }
  // Returns the report of the Python nodes' worker.
  std::vector<InstanceReport> instances() const override;
  int64_t pending_requests() const override { return static_cast<int64_t>(host_->slots.waiting()); }
  void Stop(int64_t deadline_ns) override;

  const GraphDefinition& definition() const { return host_->definition; }
  // The number of current and waiting runs: requests and streams.
  size_t runs() const { return host_->runs(); }

 private:
  const std::shared_ptr<GraphHost> host_;          // shared with the runs
  const std::unique_ptr<BufferAllocator> memory_;  // for graphs without Python tensors
};

}  // namespace braid
