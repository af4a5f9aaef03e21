// Each input stream handler: the calls that a node gets, with their times and values.
#include "graph/input_handler.h"

#include "graph/testing/graph_fixture.h"

namespace braid::graph {
namespace {

using testing::CallText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Register;

class InputHandlerTest : public testing::GraphFixture {
 protected:
  InputHandlerTest() {
    Register(*registry, "Note",
             {.process =
                  [this](Context& context) {
                    calls.push_back(CallText(context));
                    return OkStatus();
                  },
              .close =
                  [this](Context&) {
                    calls.emplace_back("close");
                    return OkStatus();
                  }});
  }
  // Starts a node with inputs a, b and c, of the given tags, and a handler.
  void Start(const std::string& handler, const std::string& options = "", const std::string& ports = "") {
    std::string node =
        ports.empty() ? R"(input_stream: "A:a" input_stream: "B:b" input_stream: "C:c")" : ports;
    if (!options.empty()) node += " ";
    std::string text = R"(input_stream: "a" input_stream: "b" input_stream: "c" node { calculator: "Note" )" +
                       node + " input_stream_handler { input_stream_handler: \"" + handler +
                       "InputStreamHandler\" ";
    if (!options.empty()) {
      text += "options { [mediapipe." + handler + "InputStreamHandlerOptions.ext] {" + options + "} }";
    }
    LoadAndStart(text + "} }");
  }
  // Returns the calls since the last Calls().
  std::vector<std::string> Calls() { return std::exchange(calls, {}); }

  std::vector<std::string> calls;
};

TEST_F(InputHandlerTest, DefaultWaitsUntilATimeIsSettled) {
  Start("Default");
  Add(0, 1, 5);
  Add(1, 2, 5);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(2, 3, 7);
  EXPECT_THAT(Calls(), ElementsAre("5: 1 2 -"));
  Add(0, 4, 8);
  EXPECT_THAT(Calls(), IsEmpty());
  run->CloseInput(1);
  EXPECT_THAT(Calls(), ElementsAre("7: - - 3"));
  run->CloseInput(2);
  EXPECT_THAT(Calls(), ElementsAre("8: 4 - -"));
  run->CloseInput(0);
  EXPECT_THAT(Calls(), ElementsAre("close"));
  EXPECT_EQ(recorder->Wait(), OkStatus());
}

TEST_F(InputHandlerTest, DefaultWithABatchSizeGroupsCalls) {
  Start("Default", "batch_size: 3", "input_stream: \"a\"");
  Add(0, 1, 1);
  Add(0, 2, 2);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(0, 3, 3);
  EXPECT_THAT(Calls(), ElementsAre("1: 1", "2: 2", "3: 3"));
  Add(0, 4, 4);
  EXPECT_THAT(Calls(), IsEmpty());
  run->CloseAllInputs();
  EXPECT_THAT(Calls(), ElementsAre("4: 4", "close"));
}

TEST_F(InputHandlerTest, ImmediateRunsForEachPacketAndEachEnd) {
  Start("Immediate");
  Add(0, 1, 10);
  EXPECT_THAT(Calls(), ElementsAre("10: 1 - -"));
  Add(1, 2, 3);
  EXPECT_THAT(Calls(), ElementsAre("3: - 2 -"));
  run->CloseInput(1);
  EXPECT_THAT(Calls(), ElementsAre("Timestamp::Done(): - - -"));
  run->SetPaused(true);
  Add(0, 3, 12);
  Add(0, 4, 14);
  Add(2, 5, 13);
  run->SetPaused(false);
  EXPECT_THAT(Calls(), ElementsAre("12: 3 - -", "13: 4 - 5"));
  run->CloseInput(0);
  run->CloseInput(2);
  EXPECT_THAT(Calls(), ElementsAre("Timestamp::Done(): - - -", "Timestamp::Done(): - - -", "close"));
}

// A node that processes bounds runs for the last time that all inputs have settled.
TEST_F(InputHandlerTest, ImmediateTellsOfBoundsThatMoveByThemselves) {
  Register(*registry, "Bounds",
           {.contract =
                [](Contract& contract) {
                  contract.SetProcessTimestampBounds();
                  return testing::AnyContract(contract);
                },
            .process =
                [this](Context& context) {
                  calls.push_back(CallText(context));
                  return OkStatus();
                }});
  Register(*registry, "Settle", {.process = [](Context& context) {
    context.SetNextTimestampBound(0, context.input_timestamp().NextAllowedInStream());
    return OkStatus();
  }});
  LoadAndStart(R"(input_stream: "a" input_stream: "b"
      node { calculator: "Settle" input_stream: "b" output_stream: "settled" }
      node { calculator: "Bounds" input_stream: "A:a" input_stream: "B:settled"
             input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } })");
  Add(0, 1, 10);
  EXPECT_THAT(Calls(), ElementsAre("10: 1 -"));
  Add(1, 0, 4);
  EXPECT_THAT(Calls(), ElementsAre("4: - -"));
  Add(1, 0, 20);
  EXPECT_THAT(Calls(), ElementsAre("10: - -"));
  Add(0, 2, 11);
  EXPECT_THAT(Calls(), ElementsAre("11: 2 -"));
}

TEST_F(InputHandlerTest, SyncSetsAreIndependentInTime) {
  Start("SyncSet", "sync_set { tag_index: \"B\" }");
  Add(1, 1, 100);
  EXPECT_THAT(Calls(), ElementsAre("100: - 1 -"));
  Add(0, 2, 1);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(2, 3, 1);
  EXPECT_THAT(Calls(), ElementsAre("1: 2 - 3"));
  run->CloseInput(0);
  run->CloseInput(2);
  Add(1, 4, 101);
  EXPECT_THAT(Calls(), ElementsAre("101: - 4 -"));
  run->CloseInput(1);
  EXPECT_THAT(Calls(), ElementsAre("close"));
}

TEST_F(InputHandlerTest, BarrierTakesOneOfEachWhateverTheirTimes) {
  Start("Barrier");
  Add(0, 1, 50);
  Add(1, 2, 7);
  Add(0, 3, 40);  // earlier than the previous packet
  EXPECT_THAT(Calls(), IsEmpty());
  Add(2, 4, 9);
  EXPECT_THAT(Calls(), ElementsAre("7: 1 2 4"));
  Add(1, 5, 7);
  run->CloseInput(2);
  EXPECT_THAT(Calls(), ElementsAre("close"));
  EXPECT_EQ(Close(), OkStatus());
}

TEST_F(InputHandlerTest, EarlyCloseEndsWithTheFirstInput) {
  Start("EarlyClose");
  Add(0, 1, 5);
  Add(1, 2, 5);
  Add(2, 3, 5);
  EXPECT_THAT(Calls(), ElementsAre("5: 1 2 3"));
  Add(0, 4, 6);
  run->CloseInput(1);
  EXPECT_THAT(Calls(), ElementsAre("close"));
  Add(0, 5, 7);
  EXPECT_FALSE(recorder->ended());
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(InputHandlerTest, FixedSizeKeepsTheNewestOfALongQueue) {
  Start("FixedSize", "trigger_queue_size: 3 target_queue_size: 2",
        "input_stream: \"A:a\" input_stream: \"B:b\"");
  Add(0, 1, 1);
  Add(0, 2, 2);
  Add(0, 3, 3);   // drops 1
  Add(1, 10, 1);  // older than the kept packets
  EXPECT_THAT(Calls(), IsEmpty());
  Add(1, 20, 2);
  EXPECT_THAT(Calls(), ElementsAre("2: 2 20"));
  Add(1, 40, 4);
  EXPECT_THAT(Calls(), ElementsAre("3: 3 -"));
  run->CloseAllInputs();
  EXPECT_THAT(Calls(), ElementsAre("4: - 40", "close"));
}

TEST_F(InputHandlerTest, FixedSizeCutsWhenAllQueuesAreLong) {
  Start("FixedSize", "fixed_min_size: true", "input_stream: \"A:a\" input_stream: \"B:b\"");
  run->SetPaused(true);
  Add(0, 1, 1);
  Add(1, 1, 1);  // makes the node ready
  Add(0, 2, 2);
  Add(0, 3, 3);
  Add(0, 4, 4);
  Add(1, 20, 2);
  Add(1, 40, 4);  // the newest of both is 4
  run->SetPaused(false);
  EXPECT_THAT(Calls(), ElementsAre("1: 1 1", "4: 4 40"));
}

// Only a queue with more packets than the target makes the others drop packets.
TEST_F(InputHandlerTest, FixedSizeOfAQueueAtItsTargetDropsNothingElsewhere) {
  Start("FixedSize", "trigger_queue_size: 2 target_queue_size: 2",
        "input_stream: \"A:a\" input_stream: \"B:b\"");
  Add(0, 5, 5);
  Add(0, 6, 6);  // exactly the target
  Add(1, 10, 1);
  EXPECT_THAT(Calls(), ElementsAre("1: - 10"));
  Add(0, 7, 7);  // drops 5 and all before 6
  Add(1, 50, 5);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(1, 60, 6);
  EXPECT_THAT(Calls(), ElementsAre("6: 6 60"));
  run->CloseAllInputs();
  EXPECT_THAT(Calls(), ElementsAre("7: 7 -", "close"));
}

TEST_F(InputHandlerTest, MuxTakesWhatSelectSays) {
  Start("Mux", "", "input_stream: \"INPUT:0:a\" input_stream: \"INPUT:1:b\" input_stream: \"SELECT:c\"");
  if (!run) return;
  Add(0, 1, 1);
  Add(1, 2, 1);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(2, 1, 1);
  EXPECT_THAT(Calls(), ElementsAre("1: - 2 1"));
  Add(2, 0, 2);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(0, 3, 3);  // past the time: no packet comes there
  EXPECT_THAT(Calls(), ElementsAre("2: - - 0"));
  Add(2, 0, 3);
  EXPECT_THAT(Calls(), ElementsAre("3: 3 - 0"));
  run->CloseInput(2);
  EXPECT_THAT(Calls(), ElementsAre("close"));
}

TEST_F(InputHandlerTest, MuxRefusesNumbersOfNoInput) {
  Start("Mux", "", "input_stream: \"INPUT:0:a\" input_stream: \"INPUT:1:b\" input_stream: \"SELECT:c\"");
  Add(2, 2, 1);
  EXPECT_EQ(
      recorder->Wait(),
      InvalidArgumentError("CalculatorGraph::Run() failed: \nCalculator::Process() for node \"Note\" failed: "
                           "SELECT has 2 at 1; expected an input number from 0 to 1"));
}

TEST_F(InputHandlerTest, TimestampAlignMovesTheOthersToTheBase) {
  Start("TimestampAlign", "timestamp_base_tag_index: \"A:0\"", "input_stream: \"A:a\" input_stream: \"B:b\"");
  Add(0, 1, 10);
  EXPECT_THAT(Calls(), ElementsAre("10: 1 -"));
  Add(1, 20, 1000);
  Add(1, 21, 1010);
  EXPECT_THAT(Calls(), IsEmpty());
  Add(0, 2, 30);
  EXPECT_THAT(Calls(), ElementsAre("30: 2 20"));
  Add(0, 3, 50);
  EXPECT_THAT(Calls(), ElementsAre("40: - 21"));
  Add(1, 22, 1020);
  EXPECT_THAT(Calls(), ElementsAre("50: 3 22"));
  run->CloseAllInputs();
  EXPECT_THAT(Calls(), ElementsAre("close"));
}

}  // namespace
}  // namespace braid::graph
