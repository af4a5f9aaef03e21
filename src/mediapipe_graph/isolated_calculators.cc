#include "mediapipe_graph/isolated_calculators.h"

#include <atomic>
#include <map>
#include <utility>

#include "base/guard.h"
#include "base/mutex.h"
#include "mediapipe_graph/calculator_messages.h"
#include "mediapipe_graph/plugin_packets.h"

namespace braid {
namespace {

using graph::Context;
using graph::Contract;
using graph::Packet;
using graph::Ports;
using graph::PortType;
using graph::Timestamp;

Status BrokenRules(const std::string& how) {
  return InternalError("the process of the calculator library sent an invalid answer: " + how);
}

// The shared state of a library's calculators: its worker, and the numbers to release there with the next
// call.
class Library {
 public:
  explicit Library(decltype(IsolatedCalculators::call) call) : call_(std::move(call)) {}

  uint64_t NextCalculator() { return next_calculator_.fetch_add(1); }
  void End(uint64_t calculator) noexcept {
    RetryingLock lock(mutex_);
    ended_.push_back(calculator);
  }
  void Release(uint64_t object) noexcept {
    RetryingLock lock(mutex_);
    released_.push_back(object);
  }

  // One description at a time, so that a fatal one does not fail other graphs. A call that fails otherwise is
  // tried again.
  Status Describe(CalculatorCall& call, CalculatorResult& result) {
    MutexLock turn(describing_);
    for (int tries = 1;; ++tries) {
      std::vector<Tensor> tensors(1);
      const Status described = Call(call, tensors, result);
      // INVALID_ARGUMENT is a fault of the node.
      if (described.ok() || described.code() == StatusCode::kInvalidArgument || tries == 2) return described;
    }
  }

  // `tensors`: in, the tensors after the message; out, those of the result from the second on.
  Status Call(CalculatorCall& call, std::vector<Tensor>& tensors, CalculatorResult& result) {
    {
      MutexLock lock(mutex_);
      for (const uint64_t calculator : std::exchange(ended_, {})) call.add_ended(calculator);
      for (const uint64_t object : std::exchange(released_, {})) call.add_released(object);
    }
    tensors[0] = MessageTensor(call);
    BRAID_ASSIGN_OR_RETURN(tensors, call_(std::move(tensors)));
    if (const Status read = ReadMessageTensor(tensors, result); !read.ok())
      return BrokenRules(read.message());
    return OkStatus();
  }

 private:
  const decltype(IsolatedCalculators::call) call_;
  std::atomic<uint64_t> next_calculator_{1};
  Mutex describing_;  // held for a whole call
  Mutex mutex_;
  std::vector<uint64_t> ended_ BRAID_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ BRAID_GUARDED_BY(mutex_);
};

// The value of an object's packets: keeps the object in the worker.
class RemoteObject {
 public:
  RemoteObject(std::shared_ptr<Library> library, uint64_t id) : library_(std::move(library)), id_(id) {}
  RemoteObject(const RemoteObject&) = delete;
  RemoteObject& operator=(const RemoteObject&) = delete;
  ~RemoteObject() { library_->Release(id_); }

  uint64_t id() const { return id_; }

 private:
  const std::shared_ptr<Library> library_;  // shared with all objects in the worker
  const uint64_t id_;
};

void WritePorts(const Ports& ports,
                google::protobuf::RepeatedPtrField<CalculatorNodeMessage::Port>& messages) {
  for (const graph::Port& port : ports) {
    CalculatorNodeMessage::Port& message = *messages.Add();
    message.set_tag(port.tag);
    message.set_index(port.index);
    message.set_name(port.name);
  }
}

void WriteNode(const std::string& calculator, const Contract& contract, CalculatorNodeMessage& message) {
  message.set_calculator(calculator);
  message.set_name(contract.node_name());
  *message.mutable_config() = contract.config();
  WritePorts(contract.inputs(), *message.mutable_inputs());
  WritePorts(contract.outputs(), *message.mutable_outputs());
  WritePorts(contract.input_side_packets(), *message.mutable_input_side_packets());
}

// Calls set(port, type, message) for each port.
template <class Set>
Status ReadKinds(const google::protobuf::RepeatedPtrField<CalculatorResult::PortKind>& messages,
                 const Ports& ports, Set set) {
  for (const CalculatorResult::PortKind& message : messages) {
    const int kind = message.kind();
    if (message.port() < 0 || message.port() >= ports.size()) return BrokenRules("unknown port");
    if (kind <= BRAID_EMPTY || kind == BRAID_OTHER || kind > BRAID_ANY) return BrokenRules("unknown kind");
    set(message.port(), kind == BRAID_ANY ? PortType::Any() : PluginPortType(static_cast<BraidKind>(kind)),
        message);
  }
  return OkStatus();
}

// Not quick, since the calls go to another process.
Status Describe(Library& library, const std::string& calculator, Contract& contract) {
  CalculatorCall call;
  call.set_kind(CalculatorCall::DESCRIBE);
  WriteNode(calculator, contract, *call.mutable_node());
  CalculatorResult result;
  BRAID_RETURN_IF_ERROR(library.Describe(call, result));
  const CalculatorResult::Description& description = result.description();
  BRAID_RETURN_IF_ERROR(
      ReadKinds(description.inputs(), contract.inputs(),
                [&](int port, PortType type, const auto&) { contract.SetInput(port, type); }));
  BRAID_RETURN_IF_ERROR(
      ReadKinds(description.outputs(), contract.outputs(),
                [&](int port, PortType type, const auto&) { contract.SetOutput(port, type); }));
  BRAID_RETURN_IF_ERROR(ReadKinds(description.input_side_packets(), contract.input_side_packets(),
                                  [&](int port, PortType type, const auto& message) {
                                    contract.SetInputSidePacket(port, type, message.optional());
                                  }));
  if (description.has_timestamp_offset()) contract.SetTimestampOffset(description.timestamp_offset());
  return OkStatus();
}

class IsolatedCalculator final : public graph::Calculator {
 public:
  IsolatedCalculator(std::shared_ptr<Library> library, std::string name)
      : library_(std::move(library)), name_(std::move(name)), number_(library_->NextCalculator()) {}
  ~IsolatedCalculator() override {
    if (open_) library_->End(number_);
  }

  Status Open(Context& context) override {
    CalculatorCall call;
    call.set_kind(CalculatorCall::OPEN);
    WriteNode(name_, context.contract(), *call.mutable_node());
    std::vector<Tensor> tensors(1);
    for (int port = 0; port < context.contract().input_side_packets().size(); ++port) {
      BRAID_RETURN_IF_ERROR(Add(port, context.InputSidePacket(port),
                                *context.contract().input_side_packet_types()[Index(port)],
                                *call.mutable_input_side_packets(), tensors));
    }
    open_ = true;  // after a failure the worker may have it, too
    return Call(context, call, std::move(tensors));
  }
  Status Process(Context& context) override {
    CalculatorCall call;
    call.set_kind(CalculatorCall::PROCESS);
    std::vector<Tensor> tensors(1);
    for (int port = 0; port < context.contract().inputs().size(); ++port) {
      BRAID_RETURN_IF_ERROR(Add(port, context.Input(port), *context.contract().input_types()[Index(port)],
                                *call.mutable_inputs(), tensors));
    }
    return Call(context, call, std::move(tensors));
  }
  Status Close(Context& context) override {
    open_ = false;
    CalculatorCall call;
    call.set_kind(CalculatorCall::CLOSE);
    return Call(context, call, std::vector<Tensor>(1));
  }

 private:
  static size_t Index(int port) { return static_cast<size_t>(port); }

  // Sends the packet at a port to the worker, if there is one.
  Status Add(int port, const Packet& packet, const PortType& type,
             google::protobuf::RepeatedPtrField<CalculatorCall::Input>& inputs,
             std::vector<Tensor>& tensors) {
    if (packet.empty()) return OkStatus();
    CalculatorCall::Input& input = *inputs.Add();
    input.set_port(port);
    CalculatorPacket& message = *input.mutable_packet();
    WritePacket(packet, message, tensors);
    message.set_number(next_packet_);
    if (const auto* object = packet.GetIf<PluginObject>()) {
      if (object->library == library_.get()) {
        message.mutable_object()->set_id(static_cast<const RemoteObject*>(object->object.get())->id());
      } else if (type.kind() != PortType::Kind::kAny) {
        return InternalError(
            "the object '" + object->type +
            "' is in the process of another library; isolated libraries accept only their own objects");
      }
    }
    shown_[next_packet_++] = packet;
    return OkStatus();
  }

  Status Call(Context& context, CalculatorCall& call, std::vector<Tensor> tensors) {
    call.set_calculator(number_);
    call.set_input_timestamp(context.input_timestamp().value());
    CalculatorResult result;
    BRAID_RETURN_IF_ERROR(library_->Call(call, tensors, result));
    for (const CalculatorResult::Step& step : result.steps()) {
      if (step.port() < 0 || step.port() >= context.contract().outputs().size()) {
        return BrokenRules("unknown output");
      }
      if (step.has_bound()) {
        context.SetNextTimestampBound(step.port(), Timestamp(step.bound()));
      } else if (step.has_packet()) {
        auto packet = Read(step.packet(), tensors);
        if (!packet.ok()) return BrokenRules(packet.status().message());
        context.Output(step.port(), *std::move(packet));
      } else {
        context.CloseOutput(step.port());
      }
    }
    for (const uint64_t number : result.released()) shown_.erase(number);
    return result.stopped() ? graph::StopStatus() : OkStatus();
  }

  Result<Packet> Read(const CalculatorPacket& message, const std::vector<Tensor>& tensors) {
    const Timestamp at(message.timestamp());
    if (message.number() != 0) {
      const auto found = shown_.find(message.number());
      if (found == shown_.end()) return InvalidArgumentError("a packet that it did not receive");
      return found->second.At(at);
    }
    if (message.has_object()) {
      auto object = std::make_shared<RemoteObject>(library_, message.object().id());
      return Packet::Of(PluginObject{message.object().type(), std::move(object), library_.get()}, at);
    }
    BRAID_ASSIGN_OR_RETURN(Packet packet, ReadPacket(message, tensors, [at](auto value) {
                             return Packet::Of(std::move(value), at);
                           }));
    const auto* tensor = packet.GetIf<OvTensor>();
    if (tensor != nullptr && !SizeIsRight(tensor->tensor))
      return InvalidArgumentError("a tensor of the wrong size");
    return packet;
  }

  const std::shared_ptr<Library> library_;  // shared by all calculators of the library
  const std::string name_;
  const uint64_t number_;  // its number in the worker
  bool open_ = false;
  // The packets that the worker has received and still holds; it may output them.
  std::map<uint64_t, Packet> shown_;
  uint64_t next_packet_ = 1;
};

}  // namespace

std::vector<std::pair<std::string, graph::CalculatorKind>> IsolatedKinds(IsolatedCalculators isolated) {
  const auto library = std::make_shared<Library>(std::move(isolated.call));
  std::vector<std::pair<std::string, graph::CalculatorKind>> kinds;
  for (const std::string& name : isolated.names) {
    graph::CalculatorKind& kind = kinds.emplace_back(name, graph::CalculatorKind()).second;
    kind.fill_contract = [library, name](Contract& contract) { return Describe(*library, name, contract); };
    kind.make = [library, name] { return std::make_unique<IsolatedCalculator>(library, name); };
  }
  return kinds;
}

}  // namespace braid
