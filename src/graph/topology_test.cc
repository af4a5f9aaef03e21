#include "graph/topology.h"

#include "graph/testing/graph_fixture.h"

namespace braid::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Register;

class TopologyTest : public testing::GraphFixture {
 protected:
  TopologyTest() {
    Register(*registry, "Any", {});
    Register(*registry, "Text", {.contract = [](Contract& contract) {
      contract.SetInput(0, PortType::Of<std::string>());
      contract.SetOutput(0, PortType::Of<std::string>());
      return OkStatus();
    }});
    Register(*registry, "Refuses",
             {.contract = [](Contract&) { return InvalidArgumentError("needs an option"); }});
  }
  // Returns a graph of one node that passes "in" on to "out", with more text for the node and the graph.
  static std::string Graph(const std::string& node, const std::string& graph = "") {
    return R"(input_stream: "in" output_stream: "out"
              node { calculator: "Pass" input_stream: "in" output_stream: "out" )" +
           node + "}" + graph;
  }
  static std::string Handler(const std::string& name, const std::string& options) {
    return "input_stream_handler { input_stream_handler: \"" + name +
           "InputStreamHandler\" options { [mediapipe." + name + "InputStreamHandlerOptions.ext] {" +
           options + "} } }";
  }
};

TEST_F(TopologyTest, WhatAGraphIs) {
  Load(R"(input_stream: "B:b" input_stream: "A:a" output_stream: "OUT:sum" input_side_packet: "S:side"
          node { name: "first" calculator: "mediapipe.Sum" input_stream: "X:b" input_stream: "C:1:a"
                 input_stream: "C:b" output_stream: "sum" }
          node { calculator: "Any" input_stream: "sum" input_side_packet: "side" output_stream: "unread" })");
  ASSERT_TRUE(topology);
  EXPECT_THAT(topology->inputs(), ElementsAre(Port{"B", 0, "b"}, Port{"A", 0, "a"}));
  EXPECT_THAT(topology->outputs(), ElementsAre(Port{"OUT", 0, "sum"}));
  EXPECT_THAT(topology->input_side_packets(), ElementsAre(Port{"S", 0, "side"}));
  EXPECT_EQ(topology->node_count(), 2);
  EXPECT_EQ(topology->contract(0).node_name(), "first");
  EXPECT_EQ(topology->calculator(0), "Sum");
  EXPECT_EQ(topology->contract(1).node_name(), "Any");
  // By tag, then by index.
  const Ports& inputs = topology->contract(0).inputs();
  EXPECT_EQ(inputs[0], (Port{"C", 0, "b"}));
  EXPECT_EQ(inputs[1], (Port{"C", 1, "a"}));
  EXPECT_EQ(inputs[2], (Port{"X", 0, "b"}));
  EXPECT_EQ(inputs.Find("C", 1), 1);
  EXPECT_EQ(inputs.Count("C"), 2);
  EXPECT_EQ(inputs.FindName("a"), 1);
  EXPECT_EQ(inputs.Find("Y"), -1);
  EXPECT_EQ(topology->input_type(0)->name(), "int");
  EXPECT_EQ(topology->output_type(0)->name(), "int");
  EXPECT_THAT(topology->readers("sum").nodes, ElementsAre(1));
  EXPECT_TRUE(topology->readers("sum").graph_output);
  EXPECT_FALSE(topology->readers("b").graph_output);
}

TEST_F(TopologyTest, NodesOfOneNameGetNumbers) {
  Load(R"(input_stream: "a"
          node { calculator: "Pass" input_stream: "a" output_stream: "b" }
          node { calculator: "Pass" input_stream: "b" output_stream: "c" }
          node { name: "other" calculator: "Pass" input_stream: "c" output_stream: "d" })");
  ASSERT_TRUE(topology);
  EXPECT_EQ(topology->contract(0).node_name(), "Pass_1");
  EXPECT_EQ(topology->contract(1).node_name(), "Pass_2");
  EXPECT_EQ(topology->contract(2).node_name(), "other");
}

TEST_F(TopologyTest, NamesAreChecked) {
  EXPECT_THAT(Faults(R"(input_stream: "In" node { calculator: "Any" })"),
              HasSubstr("input_stream of the graph: 'In' has an invalid name; expected [a-z_][a-z0-9_]*"));
  EXPECT_THAT(Faults(R"(input_stream: "in" node { name: "n" calculator: "Any" input_stream: "tag:in" })"),
              HasSubstr("node 'n': input_stream: 'tag:in' has an invalid tag; expected [A-Z_][A-Z0-9_]*"));
  EXPECT_THAT(Faults(R"(input_stream: "in" node { calculator: "Any" input_stream: "T:x:in" })"),
              HasSubstr("'T:x:in' has an index that is not a number"));
  EXPECT_THAT(Faults(R"(input_stream: "in" node { calculator: "Any" input_stream: "T:1:in" })"),
              HasSubstr("T:1 exists, but T:0 does not"));
  EXPECT_THAT(
      Faults(R"(input_stream: "in" node { calculator: "Any" input_stream: "T:in" input_stream: "T:0:in" })"),
      HasSubstr("'T:0:in' duplicates T:0"));
}

TEST_F(TopologyTest, ProducersAndConsumers) {
  EXPECT_THAT(
      Faults(R"(input_stream: "image" node { name: "n" calculator: "Any" input_stream: "imgae" })"),
      AllOf(HasSubstr("node 'n': input stream 'imgae' has no producer"), HasSubstr("did you mean 'image'?")));
  EXPECT_THAT(
      Faults(
          R"(input_stream: "a" node { name: "n" calculator: "Pass" input_stream: "a" output_stream: "a" })"),
      HasSubstr("node 'n': stream 'a' already has a producer, the graph"));
  EXPECT_THAT(Faults(R"(output_stream: "x" node { calculator: "Any" })"),
              HasSubstr("output_stream of the graph: stream 'x' has no producer"));
  EXPECT_THAT(Faults(R"(node { name: "n" calculator: "Any" input_side_packet: "py" })"),
              HasSubstr("node 'n': input side packet 'py' has no producer"));
  EXPECT_TRUE(TryLoad(R"(node { calculator: "Any" input_side_packet: "py" })", {"py"}).ok());
  EXPECT_THAT(Faults(R"(node { name: "a" calculator: "Any" output_side_packet: "s" }
                        node { name: "b" calculator: "Any" output_side_packet: "s" })"),
              HasSubstr("node 'b': side packet 's' already has a producer, node 'a'"));
}

TEST_F(TopologyTest, CalculatorsAndTheirContracts) {
  EXPECT_THAT(Faults(R"(node { name: "n" calculator: "Refusse" })"),
              HasSubstr("node 'n': calculator 'Refusse' is not known; did you mean 'Refuses'?"));
  EXPECT_THAT(Faults(R"(node { name: "n" calculator: "Refuses" })"), HasSubstr("node 'n': needs an option"));
  EXPECT_THAT(Faults(R"(input_stream: "in" node { name: "n" calculator: "Text" input_stream: "in"
                        output_stream: "A:a" output_stream: "B:b" })"),
              HasSubstr("node 'n': Text has no output_stream B:0 ('b')"));
}

TEST_F(TopologyTest, AllFaultsAreTold) {
  EXPECT_EQ(
      Faults(R"(input_stream: "in"
                      node { name: "a" calculator: "Nothing" input_stream: "in" }
                      node { name: "b" calculator: "Any" input_stream: "missing" }
                      status_handler { })"),
      "The graph is not valid:\n"
      "node 'a': calculator 'Nothing' is not known\n"
      "node 'b': input stream 'missing' has no producer; expected an output of a node or an input of the "
      "graph\n"
      "status_handler is not supported; errors of a run are sent to the client");
}

TEST_F(TopologyTest, TypesOfStreams) {
  EXPECT_THAT(
      Faults(R"(input_stream: "in"
                        node { name: "a" calculator: "Sum" input_stream: "in" output_stream: "sum" }
                        node { name: "b" calculator: "Text" input_stream: "IN:sum" output_stream: "OUT:t" })"),
      HasSubstr("input stream 'IN:sum' of node 'b' has type std::string, but output stream 'sum' of node "
                "'a' has type int"));
  // Passed on by a node in between.
  EXPECT_THAT(
      Faults(R"(input_stream: "in"
                        node { name: "a" calculator: "Sum" input_stream: "in" output_stream: "sum" }
                        node { name: "p" calculator: "Pass" input_stream: "sum" output_stream: "same" }
                        node { name: "b" calculator: "Text" input_stream: "same" output_stream: "t" })"),
      HasSubstr("node 'p' passes values of input stream 'sum' to output stream 'same', but output stream "
                "'sum' of node 'a' has type int and input stream 'same' of node 'b' has type std::string"));
  Load(R"(input_stream: "in" output_stream: "out"
          node { calculator: "Pass" input_stream: "in" output_stream: "same" }
          node { calculator: "Text" input_stream: "same" output_stream: "text" }
          node { calculator: "Any" input_stream: "text" output_stream: "out" })");
  ASSERT_TRUE(topology);
  EXPECT_EQ(topology->input_type(0)->name(), "std::string");
  EXPECT_FALSE(topology->output_type(0).has_value());
}

TEST_F(TopologyTest, CyclesNeedBackEdges) {
  const auto graph = [](const std::string& info) {
    return R"(input_stream: "in"
              node { name: "a" calculator: "Any" input_stream: "IN:in" input_stream: "BACK:loop" output_stream: "x" )" +
           info + R"(}
              node { name: "b" calculator: "Pass" input_stream: "x" output_stream: "loop" })";
  };
  const auto info = [](const std::string& tag_index, const std::string& back = "true") {
    return "input_stream_info { tag_index: \"" + tag_index + "\" back_edge: " + back + "}";
  };
  EXPECT_THAT(Faults(graph("")), HasSubstr("the graph has a cycle among or before these nodes: 'a' 'b'"));
  EXPECT_THAT(Faults(graph(info("BACK:0", "false"))), HasSubstr("the graph has a cycle"));
  EXPECT_EQ(Faults(graph(info("BACK:0"))), "none");
  EXPECT_EQ(Faults(graph(info("BACK"))), "none");
  EXPECT_THAT(Faults(graph(info("BACK:1"))),
              HasSubstr("node 'a': input_stream_info with tag_index 'BACK:1': the node has no such input"));
  EXPECT_THAT(Faults(graph(info("BACK:0") + info("BACK"))), HasSubstr("duplicate entry for the input"));
  EXPECT_THAT(Faults(graph(info("BACK:x"))), HasSubstr("expected 'TAG', 'TAG:INDEX' or ':INDEX'"));
  for (const char* tag_index : {"1", ":1"}) {
    EXPECT_EQ(Faults(R"(input_stream: "in" node { calculator: "Any" input_stream: "in" input_stream: "loop"
                        output_stream: "loop" )" +
                     info(tag_index) + "}"),
              "none");
  }
}

TEST_F(TopologyTest, Executors) {
  EXPECT_EQ(Faults(Graph("executor: \"slow\"", "executor { name: \"slow\" type: \"ThreadPoolExecutor\" }")),
            "none");
  EXPECT_THAT(Faults(Graph("executor: \"slow\"")), HasSubstr("node 'Pass': executor 'slow' not found"));
  EXPECT_THAT(Faults(Graph("", "executor { name: \"e\" type: \"Other\" }")),
              HasSubstr("type 'Other' is not known"));
  EXPECT_THAT(Faults(Graph("", "executor { name: \"e\" } executor { name: \"e\" }")),
              HasSubstr("duplicate executor 'e'"));
  EXPECT_THAT(Faults(Graph("", "num_threads: -1")), HasSubstr("num_threads is -1"));
  EXPECT_THAT(Faults(Graph("max_in_flight: -2")), HasSubstr("max_in_flight is -2"));
  EXPECT_THAT(Faults(Graph("", "max_queue_size: -2")), HasSubstr("max_queue_size is -2"));
}

TEST_F(TopologyTest, FieldsThatAreNotSupported) {
  EXPECT_THAT(Faults(Graph("", "packet_factory { }")), HasSubstr("packet_factory is not supported"));
  EXPECT_THAT(Faults(Graph("", "packet_generator { }")), HasSubstr("packet_generator is not supported"));
  EXPECT_THAT(Faults(Graph("option_value: \"a:b\"")),
              HasSubstr("option_value and external_input are not supported"));
  EXPECT_EQ(Faults(Graph("buffer_size_hint: 3 source_layer: 1",
                         "profiler_config { } report_deadlock: true package: \"p\" type: \"T\"")),
            "none");
  EXPECT_EQ(Faults("input_stream: \"in\""), "The graph is not valid:\nthe graph has no node");
}

TEST_F(TopologyTest, HandlersAndTheirOptions) {
  EXPECT_THAT(Faults(Graph("input_stream_handler { input_stream_handler: \"SyncInputStreamHandler\" }")),
              HasSubstr("input_stream_handler 'SyncInputStreamHandler' is not known; did you mean "));
  EXPECT_THAT(Faults(Graph("", "input_stream_handler { input_stream_handler: \"Nothing\" }")),
              HasSubstr("node 'Pass': input_stream_handler 'Nothing' is not known"));
  EXPECT_THAT(Faults(Graph("output_stream_handler { output_stream_handler: \"Other\" }")),
              HasSubstr("output_stream_handler 'Other' is not known; expected InOrderOutputStreamHandler"));
  EXPECT_EQ(Faults(Graph("output_stream_handler { output_stream_handler: \"InOrderOutputStreamHandler\" }")),
            "none");
  EXPECT_THAT(Faults(Graph(Handler("Default", "batch_size: 0"))), HasSubstr("batch_size of DefaultInput"));
  EXPECT_EQ(Faults(Graph(Handler("SyncSet", "sync_set { tag_index: \":0\" }"))), "none");
  EXPECT_THAT(
      Faults(Graph(Handler("SyncSet", "sync_set { tag_index: \"LOOPBACK:0\" }"))),
      HasSubstr(
          "node 'Pass': sync_set of SyncSetInputStreamHandler: tag_index 'LOOPBACK:0' is not an input of "
          "the node"));
  EXPECT_THAT(
      Faults(Graph(Handler("SyncSet", "sync_set { tag_index: \":0\" } sync_set { tag_index: \":0\" }"))),
      HasSubstr("tag_index ':0' is listed twice"));
  EXPECT_THAT(Faults(Graph(Handler("FixedSize", "target_queue_size: 0"))), HasSubstr("expected 1 or more"));
  EXPECT_THAT(Faults(Graph(Handler("TimestampAlign", "timestamp_base_tag_index: \"A:0\""))),
              HasSubstr("timestamp_base_tag_index of TimestampAlignInputStreamHandler is 'A:0'"));
  EXPECT_THAT(Faults(Graph("input_stream_handler { input_stream_handler: \"MuxInputStreamHandler\" }")),
              HasSubstr("MuxInputStreamHandler needs inputs"));
}

}  // namespace
}  // namespace braid::graph
