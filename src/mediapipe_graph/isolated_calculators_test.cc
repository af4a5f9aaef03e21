// Workers that break the rules or have been restarted. plugin_calculator_test.cc tests the calculators
// themselves.
#include "mediapipe_graph/isolated_calculators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>

#include "base/testing/places.h"
#include "graph/run.h"
#include "graph/topology.h"
#include "mediapipe_graph/calculator_host.h"
#include "mediapipe_graph/calculator_library.h"
#include "mediapipe_graph/calculator_messages.h"
#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using graph::Packet;
using graph::Timestamp;
using ::testing::HasSubstr;

const std::string kLibrary = std::string(test_places::kTestCalculators) + "/test_calculators.so";

class Ended final : public graph::RunObserver {
 public:
  void OnPacket(int, Packet packet) override { packets.push_back(std::move(packet)); }
  void OnEnd(Status status) override { end = std::move(status); }

  std::vector<Packet> packets;
  Status end;
};

class IsolatedCalculatorsTest : public ::testing::Test {
 protected:
  using Change = std::function<void(const CalculatorCall&, CalculatorResult&)>;

  // A worker's side for the test's library, whose results `change` changes.
  IsolatedCalculators Library(Change change = {}) {
    auto here = std::make_shared<graph::CalculatorRegistry>();
    EXPECT_EQ(AddCalculatorLibrary(kLibrary, *here), OkStatus());
    IsolatedCalculators library;
    library.names = here->Names();
    auto host = std::make_shared<std::unique_ptr<CalculatorHost>>(std::make_unique<CalculatorHost>(here));
    restart_ = [host, here] { *host = std::make_unique<CalculatorHost>(here); };
    library.call = [this, host, change](std::vector<Tensor> inputs) -> Result<std::vector<Tensor>> {
      CalculatorCall call;
      EXPECT_EQ(ReadMessageTensor(inputs, call), OkStatus());
      calls_.push_back(call);
      BRAID_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, (*host)->Call(inputs));
      if (!change) return outputs;
      CalculatorResult result;
      EXPECT_EQ(ReadMessageTensor(outputs, result), OkStatus());
      change(call, result);
      outputs[0] = MessageTensor(result);
      return outputs;
    };
    return library;
  }

  static void Add(IsolatedCalculators library, graph::CalculatorRegistry& registry,
                  const std::string& suffix = "") {
    for (auto& [name, kind] : IsolatedKinds(std::move(library))) registry.Add(name + suffix, std::move(kind));
  }

  Status Load(const std::string& text) {
    auto config = graph::ParseGraphConfig(text);
    EXPECT_TRUE(config.ok()) << config.status();
    auto topology = graph::Topology::Create(*std::move(config), registry_);
    BRAID_RETURN_IF_ERROR(topology.status());
    ended_ = std::make_shared<Ended>();
    run_ = graph::Run::Create(*std::move(topology), {}, ended_);
    return run_->Start();
  }
  // Returns the status of a run of three numbers; `between` runs before the last.
  Status Run(
      const std::string& text, const std::function<void()>& between = [] {}) {
    BRAID_RETURN_IF_ERROR(Load(text));
    for (int64_t i = 0; i < 3; ++i) {
      if (i == 2) between();
      static_cast<void>(run_->AddPacket(0, Packet::Of(i, Timestamp(i))));
    }
    run_->CloseAllInputs();
    run_.reset();
    return ended_->end;
  }

  const std::string delay_ =
      "input_stream: 'in' output_stream: 'out' node { calculator: 'DelayCalculator' input_stream: 'in' "
      "output_stream: 'out' }";
  const std::string make_ =
      " node { calculator: 'MakeCalculator' input_stream: 'in' output_stream: 'TENSOR:t' output_stream: "
      "'PYTHON:p' "
      "output_stream: 'BOOL:b' output_stream: 'INT64:i' output_stream: 'STRING:s' output_stream: 'OBJECT:o' "
      "} ";
  std::shared_ptr<graph::CalculatorRegistry> registry_ = std::make_shared<graph::CalculatorRegistry>();
  std::vector<CalculatorCall> calls_;
  std::function<void()> restart_;
  std::shared_ptr<Ended> ended_;
  std::shared_ptr<graph::Run> run_;
};

TEST_F(IsolatedCalculatorsTest, ACalculatorEndsWithItsProcess) {
  Add(Library(), *registry_);
  EXPECT_THAT(Run(delay_, restart_).message(),
              HasSubstr("the calculator's process ended; its state is lost"));
  // The next run uses the new process.
  EXPECT_EQ(Run(delay_), OkStatus());
  EXPECT_EQ(ended_->packets.size(), 3U);
}

TEST_F(IsolatedCalculatorsTest, AnObjectEndsWithItsProcess) {
  Add(Library(), *registry_);
  ASSERT_EQ(Load("input_stream: 'in' output_stream: 'o'" + make_), OkStatus());
  static_cast<void>(run_->AddPacket(0, Packet::Of(int64_t{1}, Timestamp(1))));
  run_->CloseAllInputs();
  ASSERT_EQ(ended_->packets.size(), 1U);
  const Packet object = ended_->packets[0];
  const std::string tell =
      "input_stream: 'in' output_stream: 'out' node { calculator: 'TellCalculator' input_stream: 'in' "
      "output_stream: 'out' }";
  ASSERT_EQ(Load(tell), OkStatus());
  static_cast<void>(run_->AddPacket(0, object.At(Timestamp(2))));
  run_->CloseAllInputs();
  ASSERT_EQ(ended_->end, OkStatus());
  EXPECT_EQ(ended_->packets.at(0).Get<std::string>(), "object 1 @2");
  restart_();
  ASSERT_EQ(Load(tell), OkStatus());
  static_cast<void>(run_->AddPacket(0, object.At(Timestamp(3))));
  run_->CloseAllInputs();
  EXPECT_THAT(ended_->end.message(), HasSubstr("the object's process ended"));
}

// A port of any packets passes such a packet on; a port of objects refuses another library's.
TEST_F(IsolatedCalculatorsTest, ObjectsOfAnotherLibraryAreRefusedOrPassedOn) {
  Add(Library(), *registry_);
  Add(Library(), *registry_, "OfAnother");
  const auto through = [&](const std::string& calculator) {
    return "input_stream: 'in' output_stream: 'out'" + make_ + "node { calculator: '" + calculator +
           "' input_stream: 'o' output_stream: 'x' } node { calculator: 'TellCalculator' input_stream: 'x' "
           "output_stream: 'out' }";
  };
  ASSERT_EQ(Run(through("PassOnCalculatorOfAnother")), OkStatus());
  EXPECT_EQ(ended_->packets.at(1).Get<std::string>(), "object 1 @1");
  EXPECT_THAT(Run(through("ObjectsCalculatorOfAnother")).message(),
              HasSubstr("the object 'value' is in the process of another library; isolated libraries accept "
                        "only their own objects"));
  ASSERT_EQ(Run(through("ObjectsCalculator")), OkStatus());
}

TEST_F(IsolatedCalculatorsTest, WhatIsOverIsToldWithTheNextCall) {
  Add(Library(), *registry_);
  ASSERT_EQ(Run("input_stream: 'in' output_stream: 'o'" + make_), OkStatus());
  ASSERT_EQ(ended_->packets.size(), 3U);
  ended_.reset();
  calls_.clear();
  ASSERT_EQ(Load(delay_), OkStatus());
  EXPECT_EQ(calls_.at(0).released_size(), 3);
  EXPECT_EQ(calls_.at(0).ended_size(), 0);
}

TEST_F(IsolatedCalculatorsTest, ACalculatorThatCannotBeOpenedHereEndsThere) {
  Add(Library([](const CalculatorCall& call, CalculatorResult& result) {
        if (call.kind() == CalculatorCall::OPEN) result.add_steps()->set_port(9);
      }),
      *registry_);
  EXPECT_FALSE(Load(delay_).ok());
  run_.reset();
  calls_.clear();
  EXPECT_FALSE(Load(delay_).ok());
  ASSERT_EQ(calls_.at(0).kind(), CalculatorCall::DESCRIBE);
  EXPECT_EQ(calls_.at(0).ended_size(), 1);
}

TEST_F(IsolatedCalculatorsTest, AWorkerThatBreaksTheRulesFailsTheNode) {
  const std::pair<std::string, std::function<void(CalculatorResult&)>> faults[] = {
      {"unknown output", [](auto& result) { result.add_steps()->set_port(1); }},
      {"unknown output", [](auto& result) { result.add_steps()->set_port(-1); }},
      {"a packet without a value", [](auto& result) { result.add_steps()->mutable_packet(); }},
      {"a packet that it did not receive",
       [](auto& result) { result.add_steps()->mutable_packet()->set_number(99); }},
      {"a tensor without its bytes",
       [](auto& result) {
         auto& tensor = *result.add_steps()->mutable_packet()->mutable_tensor();
         tensor.set_datatype("FP32");
         tensor.set_place(7);
       }},
      {"a tensor of the wrong size",
       [](auto& result) {
         auto& tensor = *result.add_steps()->mutable_packet()->mutable_tensor();
         tensor.set_datatype("FP32");
         tensor.add_shape(1);
       }},
      {"a tensor with a negative dimension",
       [](auto& result) {
         auto& tensor = *result.add_steps()->mutable_packet()->mutable_python_tensor();
         tensor.set_datatype("FP32");
         tensor.add_shape(-1);
       }},
      {"a tensor of unknown type",
       [](auto& result) { result.add_steps()->mutable_packet()->mutable_tensor()->set_datatype("own"); }},
      {"a tensor without a type",
       [](auto& result) { result.add_steps()->mutable_packet()->mutable_python_tensor(); }},
      {"a parameter without a value",
       [](auto& result) { result.add_steps()->mutable_packet()->mutable_response()->add_parameters(); }},
  };
  for (const auto& [text, change] : faults) {
    const auto& fault = change;
    registry_ = std::make_shared<graph::CalculatorRegistry>();
    Add(Library([&fault](const CalculatorCall& call, CalculatorResult& result) {
          if (call.kind() == CalculatorCall::PROCESS) fault(result);
        }),
        *registry_);
    EXPECT_THAT(Run(delay_).message(),
                HasSubstr("the process of the calculator library sent an invalid answer: " + text));
  }
}

TEST_F(IsolatedCalculatorsTest, ADescriptionIsTriedAgainWhereTheProcessDied) {
  const auto deaths = std::make_shared<int>(0);  // the test's run ends after it
  IsolatedCalculators library = Library();
  library.call = [call = library.call, deaths](std::vector<Tensor> inputs) -> Result<std::vector<Tensor>> {
    if ((*deaths)-- > 0) return InternalError("it died");
    return call(std::move(inputs));
  };
  Add(std::move(library), *registry_);
  *deaths = 1;
  EXPECT_EQ(Load(delay_), OkStatus());
  *deaths = 2;
  EXPECT_THAT(Load(delay_).message(), HasSubstr("it died"));
  // A fault of the node is returned without a second try.
  calls_.clear();
  EXPECT_THAT(
      Load("output_stream: 'out' node { calculator: 'SourceCalculator' output_stream: 'out' }").message(),
      HasSubstr("option count is missing"));
  EXPECT_EQ(calls_.size(), 1U);
}

TEST_F(IsolatedCalculatorsTest, ADescriptionThatBreaksTheRulesKeepsTheGraphAway) {
  const std::pair<std::string, std::function<void(CalculatorResult::Description&)>> faults[] = {
      {"unknown port", [](auto& description) { description.mutable_inputs(0)->set_port(1); }},
      {"unknown port", [](auto& description) { description.mutable_outputs(0)->set_port(-1); }},
      {"unknown kind", [](auto& description) { description.mutable_outputs(0)->set_kind(7); }},
      {"unknown kind", [](auto& description) { description.mutable_inputs(0)->set_kind(11); }},
  };
  for (const auto& [text, change] : faults) {
    const auto& fault = change;
    registry_ = std::make_shared<graph::CalculatorRegistry>();
    Add(Library([&fault](const CalculatorCall&, CalculatorResult& result) {
          fault(*result.mutable_description());
        }),
        *registry_);
    EXPECT_THAT(Load(delay_).message(), HasSubstr(text));
  }
}

TEST_F(IsolatedCalculatorsTest, RandomAnswersFailTheRunAtMost) {
  std::mt19937 random(18);
  IsolatedCalculators library = Library();
  library.call = [call = library.call, &random](std::vector<Tensor> inputs) -> Result<std::vector<Tensor>> {
    BRAID_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, call(std::move(inputs)));
    Buffer changed = CopyToHeap({outputs[0].data.data(), outputs[0].data.size()});
    if (changed.empty() || random() % 8 != 0) return outputs;
    for (int i = 0; i < 2; ++i) {
      changed.mutable_data()[random() % changed.size()] = static_cast<std::byte>(random());
    }
    outputs[0].data = std::move(changed);
    return outputs;
  };
  Add(std::move(library), *registry_);
  const std::string all = "input_stream: 'in' output_stream: 'out' output_stream: 't' output_stream: 'p'" +
                          make_ +
                          "node { calculator: 'DelayCalculator' input_stream: 'o' output_stream: 'x' } "
                          "node { calculator: 'TellCalculator' input_stream: 'x' output_stream: 'out' }";
  int passed = 0;
  for (int round = 0; round < 3000; ++round) {
    calls_.clear();
    passed += Run(all).ok() ? 1 : 0;
    run_.reset();
  }
  EXPECT_GT(passed, 300);
  EXPECT_LT(passed, 2700);
}

TEST_F(IsolatedCalculatorsTest, WhatCannotBeReadIsRefused) {
  CalculatorHost host(registry_);
  EXPECT_EQ(host.Call({}).status().code(), StatusCode::kInvalidArgument);
  Tensor nonsense = MessageTensor(CalculatorCall());
  nonsense.data = CopyToHeap(std::as_bytes(std::span("\xff\xff\xff")));
  EXPECT_EQ(host.Call({nonsense}).status().code(), StatusCode::kInvalidArgument);
  CalculatorCall call;
  call.mutable_node()->set_calculator("None");
  EXPECT_EQ(host.Call({MessageTensor(call)}).status(),
            InvalidArgumentError("the library has no calculator 'None'"));
}

}  // namespace
}  // namespace braid
