#include "mediapipe_graph/plugin_calculator.h"

#include <string>
#include <utility>

#include "mediapipe_graph/plugin_packets.h"
#include "plugin_options.pb.h"

// The argument of a library's functions. Each call has a new one.
struct BraidContract {
  braid::graph::Contract* filling = nullptr;  // null outside of a description
  const braid::graph::Contract* contract = nullptr;
  const braid::PluginOptions* options = nullptr;
  std::string fault;
};

struct BraidContext {
  braid::graph::Context* context = nullptr;
  const BraidContract* contract = nullptr;
  // The packets that the call has received; it owns them.
  std::vector<BraidPacket*> handed_out;
  bool stopped = false;
  bool failed = false;
  std::string fault;
};

namespace braid {
namespace {

using graph::Context;
using graph::Contract;
using graph::Packet;
using graph::Ports;
using graph::PortType;
using graph::Timestamp;

const Ports& PortsOf(const Contract& contract, BraidDirection direction) {
  switch (direction) {
    case BRAID_INPUT:
      return contract.inputs();
    case BRAID_OUTPUT:
      return contract.outputs();
    case BRAID_INPUT_SIDE_PACKET:
      break;
  }
  return contract.input_side_packets();
}

const char* NameOf(BraidDirection direction) {
  switch (direction) {
    case BRAID_INPUT:
      return "input_stream";
    case BRAID_OUTPUT:
      return "output_stream";
    case BRAID_INPUT_SIDE_PACKET:
      break;
  }
  return "input_side_packet";
}

// Returns "input_stream 'TAG:0'".
std::string PortText(BraidDirection direction, const char* tag, int index) {
  return std::string(NameOf(direction))
      .append(" '")
      .append(tag == nullptr ? "" : tag)
      .append(":")
      .append(std::to_string(index))
      .append("'");
}

void AddFault(std::string& fault, const std::string& text) { fault += (fault.empty() ? "" : "; ") + text; }

// --- Describing a node

const char* NodeName(const BraidContract* contract) { return contract->contract->node_name().c_str(); }

int PortCount(const BraidContract* contract, BraidDirection direction, const char* tag) {
  return PortsOf(*contract->contract, direction).Count(tag == nullptr ? "" : tag);
}

void DescribePort(BraidContract* contract, BraidDirection direction, const char* tag, int index,
                  BraidKind kind, const char* type, int optional) {
  if (contract->filling == nullptr) return;
  static_cast<void>(type);  // checked by the library itself, see getObject
  Contract& filling = *contract->filling;
  const int port = PortsOf(filling, direction).Find(tag == nullptr ? "" : tag, index);
  if (port < 0) {
    if (optional == 0) AddFault(contract->fault, PortText(direction, tag, index) + " is missing");
    return;
  }
  if (kind <= BRAID_EMPTY || kind == BRAID_OTHER || kind > BRAID_ANY) {
    return AddFault(contract->fault, PortText(direction, tag, index) +
                                         " has an invalid kind: " + std::to_string(static_cast<int>(kind)));
  }
  const PortType port_type = kind == BRAID_ANY ? PortType::Any() : PluginPortType(kind);
  if (direction == BRAID_INPUT) {
    filling.SetInput(port, port_type);
  } else if (direction == BRAID_OUTPUT) {
    filling.SetOutput(port, port_type);
  } else {
    filling.SetInputSidePacket(port, port_type, optional != 0);
  }
}

const char* Option(const BraidContract* contract, const char* key) {
  if (key == nullptr) return nullptr;
  const auto& options = contract->options->option();
  const auto found = options.find(key);
  return found == options.end() ? nullptr : found->second.c_str();
}

void SetTimestampOffset(BraidContract* contract, int64_t offset) {
  if (contract->filling != nullptr) contract->filling->SetTimestampOffset(offset);
}

void SetQuick(BraidContract* contract) {
  if (contract->filling != nullptr) contract->filling->SetQuick();
}

void FailContract(BraidContract* contract, const char* text) {
  AddFault(contract->fault, text == nullptr || *text == '\0' ? "the calculator rejected the node" : text);
}

// --- Calls of a node

const BraidContract* ContractOf(const BraidContext* context) { return context->contract; }

int64_t InputTimestamp(const BraidContext* context) { return context->context->input_timestamp().value(); }

// Returns the call's reference to the packet at a port; null if there is none.
BraidPacket* HandOut(const BraidContext* context, BraidDirection direction, const char* tag, int index) {
  const Contract& contract = context->context->contract();
  const int port = PortsOf(contract, direction).Find(tag == nullptr ? "" : tag, index);
  if (port < 0) return nullptr;
  const Packet& packet =
      direction == BRAID_INPUT ? context->context->Input(port) : context->context->InputSidePacket(port);
  if (packet.empty()) return nullptr;
  BraidPacket* made = NewPluginPacket(packet);
  const_cast<BraidContext*>(context)->handed_out.push_back(made);
  return made;
}

BraidPacket* Input(const BraidContext* context, const char* tag, int index) {
  return HandOut(context, BRAID_INPUT, tag, index);
}

BraidPacket* InputSidePacket(const BraidContext* context, const char* tag, int index) {
  return HandOut(context, BRAID_INPUT_SIDE_PACKET, tag, index);
}

void Fail(BraidContext* context, const char* text) {
  context->failed = true;
  AddFault(context->fault, text == nullptr ? "" : text);
}

// Returns the output's number; -1, and a fault of the calculator, if the node has no such output.
int OutputPort(BraidContext* context, const char* tag, int index) {
  const int port = context->context->contract().outputs().Find(tag == nullptr ? "" : tag, index);
  if (port < 0) Fail(context, ("the node has no " + PortText(BRAID_OUTPUT, tag, index)).c_str());
  return port;
}

void Output(BraidContext* context, const char* tag, int index, BraidPacket* packet, int64_t timestamp) {
  const int port = OutputPort(context, tag, index);
  if (port < 0) return;
  if (packet == nullptr) return Fail(context, "an output without a packet");
  context->context->Output(port, packet->packet.At(Timestamp(timestamp)));
}

void SetBound(BraidContext* context, const char* tag, int index, int64_t timestamp) {
  const int port = OutputPort(context, tag, index);
  if (port >= 0) context->context->SetNextTimestampBound(port, Timestamp(timestamp));
}

void CloseOutput(BraidContext* context, const char* tag, int index) {
  const int port = OutputPort(context, tag, index);
  if (port >= 0) context->context->CloseOutput(port);
}

void Stop(BraidContext* context) { context->stopped = true; }

const BraidHost& Host() {
  static const BraidHost host = [] {
    BraidHost made{};
    made.version = BRAID_CALCULATOR_INTERFACE;
    FillPacketFunctions(made);
    made.nodeName = NodeName;
    made.portCount = PortCount;
    made.describePort = DescribePort;
    made.option = Option;
    made.setTimestampOffset = SetTimestampOffset;
    made.setQuick = SetQuick;
    made.failContract = FailContract;
    made.contract = ContractOf;
    made.inputTimestamp = InputTimestamp;
    made.input = Input;
    made.inputSidePacket = InputSidePacket;
    made.output = Output;
    made.setBound = SetBound;
    made.closeOutput = CloseOutput;
    made.stop = Stop;
    made.fail = Fail;
    return made;
  }();
  return host;
}

class PluginCalculator final : public graph::Calculator {
 public:
  explicit PluginCalculator(const BraidCalculator& functions)
      : functions_(functions), object_(functions.create()) {}
  ~PluginCalculator() override {
    if (object_ != nullptr) functions_.destroy(object_);
  }

  Status Open(Context& context) override {
    if (object_ == nullptr) return InternalError("cannot create the calculator's object");
    options_ = context.contract().FindOptions<PluginOptions>().value_or(PluginOptions());
    return Call(functions_.open, context);
  }
  Status Process(Context& context) override { return Call(functions_.process, context); }
  Status Close(Context& context) override { return Call(functions_.close, context); }

 private:
  Status Call(void (*function)(void*, const BraidHost*, BraidContext*), Context& context) {
    if (object_ == nullptr) return OkStatus();
    BraidContract contract;
    contract.contract = &context.contract();
    contract.options = &options_;
    BraidContext call;
    call.context = &context;
    call.contract = &contract;
    function(object_, &Host(), &call);
    for (BraidPacket* packet : call.handed_out) Host().release(packet);
    if (call.failed) return InternalError(call.fault.empty() ? "the calculator failed" : call.fault);
    return call.stopped ? graph::StopStatus() : OkStatus();
  }

  const BraidCalculator functions_;
  void* const object_;
  PluginOptions options_;
};

}  // namespace

graph::CalculatorKind PluginKind(const BraidCalculator& functions) {
  graph::CalculatorKind kind;
  kind.fill_contract = [functions](Contract& contract) {
    const PluginOptions options = contract.FindOptions<PluginOptions>().value_or(PluginOptions());
    BraidContract description;
    description.filling = &contract;
    description.contract = &contract;
    description.options = &options;
    functions.describe(&Host(), &description);
    return description.fault.empty() ? OkStatus() : InvalidArgumentError(description.fault);
  };
  kind.make = [functions] { return std::make_unique<PluginCalculator>(functions); };
  return kind;
}

}  // namespace braid
