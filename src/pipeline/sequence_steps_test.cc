// Pipelines and ensembles over stateful models.
#include "pipeline/dag_servable.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "pipeline/testing/fake_stateful.h"
#include "pipeline/testing/pipeline_fixture.h"

#if !defined(_GLIBCXX_TSAN)
// The thread sanitizer replaces operator new itself.
#include "base/testing/failing_allocation.h"
#endif

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

class SequenceNodesTest : public PipelineFixture {
 protected:
  std::shared_ptr<FakeStateful> AddStateful(const std::string& name, bool allowed = true) {
    auto model = std::make_shared<FakeStateful>(name, allowed);
    catalog_.Publish(model);
    return model;
  }
  // x -> a -> b -> out, both stateful.
  static OvmsPipelineConfig Chain() {
    return Entry({"x"}, {"out=b/y"},
                 {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("b", "mb", {"IN=a/y"}, {"OUT=y"})});
  }
  // x -> a and x -> b, concurrently.
  static OvmsPipelineConfig Fork() {
    return Entry({"x"}, {"of_a=a/y", "of_b=b/y"},
                 {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("b", "mb", {"IN=request/x"}, {"OUT=y"})});
  }

  std::shared_ptr<Cancellation> Begin(const std::shared_ptr<Servable>& servable, ResponseSink& sink,
                                      const Turn& turn, int32_t x = 1) {
    auto request = Request(servable, sink, {Int32Tensor("x", {x})});
    Name(*request, turn);
    auto cancellation = request->cancellation;
    servable->Infer(std::move(request));
    return cancellation;
  }
  InferenceResponse Ask(const std::shared_ptr<Servable>& servable, const Turn& turn, int32_t x = 1) {
    KeepingSink sink;
    Begin(servable, sink, turn, x);
    sink.Wait();
    return std::move(sink.responses().at(0));
  }
  Status AskStatus(const std::shared_ptr<Servable>& servable, const Turn& turn) {
    return Ask(servable, turn).status;
  }
  static uint64_t IdIn(const InferenceResponse& response) {
    EXPECT_TRUE(response.status.ok()) << response.status;
    EXPECT_EQ(std::count_if(response.outputs.begin(), response.outputs.end(),
                            [](const Tensor& output) { return output.name == "sequence_id"; }),
              1);
    const Tensor& output = Named(response.outputs, "sequence_id");
    EXPECT_EQ(output.type, DataType::kUint64);
    EXPECT_EQ(output.shape, Shape{1});
    uint64_t id = 0;
    std::memcpy(&id, output.data.data(), std::min(sizeof(id), output.data.size()));
    return id;
  }
};

// ---- definitions ----

TEST_F(SequenceNodesTest, AStatefulModelHasToAllowIt) {
  AddStateful("ma", false);
  AddStateful("mb");
  const Status status = Make(Chain()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.fault(), Fault::kPipelineStatefulModel);
  EXPECT_EQ(status.message(),
            "Stateful model cannot be subscribed to pipeline - pipeline 'p', node 'a': model 'ma' "
            "(\"allow_in_pipelines\": true in the model's entry allows it)");
}

TEST_F(SequenceNodesTest, AStatefulModelHasOneTurnARequest) {
  AddStateful("ma");
  AddPlus("cut", {-1, -1}, 0);
  auto cutting = Cutting(Dl("c", "cut", {"IN=request/x"}, {"OUT=y"}), 2);
  EXPECT_EQ(
      Fault(Entry({"x"}, {"out=a/y"}, {cutting, Dl("a", "ma", {"IN=c/y"}, {"OUT=y"})})),
      "Functionality not implemented - pipeline 'p', node 'a': model 'ma' is stateful and would run once "
      "for each piece of 'c'; a request can run it only once");
  auto of_request = Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})});
  of_request.demultiply_count = 2;
  EXPECT_THAT(Fault(of_request), HasSubstr("for each piece of 'request'"));
  EXPECT_EQ(Fault(Entry({"x"}, {"out=b/y"},
                        {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("b", "ma", {"IN=a/y"}, {"OUT=y"})})),
            "Functionality not implemented - pipeline 'p', node 'b': model 'ma' is stateful and already used "
            "by node 'a'; a request can run it only once");
}

TEST_F(SequenceNodesTest, AStatefulModelMayStandBehindAGather) {
  AddStateful("ma");
  AddSame("cut", 2);
  AddModel("flat", {Spec("IN", DataType::kInt32, {-1, -1})}, {Spec("OUT", DataType::kInt32, {-1})},
           [](const std::vector<Tensor>& inputs) {
             return std::vector{Ints("OUT", {1}, {Int32Values(inputs[0])[0]})};
           });
  auto p = Serve(
      Entry({"x"}, {"out=a/y"},
            {Cutting(Dl("c", "cut", {"IN=request/x"}, {"OUT=y"}), 2),
             Gathering(Dl("g", "flat", {"IN=c/y"}, {"OUT=y"}), "c"), Dl("a", "ma", {"IN=g/y"}, {"OUT=y"})}));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(p->info().stateful);
}

TEST_F(SequenceNodesTest, TheNamesOfSequencesAreTaken) {
  AddStateful("ma");
  const auto with = [this](const std::string& input, const std::string& output) {
    return Fault(Entry({input}, {output + "=a/y"}, {Dl("a", "ma", {"IN=request/" + input}, {"OUT=y"})}));
  };
  EXPECT_THAT(with("x", "sequence_id"),
              HasSubstr("output 'sequence_id': the name is reserved for the sequences of stateful models"));
  EXPECT_THAT(with("sequence_control_input", "y"), HasSubstr("input 'sequence_control_input': the name is"));
  // An output that the server adds to a model's responses cannot be a source.
  EXPECT_THAT(Fault(Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"sequence_id=y"})})),
              HasSubstr("it does not exist"));
}

TEST_F(SequenceNodesTest, APipelineSaysThatItIsStateful) {
  AddStateful("ma");
  AddPlus("plus", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"out=b/y"},
                       {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("b", "plus", {"IN=a/y"}, {"OUT=y"})}));
  ASSERT_TRUE(p->info().stateful);
  EXPECT_THAT(p->info().stateful->states, IsEmpty());
  EXPECT_TRUE(p->info().stateful->allow_in_pipelines);
  EXPECT_EQ(p->info().stateful->max_sequences, 500u);
  EXPECT_EQ(p->sequences(), nullptr);
  ASSERT_EQ(p->info().inputs.size(), 1u);
  ASSERT_EQ(p->info().outputs.size(), 1u);
  EXPECT_FALSE(
      Serve(Entry({"x"}, {"out=b/y"}, {Dl("b", "plus", {"IN=request/x"}, {"OUT=y"})}))->info().stateful);
}

// ---- requests ----

TEST_F(SequenceNodesTest, TheSequenceGoesToAllStatefulNodes) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  InferenceResponse response = Ask(p, StartOf(7), 5);
  EXPECT_EQ(IdIn(response), 7u);
  EXPECT_THAT(Int32Values(Named(response.outputs, "out")), ElementsAre(5));
  response = Ask(p, MiddleOf(7), 2);
  EXPECT_EQ(IdIn(response), 7u);
  EXPECT_THAT(Int32Values(Named(response.outputs, "out")), ElementsAre(12));
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 7)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 12)));
  response = Ask(p, EndOf(7), 1);
  EXPECT_EQ(IdIn(response), 7u);
  EXPECT_THAT(Int32Values(Named(response.outputs, "out")), ElementsAre(20));
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
  EXPECT_THAT(a->dropped(), IsEmpty());
  EXPECT_THAT(b->dropped(), IsEmpty());
}

TEST_F(SequenceNodesTest, InputsNameTheSequenceToo) {
  const auto a = AddStateful("ma");
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  Tensor control = Int32Tensor("sequence_control_input", {1});
  control.type = DataType::kUint32;
  Send(p, sink, {Int32Tensor("x", {3}), control, SequenceIdOutput(9)});
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(IdIn(sink.responses()[0]), 9u);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(9, 3)));
  EXPECT_EQ(Failure(p, {Int32Tensor("x", {3})}).message(),
            "Sequence ID has not been provided in request inputs");
  EXPECT_THAT(Failure(p, {control, SequenceIdOutput(9)}).message(), HasSubstr("Expected: 3; Actual: 2"));
}

TEST_F(SequenceNodesTest, AllNodesKnowTheSequenceByTheServersId) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Fork());
  const uint64_t id = IdIn(Ask(p, StartOf(0), 5));
  EXPECT_NE(id, 0u);
  EXPECT_EQ(id >> 63, 0u);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(id, 5)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(id, 5)));
  EXPECT_NE(IdIn(Ask(p, StartOf(0))), id);
}

TEST_F(SequenceNodesTest, TheIdMayBeAskedForByItsName) {
  AddStateful("ma");
  auto p = Serve(Entry({"x"}, {"out=a/y", "same=request/x"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Int32Tensor("x", {1})});
  Name(*request, StartOf(7));
  request->requested_outputs = {"sequence_id", "out"};
  p->Infer(std::move(request));
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(IdIn(sink.responses()[0]), 7u);
  EXPECT_EQ(sink.responses()[0].outputs.size(), 2u);
}

TEST_F(SequenceNodesTest, TextsNameNoSequence) {
  AddStateful("ma");
  auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})}));
  KeepingSink sink;
  auto request = Request(p, sink, {Int32Tensor("x", {1})});
  request->correlation_id = std::string("seven");
  request->sequence_start = true;
  p->Infer(std::move(request));
  EXPECT_EQ(sink.status(),
            InvalidArgumentError("a sequence of a stateful model needs a numeric id, not 'seven'"));
}

TEST_F(SequenceNodesTest, APipelineMayBeANodeOfAnother) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto inner = Entry({"x"}, {"y=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})});
  inner.name = "inner";
  Serve(inner);
  auto p = Serve(Entry({"x"}, {"out=b/y"},
                       {Dl("i", "inner", {"x=request/x"}, {"y=y"}), Dl("b", "mb", {"IN=i/y"}, {"OUT=y"})}));
  EXPECT_EQ(IdIn(Ask(p, StartOf(3), 4)), 3u);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(3, 4)));
  // A sequence that the inner pipeline began is dropped, too.
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, StartOf(5)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(3, 4)));
  EXPECT_TRUE(AskStatus(p, StartOf(5)).ok());
  // A failed step in the middle is taken back in the inner pipeline, too.
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, MiddleOf(3)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(3, 4), Pair(5, 1)));
}

// ---- failures ----

TEST_F(SequenceNodesTest, AStartThatFailsLeavesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  b->FailNext(InternalError("broken"));
  EXPECT_EQ(AskStatus(p, StartOf(7)), InternalError("broken (pipeline 'p', node 'b')"));
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(a->dropped(), ElementsAre(7));
  EXPECT_THAT(b->dropped(), IsEmpty());
  EXPECT_EQ(IdIn(Ask(p, StartOf(7))), 7u);
}

TEST_F(SequenceNodesTest, AStartThatMeetsAnotherSequenceLeavesThat) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto alone = Entry({"x"}, {"out=b/y"}, {Dl("b", "mb", {"IN=request/x"}, {"OUT=y"})});
  alone.name = "alone";
  EXPECT_EQ(IdIn(Ask(Serve(alone), StartOf(7), 40)), 7u);
  auto p = Serve(Chain());
  EXPECT_EQ(AskStatus(p, StartOf(7)).code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 40)));
}

TEST_F(SequenceNodesTest, AStepThatFailsChangesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  Ask(p, StartOf(7), 1);
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, MiddleOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_THAT(Int32Values(Named(Ask(p, MiddleOf(7), 1).outputs, "out")), ElementsAre(3));
}

TEST_F(SequenceNodesTest, AStepThatOthersHaveGoneOnFromStays) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto alone = Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})});
  alone.name = "alone";
  auto other = Serve(alone);
  auto p = Serve(Chain());
  Ask(p, StartOf(7), 1);
  b->Hold();
  b->FailNext(InternalError("broken"));
  KeepingSink sink;
  Begin(p, sink, MiddleOf(7), 10);
  EXPECT_TRUE(Ask(other, MiddleOf(7), 100).status.ok());
  EXPECT_TRUE(b->LetGo());
  ASSERT_TRUE(sink.ended());
  EXPECT_FALSE(sink.status().ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 111)));
}

TEST_F(SequenceNodesTest, ACancelledStepChangesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  Ask(p, StartOf(7), 1);
  b->Hold();
  KeepingSink sink;
  Begin(p, sink, MiddleOf(7), 10)->Cancel();
  EXPECT_TRUE(b->LetGo());
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 1)));
}

TEST_F(SequenceNodesTest, AnEndThatFailsIsOneForAllOrNone) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  Ask(p, StartOf(7), 1);
  a->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, EndOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 1)));
  EXPECT_THAT(b->sums(), ElementsAre(Pair(7, 1)));
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, EndOf(7)).ok());
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
  EXPECT_TRUE(AskStatus(p, StartOf(7)).ok());
}

TEST_F(SequenceNodesTest, TheFailureIsToldWhenNothingOfTheRequestIsLeft) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Fork());
  a->Hold();
  b->Hold();
  a->FailNext(InternalError("broken"));
  KeepingSink sink;
  Begin(p, sink, StartOf(7));
  EXPECT_TRUE(a->LetGo());
  EXPECT_FALSE(sink.ended());
  EXPECT_EQ(p->gate().inside(), 1u);
  EXPECT_TRUE(b->LetGo());  // it is cancelled
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status(), InternalError("broken (pipeline 'p', node 'a')"));
  EXPECT_EQ(p->gate().inside(), 0u);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
}

TEST_F(SequenceNodesTest, ACancelledStartLeavesNothing) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  b->Hold();
  KeepingSink sink;
  Begin(p, sink, StartOf(7))->Cancel();
  EXPECT_TRUE(b->LetGo());
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
}

TEST_F(SequenceNodesTest, ACancelledEndEndsAll) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto p = Serve(Chain());
  Ask(p, StartOf(7));
  a->Hold();
  KeepingSink sink;
  Begin(p, sink, EndOf(7))->Cancel();
  EXPECT_TRUE(a->LetGo());
  ASSERT_TRUE(sink.ended());
  EXPECT_THAT(a->sums(), IsEmpty());
  EXPECT_THAT(b->sums(), IsEmpty());
}

TEST_F(SequenceNodesTest, AStatelessNodeIsNoPartOfIt) {
  const auto a = AddStateful("ma");
  const auto plus = AddPlus("plus", {-1}, 1);
  auto p = Serve(Entry({"x"}, {"out=a/y"},
                       {Dl("b", "plus", {"IN=request/x"}, {"OUT=y"}), Dl("a", "ma", {"IN=b/y"}, {"OUT=y"})}));
  Ask(p, StartOf(7));
  // The stateless node has answered, which has ended nothing.
  a->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(p, EndOf(7)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 2)));
}

TEST_F(SequenceNodesTest, PrecisionsAreConvertedOnTheWay) {
  const auto a = AddStateful("ma");
  AddModel("wide", {Spec("IN", DataType::kInt32)}, {Spec("OUT", DataType::kInt64)},
           [](const std::vector<Tensor>& inputs) {
             const std::vector<int64_t> values{Int32Values(inputs[0])[0]};
             Tensor output;
             output.name = "OUT";
             output.type = DataType::kInt64;
             output.shape = {1};
             output.data = CopyToHeap(std::as_bytes(std::span(values)));
             return std::vector{output};
           });
  AddModel("broken", {Spec("IN")}, {Spec("OUT")},
           [](const std::vector<Tensor>&) { return std::vector<Tensor>(); });
  auto entry = Entry({"x"}, {"out=c/y"},
                     {Dl("b", "wide", {"IN=request/x"}, {"OUT=y"}), Dl("a", "ma", {"IN=b/y"}, {"OUT=y"}),
                      Dl("c", "broken", {"IN=a/y"}, {"OUT=y"})});
  entry.convert_precision = true;
  auto p = Serve(entry);
  EXPECT_FALSE(AskStatus(p, StartOf(7)).ok());
  EXPECT_THAT(a->dropped(), ElementsAre(7));
}

// Several clients, one sequence each at a time, with random faults: all models keep the same sequences.
TEST_F(SequenceNodesTest, WhateverFailsTheModelsHaveTheSameSequences) {
  constexpr uint64_t kClients = 4;
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  const std::vector<std::shared_ptr<Servable>> pipelines = {Serve(Chain()), [&] {
                                                              auto fork = Fork();
                                                              fork.name = "fork";
                                                              return Serve(fork);
                                                            }()};
  const auto client = [&](uint64_t id) {
    std::mt19937 random(static_cast<uint32_t>(id));
    bool live = false;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 4 == 0) (random() % 2 == 0 ? a : b)->FailNext(InternalError("broken"));
      Turn turn = live ? MiddleOf(id) : StartOf(id);
      if (live && random() % 2 == 0) turn = EndOf(id);
      KeepingSink sink;
      auto request = Request(pipelines[random() % 2], sink, {Int32Tensor("x", {1})});
      Name(*request, turn);
      if (random() % 8 == 0) request->cancellation->Cancel();
      const std::shared_ptr<Servable> servable = request->servable->share();
      servable->Infer(std::move(request));
      sink.Wait();
      const bool in_a = a->sums().contains(id);
      ASSERT_EQ(in_a, b->sums().contains(id)) << "client " << id << ", request " << i;
      const bool good = sink.status().ok();
      ASSERT_TRUE(!turn.start || in_a == good) << "client " << id << ", request " << i;
      ASSERT_TRUE(!turn.end || !good || !in_a) << "client " << id << ", request " << i;
      live = in_a;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= kClients; ++id) threads.emplace_back(client, id);
  for (std::thread& thread : threads) thread.join();
}

// ---- ensembles ----

TEST_F(SequenceNodesTest, EnsemblesCarryTheSequenceToo) {
  const auto a = AddStateful("ma");
  const auto b = AddStateful("mb");
  auto e =
      EnsembleFixture::Serve(StepText("ma", "x", "between") + StepText("mb", "between", "Y"), {"Y"}, {"x"});
  ASSERT_TRUE(e->info().stateful);
  InferenceResponse response = Ask(e, StartOf(7), 5);
  EXPECT_EQ(IdIn(response), 7u);
  EXPECT_THAT(Int32Values(Named(response.outputs, "Y")), ElementsAre(5));
  EXPECT_THAT(Int32Values(Named(Ask(e, MiddleOf(7), 1).outputs, "Y")), ElementsAre(11));
  b->FailNext(InternalError("broken"));
  EXPECT_FALSE(AskStatus(e, StartOf(8)).ok());
  EXPECT_THAT(a->sums(), ElementsAre(Pair(7, 6)));
  EXPECT_TRUE(AskStatus(e, StartOf(8)).ok());
}

TEST_F(SequenceNodesTest, StepsAreRefusedAsNodesAre) {
  AddStateful("forbidden", false);
  AddStateful("ma");
  AddStep("many", {}, true);
  const auto fault = [this](const std::string& steps, const std::string& output = "Y") {
    return EnsembleFixture::Make(steps, {output}, {"x"}).status().message();
  };
  EXPECT_EQ(
      fault(StepText("forbidden", "x", "Y")),
      "in ensemble 'e', step 'forbidden' (number 1) is a stateful model (\"allow_in_pipelines\": true in "
      "the model's entry allows it)");
  EXPECT_THAT(fault(StepText("many", "x", "z") + StepText("ma", "z", "Y")),
              HasSubstr("would run once for each response of a decoupled step"));
  EXPECT_THAT(fault(StepText("ma", "x", "z") + StepText("ma", "z", "Y")),
              HasSubstr("step 'ma' (number 2) is a stateful model that another step already uses"));
  EXPECT_THAT(fault(StepText("ma", "x", "sequence_id"), "sequence_id"),
              HasSubstr("the tensor 'sequence_id' has a name reserved for"));
}

// ---- memory ----

#if !defined(_GLIBCXX_TSAN)

// Keeps nothing and allocates nothing.
class EndSink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse>, bool final) override { ended_ = final; }
  bool WaitForEnd() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!ended_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return ended_;
  }

 private:
  std::atomic<bool> ended_{false};
};

TEST_F(SequenceNodesTest, ATurnForWhichThereIsNoMemoryLetsTheNextOneRun) {
  AddStateful("ma");
  AddStateful("mb");
  auto p = Serve(Chain());
  uint64_t id = 0;
  for (int failed = 1; failed > 0;) {
    ASSERT_LT(++id, 1000u);
    EndSink sink;
    EndSink next;
    auto request = Request(p, sink, {Int32Tensor("x", {1})});
    Name(*request, StartOf(id));
    FailingAllocation failing(static_cast<int>(id) - 1, 1);
    p->Begin(std::move(request));
    const bool ended = sink.WaitForEnd();
    failed = failing.Stop();
    ASSERT_TRUE(ended) << "allocation " << id - 1;
    Begin(p, next, EndOf(id));
    ASSERT_TRUE(next.WaitForEnd()) << "after allocation " << id - 1;
  }
  EXPECT_GT(id, 10u);
}

#endif

}  // namespace
}  // namespace braid
