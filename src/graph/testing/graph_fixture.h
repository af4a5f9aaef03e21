// GraphFixture: a fixture for tests of graphs: a registry, and one run of one graph.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/testing/calculators.h"

namespace braid::graph::testing {

class GraphFixture : public ::testing::Test {
 protected:
  GraphFixture() {
    Register(*registry, "Pass", Pass());
    Register(*registry, "Sum", Sum());
  }

  // Closes the nodes of a run that has not ended before the test's own members are destroyed.
  void TearDown() override { run.reset(); }

  Result<std::shared_ptr<const Topology>> TryLoad(const std::string& text,
                                                  const std::vector<std::string>& provided = {}) {
    BRAID_ASSIGN_OR_RETURN(::mediapipe::CalculatorGraphConfig config, ParseGraphConfig(text));
    return Topology::Create(std::move(config), registry, provided);
  }
  // Returns the faults of a graph that cannot be loaded.
  std::string Faults(const std::string& text) {
    auto loaded = TryLoad(text);
    return loaded.ok() ? "none" : loaded.status().message();
  }
  void Load(const std::string& text, const std::vector<std::string>& provided = {}) {
    auto loaded = TryLoad(text, provided);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    topology = *std::move(loaded);
    MakeRun();
  }
  void MakeRun() {
    recorder = std::make_shared<Recorder>();
    run = graph::Run::Create(topology, options, recorder);
  }
  void LoadAndStart(const std::string& text) {
    Load(text);
    ASSERT_TRUE(run);
    ASSERT_EQ(run->Start(), OkStatus());
  }
  void Add(int input, int value, int64_t at) { ASSERT_EQ(run->AddPacket(input, Int(value, at)), OkStatus()); }
  Status Close() {
    run->CloseAllInputs();
    return recorder->Wait();
  }
  std::vector<std::string> Out(int output = 0) const { return recorder->Texts(output); }

  std::shared_ptr<CalculatorRegistry> registry = std::make_shared<CalculatorRegistry>();
  graph::Run::Options options;
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<Recorder> recorder;
  std::shared_ptr<graph::Run> run;
};

}  // namespace braid::graph::testing
