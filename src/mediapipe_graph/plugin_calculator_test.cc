#include "mediapipe_graph/plugin_calculator.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/places.h"
#include "graph/run.h"
#include "graph/topology.h"
#include "mediapipe_graph/calculator_host.h"
#include "mediapipe_graph/calculator_library.h"
#include "mediapipe_graph/isolated_calculators.h"
#include "mediapipe_graph/plugin_packets.h"
#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using graph::Packet;
using graph::Timestamp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string LibraryPath(const std::string& name) {
  return std::string(test_places::kTestCalculators).append("/").append(name).append(".so");
}

// Records the outputs of a run whose nodes all run on the test's thread.
class Kept final : public graph::RunObserver {
 public:
  void OnPacket(int output, Packet packet) override { packets.emplace_back(output, std::move(packet)); }
  void OnEnd(Status status) override {
    BRAID_CHECK(!end);
    end = std::move(status);
  }
  // Returns the strings of one output.
  std::vector<std::string> Texts(int output = 0) const {
    std::vector<std::string> texts;
    for (const auto& [from, packet] : packets) {
      if (from == output) texts.push_back(packet.Get<std::string>());
    }
    return texts;
  }
  // Returns "time=number" for one output.
  std::vector<std::string> Numbers(int output = 0) const {
    std::vector<std::string> texts;
    for (const auto& [from, packet] : packets) {
      if (from != output) continue;
      texts.push_back(
          packet.timestamp().DebugString().append("=").append(std::to_string(packet.Get<int64_t>())));
    }
    return texts;
  }

  std::vector<std::pair<int, Packet>> packets;
  std::optional<Status> end;
};

enum class Where { kInside, kApart };

// Calculators inside the server, and their stand-ins when a worker has them. The worker's side is in this
// process, too.
class PluginCalculatorTest : public ::testing::TestWithParam<Where> {
 protected:
  PluginCalculatorTest() {
    AddLibrary(LibraryPath("test_calculators"));
    library_ = dlopen(LibraryPath("test_calculators").c_str(), RTLD_NOW | RTLD_NOLOAD);
    BRAID_CHECK(library_ != nullptr);
    done_before_ = Count("DoneOwners");
  }
  ~PluginCalculatorTest() override {
    run_.reset();
    kept_.reset();
    registry_.reset();
    EXPECT_EQ(Count("LiveValues"), 0);
    EXPECT_EQ(Count("LiveCalculators"), 0);
    dlclose(library_);
  }

  void AddLibrary(const std::string& path) {
    if (GetParam() == Where::kInside) {
      ASSERT_EQ(AddCalculatorLibrary(path, *registry_), OkStatus());
      return;
    }
    auto here = std::make_shared<graph::CalculatorRegistry>();
    ASSERT_EQ(AddCalculatorLibrary(path, *here), OkStatus());
    IsolatedCalculators library;
    library.names = here->Names();
    library.call = [host = std::make_shared<CalculatorHost>(std::move(here))](std::vector<Tensor> inputs) {
      return host->Call(inputs);
    };
    for (auto& [name, kind] : IsolatedKinds(std::move(library)))
      ASSERT_TRUE(registry_->Add(name, std::move(kind)));
  }

  long Count(const char* name) const { return reinterpret_cast<long (*)()>(dlsym(library_, name))(); }

  static std::string Node(const std::string& calculator, const std::string& streams,
                          const std::vector<std::pair<std::string, std::string>>& options = {}) {
    std::string text = "node { name: 'n' calculator: '" + calculator + "' " + streams;
    if (!options.empty()) text += " node_options { [type.googleapis.com/braid.PluginOptions] {";
    for (const auto& [key, value] : options) text += " option { key: '" + key + "' value: '" + value + "' }";
    if (!options.empty()) text += " } }";
    return text + " } ";
  }
  // One node between "in" and "out".
  static std::string Between(const std::string& calculator,
                             const std::vector<std::pair<std::string, std::string>>& options = {}) {
    return "input_stream: 'in' output_stream: 'out' " +
           Node(calculator, "input_stream: 'in' output_stream: 'out'", options);
  }
  static std::string Faulty(const std::string& fault) {
    return Between("FaultyCalculator", {{"fault", fault}});
  }

  Status Load(const std::string& text) {
    auto config = graph::ParseGraphConfig(text);
    EXPECT_TRUE(config.ok()) << config.status();
    auto topology = graph::Topology::Create(*std::move(config), registry_);
    if (!topology.ok()) return topology.status();
    kept_ = std::make_shared<Kept>();
    run_ = graph::Run::Create(*std::move(topology), std::move(options_), kept_);
    options_ = {};
    return OkStatus();
  }
  Status LoadAndStart(const std::string& text) {
    BRAID_RETURN_IF_ERROR(Load(text));
    return run_->Start();
  }
  template <class T>
  void Add(T value, int64_t at) {
    EXPECT_EQ(run_->AddPacket(0, Packet::Of(std::move(value), Timestamp(at))), OkStatus());
  }
  Status End() {
    run_->CloseAllInputs();
    BRAID_CHECK(kept_->end.has_value());
    return *kept_->end;
  }
  // Returns the status of a run with one input at time 3.
  std::string FaultOf(const std::string& text) {
    EXPECT_EQ(LoadAndStart(text), OkStatus());
    static_cast<void>(run_->AddPacket(0, Packet::Of(int64_t{1}, Timestamp(3))));
    const Status status = End();
    run_.reset();
    return status.ok() ? "none" : status.message();
  }

  std::shared_ptr<graph::CalculatorRegistry> registry_ = std::make_shared<graph::CalculatorRegistry>();
  graph::Run::Options options_;
  void* library_;
  long done_before_ = 0;
  std::shared_ptr<Kept> kept_;
  std::shared_ptr<graph::Run> run_;
};

TEST_P(PluginCalculatorTest, PassesPacketsOnWithoutACopy) {
  ASSERT_EQ(LoadAndStart("input_stream: 'a' input_stream: 'b' output_stream: 'c' output_stream: 'd'" +
                         Node("PassOnCalculator",
                              "input_stream: 'a' input_stream: 'b' output_stream: 'c' "
                              "output_stream: 'd'")),
            OkStatus());
  Tensor tensor = Int32Tensor("t", {4, 5});
  const std::byte* bytes = tensor.data.data();
  Add(OvTensor{std::move(tensor)}, 7);
  // A type that the interface does not know.
  ASSERT_EQ(run_->AddPacket(1, Packet::Of(MediaTensor{}, Timestamp(7))), OkStatus());
  EXPECT_EQ(End(), OkStatus());
  ASSERT_EQ(kept_->packets.size(), 2U);
  EXPECT_EQ(kept_->packets[0].second.timestamp(), Timestamp(7));
  EXPECT_EQ(kept_->packets[0].second.Get<OvTensor>().tensor.data.data(), bytes);
  EXPECT_NE(kept_->packets[1].second.GetIf<MediaTensor>(), nullptr);
}

TEST_P(PluginCalculatorTest, EachKindOfPacketIsMade) {
  ASSERT_EQ(LoadAndStart("input_stream: 'in' output_stream: 'OVTENSOR:t' output_stream: 'OVMS_PY_TENSOR:p' "
                         "output_stream: 'b' output_stream: 'i' output_stream: 's' output_stream: 'o' " +
                         Node("MakeCalculator",
                              "input_stream: 'in' output_stream: 'TENSOR:t' output_stream: "
                              "'PYTHON:p' output_stream: 'BOOL:b' output_stream: 'INT64:i' "
                              "output_stream: 'STRING:s' output_stream: 'OBJECT:o'")),
            OkStatus());
  Add(int64_t{5}, 2);
  EXPECT_EQ(End(), OkStatus());
  run_.reset();
  ASSERT_EQ(kept_->packets.size(), 6U);
  for (const auto& [output, packet] : kept_->packets) {
    EXPECT_EQ(packet.timestamp(), Timestamp(2));
    switch (output) {
      case 0: {
        const Tensor& tensor = packet.Get<OvTensor>().tensor;
        EXPECT_EQ(tensor.name, "x");
        EXPECT_EQ(tensor.type, DataType::kFp32);
        EXPECT_EQ(tensor.shape, (Shape{1, 2}));
        const float expected[] = {5, 6};
        ASSERT_EQ(tensor.data.size(), sizeof(expected));
        EXPECT_EQ(std::memcmp(tensor.data.data(), expected, sizeof(expected)), 0);
        break;
      }
      case 1: {
        const NodeTensor& value = packet.Get<PythonTensor>().value;
        EXPECT_TRUE(value.has_bytes);
        EXPECT_EQ(value.tensor.type, DataType::kCustom);
        EXPECT_EQ(value.tensor.custom_type, "mine");
        EXPECT_EQ(value.tensor.shape, (Shape{7}));
        EXPECT_EQ(value.tensor.data.size(), 8U);
        break;
      }
      case 2:
        EXPECT_TRUE(packet.Get<bool>());
        break;
      case 3:
        EXPECT_EQ(packet.Get<int64_t>(), 6);
        break;
      case 4:
        EXPECT_EQ(packet.Get<std::string>(), std::string("a\0b", 3));
        break;
      default:
        EXPECT_EQ(packet.Get<PluginObject>().type, "value");
    }
  }
  // Two tensors of two values each, and an object.
  EXPECT_EQ(Count("LiveValues"), 5);
  kept_->packets.clear();
  // The next call tells the worker to release an object.
  EXPECT_EQ(Load(Between("DelayCalculator")), OkStatus());
  EXPECT_EQ(Count("LiveValues"), 0);
}

TEST_P(PluginCalculatorTest, EachKindOfPacketIsRead) {
  ASSERT_EQ(LoadAndStart(Between("TellCalculator")), OkStatus());
  Tensor tensor;
  tensor.name = "t";
  tensor.type = DataType::kFp32;
  tensor.shape = {1, 2};
  const float values[] = {8, 9};
  tensor.data = CopyToHeap(std::as_bytes(std::span(values)));
  Add(OvTensor{tensor}, 0);
  tensor.type = DataType::kCustom;
  tensor.custom_type = "own";
  Add(PythonTensor{NodeTensor{tensor, true, nullptr}}, 1);
  Add(PythonTensor{NodeTensor{tensor, false, nullptr}}, 2);
  Add(true, 3);
  Add(int64_t{-4}, 4);
  Add(std::string("text"), 5);
  Add(MediaTensor{}, 6);
  Add(int32_t{1}, 7);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(kept_->Texts(), ElementsAre("FP32 t [1,2] 8 9 @0", "python own t [1,2] 8 9 @1", "kind 2 @2",
                                          "true @3", "-4 @4", "'text' @5", "kind 7 @6", "kind 7 @7"));
}

TEST_P(PluginCalculatorTest, ObjectsGoFromNodeToNode) {
  ASSERT_EQ(LoadAndStart("input_stream: 'in' output_stream: 'out' " +
                         Node("MakeCalculator",
                              "input_stream: 'in' output_stream: 'TENSOR:t' output_stream: "
                              "'PYTHON:p' output_stream: 'BOOL:b' output_stream: 'INT64:i' "
                              "output_stream: 'STRING:s' output_stream: 'OBJECT:o'") +
                         Node("TellCalculator", "input_stream: 'o' output_stream: 'out'")),
            OkStatus());
  Add(int64_t{3}, 0);
  Add(int64_t{4}, 1);
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(kept_->Texts(), ElementsAre("object 3 @0", "object 4 @1"));
}

TEST_P(PluginCalculatorTest, AKeptPacketOutlivesItsCall) {
  ASSERT_EQ(LoadAndStart(Between("DelayCalculator")), OkStatus());
  for (int64_t i = 0; i < 3; ++i) Add(10 + i, 2 * i);
  EXPECT_THAT(kept_->Numbers(), ElementsAre("2=10", "4=11"));
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(kept_->Numbers(), ElementsAre("2=10", "4=11", "5=12"));
  // A cancelled run still closes its nodes and releases their packets.
  const auto value = std::make_shared<const int>(1);
  ASSERT_EQ(LoadAndStart(Between("DelayCalculator")), OkStatus());
  Add(value, 0);
  EXPECT_EQ(value.use_count(), 2);
  run_->Cancel(CancelledError("enough"));
  run_.reset();
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_THAT(kept_->packets, IsEmpty());
}

TEST_P(PluginCalculatorTest, ASourceStops) {
  const std::string source = Node("SourceCalculator", "output_stream: 'out'", {{"count", "3"}});
  ASSERT_EQ(LoadAndStart("output_stream: 'out' " + source), OkStatus());
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(kept_->Numbers(), ElementsAre("0=0", "1=1", "2=2"));

  const std::string from =
      "input_side_packet: 'start' output_stream: 'out' " +
      Node("SourceCalculator", "input_side_packet: 'START:start' output_stream: 'out'", {{"count", "2"}});
  options_.side_packets["start"] = Packet::Of(int64_t{40});
  ASSERT_EQ(LoadAndStart(from), OkStatus());
  EXPECT_EQ(End(), OkStatus());
  EXPECT_THAT(kept_->Numbers(), ElementsAre("40=40", "41=41"));
  options_.side_packets["start"] = Packet::Of(true);
  EXPECT_THAT(LoadAndStart(from).message(), HasSubstr("Side packet \"start\" has type bool"));
}

TEST_P(PluginCalculatorTest, WhatADescriptionRefuses) {
  const std::pair<std::string, std::string> faults[] = {
      {"describe_fail", "it fails in describe"},
      {"describe_fail_without_text", "the calculator rejected the node"},
      {"describe_throw", "it throws in describe"},
      {"describe_throw_number", "unknown exception"},
      {"describe_port", "input_stream 'MORE:2' is missing"},
      {"describe_kind", "output_stream ':0' has an invalid kind: 0"},
  };
  for (const auto& [fault, text] : faults) {
    const Status status = Load(Faulty(fault));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << fault;
    EXPECT_THAT(status.message(), HasSubstr(text)) << fault;
  }
  EXPECT_THAT(Load("output_stream: 'out' " + Node("SourceCalculator", "output_stream: 'out'")).message(),
              HasSubstr("option count is missing"));
}

TEST_P(PluginCalculatorTest, AnOpenThatFails) {
  const std::pair<std::string, std::string> faults[] = {
      {"open_fail", "it fails in open"},
      {"open_fail_without_text", "the calculator failed"},
      {"open_throw", "it throws in open"},
      {"open_throw_number", "unknown exception"},
  };
  for (const auto& [fault, text] : faults) {
    EXPECT_THAT(LoadAndStart(Faulty(fault)).message(),
                HasSubstr("Calculator::Open() for node \"n\" failed: " + text));
    EXPECT_FALSE(kept_->end.has_value());
  }
  EXPECT_THAT(LoadAndStart(Between("UnmakeableCalculator")).message(),
              HasSubstr("cannot create the calculator's object"));
}

TEST_P(PluginCalculatorTest, CallsThatFail) {
  EXPECT_EQ(FaultOf(Faulty("none of these")), "none");
  const std::pair<std::string, std::string> faults[] = {
      {"process_fail", "it fails in process"},
      {"process_fail_without_text", "the calculator failed"},
      {"process_throw", "it throws in process"},
      {"process_throw_number", "unknown exception"},
      {"early", "Current minimum expected timestamp is 3 but received 2"},
      {"no_time", "timestamp not specified or set to illegal value"},
      {"no_port", "the node has no output_stream 'OTHER:3'"},
      {"no_packet", "an output without a packet"},
      {"closed", "Packet sent to closed"},
  };
  for (const auto& [fault, text] : faults) {
    const std::string found = FaultOf(Faulty(fault));
    EXPECT_THAT(found, HasSubstr("Calculator::Process() for node \"n\" failed: ")) << fault;
    EXPECT_THAT(found, HasSubstr(text)) << fault;
  }
  // A lower bound is ignored.
  EXPECT_EQ(FaultOf(Faulty("bound")), "none");
  EXPECT_THAT(FaultOf(Faulty("close_fail")),
              HasSubstr("Calculator::Close() for node \"n\" failed: it fails in close"));
  EXPECT_THAT(FaultOf(Faulty("close_throw")), HasSubstr("it throws in close"));
  EXPECT_THAT(FaultOf(Faulty("close_throw_number")), HasSubstr("unknown exception"));
}

TEST_P(PluginCalculatorTest, EachOwnerIsToldOnce) {
  ASSERT_EQ(LoadAndStart("input_stream: 'in' output_stream: 'out' output_stream: 'tensor' " +
                         Node("RawCalculator",
                              "input_stream: 'in' output_stream: 'out' output_stream: "
                              "'TENSOR:tensor'")),
            OkStatus());
  Add(true, 0);
  EXPECT_EQ(End(), OkStatus());
  run_.reset();
  // The first packet was valid and has left.
  EXPECT_THAT(kept_->Numbers(), ElementsAre("0=1"));
  EXPECT_EQ(Count("DoneOwners") - done_before_, 13);
  kept_->packets.clear();
  EXPECT_EQ(Count("DoneOwners") - done_before_, 14);
  EXPECT_EQ(Count("DoneAgain"), 0);
}

// A library in its own file, so that no other test keeps it loaded.
TEST_P(PluginCalculatorTest, PacketsOutliveTheCalculators) {
  const auto folder = std::move(TemporaryFolder::Create(::testing::TempDir(), "braid-calculators-")).value();
  const std::string copy = folder->path() + "/copy.so";
  std::filesystem::copy_file(LibraryPath("test_calculators"), copy);
  registry_ = std::make_shared<graph::CalculatorRegistry>();
  AddLibrary(copy);
  ASSERT_EQ(LoadAndStart("input_stream: 'in' " +
                         Node("MakeCalculator",
                              "input_stream: 'in' output_stream: 'TENSOR:t' output_stream: "
                              "'PYTHON:p' output_stream: 'BOOL:b' output_stream: 'INT64:i' "
                              "output_stream: 'STRING:s' output_stream: 'OBJECT:o'") +
                         " output_stream: 't' output_stream: 'o'"),
            OkStatus());
  Add(int64_t{1}, 0);
  EXPECT_EQ(End(), OkStatus());
  run_.reset();
  registry_.reset();
  ASSERT_EQ(kept_->packets.size(), 2U);
  void* library = dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto live = reinterpret_cast<long (*)()>(dlsym(library, "LiveValues"));
  EXPECT_EQ(live(), 3);
  kept_->packets.clear();
  EXPECT_EQ(live(), 0);
  dlclose(library);
}

INSTANTIATE_TEST_SUITE_P(Where, PluginCalculatorTest, ::testing::Values(Where::kInside, Where::kApart),
                         [](const auto& where) {
                           return where.param == Where::kInside ? "Inside" : "Apart";
                         });

}  // namespace
}  // namespace braid
