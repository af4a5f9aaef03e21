#include "mediapipe_graph/calculator_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/places.h"
#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LibraryPath(const std::string& name) {
  return std::string(test_places::kTestCalculators).append("/").append(name).append(".so");
}

TEST(CalculatorLibraryTest, LibrariesThatAreRefused) {
  graph::CalculatorRegistry registry;
  registry.Add<PassCalculator>("TakenCalculator");
  ASSERT_EQ(AddCalculatorLibrary(LibraryPath("test_calculators"), registry), OkStatus());
  const std::pair<std::string, std::string> faults[] = {
      {LibraryPath("wrong_version"),
       "it was built for version 2 of the calculator interface, but this server has version 1"},
      {LibraryPath("no_entry"), "it has no function 'braidCalculators'"},
      {LibraryPath("null_list"), "it lists no calculators"},
      {LibraryPath("empty_list"), "it lists no calculators"},
      {LibraryPath("no_name"), "calculator 1 has no name"},
      {LibraryPath("no_function"), "calculator 'OneCalculator' lacks a function"},
      {LibraryPath("twice"), "duplicate calculator 'TwiceCalculator'"},
      {LibraryPath("taken"), "calculator 'TakenCalculator' already exists"},
      {LibraryPath("test_calculators"), "calculator 'PassOnCalculator' already exists"},
      {LibraryPath("nowhere"), "No such file or directory"},
      {test_places::kTestCalculators, "not a file"},
      {std::string(test_places::kTestCalculators).append("/cmake_install.cmake"), "invalid ELF header"},
  };
  for (const auto& [path, text] : faults) {
    const Status status = AddCalculatorLibrary(path, registry);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(status.message(),
                HasSubstr(std::string("the calculator library '").append(path).append("' cannot be used: ")));
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
  for (const char* name : {"FirstCalculator", "TwiceCalculator", "NewCalculator", "OneCalculator"}) {
    EXPECT_EQ(registry.Find(name), nullptr) << name;
  }
}

// Served graphs, whose boundary checks the calculators' real outputs.
class ServedLibraryTest : public GraphFixture {
 protected:
  ServedLibraryTest() {
    EXPECT_EQ(AddCalculatorLibrary(LibraryPath("test_calculators"), *registry_), OkStatus());
  }
};

TEST_F(ServedLibraryTest, AnswersWithWhatComesBack) {
  const auto graph = Serve(
      "input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out' "
      "node { calculator: 'PassOnCalculator' input_stream: 'in' output_stream: 'out' }");
  const InferenceResponse response = Ask(graph, {Int32Tensor("in", {1, 2})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs.at(0)), ElementsAre(1, 2));
}

TEST_F(ServedLibraryTest, AnOutputOfAnotherKindIsAFaultOfTheGraph) {
  for (const std::string tag : {"OVTENSOR", "OVMS_PY_TENSOR", "TENSOR", "TFTENSOR", "IMAGE"}) {
    const auto graph =
        Serve("input_stream: 'OVTENSOR:in' output_stream: '" + tag +
                  ":out' "
                  "node { calculator: 'TellCalculator' input_stream: 'in' output_stream: 'text' }"
                  "node { calculator: 'PassOnCalculator' input_stream: 'text' output_stream: 'out' }",
              "tag_" + tag);
    const Status status = AskStatus(graph, {Int32Tensor("in", {1})});
    EXPECT_THAT(status.message(), HasSubstr("output_stream 'out' with the tag '")) << tag;
    EXPECT_THAT(status.message(), HasSubstr("its packet has std::string")) << tag;
  }
}

}  // namespace
}  // namespace braid
