// graph_replay: runs cases through braid::graph::Run and prints their outputs. tests/graph compares these
// with MediaPipe itself. Each line of the standard input is a case, as JSON:
//
//   {"graph": "...", "outputs": ["x"], "side_packets": {"p": {"int": 3}},
//    "steps": [["add", "a", 1, {"int": 5}], ["idle"], ["close", "a"]]}
//
// Each answer is a line, in which a packet has its time, its value and the number of "idle" steps before it:
//
//   {"end": {"kind": "ok"}, "outputs": {"x": [[1, {"int": 5}, 0]]}}
//
// A failed run has `where` ("load", "start" or "run"), the kind of fault and the number of "idle" steps
// before it. After the steps all inputs are closed. With --threads, nodes are not quick and run on threads.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "graph/registry.h"
#include "graph/run.h"
#include "graph/topology.h"

namespace braid::graph {
namespace {

using Json = nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(10);

// Threads that run work and report when all of it is done.
class Threads {
 public:
  explicit Threads(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void Add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++open_;
    }
    changed_.notify_all();
  }
  // Returns false after kPatience.
  bool WaitIdle() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return open_ == 0; });
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      --open_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  int open_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Fills the contract of a node like the calculator does, but without SetQuick().
Status FillAsSlow(const CalculatorKind& kind, Contract& contract) {
  Contract quick = contract;
  if (Status status = kind.fill_contract(quick); !status.ok()) return status;
  const auto set = [](const std::vector<std::optional<PortType>>& types, const auto& give) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i]) give(static_cast<int>(i), *types[i]);
    }
  };
  set(quick.input_types(), [&](int port, PortType type) { contract.SetInput(port, type); });
  set(quick.output_types(), [&](int port, PortType type) { contract.SetOutput(port, type); });
  set(quick.input_side_packet_types(), [&](int port, PortType type) {
    contract.SetInputSidePacket(port, type, quick.input_side_packet_optional(port));
  });
  set(quick.output_side_packet_types(),
      [&](int port, PortType type) { contract.SetOutputSidePacket(port, type); });
  if (quick.timestamp_offset()) contract.SetTimestampOffset(*quick.timestamp_offset());
  if (quick.input_stream_handler()) contract.SetInputStreamHandler(*quick.input_stream_handler());
  if (quick.process_timestamp_bounds()) contract.SetProcessTimestampBounds();
  return OkStatus();
}

std::shared_ptr<const CalculatorRegistry> MakeRegistry(bool slow) {
  auto core = std::make_shared<CalculatorRegistry>();
  AddCoreCalculators(*core);
  if (!slow) return core;
  auto registry = std::make_shared<CalculatorRegistry>();
  for (const char* name :
       {"ConstantSidePacketCalculator", "FlowLimiterCalculator", "GateCalculator", "MergeCalculator",
        "PacketClonerCalculator", "PacketPresenceCalculator", "PassThroughCalculator",
        "PreviousLoopbackCalculator", "SidePacketToStreamCalculator"}) {
    const CalculatorKind kind = *core->Find(name);
    registry->Add(name, {[kind](Contract& contract) { return FillAsSlow(kind, contract); }, kind.make});
  }
  return registry;
}

Packet PacketOf(const Json& value, Timestamp at) {
  const auto entry = value.begin();
  const std::string& type = entry.key();
  const Json& plain = entry.value();
  if (type == "int") return Packet::Of(plain.get<int>(), at);
  if (type == "bool") return Packet::Of(plain.get<bool>(), at);
  if (type == "string") return Packet::Of(plain.get<std::string>(), at);
  if (type == "float") return Packet::Of(plain.get<float>(), at);
  if (type == "double") return Packet::Of(plain.get<double>(), at);
  if (type == "int64") return Packet::Of(plain.get<int64_t>(), at);
  if (type == "uint64") return Packet::Of(plain.get<uint64_t>(), at);
  return Packet();
}

// Whole numbers of any type are "int", and others "float", as MediaPipe's Python reads them.
Json ValueOf(const Packet& packet) {
  if (const auto* value = packet.GetIf<bool>()) return {{"bool", *value}};
  if (const auto* value = packet.GetIf<std::string>()) return {{"string", *value}};
  if (const auto* value = packet.GetIf<int>()) return {{"int", *value}};
  if (const auto* value = packet.GetIf<int64_t>()) return {{"int", *value}};
  if (const auto* value = packet.GetIf<uint64_t>()) return {{"int", *value}};
  if (const auto* value = packet.GetIf<float>()) return {{"float", *value}};
  if (const auto* value = packet.GetIf<double>()) return {{"float", *value}};
  return {{"other", true}};
}

std::string KindOf(const Status& status) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"Current minimum expected timestamp", "timestamp"},
      {"is required but was not provided", "missing side packet"},
      {"has type", "type"},
      {"type mismatch", "type"},
  };
  for (const auto& [text, kind] : kKinds) {
    if (status.message().find(text) != std::string::npos) return std::string(kind);
  }
  return "error";
}

class Recorder final : public RunObserver {
 public:
  explicit Recorder(const std::vector<Port>& outputs) : outputs_(outputs), packets_(outputs.size()) {}

  void OnPacket(int output, Packet packet) override {
    const std::lock_guard lock(mutex_);
    packets_[static_cast<size_t>(output)].push_back({packet.timestamp().value(), ValueOf(packet), idles_});
  }
  void OnEnd(Status status) override {
    const std::lock_guard lock(mutex_);
    end_ = std::move(status);
    ended_in_ = idles_;
    changed_.notify_all();
  }

  void CountIdle() {
    const std::lock_guard lock(mutex_);
    ++idles_;
  }
  std::optional<Status> WaitEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [this] { return end_.has_value(); });
    return end_;
  }
  int idles() {
    const std::lock_guard lock(mutex_);
    return idles_;
  }
  // The number of "idle" steps before the end.
  int ended_in() {
    const std::lock_guard lock(mutex_);
    return ended_in_;
  }
  Json Packets(const Json& names) {
    const std::lock_guard lock(mutex_);
    Json all = Json::object();
    for (const std::string name : names) {
      all[name] = Json::array();
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i].name == name) all[name] = packets_[i];
      }
    }
    return all;
  }

 private:
  const std::vector<Port> outputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Json>> packets_;
  std::optional<Status> end_;
  int idles_ = 0;
  int ended_in_ = 0;
};

Json EndOf(std::string_view where, const Status& status, int failed_in = 0) {
  return {{"where", where}, {"kind", KindOf(status)}, {"failed_in", failed_in}, {"text", status.message()}};
}

Json Unfinished(const Json& names, Json end) {
  Json outputs = Json::object();
  for (const std::string name : names) outputs[name] = Json::array();
  return {{"end", std::move(end)}, {"outputs", std::move(outputs)}};
}

int InputOf(const Topology& topology, const std::string& name) {
  for (size_t i = 0; i < topology.inputs().size(); ++i) {
    if (topology.inputs()[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Json Replay(const Json& test, const std::shared_ptr<const CalculatorRegistry>& registry, Threads* threads) {
  const Json& names = test.at("outputs");
  auto config = ParseGraphConfig(test.at("graph").get<std::string>());
  if (!config.ok()) return Unfinished(names, EndOf("load", config.status()));
  auto topology = Topology::Create(*std::move(config), registry);
  if (!topology.ok()) return Unfinished(names, EndOf("load", topology.status()));

  Run::Options options;
  if (threads != nullptr) {
    options.executor = [threads](std::function<void()> work) { threads->Add(std::move(work)); };
  }
  const Json side_packets = test.value("side_packets", Json::object());
  for (const auto& [name, value] : side_packets.items()) {
    options.side_packets[name] = PacketOf(value, Timestamp::Unset());
  }
  auto recorder = std::make_shared<Recorder>((*topology)->outputs());
  auto run = Run::Create(*topology, std::move(options), recorder);
  if (const Status started = run->Start(); !started.ok()) {
    return Unfinished(names, EndOf("start", started));
  }

  const auto wait_idle = [&] { return threads == nullptr || threads->WaitIdle(); };
  std::optional<Status> refused;
  int refused_in = 0;
  for (const Json& step : test.at("steps")) {
    const std::string what = step.at(0);
    if (what == "add") {
      const Status added = run->AddPacket(InputOf(**topology, step.at(1)),
                                          PacketOf(step.at(3), Timestamp(step.at(2).get<int64_t>())));
      // A packet that is too late for a stream or a run is ignored, as in MediaPipe.
      if (!added.ok() && added.code() != StatusCode::kFailedPrecondition) {
        refused = added;
        refused_in = recorder->idles();
        break;
      }
    } else if (what == "close") {
      run->CloseInput(InputOf(**topology, step.at(1)));
    } else {
      if (!wait_idle()) return Unfinished(names, {{"where", "run"}, {"kind", "not idle"}});
      recorder->CountIdle();
    }
  }
  run->CloseAllInputs();
  const std::optional<Status> end = recorder->WaitEnd();
  if (!end) return Unfinished(names, {{"where", "run"}, {"kind", "no end"}});
  wait_idle();
  Json answer = {{"end", {{"kind", "ok"}}}, {"outputs", recorder->Packets(names)}};
  // The run's error says more than a later call's.
  if (!end->ok()) {
    answer["end"] = EndOf("run", *end, recorder->ended_in());
  } else if (refused) {
    answer["end"] = EndOf("run", *refused, refused_in);
  }
  return answer;
}

int Main(int argc, char** argv) {
  bool with_threads = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--threads") {
      std::cerr << "usage: graph_replay [--threads] < cases.jsonl\n";
      return 2;
    }
    with_threads = true;
  }
  const auto registry = MakeRegistry(with_threads);
  std::unique_ptr<Threads> threads;
  if (with_threads) threads = std::make_unique<Threads>(4);
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json test = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (test.is_discarded()) {
      std::cerr << "not JSON: " << line << "\n";
      return 2;
    }
    std::cout << Replay(test, registry, threads.get()).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace braid::graph

int main(int argc, char** argv) { return braid::graph::Main(argc, argv); }
