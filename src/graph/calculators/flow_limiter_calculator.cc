// FlowLimiterCalculator: at most `max_in_flight` packets of its first input are in flight in the nodes behind
// it. FINISHED reports the packets that have come through. `max_in_queue` more wait, and older ones are
// dropped. A packet of another input is treated like the first input's latest packet at or before it.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <vector>

#include "graph/calculators/core_calculators.h"
#include "mediapipe/core_calculators.pb.h"

namespace braid::graph {
namespace {

using FlowLimiterOptions = ::mediapipe::FlowLimiterCalculatorOptions;

class FlowLimiterCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const int streams = contract.inputs().Count("");
    if (streams == 0) return InvalidArgumentError("it needs an input_stream without a tag");
    if (contract.outputs().Count("") != streams) {
      return InvalidArgumentError("it has " + std::to_string(streams) + " input_stream without a tag, and " +
                                  std::to_string(contract.outputs().Count("")) + " output_stream");
    }
    const int finished = contract.inputs().Find("FINISHED");
    if (finished < 0) return InvalidArgumentError("it needs the input_stream FINISHED");
    for (int i = 0; i < streams; ++i) {
      contract.SetInput(i, PortType::Any());
      contract.SetOutput(i, PortType::SameAsInput(i));
    }
    contract.SetInput(finished, PortType::Any());
    if (const int allow = contract.outputs().Find("ALLOW"); allow >= 0) {
      contract.SetOutput(allow, PortType::Of<bool>());
    }
    if (const int port = contract.input_side_packets().Find("MAX_IN_FLIGHT"); port >= 0) {
      // An int in graphs, an int64 from clients.
      contract.SetInputSidePacket(port, PortType::Any(), /*optional=*/true);
    }
    contract.SetInputStreamHandler("ImmediateInputStreamHandler");
    contract.SetProcessTimestampBounds();
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    const Contract& contract = context.contract();
    const FlowLimiterOptions options =
        contract.FindOptions<FlowLimiterOptions>().value_or(FlowLimiterOptions());
    max_in_flight_ = options.max_in_flight();
    max_in_queue_ = options.max_in_queue();
    in_flight_timeout_ = options.in_flight_timeout();
    finished_ = contract.inputs().Find("FINISHED");
    allow_ = contract.outputs().Find("ALLOW");
    queues_.resize(static_cast<size_t>(contract.inputs().Count("")));
    const int port = contract.input_side_packets().Find("MAX_IN_FLIGHT");
    if (port < 0 || context.InputSidePacket(port).empty()) return OkStatus();
    const Packet& packet = context.InputSidePacket(port);
    if (const int* value = packet.GetIf<int>()) {
      max_in_flight_ = *value;
    } else if (const int64_t* wide = packet.GetIf<int64_t>()) {
      max_in_flight_ = *wide;
    } else {
      return InvalidArgumentError("the side packet MAX_IN_FLIGHT has type " + packet.type().name() +
                                  "; expected int or int64");
    }
    return OkStatus();
  }

  Status Process(Context& context) override {
    TakeFinished(context);
    for (int i = 0; i < Streams(); ++i) {
      if (!context.Input(i).empty()) Queue(i).push_back(context.Input(i));
    }
    if (!context.Input(0).empty()) ForgetOverdue(context.Input(0).timestamp());

    while (!Queue(0).empty() && HasRoom()) {
      in_flight_.push_back(Queue(0).front().timestamp());
      Decide(context, true);
    }
    while (!Queue(0).empty() && max_in_queue_ >= 0 && Queue(0).size() > static_cast<size_t>(max_in_queue_)) {
      Decide(context, false);
    }
    SettleBound(context, 0);
    const Timestamp bound = Bound(context, 0);
    if (allow_ >= 0 && Queue(0).empty()) context.SetNextTimestampBound(allow_, bound);
    for (int i = 1; i < Streams(); ++i) FollowDecisions(context, i);
    ForgetDecisions(context);
    return OkStatus();
  }

 private:
  int Streams() const { return static_cast<int>(queues_.size()); }
  std::deque<Packet>& Queue(int stream) { return queues_[static_cast<size_t>(stream)]; }
  // A negative limit means no limit.
  bool HasRoom() const {
    return max_in_flight_ < 0 || in_flight_.size() < static_cast<size_t>(max_in_flight_);
  }

  void TakeFinished(Context& context) {
    const Packet& finished = context.Input(finished_);
    if (!finished.empty()) {
      // A packet that came through finishes all packets before it.
      while (!in_flight_.empty() && in_flight_.front() <= finished.timestamp()) in_flight_.pop_front();
      return;
    }
    // Without a packet, the bound of FINISHED counts in calls for bounds alone. It also counts when the
    // call's time is the last time that FINISHED has settled.
    const Timestamp at = context.input_timestamp();
    const Timestamp bound = context.InputBound(finished_);
    if (HasPackets(context) && (!at.IsAllowedInStream() || at.NextAllowedInStream() != bound)) return;
    while (!in_flight_.empty() && in_flight_.front() < bound) in_flight_.pop_front();
  }

  bool HasPackets(const Context& context) const {
    for (int i = 0; i < Streams(); ++i) {
      if (!context.Input(i).empty()) return true;
    }
    return false;
  }

  void ForgetOverdue(Timestamp now) {
    if (in_flight_timeout_ <= 0) return;
    while (!in_flight_.empty() &&
           static_cast<uint64_t>(now.value()) - static_cast<uint64_t>(in_flight_.front().value()) >
               static_cast<uint64_t>(in_flight_timeout_)) {
      in_flight_.pop_front();
    }
  }

  // Decides about the oldest packet in the queue of the first input.
  void Decide(Context& context, bool allow) {
    const Packet packet = Queue(0).front();
    Queue(0).pop_front();
    decisions_[packet.timestamp()] = allow;
    if (allow_ >= 0) context.Output(allow_, Packet::Of(allow, packet.timestamp()));
    if (allow) context.Output(0, packet);
  }

  // If an input has no packet but another one has, it is past PreStream.
  static Timestamp Bound(const Context& context, int stream) {
    return std::max(context.InputBound(stream), Timestamp::Min());
  }

  // The first input's packets before this time are decided: the least time of an undecided packet.
  Timestamp DecidedBound(const Context& context) const {
    return queues_[0].empty() ? Bound(context, 0) : queues_[0].front().timestamp();
  }

  void FollowDecisions(Context& context, int stream) {
    std::deque<Packet>& queue = Queue(stream);
    const Timestamp decided = DecidedBound(context);
    while (!queue.empty() && queue.front().timestamp() < decided) {
      const auto next = decisions_.upper_bound(queue.front().timestamp());
      if (next == decisions_.begin() || std::prev(next)->second) context.Output(stream, queue.front());
      queue.pop_front();
    }
    SettleBound(context, stream);
  }

  void SettleBound(Context& context, int stream) {
    const std::deque<Packet>& queue = Queue(stream);
    const Timestamp bound = queue.empty() ? Bound(context, stream) : queue.front().timestamp();
    if (bound == Timestamp::Done()) {
      context.CloseOutput(stream);
    } else {
      context.SetNextTimestampBound(stream, bound);
    }
  }

  // Keeps the decisions that future packets may need.
  void ForgetDecisions(const Context& context) {
    Timestamp least = Timestamp::Done();
    for (int i = 1; i < Streams(); ++i) {
      least = std::min(least, Queue(i).empty() ? context.InputBound(i) : Queue(i).front().timestamp());
    }
    const auto next = decisions_.upper_bound(least);
    if (next != decisions_.begin()) decisions_.erase(decisions_.begin(), std::prev(next));
  }

  int64_t max_in_flight_ = 1;
  int max_in_queue_ = 0;
  int64_t in_flight_timeout_ = 0;  // 0: no timeout
  int finished_ = 0;               // ports; -1: none
  int allow_ = -1;
  std::vector<std::deque<Packet>> queues_;  // of each input without a tag
  std::deque<Timestamp> in_flight_;
  std::map<Timestamp, bool> decisions_;  // about the first input's packets
};

}  // namespace

CalculatorKind FlowLimiterCalculatorKind() { return KindOf<FlowLimiterCalculator>(); }

}  // namespace braid::graph
