#include "mediapipe_graph/inference_calculator.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mediapipe_graph/graph_sequences.h"
#include "mediapipe_graph/graph_servables.h"
#include "mediapipe_graph/session_calculator.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {
namespace {

// The part of a request in a sequence; unused if the sequence is null.
struct Turn {
  std::shared_ptr<GraphSequence> sequence;  // shared with the run
  GraphSequence::Ask ask;
};

// Turns a servable's response into the node's packets. Deletes itself at the end of the request.
class InferenceSink final : public ResponseSink {
 public:
  InferenceSink(std::string servable, std::shared_ptr<const InferencePorts> ports, Turn turn,
                graph::Context& context)
      : servable_(std::move(servable)),
        ports_(std::move(ports)),
        turn_(std::move(turn)),
        context_(context),
        deferral_(context.Defer()) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    const std::unique_ptr<InferenceSink> self(final ? this : nullptr);
    if (response) Take(std::move(*response));
    if (!final) return;
    if (turn_.sequence != nullptr) turn_.sequence->End(turn_.ask, answer_);
    deferral_.Finish(End());
  }

 private:
  void Take(InferenceResponse response) {
    if (!status_.ok()) return;
    if (!response.status.ok()) {
      answer_ = response.status;
      status_ = Named(response.status.message());
    } else if (outputs_) {
      status_ = Named("it sent more than one answer");
    } else {
      outputs_ = std::move(response.outputs);
    }
  }

  Status End() {
    if (!status_.ok()) return status_;
    if (!outputs_) return Named("it sent no answer");
    std::vector<graph::Packet> packets;
    for (const InferencePort& port : ports_->outputs) {
      auto packet = InferencePorts::MakeOutput(port, *outputs_, context_.input_timestamp());
      if (!packet.ok()) return Named(packet.status().message());
      packets.push_back(std::move(*packet));
    }
    for (size_t i = 0; i < packets.size(); ++i) context_.Output(static_cast<int>(i), std::move(packets[i]));
    return OkStatus();
  }

  Status Named(const std::string& text) const {
    return InternalError(std::string("inference of '").append(servable_).append("' failed: ").append(text));
  }

  const std::string servable_;
  const std::shared_ptr<const InferencePorts> ports_;  // shared with the calculator
  const Turn turn_;
  graph::Context& context_;  // owned by the deferral until it is finished
  graph::Deferral deferral_;
  Status answer_;  // the servable's status
  Status status_;
  std::optional<std::vector<Tensor>> outputs_;
};

// Keeps the chain of callers: requests that wait for the graph also wait for this request.
std::shared_ptr<const CallChain> ChainOf(const GraphCall& call, const std::string& node) {
  auto chain = std::make_shared<CallChain>();
  chain->model = call.graph;
  chain->instance = std::string(call.graph).append(".").append(node);
  chain->passes_on = true;
  if (call.chain != nullptr) {
    chain->blocked_instance = call.chain->blocked_instance;
    chain->parents.push_back(call.chain);
  }
  return chain;
}

std::unique_ptr<InferenceRequest> MakeRequest(const GraphCall& call, const ServableInfo& info) {
  auto request = std::make_unique<InferenceRequest>();
  request->id = call.id;
  request->model_name = info.name;
  request->model_version = info.version;
  request->priority = call.priority;
  request->start_ns = SteadyNowNs();
  if (call.trace) request->trace = call.trace->StartChild(info.name, info.version);
  return request;
}

// Called last, since a turn that has begun must be answered.
Result<Turn> TakeTurn(const GraphCall& call, graph::Timestamp at, InferenceRequest& request) {
  Turn turn;
  if (call.sequences == nullptr) return turn;
  turn.sequence = call.sequences->Find(at);
  if (turn.sequence == nullptr) return turn;
  BRAID_ASSIGN_OR_RETURN(turn.ask, turn.sequence->Begin(request.servable->share()));
  request.correlation_id = turn.sequence->id();
  request.sequence_start = turn.ask.start;
  request.sequence_end = turn.ask.end;
  return turn;
}

}  // namespace

Status InferenceCalculator::FillContract(graph::Contract& contract) {
  BRAID_ASSIGN_OR_RETURN(const InferencePorts ports, InferencePorts::Create(contract));
  if (contract.input_side_packets().size() != 1 || !contract.input_side_packets().Has(kSessionTag)) {
    return InvalidArgumentError(
        "OpenVINOInferenceCalculator must have one side packet, input_side_packet: \"SESSION:<name>\"");
  }
  contract.SetInputSidePacket(0, graph::PortType::Of<GraphSession>());
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    contract.SetInput(static_cast<int>(i), ports.inputs[i].type());
  }
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    contract.SetOutput(static_cast<int>(i), ports.outputs[i].type());
  }
  contract.SetTimestampOffset(0);
  contract.SetQuick();
  return OkStatus();
}

Status InferenceCalculator::Open(graph::Context& context) {
  BRAID_ASSIGN_OR_RETURN(InferencePorts ports, InferencePorts::Create(context.contract()));
  ports_ = std::make_shared<const InferencePorts>(std::move(ports));
  return OkStatus();
}

Status InferenceCalculator::Process(graph::Context& context) {
  const ServableReference& reference = *context.InputSidePacket(0).Get<GraphSession>().servable;
  auto handle = reference.Enter();
  if (!handle.ok()) return InternalError(handle.status().message());
  Servable& servable = (*handle)->get();
  // The version may have changed since the session was opened.
  BRAID_RETURN_IF_ERROR(CheckMayBeAsked(servable.info()));

  const GraphCall* named = context.Service(kGraphCallService).GetIf<GraphCall>();
  const GraphCall call = named != nullptr ? *named : GraphCall();
  auto request = MakeRequest(call, servable.info());
  for (size_t i = 0; i < ports_->inputs.size(); ++i) {
    const graph::Packet& packet = context.Input(static_cast<int>(i));
    if (packet.empty()) {
      return InternalError("input stream '" + context.contract().inputs()[static_cast<int>(i)].name +
                           "' has no packet at " + context.input_timestamp().DebugString());
    }
    BRAID_RETURN_IF_ERROR(
        InferencePorts::TakeInputs(ports_->inputs[i], packet, servable.info(), request->inputs));
  }
  request->requested_outputs = ports_->WantedOutputs();
  request->call_chain = ChainOf(call, context.contract().node_name());
  request->cancellation = std::make_shared<Cancellation>();
  request->servable = std::move(*handle);
  auto turn = TakeTurn(call, context.input_timestamp(), *request);
  if (!turn.ok()) return turn.status();
  {
    MutexLock lock(mutex_);
    cancellation_ = request->cancellation;
  }
  request->sink = new InferenceSink(servable.info().name, ports_, std::move(*turn), context);
  servable.Begin(std::move(request));
  return OkStatus();
}

void InferenceCalculator::Cancel() {
  std::shared_ptr<Cancellation> cancellation;
  {
    MutexLock lock(mutex_);
    cancellation = cancellation_;
  }
  if (cancellation != nullptr) cancellation->Cancel();
}

}  // namespace braid
