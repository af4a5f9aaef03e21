#include "mediapipe_graph/calculator_host.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "mediapipe_graph/calculator_messages.h"
#include "mediapipe_graph/plugin_packets.h"

namespace braid {

using graph::Contract;
using graph::Packet;
using graph::Port;
using graph::Ports;
using graph::PortType;
using graph::Timestamp;

namespace {

// A value that messages cannot carry; it can only be passed on.
struct OtherValue {};

Ports PortsOf(const google::protobuf::RepeatedPtrField<CalculatorNodeMessage::Port>& messages) {
  std::vector<Port> ports;
  for (const auto& message : messages) ports.push_back({message.tag(), message.index(), message.name()});
  return Ports(std::move(ports));
}

Contract ContractOf(const CalculatorNodeMessage& node) {
  return Contract(node.name(), node.config(), PortsOf(node.inputs()), PortsOf(node.outputs()),
                  PortsOf(node.input_side_packets()), Ports());
}

BraidKind KindOf(const PortType& type) {
  for (const BraidKind kind : {BRAID_TENSOR, BRAID_PYTHON_TENSOR, BRAID_BOOL, BRAID_INT64, BRAID_STRING,
                               BRAID_OBJECT, BRAID_REQUEST, BRAID_RESPONSE}) {
    if (type.value_type() == PluginPortType(kind).value_type()) return kind;
  }
  return BRAID_ANY;
}

void WriteKinds(const std::vector<std::optional<PortType>>& types,
                google::protobuf::RepeatedPtrField<CalculatorResult::PortKind>& messages) {
  for (size_t port = 0; port < types.size(); ++port) {
    if (!types[port]) continue;
    CalculatorResult::PortKind& message = *messages.Add();
    message.set_port(static_cast<int>(port));
    message.set_kind(KindOf(*types[port]));
  }
}

Status NoSuchCalculator() { return InternalError("the calculator's process ended; its state is lost"); }

}  // namespace

// The server's packets that a calculator has received, for as long as this process holds them. Any thread.
class CalculatorHost::Shown {
 public:
  template <class T>
  static Packet Make(const std::shared_ptr<Shown>& shown, const CalculatorPacket& message, T value) {
    auto held = std::make_shared<Held<T>>(std::move(value), shown, message.number());
    {
      MutexLock lock(shown->mutex_);
      shown->numbers_[&held->value] = message.number();
    }
    return Packet::Share(std::shared_ptr<const T>(held, &held->value), Timestamp(message.timestamp()));
  }
  // Returns the packet's number; 0 if it is not one of them.
  uint64_t NumberOf(const Packet& packet) {
    MutexLock lock(mutex_);
    const auto found = numbers_.find(packet.identity());
    return found == numbers_.end() ? 0 : found->second;
  }
  // Returns the packets that have been released since the last call.
  std::vector<uint64_t> TakeReleased() {
    MutexLock lock(mutex_);
    return std::exchange(released_, {});
  }

 private:
  template <class T>
  struct Held {
    Held(T given, std::shared_ptr<Shown> by, uint64_t as)
        : value(std::move(given)), shown(std::move(by)), number(as) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { shown->Release(&value, number); }

    const T value;
    const std::shared_ptr<Shown> shown;  // shared with the calculator, which may end first
    const uint64_t number;
  };

  void Release(const void* value, uint64_t number) {
    RetryingLock lock(mutex_);
    numbers_.erase(value);
    released_.push_back(number);
  }

  Mutex mutex_;
  std::map<const void*, uint64_t> numbers_ BRAID_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ BRAID_GUARDED_BY(mutex_);
};

struct CalculatorHost::Running {
  explicit Running(Contract described) : contract(std::move(described)) {}

  const Contract contract;
  const std::shared_ptr<Shown> shown = std::make_shared<Shown>();  // shared with the packets
  std::vector<Packet> side_packets;
  std::unique_ptr<graph::Calculator> calculator;
};

// The inputs and outputs of one call of a calculator. Libraries have no functions for the other members of
// Context.
class CalculatorHost::CallContext final : public graph::Context {
 public:
  struct Step {
    int port = 0;
    Packet packet;  // empty: a bound, or the end
    std::optional<Timestamp> bound;
  };

  CallContext(const Running& running, Timestamp at, std::vector<Packet> inputs)
      : running_(running), at_(at), inputs_(std::move(inputs)) {}

  const std::vector<Step>& steps() const { return steps_; }

  const Contract& contract() const override { return running_.contract; }
  Timestamp input_timestamp() const override { return at_; }
  const Packet& Input(int port) const override { return inputs_[static_cast<size_t>(port)]; }
  const Packet& InputSidePacket(int port) const override {
    return running_.side_packets[static_cast<size_t>(port)];
  }
  void Output(int port, Packet packet) override { steps_.push_back({port, std::move(packet), std::nullopt}); }
  void SetNextTimestampBound(int port, Timestamp bound) override {
    steps_.push_back({port, Packet(), bound});
  }
  void CloseOutput(int port) override { steps_.push_back({port, Packet(), std::nullopt}); }

  Timestamp InputBound(int) const override { BRAID_CHECK(false); }
  void SetOutputSidePacket(int, Packet) override { BRAID_CHECK(false); }
  const Packet& Service(std::string_view) const override { BRAID_CHECK(false); }
  graph::Deferral Defer() override { BRAID_CHECK(false); }

 private:
  const Running& running_;
  const Timestamp at_;
  const std::vector<Packet> inputs_;
  std::vector<Step> steps_;
};

CalculatorHost::CalculatorHost(std::shared_ptr<const graph::CalculatorRegistry> calculators)
    : calculators_(std::move(calculators)), next_object_(static_cast<uint64_t>(SteadyNowNs())) {}

CalculatorHost::~CalculatorHost() = default;

Result<std::vector<Tensor>> CalculatorHost::Call(const std::vector<Tensor>& inputs) {
  CalculatorCall call;
  BRAID_RETURN_IF_ERROR(ReadMessageTensor(inputs, call));
  Drop(call);
  CalculatorResult result;
  std::vector<Tensor> outputs(1);
  if (call.kind() == CalculatorCall::DESCRIBE) {
    BRAID_RETURN_IF_ERROR(Describe(call.node(), result));
  } else {
    BRAID_ASSIGN_OR_RETURN(const std::shared_ptr<Running> running, call.kind() == CalculatorCall::OPEN
                                                                       ? Open(call, inputs)
                                                                       : Find(call.calculator()));
    const Status status = Run(*running, call, inputs, result, outputs);
    if (call.kind() == CalculatorCall::CLOSE || (call.kind() == CalculatorCall::OPEN && !status.ok())) {
      End(call.calculator());
    }
    BRAID_RETURN_IF_ERROR(status);
    for (const uint64_t number : running->shown->TakeReleased()) result.add_released(number);
  }
  outputs[0] = MessageTensor(result);
  return outputs;
}

Status CalculatorHost::Describe(const CalculatorNodeMessage& node, CalculatorResult& result) const {
  const graph::CalculatorKind* kind = calculators_->Find(node.calculator());
  if (kind == nullptr)
    return InvalidArgumentError("the library has no calculator '" + node.calculator() + "'");
  Contract contract = ContractOf(node);
  BRAID_RETURN_IF_ERROR(kind->fill_contract(contract));
  CalculatorResult::Description& description = *result.mutable_description();
  WriteKinds(contract.input_types(), *description.mutable_inputs());
  WriteKinds(contract.output_types(), *description.mutable_outputs());
  WriteKinds(contract.input_side_packet_types(), *description.mutable_input_side_packets());
  for (auto& side_packet : *description.mutable_input_side_packets()) {
    side_packet.set_optional(contract.input_side_packet_optional(side_packet.port()));
  }
  if (contract.timestamp_offset()) description.set_timestamp_offset(*contract.timestamp_offset());
  return OkStatus();
}

Result<std::shared_ptr<CalculatorHost::Running>> CalculatorHost::Open(const CalculatorCall& call,
                                                                      const std::vector<Tensor>& inputs) {
  const graph::CalculatorKind* kind = calculators_->Find(call.node().calculator());
  if (kind == nullptr) return NoSuchCalculator();
  auto running = std::make_shared<Running>(ContractOf(call.node()));
  running->side_packets.resize(static_cast<size_t>(running->contract.input_side_packets().size()));
  BRAID_RETURN_IF_ERROR(ReadInputs(call.input_side_packets(), inputs, running->shown, running->side_packets));
  running->calculator = kind->make();
  MutexLock lock(mutex_);
  running_[call.calculator()] = running;
  return running;
}

Result<std::shared_ptr<CalculatorHost::Running>> CalculatorHost::Find(uint64_t calculator) {
  MutexLock lock(mutex_);
  const auto found = running_.find(calculator);
  if (found == running_.end()) return NoSuchCalculator();
  return found->second;
}

Status CalculatorHost::Run(Running& running, const CalculatorCall& call, const std::vector<Tensor>& inputs,
                           CalculatorResult& result, std::vector<Tensor>& outputs) {
  std::vector<Packet> packets(static_cast<size_t>(running.contract.inputs().size()));
  BRAID_RETURN_IF_ERROR(ReadInputs(call.inputs(), inputs, running.shown, packets));
  CallContext context(running, Timestamp(call.input_timestamp()), std::move(packets));
  Status status;
  if (call.kind() == CalculatorCall::OPEN) {
    status = running.calculator->Open(context);
  } else if (call.kind() == CalculatorCall::PROCESS) {
    status = running.calculator->Process(context);
  } else {
    status = running.calculator->Close(context);
  }
  result.set_stopped(graph::IsStop(status));
  if (!result.stopped()) BRAID_RETURN_IF_ERROR(status);
  for (const CallContext::Step& step : context.steps()) {
    CalculatorResult::Step& message = *result.add_steps();
    message.set_port(step.port);
    if (step.bound) {
      message.set_bound(step.bound->value());
    } else if (step.packet.empty()) {
      message.set_closed(true);
    } else {
      BRAID_RETURN_IF_ERROR(WriteOutput(step.packet, *running.shown, *message.mutable_packet(), outputs));
    }
  }
  return OkStatus();
}

Status CalculatorHost::ReadInputs(const google::protobuf::RepeatedPtrField<CalculatorCall::Input>& inputs,
                                  const std::vector<Tensor>& tensors, const std::shared_ptr<Shown>& shown,
                                  std::vector<Packet>& packets) {
  for (const CalculatorCall::Input& input : inputs) {
    const CalculatorPacket& message = input.packet();
    const auto make = [&](auto value) { return Shown::Make(shown, message, std::move(value)); };
    if (input.port() < 0 || static_cast<size_t>(input.port()) >= packets.size()) {
      return InvalidArgumentError("a packet for an unknown port");
    }
    Packet& packet = packets[static_cast<size_t>(input.port())];
    if (message.has_object()) {
      MutexLock lock(mutex_);
      const auto found = objects_.find(message.object().id());
      if (found == objects_.end()) return InternalError("the object's process ended");
      packet = make(PluginObject(found->second.Get<PluginObject>()));
    } else if (message.has_object_of_python()) {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(message.object_of_python(), tensors));
      packet = make(PythonTensor{NodeTensor{std::move(tensor), false, nullptr}});
    } else if (message.has_other()) {
      packet = make(OtherValue());
    } else {
      BRAID_ASSIGN_OR_RETURN(packet, ReadPacket(message, tensors, make));
    }
  }
  return OkStatus();
}

Status CalculatorHost::WriteOutput(const Packet& packet, Shown& shown, CalculatorPacket& message,
                                   std::vector<Tensor>& tensors) {
  message.set_timestamp(packet.timestamp().value());
  if (const uint64_t number = shown.NumberOf(packet); number != 0) {
    message.set_number(number);
    return OkStatus();
  }
  WritePacket(packet, message, tensors);
  if (const auto* object = packet.GetIf<PluginObject>()) {
    MutexLock lock(mutex_);
    message.mutable_object()->set_id(next_object_);
    message.mutable_object()->set_type(object->type);
    objects_[next_object_++] = packet;
  } else if (message.has_other() || message.has_object_of_python()) {
    return InternalError("only the receiving node can forward a packet of this kind");
  }
  return OkStatus();
}

void CalculatorHost::Drop(const CalculatorCall& call) {
  for (const uint64_t calculator : call.ended()) End(calculator);
  for (const uint64_t object : call.released()) {
    Packet gone;  // its destructor runs code of the library
    MutexLock lock(mutex_);
    const auto found = objects_.find(object);
    if (found == objects_.end()) continue;
    gone = std::move(found->second);
    objects_.erase(found);
  }
}

void CalculatorHost::End(uint64_t calculator) {
  std::shared_ptr<Running> gone;  // likewise
  MutexLock lock(mutex_);
  const auto found = running_.find(calculator);
  if (found == running_.end()) return;
  gone = std::move(found->second);
  running_.erase(found);
}

}  // namespace braid
