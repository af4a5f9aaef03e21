// Simple calculators for tests, and a harness that runs a graph of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "graph/registry.h"
#include "graph/run.h"
#include "graph/topology.h"

namespace braid::graph::testing {

// The behaviour of a test's nodes, as functions of their context.
struct Behaviour {
  std::function<Status(Contract&)> contract = {};
  std::function<Status(Context&)> open = {};
  std::function<Status(Context&)> process = {};
  std::function<Status(Context&)> close = {};
  std::function<void()> cancel = {};
};

class FunctionCalculator final : public Calculator {
 public:
  explicit FunctionCalculator(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}
  Status Open(Context& context) override { return behaviour_.open ? behaviour_.open(context) : OkStatus(); }
  Status Process(Context& context) override {
    return behaviour_.process ? behaviour_.process(context) : OkStatus();
  }
  Status Close(Context& context) override {
    return behaviour_.close ? behaviour_.close(context) : OkStatus();
  }
  void Cancel() override {
    if (behaviour_.cancel) behaviour_.cancel();
  }

 private:
  Behaviour behaviour_;
};

// Gives all ports the type Any and declares the node quick.
inline Status AnyContract(Contract& contract) {
  for (int i = 0; i < contract.inputs().size(); ++i) contract.SetInput(i, PortType::Any());
  for (int i = 0; i < contract.outputs().size(); ++i) contract.SetOutput(i, PortType::Any());
  for (int i = 0; i < contract.input_side_packets().size(); ++i) {
    contract.SetInputSidePacket(i, PortType::Any());
  }
  for (int i = 0; i < contract.output_side_packets().size(); ++i) {
    contract.SetOutputSidePacket(i, PortType::Any());
  }
  contract.SetQuick();
  return OkStatus();
}

inline void Register(CalculatorRegistry& registry, std::string name, Behaviour behaviour) {
  CalculatorKind kind;
  kind.fill_contract = behaviour.contract ? behaviour.contract : AnyContract;
  kind.make = [behaviour = std::move(behaviour)] { return std::make_unique<FunctionCalculator>(behaviour); };
  registry.Add(std::move(name), std::move(kind));
}

// Passes each packet at input i on to output i; offset 0.
inline Behaviour Pass() {
  return {.contract =
              [](Contract& contract) {
                static_cast<void>(AnyContract(contract));
                for (int i = 0; i < contract.outputs().size(); ++i) {
                  contract.SetOutput(i, PortType::SameAsInput(i));
                }
                contract.SetTimestampOffset(0);
                return OkStatus();
              },
          .process =
              [](Context& context) {
                for (int i = 0; i < context.contract().outputs().size(); ++i) {
                  if (!context.Input(i).empty()) context.Output(i, context.Input(i));
                }
                return OkStatus();
              }};
}

// Outputs the sum of the ints at its inputs; offset 0.
inline Behaviour Sum() {
  return {.contract =
              [](Contract& contract) {
                for (int i = 0; i < contract.inputs().size(); ++i) contract.SetInput(i, PortType::Of<int>());
                contract.SetOutput(0, PortType::Of<int>());
                contract.SetTimestampOffset(0);
                contract.SetQuick();
                return OkStatus();
              },
          .process =
              [](Context& context) {
                int sum = 0;
                for (int i = 0; i < context.contract().inputs().size(); ++i) {
                  if (!context.Input(i).empty()) sum += context.Input(i).Get<int>();
                }
                context.Output(0, Packet::Of(sum, context.input_timestamp()));
                return OkStatus();
              }};
}

// Returns the inputs of a call: "5: 1 2 -", the time and the ints.
inline std::string CallText(const Context& context) {
  std::string text = context.input_timestamp().DebugString() + ":";
  for (int i = 0; i < context.contract().inputs().size(); ++i) {
    const int* value = context.Input(i).GetIf<int>();
    text.append(" ").append(value != nullptr ? std::to_string(*value) : context.Input(i).empty() ? "-" : "?");
  }
  return text;
}

// Records the outputs of a run.
class Recorder final : public RunObserver {
 public:
  void OnPacket(int output, Packet packet) override {
    {
      const std::lock_guard lock(mutex_);
      packets_.emplace_back(output, std::move(packet));
    }
    if (on_packet) on_packet();
  }
  void OnWantsInput() override {
    const std::lock_guard lock(mutex_);
    ++wants_;
  }
  void OnEnd(Status status) override {
    {
      const std::lock_guard lock(mutex_);
      BRAID_CHECK(!ended_);
      ended_ = true;
      status_ = std::move(status);
    }
    changed_.notify_all();
  }

  std::function<void()> on_packet;  // set before the run starts

  // Waits for the end; returns the run's status.
  Status Wait() {
    std::unique_lock lock(mutex_);
    BRAID_CHECK(changed_.wait_for(lock, std::chrono::seconds(120), [this] { return ended_; }));
    return status_;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  int wants() const {
    const std::lock_guard lock(mutex_);
    return wants_;
  }
  // Returns "time=value" of each packet of that output, in order.
  std::vector<std::string> Texts(int output = 0) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const auto& [at, packet] : packets_) {
      if (at != output) continue;
      const int* value = packet.GetIf<int>();
      texts.push_back(packet.timestamp().DebugString() + "=" +
                      (value != nullptr ? std::to_string(*value) : packet.type().name()));
    }
    return texts;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, Packet>> packets_;
  bool ended_ = false;
  int wants_ = 0;
  Status status_;
};

inline Packet Int(int value, int64_t at) { return Packet::Of(value, Timestamp(at)); }

}  // namespace braid::graph::testing
