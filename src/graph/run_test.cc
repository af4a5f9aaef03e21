#include "graph/run.h"

#include <deque>
#include <new>
#include <stdexcept>

#include "graph/testing/graph_fixture.h"

namespace braid::graph {
namespace {

using testing::CallText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Int;
using ::testing::IsEmpty;
using testing::Register;

class RunTest : public testing::GraphFixture {
 protected:
  static constexpr const char* kOneNode = R"(input_stream: "in" output_stream: "out"
      node { name: "node" calculator: "Node" input_stream: "in" output_stream: "out" })";

  void AddNode(testing::Behaviour behaviour) { Register(*registry, "Node", std::move(behaviour)); }
};

TEST_F(RunTest, PacketsPassThroughAChain) {
  LoadAndStart(R"(input_stream: "in" output_stream: "out"
                  node { calculator: "Pass" input_stream: "in" output_stream: "a" }
                  node { calculator: "Pass" input_stream: "a" output_stream: "out" })");
  Add(0, 7, 0);
  EXPECT_THAT(Out(), ElementsAre("0=7"));
  Add(0, 8, 5);
  EXPECT_FALSE(recorder->ended());
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("0=7", "5=8"));
}

TEST_F(RunTest, WhatCannotBeAdded) {
  Load(R"(input_stream: "in" node { calculator: "Sum" input_stream: "in" output_stream: "out" })");
  ASSERT_EQ(run->Start(), OkStatus());
  EXPECT_EQ(run->Start().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(run->AddPacket(0, Packet::Of(std::string("text"), Timestamp(0))),
            InvalidArgumentError("input stream 'in': the packet has type std::string; expected int"));
  EXPECT_EQ(run->AddPacket(0, Packet()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run->AddPacket(0, Packet::Of(1)),
            InvalidArgumentError(
                "input stream 'in': timestamp not specified or set to illegal value: Timestamp::Unset()"));
  run->CloseInput(0);
  run->CloseInput(0);
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_EQ(run->AddPacket(0, Int(1, 9)).code(), StatusCode::kFailedPrecondition);
}

TEST_F(RunTest, ATimeThatGoesBackFailsTheRun) {
  LoadAndStart(R"(input_stream: "in" node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  Add(0, 1, 5);
  Add(0, 2, 5);
  const Status status = recorder->Wait();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("stream \"in\". Current minimum expected timestamp is 6 but received 5."));
}

TEST_F(RunTest, OutputsOfANodeAreChecked) {
  int step = 0;
  AddNode({.contract =
               [](Contract& contract) {
                 contract.SetInput(0, PortType::Any());
                 contract.SetOutput(0, PortType::Of<int>());
                 contract.SetQuick();
                 return OkStatus();
               },
           .process =
               [&step](Context& context) {
                 if (step == 0) {
                   context.Output(0, Int(1, 5));
                   context.Output(0, Int(2, 4));
                 } else if (step == 1) {
                   context.Output(0, Packet::Of(true, Timestamp(5)));
                 } else if (step == 2) {
                   context.CloseOutput(0);
                   context.Output(0, Int(1, 5));
                 } else if (step == 3) {
                   context.SetNextTimestampBound(0, Timestamp(9));
                   context.SetNextTimestampBound(0, Timestamp(3));
                   context.Output(0, Int(1, 5));
                 } else {
                   context.Output(0, Packet::Of(7));
                 }
                 return OkStatus();
               }});
  Load(kOneNode);
  const std::vector<std::string> texts = {
      "Current minimum expected timestamp is 6 but received 4.", "expected int, but received bool.",
      "Packet sent to closed stream \"out\".", "Current minimum expected timestamp is 9 but received 5.",
      "set to illegal value: Timestamp::Unset()"};
  for (; step < 5; ++step) {
    MakeRun();
    ASSERT_EQ(run->Start(), OkStatus());
    Add(0, 1, 1);
    const std::string text = recorder->Wait().message();
    EXPECT_THAT(text, HasSubstr("Calculator::Process() for node \"node\" failed: "));
    EXPECT_THAT(text, HasSubstr(texts[static_cast<size_t>(step)]));
  }
}

TEST_F(RunTest, FailuresNameTheNodeAndTheCall) {
  std::string failing;
  int closes = 0;
  const auto fail = [&failing](const char* where) {
    if (failing == "throw" && std::string(where) == "Process") throw std::runtime_error("out of luck");
    return failing == where ? InternalError("it broke") : OkStatus();
  };
  AddNode({.open = [&](Context&) { return fail("Open"); },
           .process = [&](Context&) { return fail("Process"); },
           .close =
               [&](Context&) {
                 ++closes;
                 return fail("Close");
               }});
  Load(kOneNode);
  const std::string begin = "CalculatorGraph::Run() failed: \nCalculator::";
  failing = "Open";
  EXPECT_EQ(run->Start(), InternalError(begin + "Open() for node \"node\" failed: it broke"));
  EXPECT_EQ(closes, 0);
  EXPECT_FALSE(recorder->ended());
  for (const char* where : {"Process", "Close", "throw"}) {
    failing = where;
    closes = 0;
    MakeRun();
    ASSERT_EQ(run->Start(), OkStatus());
    Add(0, 1, 1);
    run->CloseAllInputs();
    const bool thrown = failing == "throw";
    EXPECT_EQ(recorder->Wait(),
              InternalError(begin + (thrown ? "Process" : where) + "() for node \"node\" failed: " +
                            (thrown ? "An exception was thrown: out of luck" : "it broke")));
    EXPECT_EQ(closes, 1);
  }
}

TEST_F(RunTest, AnOpenThatFailsClosesTheNodesThatAreOpen) {
  int closes = 0;
  AddNode({.close = [&](Context& context) {
    ++closes;
    EXPECT_EQ(context.input_timestamp(), Timestamp::Done());
    return InternalError("this too");
  }});
  Register(*registry, "Broken", {.open = [](Context&) { return InternalError("it broke"); }});
  Load(R"(input_stream: "in" output_stream: "out"
          node { name: "node" calculator: "Node" input_stream: "in" output_stream: "a" }
          node { name: "broken" calculator: "Broken" input_stream: "a" output_stream: "out" })");
  EXPECT_EQ(
      run->Start(),
      InternalError("CalculatorGraph::Run() failed: \nCalculator::Open() for node \"broken\" failed: it "
                    "broke\nCalculator::Close() for node \"node\" failed: this too"));
  EXPECT_EQ(closes, 1);
}

TEST_F(RunTest, MemoryThatACalculatorDoesNotGetIsToldAsThat) {
  AddNode({.process = [](Context&) -> Status { throw std::bad_alloc(); }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  EXPECT_EQ(recorder->Wait(),
            ResourceExhaustedError("CalculatorGraph::Run() failed: \nCalculator::Process() for node \"node\" "
                                   "failed: out of memory"));
}

TEST_F(RunTest, AnObserverThatThrowsFailsItsRunAndNoOther) {
  Load(R"(input_stream: "in" output_stream: "out"
          node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  for (int i = 0; i < 2; ++i) {
    MakeRun();
    recorder->on_packet = [] { throw std::bad_alloc(); };
    ASSERT_EQ(run->Start(), OkStatus());
    Add(0, 1, 1);
    EXPECT_EQ(recorder->Wait(), ResourceExhaustedError("CalculatorGraph::Run() failed: \nout of memory"));
  }
  // This thread drives the next run as usual.
  MakeRun();
  ASSERT_EQ(run->Start(), OkStatus());
  Add(0, 5, 1);
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=5"));
}

TEST_F(RunTest, SeveralFailuresAreToldTogether) {
  AddNode({.process = [](Context&) { return InternalError("first"); },
           .close = [](Context&) { return NotFoundError("second"); }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  EXPECT_EQ(recorder->Wait(),
            UnknownError("CalculatorGraph::Run() failed: \nCalculator::Process() for node \"node\" failed: "
                         "first\nCalculator::Close() for node \"node\" failed: second"));
}

TEST_F(RunTest, AfterAFailureNodesAreClosedButNotCalled) {
  std::vector<std::string> calls;
  AddNode({.process = [](Context&) { return InternalError("first"); }});
  Register(*registry, "Other",
           {.process =
                [&](Context& context) {
                  calls.push_back(CallText(context));
                  return OkStatus();
                },
            .close =
                [&](Context& context) {
                  calls.emplace_back("close");
                  context.Output(0, Int(1, 1));
                  return OkStatus();
                }});
  LoadAndStart(R"(input_stream: "a" input_stream: "b" output_stream: "out"
                  node { calculator: "Node" input_stream: "a" output_stream: "x" }
                  node { calculator: "Other" input_stream: "b" output_stream: "out" })");
  Add(1, 1, 1);
  run->SetPaused(true);
  Add(1, 2, 2);
  Add(0, 2, 2);
  EXPECT_THAT(calls, ElementsAre("1: 1"));
  calls.clear();
  run->SetPaused(false);
  EXPECT_FALSE(recorder->Wait().ok());
  // In either order of the calls.
  EXPECT_EQ(calls.back(), "close");
  EXPECT_THAT(Out(), IsEmpty());
}

// A generator like a Python node: each call is deferred, and a packet on LOOPBACK asks for the next one.
TEST_F(RunTest, ALoopRunsToItsEndAfterTheInputsAreClosed) {
  Deferral deferral;
  Context* context = nullptr;
  AddNode({.process = [&](Context& given) {
    context = &given;
    deferral = given.Defer();
    return OkStatus();
  }});
  LoadAndStart(R"(input_stream: "in" output_stream: "out"
      node {
        calculator: "Node" input_stream: "IN:in" input_stream: "LOOPBACK:loop"
        output_stream: "OUT:out" output_stream: "LOOPBACK:loop"
        input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
        input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
          options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }
      }
      node { calculator: "Pass" input_stream: "out" output_stream: "after" })");
  Add(0, 3, 10);
  run->CloseAllInputs();
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(deferral);
    EXPECT_EQ(CallText(*context), k == 0 ? "10: 3 -" : std::to_string(10 + k) + ": - ?");
    context->Output(1, Int(k, 10 + k));
    context->Output(0, Packet::Of(true, Timestamp(11 + k)));
    deferral.Finish(OkStatus());
    EXPECT_EQ(Out().size(), static_cast<size_t>(k + 1));
    EXPECT_FALSE(recorder->ended());
  }
  ASSERT_TRUE(deferral);
  deferral.Finish(OkStatus());
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("10=0", "11=1", "12=2"));
}

// It waits for its own loop, so its first packet is never processed.
TEST_F(RunTest, ALoopWithoutASyncSetEndsToo) {
  LoadAndStart(R"(input_stream: "in" output_stream: "out"
      node { calculator: "Pass" input_stream: "A:in" input_stream: "B:loop" output_stream: "A:out"
             output_stream: "B:loop" input_stream_info { tag_index: "B" back_edge: true } })");
  Add(0, 1, 1);
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), IsEmpty());
}

TEST_F(RunTest, ADeferralMayBeFinishedBeforeTheCallReturns) {
  AddNode({.process = [](Context& context) {
    Deferral deferral = context.Defer();
    context.Output(0, context.Input(0));
    deferral.Finish(OkStatus());
    return OkStatus();
  }});
  LoadAndStart(kOneNode);
  for (int i = 0; i < 100; ++i) Add(0, i, i);
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_EQ(Out().size(), 100u);
}

// Neither a chain of nodes nor a loop that continues at once needs more stack than one node.
TEST_F(RunTest, TheStackDoesNotGrow) {
  const char* least = nullptr;
  const char* most = nullptr;
  const auto note = [&] {
    // A local variable may be elsewhere under AddressSanitizer.
    const char* at = static_cast<const char*>(__builtin_frame_address(0));
    if (least == nullptr || at < least) least = at;
    if (most == nullptr || at > most) most = at;
  };
  AddNode({.process = [&](Context& context) {
    note();
    Deferral deferral = context.Defer();
    const int left = context.Input(context.Input(0).empty() ? 1 : 0).Get<int>();
    if (left > 0) context.Output(0, Packet::Of(left - 1, Timestamp(context.input_timestamp().value() + 1)));
    deferral.Finish(OkStatus());
    return OkStatus();
  }});
  LoadAndStart(R"(input_stream: "in"
      node { calculator: "Node" input_stream: "A:in" input_stream: "B:loop" output_stream: "B:loop"
             input_stream_info { tag_index: "B" back_edge: true }
             input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } })");
  // The call at an input's end has no packet.
  Add(0, 20000, 0);
  ASSERT_NE(least, nullptr);
  EXPECT_LT(most - least, 4096);
  run->Cancel(CancelledError("enough"));
  EXPECT_EQ(recorder->Wait(), CancelledError("enough"));
}

TEST_F(RunTest, WhatTheObserverAddsIsTakenUpWhenItReturns) {
  Load(R"(input_stream: "in" output_stream: "out"
          node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  int next = 1;
  recorder->on_packet = [&] {
    if (next < 10000) Add(0, next, next);
    if (next == 10000) run->CloseAllInputs();
    ++next;
  };
  ASSERT_EQ(run->Start(), OkStatus());
  Add(0, 0, 0);
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_EQ(Out().size(), 10000u);
}

TEST_F(RunTest, ADeferralThatIsLostFailsTheNode) {
  AddNode({.process = [](Context& context) {
    const Deferral lost = context.Defer();
    return OkStatus();
  }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  EXPECT_THAT(recorder->Wait().message(), HasSubstr("The node stopped its work without a result."));
}

TEST_F(RunTest, CancelEndsTheRunWhenDeferredNodesHaveEnded) {
  Deferral deferral;
  int cancels = 0;
  int closes = 0;
  AddNode({.process =
               [&](Context& context) {
                 deferral = context.Defer();
                 return OkStatus();
               },
           .close =
               [&](Context&) {
                 ++closes;
                 return OkStatus();
               },
           .cancel = [&] { ++cancels; }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  Add(0, 2, 2);
  run->Cancel(CancelledError("the client has gone"));
  run->Cancel(CancelledError("again"));
  EXPECT_EQ(cancels, 1);
  EXPECT_EQ(closes, 0);
  EXPECT_FALSE(recorder->ended());
  EXPECT_EQ(run->AddPacket(0, Int(3, 3)).code(), StatusCode::kFailedPrecondition);
  deferral.Finish(OkStatus());
  EXPECT_EQ(recorder->Wait(), CancelledError("the client has gone"));
  EXPECT_EQ(closes, 1);
  EXPECT_THAT(Out(), IsEmpty());
}

TEST_F(RunTest, ADeferralMayBeFinishedByCancel) {
  Deferral deferral;
  AddNode({.process =
               [&](Context& context) {
                 deferral = context.Defer();
                 return OkStatus();
               },
           .cancel = [&] { deferral.Finish(CancelledError("stopped")); }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  run->Cancel(CancelledError("why"));
  EXPECT_EQ(recorder->Wait(), CancelledError("why"));
}

TEST_F(RunTest, ARunThatIsLetGoOfIsCancelled) {
  LoadAndStart(R"(input_stream: "in" node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  run.reset();
  EXPECT_EQ(recorder->Wait().code(), StatusCode::kCancelled);
}

TEST_F(RunTest, WhilePausedNoNodeIsStarted) {
  LoadAndStart(R"(input_stream: "in" output_stream: "out"
                  node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  run->SetPaused(true);
  Add(0, 1, 1);
  run->CloseAllInputs();
  EXPECT_THAT(Out(), IsEmpty());
  EXPECT_FALSE(recorder->ended());
  run->SetPaused(false);
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=1"));
}

TEST_F(RunTest, ARunThatIsPausedCanBeCancelled) {
  LoadAndStart(R"(input_stream: "in" node { calculator: "Pass" input_stream: "in" output_stream: "out" })");
  run->SetPaused(true);
  Add(0, 1, 1);
  run->Cancel(CancelledError("why"));
  EXPECT_EQ(recorder->Wait(), CancelledError("why"));
}

TEST_F(RunTest, InputIsNotWantedWhileAQueueIsFull) {
  Deferral deferral;
  AddNode({.process = [&](Context& context) {
    deferral = context.Defer();
    return OkStatus();
  }});
  LoadAndStart(std::string(kOneNode) + "max_queue_size: 2");
  Add(0, 1, 1);
  Add(0, 2, 2);
  EXPECT_TRUE(run->wants_input());
  Add(0, 3, 3);
  EXPECT_FALSE(run->wants_input());
  EXPECT_EQ(recorder->wants(), 0);
  deferral.Finish(OkStatus());
  EXPECT_TRUE(run->wants_input());
  EXPECT_EQ(recorder->wants(), 1);
  deferral.Finish(OkStatus());
  deferral.Finish(OkStatus());
  EXPECT_EQ(recorder->wants(), 1);
}

TEST_F(RunTest, InputIsWantedWhenNothingElseCanHappen) {
  LoadAndStart(R"(input_stream: "a" input_stream: "b" max_queue_size: 1
                  node { calculator: "Sum" input_stream: "a" input_stream: "b" output_stream: "out" })");
  Add(0, 1, 1);
  Add(0, 2, 2);
  EXPECT_TRUE(run->wants_input());
}

TEST_F(RunTest, SourcesRunUntilTheyStopAndWaitForFullQueues) {
  int made = 0;
  int most = 0;
  int taken = 0;
  Register(*registry, "Source", {.process = [&](Context& context) {
    if (made == 50) return StopStatus();
    context.Output(0, Int(made, made));
    ++made;
    most = std::max(most, made - taken);
    return OkStatus();
  }});
  std::deque<Deferral> deferrals;
  AddNode({.process = [&](Context& context) {
    ++taken;
    context.Output(0, context.Input(0));
    deferrals.push_back(context.Defer());
    return OkStatus();
  }});
  LoadAndStart(R"(output_stream: "out" max_queue_size: 3
                  node { calculator: "Source" output_stream: "numbers" }
                  node { calculator: "Node" input_stream: "numbers" output_stream: "out" })");
  while (!deferrals.empty()) {
    Deferral first = std::move(deferrals.front());
    deferrals.pop_front();
    first.Finish(OkStatus());
  }
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_EQ(Out().size(), 50u);
  EXPECT_EQ(Out().back(), "49=49");
  EXPECT_LE(most, 4);
}

TEST_F(RunTest, SourcesOfALayerWaitForThoseBelow) {
  std::vector<std::string> calls;
  Register(*registry, "Source", {.process = [&](Context& context) {
    calls.push_back(context.contract().node_name());
    return calls.size() % 2 == 0 ? StopStatus() : OkStatus();
  }});
  LoadAndStart(R"(node { name: "late" calculator: "Source" output_stream: "a" source_layer: 1 }
                  node { name: "early" calculator: "Source" output_stream: "b" })");
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(calls, ElementsAre("early", "early", "late", "late"));
}

TEST_F(RunTest, ANodeMayStopTheWholeRun) {
  AddNode({.process = [](Context& context) {
    context.Output(0, context.Input(0));
    return StopStatus();
  }});
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  EXPECT_EQ(recorder->Wait(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=1"));
}

TEST_F(RunTest, SidePacketsOfTheRunAndOfNodes) {
  Register(*registry, "Give", {.open = [](Context& context) {
    context.SetOutputSidePacket(0, Packet::Of(40));
    return OkStatus();
  }});
  AddNode({.contract =
               [](Contract& contract) {
                 contract.SetInput(0, PortType::Of<int>());
                 contract.SetOutput(0, PortType::Of<int>());
                 contract.SetInputSidePacket(contract.input_side_packets().Find("A"), PortType::Of<int>());
                 contract.SetInputSidePacket(contract.input_side_packets().Find("B"), PortType::Of<int>());
                 contract.SetInputSidePacket(contract.input_side_packets().Find("C"), PortType::Any(), true);
                 contract.SetQuick();
                 return OkStatus();
               },
           .process =
               [](Context& context) {
                 const int sum = context.Input(0).Get<int>() + context.InputSidePacket(0).Get<int>() +
                                 context.InputSidePacket(1).Get<int>() +
                                 (context.InputSidePacket(2).empty() ? 0 : 1000);
                 context.Output(0, Packet::Of(sum, context.input_timestamp()));
                 return OkStatus();
               }});
  // The producer comes last, and is opened first.
  Load(R"(input_stream: "in" output_stream: "out" input_side_packet: "b" input_side_packet: "c"
          node { calculator: "Node" input_stream: "in" output_stream: "out"
                 input_side_packet: "A:a" input_side_packet: "B:b" input_side_packet: "C:c" }
          node { calculator: "Give" output_side_packet: "a" })");
  EXPECT_EQ(run->Start(), FailedPreconditionError("Side packet \"b\" is required but was not provided."));
  options.side_packets["b"] = Packet::Of(std::string("text"));
  MakeRun();
  EXPECT_EQ(run->Start(), FailedPreconditionError("Side packet \"b\" has type std::string; expected int."));
  options.side_packets["b"] = Packet::Of(2);
  MakeRun();
  ASSERT_EQ(run->Start(), OkStatus());
  Add(0, 500, 1);
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=542"));
}

TEST_F(RunTest, ASidePacketThatIsMissingIsToldBeforeOneOfAnotherType) {
  AddNode({.contract = [](Contract& contract) {
    contract.SetInput(0, PortType::Any());
    contract.SetInputSidePacket(0, PortType::Of<int>());
    contract.SetInputSidePacket(1, PortType::Of<int>());
    return OkStatus();
  }});
  Load(R"(input_stream: "in" input_side_packet: "a" input_side_packet: "b"
          node { calculator: "Node" input_stream: "in" input_side_packet: "A:a" input_side_packet: "B:b" })");
  options.side_packets["a"] = Packet::Of(std::string("text"));
  MakeRun();
  EXPECT_EQ(run->Start(), FailedPreconditionError("Side packet \"b\" is required but was not provided."));
}

TEST_F(RunTest, ANodeThatGivesNoSidePacketFailsTheStart) {
  Register(*registry, "Give", {});
  Register(*registry, "Take", {});
  Load(R"(node { name: "give" calculator: "Give" output_side_packet: "a" }
          node { calculator: "Take" input_side_packet: "a" })");
  EXPECT_THAT(run->Start().message(), HasSubstr("Calculator::Open() for node \"give\" failed: "));
}

TEST_F(RunTest, Services) {
  AddNode({.process = [](Context& context) {
    context.Output(0, context.Service("words").At(context.input_timestamp()));
    return context.Service("others").empty() ? OkStatus() : InternalError("found");
  }});
  options.services["words"] = Packet::Of(12);
  LoadAndStart(kOneNode);
  Add(0, 1, 1);
  EXPECT_THAT(Out(), ElementsAre("1=12"));
  EXPECT_EQ(Close(), OkStatus());
}

TEST_F(RunTest, OutputsOfOpenAndClose) {
  AddNode({.open =
               [](Context& context) {
                 EXPECT_EQ(context.input_timestamp(), Timestamp::Unstarted());
                 context.Output(0, Int(1, 1));
                 return OkStatus();
               },
           .close =
               [](Context& context) {
                 EXPECT_EQ(context.input_timestamp(), Timestamp::Done());
                 context.Output(0, Int(9, 9));
                 return OkStatus();
               }});
  LoadAndStart(R"(input_stream: "in" output_stream: "out"
                  node { calculator: "Pass" input_stream: "mid" output_stream: "out" }
                  node { calculator: "Node" input_stream: "in" output_stream: "mid" })");
  EXPECT_THAT(Out(), ElementsAre("1=1"));
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=1", "9=9"));
}

class BoundsTest : public RunTest {
 protected:
  // "filter" passes only odd values; "sum" waits for both paths.
  void StartFilter(std::optional<int64_t> offset) {
    Register(*registry, "Filter",
             {.contract =
                  [offset](Contract& contract) {
                    contract.SetInput(0, PortType::Of<int>());
                    contract.SetOutput(0, PortType::Of<int>());
                    if (offset) contract.SetTimestampOffset(*offset);
                    contract.SetQuick();
                    return OkStatus();
                  },
              .process =
                  [](Context& context) {
                    if (context.Input(0).Get<int>() % 2 != 0) {
                      context.Output(0, context.Input(0));
                    }
                    return OkStatus();
                  }});
    LoadAndStart(R"(input_stream: "in" output_stream: "out"
                    node { calculator: "Filter" input_stream: "in" output_stream: "odd" }
                    node { calculator: "Pass" input_stream: "odd" output_stream: "passed" }
                    node { calculator: "Sum" input_stream: "in" input_stream: "passed" output_stream: "out" })");
  }
};

TEST_F(BoundsTest, WithAnOffsetTheOtherWayNeedNotWait) {
  StartFilter(0);
  Add(0, 2, 1);
  EXPECT_THAT(Out(), ElementsAre("1=2"));
  Add(0, 3, 2);
  EXPECT_THAT(Out(), ElementsAre("1=2", "2=6"));
}

TEST_F(BoundsTest, WithoutOneItWaitsForTheNextPacketOrTheEnd) {
  StartFilter({});
  Add(0, 2, 1);
  EXPECT_THAT(Out(), IsEmpty());
  Add(0, 3, 2);
  EXPECT_THAT(Out(), ElementsAre("1=2", "2=6"));
  Add(0, 4, 3);
  EXPECT_EQ(Close(), OkStatus());
  EXPECT_THAT(Out(), ElementsAre("1=2", "2=6", "3=4"));
}

TEST_F(BoundsTest, ANegativeOffsetSettlesOnlyWhatIsBehind) {
  StartFilter(-5);
  Add(0, 2, 1);
  Add(0, 4, 5);
  EXPECT_THAT(Out(), IsEmpty());
  Add(0, 4, 6);
  EXPECT_THAT(Out(), ElementsAre("1=2"));
}

TEST_F(BoundsTest, ANodeMaySetABound) {
  AddNode({.process = [](Context& context) {
    context.SetNextTimestampBound(0, Timestamp(context.Input(0).Get<int>()));
    return OkStatus();
  }});
  LoadAndStart(R"(input_stream: "a" input_stream: "b" output_stream: "out"
                  node { calculator: "Node" input_stream: "a" output_stream: "x" }
                  node { calculator: "Sum" input_stream: "b" input_stream: "x" output_stream: "out" })");
  Add(1, 7, 10);
  Add(0, 10, 1);
  EXPECT_THAT(Out(), IsEmpty());
  Add(0, 11, 2);
  EXPECT_THAT(Out(), ElementsAre("10=7"));
}

TEST_F(BoundsTest, NodesThatProcessBoundsAreCalledForThem) {
  std::vector<std::string> calls;
  AddNode({.contract =
               [](Contract& contract) {
                 contract.SetProcessTimestampBounds();
                 return testing::AnyContract(contract);
               },
           .process =
               [&](Context& context) {
                 calls.push_back(CallText(context) + " " + context.InputBound(0).DebugString() + " " +
                                 context.InputBound(1).DebugString());
                 return OkStatus();
               }});
  LoadAndStart(R"(input_stream: "a" input_stream: "b"
                  node { calculator: "Node" input_stream: "A:a" input_stream: "B:b" })");
  Add(0, 1, 5);
  EXPECT_THAT(calls, IsEmpty());
  Add(1, 2, 9);
  EXPECT_THAT(calls, ElementsAre("5: 1 - 6 9"));
  calls.clear();
  Add(0, 3, 20);
  EXPECT_THAT(calls, ElementsAre("9: - 2 20 10"));
}

TEST_F(BoundsTest, ClosedOutputsSettleEverything) {
  AddNode({.process = [](Context& context) {
    context.CloseOutput(0);
    return OkStatus();
  }});
  LoadAndStart(R"(input_stream: "a" input_stream: "b" output_stream: "out"
                  node { calculator: "Node" input_stream: "a" output_stream: "x" }
                  node { calculator: "Sum" input_stream: "b" input_stream: "x" output_stream: "out" })");
  Add(1, 7, 10);
  Add(0, 1, 1);
  EXPECT_THAT(Out(), ElementsAre("10=7"));
  EXPECT_EQ(Close(), OkStatus());
}

// The bound of a loop with a positive offset would grow forever.
TEST_F(BoundsTest, ALoopThatMovesItsBoundsEnds) {
  AddNode({.contract =
               [](Contract& contract) {
                 contract.SetTimestampOffset(1);
                 return testing::AnyContract(contract);
               },
           .process = [](Context&) { return OkStatus(); }});
  LoadAndStart(R"(input_stream: "in"
      node { calculator: "Node" input_stream: "A:in" input_stream: "B:loop" output_stream: "B:loop"
             input_stream_info { tag_index: "B" back_edge: true }
             input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } })");
  Add(0, 1, 1);
  EXPECT_EQ(Close(), OkStatus());
}

}  // namespace
}  // namespace braid::graph
