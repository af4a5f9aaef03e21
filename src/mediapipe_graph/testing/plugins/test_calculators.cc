// Calculators that use the whole interface, and count objects that the server has not released.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "braid_calculator.h"

namespace {

namespace plugin = braid::plugin;

// Values in the memory of packets; owners whose done() has been called, and more than once; calculators.
std::atomic<long> live_values{0};
std::atomic<long> done_owners{0};
std::atomic<long> done_again{0};
std::atomic<long> live_calculators{0};

// The memory of packets that the C++ part of the interface makes.
struct Value {
  explicit Value(float of) : value(of) { ++live_values; }
  Value(const Value& other) : Value(other.value) {}
  ~Value() { --live_values; }
  Value& operator=(const Value&) = default;

  float value;
};

class Counted : public plugin::Calculator {
 public:
  Counted() { ++live_calculators; }
  ~Counted() override { --live_calculators; }
};

// Returns "FP32 x [2] 1 2 @5", "true @5", ...: everything that the interface shows of a packet.
std::string TextOf(const plugin::Context& context, const plugin::Packet& packet) {
  std::string text = "nothing";
  BraidTensor tensor{};
  bool flag = false;
  int64_t number = 0;
  if (!packet) return text;
  if (packet.Get(tensor)) {
    text = packet.kind() == BRAID_PYTHON_TENSOR ? "python " : "";
    text.append(tensor.datatype).append(" ").append(tensor.name).append(" [");
    for (size_t i = 0; i < tensor.rank; ++i)
      text.append(i == 0 ? "" : ",").append(std::to_string(tensor.shape[i]));
    text += "]";
    for (size_t at = 0; at + sizeof(float) <= tensor.size; at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, static_cast<const char*>(tensor.data) + at, sizeof(value));
      text.append(" ").append(std::to_string(static_cast<int>(value)));
    }
  } else if (packet.Get(flag)) {
    text = flag ? "true" : "false";
  } else if (packet.Get(number)) {
    text = std::to_string(number);
  } else if (packet.Get(text)) {
    text = "'" + text + "'";
  } else if (context.GetObject<Value>(packet, "other") != nullptr) {
    text = "an object of another type";
  } else if (const Value* object = context.GetObject<Value>(packet, "value")) {
    text = "object " + std::to_string(static_cast<int>(object->value));
  } else {
    text = "kind " + std::to_string(packet.kind());
  }
  return text + " @" + std::to_string(packet.timestamp());
}

// Passes each packet at input i on to output i.
class PassOn final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    for (int i = 0; i < contract.input_count(""); ++i) {
      contract.Input("", i, BRAID_ANY);
      contract.Output("", i, BRAID_ANY);
    }
    contract.SetTimestampOffset(0);
    contract.SetQuick();
  }
  void Process(plugin::Context& context) override {
    for (int i = 0; context.Input("", i); ++i) {
      context.Output("", i, context.Input("", i), context.input_timestamp());
    }
  }
};

// Outputs a description of its input.
class Tell final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_ANY);
    contract.Output("", 0, BRAID_STRING);
    contract.SetQuick();
  }
  void Process(plugin::Context& context) override {
    context.Output("", 0, context.MakeString(TextOf(context, context.Input(""))), context.input_timestamp());
  }
};

// For each input, outputs a packet on each output: its kind is in the output's tag, its value is the input's
// number.
class Make final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_INT64);
    contract.Output("TENSOR", 0, BRAID_TENSOR);
    contract.Output("PYTHON", 0, BRAID_PYTHON_TENSOR);
    contract.Output("BOOL", 0, BRAID_BOOL);
    contract.Output("INT64", 0, BRAID_INT64);
    contract.Output("STRING", 0, BRAID_STRING);
    contract.Output("OBJECT", 0, BRAID_OBJECT, "value");
  }
  void Process(plugin::Context& context) override {
    const int64_t at = context.input_timestamp();
    int64_t number = 0;
    if (!context.Input("").Get(number)) return context.Fail("no number");
    const auto value = static_cast<float>(number);
    const std::vector<Value> values{Value(value), Value(value + 1)};
    context.Output("TENSOR", 0, context.MakeTensor(BRAID_TENSOR, "x", "FP32", {1, 2}, values), at);
    context.Output("PYTHON", 0, context.MakeTensor(BRAID_PYTHON_TENSOR, "y", "mine", {7}, values), at);
    context.Output("BOOL", 0, context.MakeBool(number != 0), at);
    context.Output("INT64", 0, context.MakeInt64(number + 1), at);
    context.Output("STRING", 0, context.MakeString(std::string("a\0b", 3)), at);
    context.Output("OBJECT", 0, context.MakeObject("value", Value(value)), at);
  }
};

// Outputs the packet of the previous call, and the last packet at the end.
class Delay final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_ANY);
    contract.Output("", 0, BRAID_ANY);
  }
  void Process(plugin::Context& context) override {
    if (kept_) context.Output("", 0, kept_, context.input_timestamp());
    kept_ = context.Input("");
    next_ = context.input_timestamp() + 1;
  }
  void Close(plugin::Context& context) override {
    if (kept_) context.Output("", 0, kept_, next_);
  }

 private:
  plugin::Packet kept_;
  int64_t next_ = 0;
};

// Takes objects of this library and passes them on.
class Objects final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_OBJECT, "value");
    contract.Output("", 0, BRAID_ANY);
  }
  void Process(plugin::Context& context) override {
    context.Output("", 0, context.Input(""), context.input_timestamp());
  }
};

// Counts up from side packet START (or 0), option "count" times, then stops.
class Source final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Output("", 0, BRAID_INT64);
    contract.InputSidePacket("START", 0, BRAID_INT64, true);
    if (contract.Option("count").empty()) contract.Fail("option count is missing");
  }
  void Open(plugin::Context& context) override {
    context.InputSidePacket("START").Get(next_);
    end_ = next_ + std::stoll(context.Option("count"));
  }
  void Process(plugin::Context& context) override {
    if (next_ == end_) return context.Stop();
    context.Output("", 0, context.MakeInt64(next_), next_);
    ++next_;
  }

 private:
  int64_t next_ = 0;
  int64_t end_ = 0;
};

// Fails at the place and in the way of option "fault"; otherwise passes its input on.
class Faulty final : public Counted {
 public:
  static void Describe(plugin::Contract& contract) {
    const std::string fault = contract.Option("fault");
    contract.Input("", 0, BRAID_ANY);
    contract.Output("", 0, BRAID_ANY);
    if (fault == "describe_port") contract.Input("MORE", 2, BRAID_INT64);
    if (fault == "describe_crash") std::abort();
    if (fault == "describe_kind") contract.Output("", 0, BRAID_EMPTY);
    Go(contract, fault, "describe");
  }
  void Open(plugin::Context& context) override { Go(context, context.Option("fault"), "open"); }
  void Process(plugin::Context& context) override {
    const std::string fault = context.Option("fault");
    const plugin::Packet input = context.Input("");
    const int64_t at = context.input_timestamp();
    context.Output("", 0, input, fault == "early" ? at - 1 : fault == "no_time" ? INT64_MIN : at);
    if (fault == "early") context.Output("", 0, input, at - 1);
    if (fault == "no_port") context.Output("OTHER", 3, input, at);
    if (fault == "no_packet") context.Output("", 0, plugin::Packet(), at);
    if (fault == "bound") context.SetBound("", 0, INT64_MIN);
    if (fault == "closed") {
      context.CloseOutput("", 0);
      context.Output("", 0, input, at + 1);
    }
    BraidTensor tensor{};
    float value = 0;
    if (input.Get(tensor) && tensor.size >= sizeof(value)) std::memcpy(&value, tensor.data, sizeof(value));
    if (fault == "crash_of_666" && value == 666) std::abort();
    Go(context, fault, "process");
  }
  void Close(plugin::Context& context) override { Go(context, context.Option("fault"), "close"); }

 private:
  template <class Where>
  static void Go(Where& where, const std::string& fault, const std::string& call) {
    if (fault == call + "_fail") where.Fail("it fails in " + call);
    if (fault == call + "_fail_without_text") where.Fail("");
    if (fault == call + "_throw") throw std::runtime_error("it throws in " + call);
    if (fault == call + "_throw_number") throw 17;
  }
};

// Its constructor throws.
class Unmakeable final : public plugin::Calculator {
 public:
  Unmakeable() { throw 17; }
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_ANY);
    contract.Output("", 0, BRAID_ANY);
  }
  void Process(plugin::Context&) override {}
};

// --- A calculator that uses the C interface: requests invalid packets and counts each done().

struct Owner {
  float values[2] = {1, 2};
  std::atomic<int> done{0};
};
// Never freed, so that a second done() is counted instead of being a memory error.
Owner owners[16];

void Done(void* owner) {
  ++done_owners;
  if (++static_cast<Owner*>(owner)->done > 1) ++done_again;
}

void DescribeRaw(const BraidHost* host, BraidContract* contract) {
  host->describePort(contract, BRAID_INPUT, nullptr, 0, BRAID_ANY, nullptr, 0);
  host->describePort(contract, BRAID_OUTPUT, nullptr, 0, BRAID_INT64, nullptr, 0);
  host->describePort(contract, BRAID_OUTPUT, "TENSOR", 0, BRAID_TENSOR, nullptr, 1);
}
void* CreateRaw() { return owners; }
void IgnoreRaw(void*) {}
void IgnoreCall(void*, const BraidHost*, BraidContext*) {}

// Outputs the number of packets that could be made: the last one.
void ProcessRaw(void*, const BraidHost* host, BraidContext* context) {
  const int64_t shape[] = {2, 1};
  const int64_t negative[] = {-2, -1};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  size_t next = 0;
  int64_t made = 0;
  for (Owner& owner : owners) owner.done = 0;
  const auto make = [&](BraidKind kind, BraidTensor tensor) {
    Owner& owner = owners[next++];
    if (tensor.size == 8) tensor.data = owner.values;
    BraidPacket* packet = host->makeTensor(kind, &tensor, Done, &owner);
    if (packet == nullptr) return;
    ++made;
    host->keep(packet);
    host->release(packet);
    host->output(context, "TENSOR", 0, packet, host->inputTimestamp(context));
    host->release(packet);
  };
  make(BRAID_STRING, {"t", "FP32", shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {nullptr, "FP32", shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", nullptr, shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "", shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "FP32", nullptr, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "FP32", shape, 2, nullptr, 4});
  make(BRAID_TENSOR, {"t", "FP32", negative, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "FP32", huge, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "FP64", shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "mine", shape, 2, nullptr, 8});
  make(BRAID_TENSOR, {"t", "BYTES", shape, 2, nullptr, 8});
  if (host->makeObject(nullptr, &owners[next++], Done) != nullptr) ++made;
  if (host->makeObject("", &owners[next++], Done) != nullptr) ++made;
  make(BRAID_TENSOR, {"t", "FP32", shape, 2, nullptr, 8});
  BraidPacket* number = host->makeInt64(made);
  host->output(context, nullptr, 0, number, host->inputTimestamp(context));
  host->release(number);
}

constexpr BraidCalculator kRaw{"RawCalculator", DescribeRaw, CreateRaw, IgnoreRaw,
                               IgnoreCall,      ProcessRaw,  IgnoreCall};

}  // namespace

extern "C" {
#define PUBLIC __attribute__((visibility("default")))
PUBLIC long LiveValues() { return live_values; }
PUBLIC long LiveCalculators() { return live_calculators; }
PUBLIC long DoneOwners() { return done_owners; }
PUBLIC long DoneAgain() { return done_again; }
}

BRAID_CALCULATORS(plugin::MakeCalculator<PassOn>("PassOnCalculator"),
                  plugin::MakeCalculator<Tell>("TellCalculator"),
                  plugin::MakeCalculator<Make>("MakeCalculator"),
                  plugin::MakeCalculator<Delay>("DelayCalculator"),
                  plugin::MakeCalculator<Objects>("ObjectsCalculator"),
                  plugin::MakeCalculator<Source>("SourceCalculator"),
                  plugin::MakeCalculator<Faulty>("FaultyCalculator"),
                  plugin::MakeCalculator<Unmakeable>("UnmakeableCalculator"), kRaw)
