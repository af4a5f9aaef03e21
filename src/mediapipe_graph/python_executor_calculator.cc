#include "mediapipe_graph/python_executor_calculator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/python/python_nodes.h"
#include "base/guard.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/python_executor_contract.h"
#include "mediapipe_graph/python_node_resources.h"

namespace braid {
namespace {

using graph::Context;
using graph::Deferral;
using graph::Packet;
using graph::Timestamp;

constexpr std::string_view kFailed = "Error occurred during graph execution";

// Returns a tensor for each input with a packet, except LOOPBACK: by tag, the first of each.
std::vector<NodeTensor> InputsOf(const Context& context) {
  std::vector<NodeTensor> inputs;
  const graph::Ports& ports = context.contract().inputs();
  for (int i = 0; i < ports.size(); ++i) {
    if (ports[i].index != 0 || ports[i].tag == kLoopbackTag) continue;
    if (const auto* tensor = context.Input(i).GetIf<PythonTensor>()) inputs.push_back(tensor->value);
  }
  return inputs;
}

}  // namespace

// One execute() for the inputs of one time, from its start to the end of its generator.
//
// The graph's thread and the call take turns. While a step is awaited, the call owns the deferral and its
// context.
class PythonExecutorCalculator::Execution final : public NodeCallListener,
                                                  public std::enable_shared_from_this<Execution> {
 public:
  Execution(std::shared_ptr<PythonNodes> nodes, size_t node, uint64_t session, Timestamp at)
      : nodes_(std::move(nodes)), node_(node), session_(session), next_(at) {}

  void Start(Context& context, std::vector<NodeTensor> inputs) {
    Await(context);
    Execute(std::move(inputs));
  }

  // The LOOPBACK packet of the last item has come.
  void Continue(Context& context) {
    Await(context);
    Resume();
  }

  // Further inputs have come before the LOOPBACK packet of the last item. That is valid if there are no more
  // items.
  void ContinueWith(Context& context, std::vector<NodeTensor> inputs) {
    Await(context, std::move(inputs));
    Resume();
  }

  void OnStep(uint64_t call, NodeStep step) override {
    Deferral deferral;
    Context* context = nullptr;
    std::vector<NodeTensor> further;
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      call_ = std::max(call_, call);
      deferral = std::move(deferral_);
      context = std::exchange(context_, nullptr);
      further = std::exchange(further_, {});
      over_ = step.kind != NodeStep::Kind::kItem;
      cancelled = cancelled_;
    }
    if (!further.empty() && step.kind == NodeStep::Kind::kItem) {
      CloseCall();
      deferral.Finish(
          ResourceExhaustedError("Node is already processing data. Create new stream for another request."));
      return;
    }
    if (!further.empty() && step.kind == NodeStep::Kind::kEnd && !cancelled) {
      Again(*context, std::move(deferral), std::move(further));
      return;
    }
    deferral.Finish(Send(*context, std::move(step)));
  }

  // Ends the execution soon. Any thread.
  void Cancel() {
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
    }
    CloseCall();
  }

  bool over() const {
    MutexLock lock(mutex_);
    return over_;
  }
  // The time of the next LOOPBACK packet. REQUIRES: no step is awaited.
  Timestamp next() const { return next_; }

 private:
  void Await(Context& context, std::vector<NodeTensor> further = {}) {
    Deferral deferral = context.Defer();
    MutexLock lock(mutex_);
    deferral_ = std::move(deferral);
    context_ = &context;
    further_ = std::move(further);
  }

  // Records the call's number, so that it can be closed. The call's steps, or another call, may have come
  // already.
  void Called(uint64_t call) {
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      call_ = std::max(call_, call);
      cancelled = cancelled_;
    }
    if (cancelled) nodes_->Close(call);
  }

  uint64_t call() const {
    MutexLock lock(mutex_);
    return call_;
  }

  void CloseCall() {
    if (const uint64_t known = call(); known != 0) nodes_->Close(known);
  }

  void Resume() {
    const uint64_t known = call();
    if (!nodes_->Resume(known)) OnStep(known, {NodeStep::Kind::kEnd, OkStatus(), {}});
  }

  // Starts the same node with new inputs, in their deferral.
  void Again(Context& context, Deferral deferral, std::vector<NodeTensor> inputs) {
    {
      MutexLock lock(mutex_);
      deferral_ = std::move(deferral);
      context_ = &context;
      over_ = false;
      next_ = context.input_timestamp();
    }
    Execute(std::move(inputs));
  }

  // The deferral waits already. Without a call, no step would end it.
  void Execute(std::vector<NodeTensor> inputs) {
    uint64_t call = 0;
    Status fault =
        Guarded([&] { call = nodes_->Execute(node_, session_, std::move(inputs), shared_from_this()); });
    if (fault.ok()) return Called(call);
    Deferral deferral;
    {
      MutexLock lock(mutex_);
      deferral = std::move(deferral_);
      context_ = nullptr;
      over_ = true;
    }
    if (deferral) deferral.Finish(std::move(fault));
  }

  // Outputs the results of a step on their streams.
  Status Send(Context& context, NodeStep step) {
    const graph::Ports& outputs = context.contract().outputs();
    for (NodeTensor& output : step.outputs) {
      const int port = outputs.FindName(output.tensor.name);
      if (port < 0 || outputs[port].tag == kLoopbackTag) {
        CloseCall();
        return InternalError(std::string(kFailed)
                                 .append(" - Unexpected Tensor found in the outputs. Tensor name: ")
                                 .append(output.tensor.name)
                                 .append(" is not a valid node output"));
      }
      context.Output(port, Packet::Of(PythonTensor{std::move(output)}, next_));
    }
    if (step.kind == NodeStep::Kind::kError)
      return step.status.WithPrefix(std::string(kFailed).append(" - "));
    if (step.kind != NodeStep::Kind::kItem) return OkStatus();
    const int loopback = outputs.Find(kLoopbackTag);
    if (loopback < 0) {
      CloseCall();
      return InternalError(std::string(kFailed).append(
          " - Bad python node configuration. Execute yielded, but LOOPBACK is not defined in the node"));
    }
    next_ = next_.NextAllowedInStream();
    context.Output(loopback, Packet::Of(true, next_));
    return OkStatus();
  }

  const std::shared_ptr<PythonNodes> nodes_;  // shared with the runs of the graph
  const size_t node_;
  const uint64_t session_;
  // Owned by the side whose turn it is: the time of the next list.
  Timestamp next_;

  mutable Mutex mutex_;  // a leaf lock
  // The number of the last call; calls are numbered upwards. 0 until it is known.
  uint64_t call_ BRAID_GUARDED_BY(mutex_) = 0;
  Deferral deferral_ BRAID_GUARDED_BY(mutex_);
  Context* context_ BRAID_GUARDED_BY(mutex_) = nullptr;
  std::vector<NodeTensor> further_ BRAID_GUARDED_BY(mutex_);
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;
};

Status PythonExecutorCalculator::FillContract(graph::Contract& contract) {
  return FillPythonExecutorContract(contract);
}

Status PythonExecutorCalculator::Open(Context& context) {
  const graph::Contract& contract = context.contract();
  const auto& resources = context.InputSidePacket(contract.input_side_packets().Find(kPythonResourcesTag))
                              .Get<PythonNodeResources>();
  const auto node = resources.node_of_name.find(contract.config().name());
  if (node == resources.node_of_name.end() || resources.nodes == nullptr) {
    return InternalError("there is no Python code for node '" + contract.node_name() + "'");
  }
  nodes_ = resources.nodes;
  node_ = node->second;
  if (const auto* session = context.Service(kPythonSessionService).GetIf<uint64_t>()) session_ = *session;
  return OkStatus();
}

Status PythonExecutorCalculator::Process(Context& context) {
  std::vector<NodeTensor> inputs = InputsOf(context);
  if (const std::shared_ptr<Execution> execution = last_execution();
      execution != nullptr && !execution->over()) {
    if (!inputs.empty()) {
      execution->ContinueWith(context, std::move(inputs));
      return OkStatus();
    }
    const int loopback = context.contract().inputs().Find(kLoopbackTag);
    // A packet of an earlier generator may still come.
    if (loopback >= 0 && !context.Input(loopback).empty() &&
        context.Input(loopback).timestamp() == execution->next()) {
      execution->Continue(context);
    }
    return OkStatus();
  }
  if (inputs.empty()) return OkStatus();
  auto execution = std::make_shared<Execution>(nodes_, node_, session_, context.input_timestamp());
  {
    MutexLock lock(mutex_);
    execution_ = execution;
  }
  execution->Start(context, std::move(inputs));
  return OkStatus();
}

Status PythonExecutorCalculator::Close(Context&) {
  Cancel();
  return OkStatus();
}

void PythonExecutorCalculator::Cancel() {
  if (const auto execution = last_execution(); execution != nullptr) execution->Cancel();
}

std::shared_ptr<PythonExecutorCalculator::Execution> PythonExecutorCalculator::last_execution() const {
  MutexLock lock(mutex_);
  return execution_;
}

}  // namespace braid
