// Calculator: the code of a graph's node. A new calculator is a class in its own file under calculators/ and
// a line in a registry (see registry.h).
//
//   class Doubler final : public Calculator {
//    public:
//     static Status FillContract(Contract& contract) {
//       contract.SetInput(0, PortType::Of<int>());
//       contract.SetOutput(0, PortType::Of<int>());
//       contract.SetTimestampOffset(0);
//       return OkStatus();
//     }
//     Status Process(Context& context) override {
//       context.Output(0, Packet::Of(2 * context.Input(0).Get<int>(), context.input_timestamp()));
//       return OkStatus();
//     }
//   };
//
// A calculator object belongs to one node of one run of a graph. One thread at a time calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "graph/timestamp.h"
#include "mediapipe/calculator.pb.h"

namespace braid::graph {

// One stream, or one side packet, of a node or a graph: "name", "TAG:name" or "TAG:INDEX:name".
struct Port {
  std::string tag;  // "" without a tag
  int index = 0;
  std::string name;
  bool operator==(const Port&) const = default;
};

// The ports of one kind, in the order of their numbers in calculators: by tag in byte order, then by index.
class Ports {
 public:
  Ports() = default;
  explicit Ports(std::vector<Port> sorted) : ports_(std::move(sorted)) {}

  int size() const { return static_cast<int>(ports_.size()); }
  const Port& operator[](int port) const { return ports_[static_cast<size_t>(port)]; }
  auto begin() const { return ports_.begin(); }
  auto end() const { return ports_.end(); }
  // Returns the port's number, or -1.
  int Find(std::string_view tag, int index = 0) const;
  bool Has(std::string_view tag, int index = 0) const { return Find(tag, index) >= 0; }
  // Returns the number of ports with the tag.
  int Count(std::string_view tag) const;
  // Returns the number of the port with that name, or -1.
  int FindName(std::string_view name) const;

 private:
  std::vector<Port> ports_;
};

// The type of a port's values.
class PortType {
 public:
  // Accepts any value.
  static PortType Any() { return PortType(Kind::kAny, std::nullopt, -1); }
  template <class T>
  static PortType Of() {
    return PortType(Kind::kValue, ValueType::Of<T>(), -1);
  }
  // The type of the node's input (for side packets, its input side packet) with that number.
  static PortType SameAsInput(int input) { return PortType(Kind::kSameAsInput, std::nullopt, input); }

  enum class Kind : unsigned char { kAny, kValue, kSameAsInput };
  Kind kind() const { return kind_; }
  const std::optional<ValueType>& value_type() const { return value_; }
  int same_as() const { return same_as_; }

 private:
  PortType(Kind kind, std::optional<ValueType> value, int same_as)
      : kind_(kind), value_(std::move(value)), same_as_(same_as) {}
  Kind kind_;
  std::optional<ValueType> value_;
  int same_as_;
};

using NodeConfig = ::mediapipe::CalculatorGraphConfig::Node;

// A calculator's description of one node, made when the graph is loaded. The calculator reads the node's
// ports and options and gives each port a type. A port without a type is a fault of the calculator. It is a
// fault of the node if the calculator knows no port with that tag.
class Contract {
 public:
  Contract(std::string node_name, NodeConfig config, Ports inputs, Ports outputs, Ports input_side_packets,
           Ports output_side_packets);

  const std::string& node_name() const { return node_name_; }
  // The user's configuration, with the streams in their original order.
  const NodeConfig& config() const { return config_; }
  const Ports& inputs() const { return inputs_; }
  const Ports& outputs() const { return outputs_; }
  const Ports& input_side_packets() const { return input_side_packets_; }
  const Ports& output_side_packets() const { return output_side_packets_; }

  // Returns the node's options of that type: those in `node_options`, else the extension in `options`, else
  // nothing.
  template <class Options>
  std::optional<Options> FindOptions() const {
    for (const google::protobuf::Any& any : config_.node_options()) {
      Options options;
      if (any.Is<Options>() && any.UnpackTo(&options)) return options;
    }
    if (config_.options().HasExtension(Options::ext)) return config_.options().GetExtension(Options::ext);
    return std::nullopt;
  }

  // Each port gets its type once.
  void SetInput(int port, PortType type);
  void SetOutput(int port, PortType type);
  // `optional`: the node also runs without it.
  void SetInputSidePacket(int port, PortType type, bool optional = false);
  void SetOutputSidePacket(int port, PortType type);

  // When the node processes an input at T, outputs that get no packet are settled up to T + `offset`, too.
  // Nodes behind this one need not wait for them.
  void SetTimestampOffset(int64_t offset) { timestamp_offset_ = offset; }
  // The input stream handler of nodes whose configuration names none.
  void SetInputStreamHandler(std::string name) { input_stream_handler_ = std::move(name); }
  // Process() is also called when an input is settled without a packet.
  void SetProcessTimestampBounds() { process_timestamp_bounds_ = true; }
  // Declares that Open(), Process() and Close() do not block and take some microseconds at most, or defer.
  // They run on the thread that brings their input; the other calculators run on executor threads.
  void SetQuick() { quick_ = true; }

  std::optional<int64_t> timestamp_offset() const { return timestamp_offset_; }
  const std::optional<std::string>& input_stream_handler() const { return input_stream_handler_; }
  bool process_timestamp_bounds() const { return process_timestamp_bounds_; }
  bool quick() const { return quick_; }
  const std::vector<std::optional<PortType>>& input_types() const { return input_types_; }
  const std::vector<std::optional<PortType>>& output_types() const { return output_types_; }
  const std::vector<std::optional<PortType>>& input_side_packet_types() const {
    return input_side_packet_types_;
  }
  const std::vector<std::optional<PortType>>& output_side_packet_types() const {
    return output_side_packet_types_;
  }
  bool input_side_packet_optional(int port) const {
    return optional_side_packets_[static_cast<size_t>(port)];
  }

 private:
  std::string node_name_;
  NodeConfig config_;
  Ports inputs_;
  Ports outputs_;
  Ports input_side_packets_;
  Ports output_side_packets_;
  std::vector<std::optional<PortType>> input_types_;
  std::vector<std::optional<PortType>> output_types_;
  std::vector<std::optional<PortType>> input_side_packet_types_;
  std::vector<std::optional<PortType>> output_side_packet_types_;
  std::vector<bool> optional_side_packets_;
  std::optional<int64_t> timestamp_offset_;
  std::optional<std::string> input_stream_handler_;
  bool process_timestamp_bounds_ = false;
  bool quick_ = false;
};

// Continues a Process() after the call has returned. Finish() ends it, once, on any thread. It may be called
// before Process() returns, and may run other nodes of the graph before it returns. A deferral that is
// destroyed without Finish() fails the node.
class Deferral {
 public:
  class Target {
   public:
    virtual void FinishDeferred(Status status) = 0;

   protected:
    virtual ~Target() = default;
  };
  Deferral() = default;
  explicit Deferral(std::shared_ptr<Target> target) : target_(std::move(target)) {}
  Deferral(Deferral&&) = default;
  Deferral& operator=(Deferral&& other) noexcept;
  ~Deferral();

  void Finish(Status status);
  explicit operator bool() const { return target_ != nullptr; }

 private:
  std::shared_ptr<Target> target_;  // shared with the run
};

// The inputs and outputs of a node's call. After Defer() the owner of the deferral uses it, until Finish().
class Context {
 public:
  virtual const Contract& contract() const = 0;

  // The time of the packets in process; Unstarted() in Open(), Done() in Close(), Unset() in a node without
  // input streams.
  virtual Timestamp input_timestamp() const = 0;
  // Empty if the input has no packet at this time.
  virtual const Packet& Input(int port) const = 0;
  // The least time that a future packet of the input may have.
  virtual Timestamp InputBound(int port) const = 0;
  virtual const Packet& InputSidePacket(int port) const = 0;

  // Outputs a packet. Packets leave when the call returns or the deferral is finished, in the order of these
  // calls. A faulty packet fails the node: too early a time, a closed stream or a wrong type. No packet
  // leaves after a failed call.
  virtual void Output(int port, Packet packet) = 0;
  // Promises that no packet comes before `bound`. A lower bound than the current one is ignored.
  virtual void SetNextTimestampBound(int port, Timestamp bound) = 0;
  virtual void CloseOutput(int port) = 0;
  // In Open() only.
  virtual void SetOutputSidePacket(int port, Packet packet) = 0;

  // Returns the run's service of that name (Run::Options::services); empty if there is none.
  virtual const Packet& Service(std::string_view name) const = 0;

  // In Process() only. Afterwards the result of Process() counts only if it is an error.
  virtual Deferral Defer() = 0;

 protected:
  ~Context() = default;
};

class Calculator {
 public:
  virtual ~Calculator() = default;

  // Called once, before the first Process(). Packets output here need explicit times.
  virtual Status Open(Context& context) {
    static_cast<void>(context);
    return OkStatus();
  }
  // Called for each set of inputs. A node without input streams is called repeatedly until it returns
  // StopStatus(); a node without any streams is not called. If another node returns StopStatus(), that node,
  // all inputs of the graph and all nodes without input streams are closed.
  virtual Status Process(Context& context) = 0;
  // Called once after the last Process(), if Open() returned OK. Also called when the run has failed or was
  // cancelled; then no output leaves any more.
  virtual Status Close(Context& context) {
    static_cast<void>(context);
    return OkStatus();
  }
  // The run has failed or was cancelled during a deferral, which should be finished soon. Called at most
  // once, on any thread, after Process() has returned and before Close(). Finish() may be called meanwhile,
  // also within this call.
  virtual void Cancel() {}
};

// Process() of a node without input streams returns it when there are no more packets. Process() describes
// its effect for other nodes.
Status StopStatus();
bool IsStop(const Status& status);

}  // namespace braid::graph
