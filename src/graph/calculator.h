// Calculator: what a node of a graph does. A new one is a class in a file of its own under calculators/ and a
// line in a registry (see registry.h).
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
// A calculator object belongs to one node of one run of a graph and is called by one thread at a time.
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
  std::string tag;  // "" without one
  int index = 0;
  std::string name;
  bool operator==(const Port&) const = default;
};

// The ports of one kind, in the order in which calculators number them: by tag in byte order, then by index.
class Ports {
 public:
  Ports() = default;
  explicit Ports(std::vector<Port> sorted) : ports_(std::move(sorted)) {}

  int size() const { return static_cast<int>(ports_.size()); }
  const Port& operator[](int port) const { return ports_[static_cast<size_t>(port)]; }
  auto begin() const { return ports_.begin(); }
  auto end() const { return ports_.end(); }
  // Its number, or -1.
  int Find(std::string_view tag, int index = 0) const;
  bool Has(std::string_view tag, int index = 0) const { return Find(tag, index) >= 0; }
  // How many there are of the tag.
  int Count(std::string_view tag) const;
  // The number of the port with that name, or -1.
  int FindName(std::string_view name) const;

 private:
  std::vector<Port> ports_;
};

// What values a port carries.
class PortType {
 public:
  // Any value.
  static PortType Any() { return PortType(Kind::kAny, std::nullopt, -1); }
  template <class T>
  static PortType Of() {
    return PortType(Kind::kValue, ValueType::Of<T>(), -1);
  }
  // The type of the node's input (or, for side packets, input side packet) of that number.
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

// What a calculator says of one node when the graph is loaded. It looks at the node's ports and options, and
// gives each port a type. A port that got none is a fault of the calculator (of the node, when the calculator
// knows no port of that tag).
class Contract {
 public:
  Contract(std::string node_name, NodeConfig config, Ports inputs, Ports outputs, Ports input_side_packets,
           Ports output_side_packets);

  const std::string& node_name() const { return node_name_; }
  // As the user wrote it; streams in their order there.
  const NodeConfig& config() const { return config_; }
  const Ports& inputs() const { return inputs_; }
  const Ports& outputs() const { return outputs_; }
  const Ports& input_side_packets() const { return input_side_packets_; }
  const Ports& output_side_packets() const { return output_side_packets_; }

  // The node's options of that type: in `node_options`, else as the extension in `options`; nothing when
  // neither is there.
  template <class Options>
  std::optional<Options> FindOptions() const {
    for (const google::protobuf::Any& any : config_.node_options()) {
      Options options;
      if (any.Is<Options>() && any.UnpackTo(&options)) return options;
    }
    if (config_.options().HasExtension(Options::ext)) return config_.options().GetExtension(Options::ext);
    return std::nullopt;
  }

  // Each port once.
  void SetInput(int port, PortType type);
  void SetOutput(int port, PortType type);
  // `optional`: the node runs without it too.
  void SetInputSidePacket(int port, PortType type, bool optional = false);
  void SetOutputSidePacket(int port, PortType type);

  // Outputs that get no packet while an input at T is processed are settled up to T + `offset` too, and those
  // behind this node need not wait for them.
  void SetTimestampOffset(int64_t offset) { timestamp_offset_ = offset; }
  // The input stream handler for nodes whose configuration names none.
  void SetInputStreamHandler(std::string name) { input_stream_handler_ = std::move(name); }
  // Process() is called when an input is settled without a packet, too.
  void SetProcessTimestampBounds() { process_timestamp_bounds_ = true; }
  // Open(), Process() and Close() neither block nor take longer than some microseconds, or they defer: they
  // run on the thread that brings their input. Others run on threads of their own.
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

// A Process() that goes on after the call has returned. Finish() ends it, once, on any thread; it may be
// called before Process() returns, and may run other nodes of the graph before it returns itself. One that is
// destroyed without it fails the node.
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

// What a node finds when it is called, and where its results go. After Defer() it is the deferral's holder's
// to use, until Finish().
class Context {
 public:
  virtual const Contract& contract() const = 0;

  // The time of the packets that are being processed; Unstarted() in Open(), Done() in Close(), Unset() in a
  // node without input streams.
  virtual Timestamp input_timestamp() const = 0;
  // Empty when nothing has come there at this time.
  virtual const Packet& Input(int port) const = 0;
  // The least time that a packet to come there may have.
  virtual Timestamp InputBound(int port) const = 0;
  virtual const Packet& InputSidePacket(int port) const = 0;

  // Packets leave when the call returns (or the deferral is finished), in the order in which they were given.
  // What is wrong with one (its time is too early, the stream is closed, the type is another) fails the node.
  // Nothing leaves when the call has failed.
  virtual void Output(int port, Packet packet) = 0;
  // No packet before `bound` will come. Going back is ignored.
  virtual void SetNextTimestampBound(int port, Timestamp bound) = 0;
  virtual void CloseOutput(int port) = 0;
  // In Open() only.
  virtual void SetOutputSidePacket(int port, Packet packet) = 0;

  // What the run was given under that name (Run::Options::services); empty when there is none.
  virtual const Packet& Service(std::string_view name) const = 0;

  // In Process() only: what Process() returns counts only when it is an error.
  virtual Deferral Defer() = 0;

 protected:
  ~Context() = default;
};

class Calculator {
 public:
  virtual ~Calculator() = default;

  // Once, before the first Process(). Outputs given here have times of their own.
  virtual Status Open(Context& context) {
    static_cast<void>(context);
    return OkStatus();
  }
  // For each set of inputs. A node without input streams is called again and again until it returns
  // StopStatus(), one without any streams not at all. Returned by another node, StopStatus() closes that
  // node, all inputs of the graph and all nodes without input streams.
  virtual Status Process(Context& context) = 0;
  // Once, after the last Process(), if Open() was called and was OK; also when the run has failed or was
  // cancelled, and then no output leaves any more.
  virtual Status Close(Context& context) {
    static_cast<void>(context);
    return OkStatus();
  }
  // The run has failed or was cancelled while a deferral is out: it is to be finished soon. Once at most, on
  // any thread, after Process() has returned and before Close(); Finish() may be called meanwhile, and
  // within.
  virtual void Cancel() {}
};

// What Process() of a node without input streams returns when there is nothing more; other nodes' outputs are
// closed by it.
Status StopStatus();
bool IsStop(const Status& status);

}  // namespace braid::graph
