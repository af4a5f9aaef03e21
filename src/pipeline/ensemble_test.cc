#include "pipeline/ensemble.h"

#include <gmock/gmock.h>

#include "pipeline/testing/ensemble_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<int32_t>;

class EnsembleTest : public EnsembleFixture {};

// ---- flow ----

TEST_F(EnsembleTest, RunsAChain) {
  AddStep("a", Plus(1));
  AddStep("b", Plus(10));
  auto e = Serve(StepText("a", "X", "T") + StepText("b", "T", "Y"));
  EXPECT_EQ(e->info().kind, ServableKind::kEnsemble);
  EXPECT_EQ(e->info().platform, "ensemble");
  EXPECT_FALSE(e->info().decoupled);
  KeepingSink sink;
  Ask(e, sink, {1, 2});
  ASSERT_TRUE(sink.ended());
  ASSERT_EQ(sink.responses().size(), 1u);
  EXPECT_EQ(sink.responses()[0].model_name, "e");
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{12, 13}));
  EXPECT_EQ(e->gate().inside(), 0u);
  const auto statistics = e->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count, 1u);
  EXPECT_EQ(statistics.queue.count, 1u);
  EXPECT_EQ(statistics.execution_count, 1u);
  EXPECT_EQ(statistics.inference_count, 1u);
  EXPECT_EQ(statistics.fail.count, 0u);
}

TEST_F(EnsembleTest, ATensorMayStayOnADeviceWhenAllWhoTakeItCan) {
  const auto maker = AddStep("maker");
  const auto taker = AddStep("taker", Identity());
  const auto other = AddStep("other", Identity());
  maker->set_device_tensors(false, true);
  taker->set_device_tensors(true, true);
  const auto wished = [&](const std::shared_ptr<Servable>& ensemble) {
    KeepingSink sink;
    Ask(ensemble, sink, {1});
    const auto request = maker->Take();
    AnswerPlus(*request, 1);
    EXPECT_TRUE(sink.ended());
    return request->device_outputs;
  };
  const std::string first = StepText("maker", "X", "T");
  EXPECT_THAT(wished(Serve(first + StepText("taker", "T", "Y"))), ElementsAre("OUT"));
  EXPECT_THAT(wished(Serve(first + StepText("other", "T", "Y"))), ::testing::IsEmpty());
  EXPECT_THAT(wished(Serve(first + StepText("taker", "T", "Y") + StepText("other", "T", "Z"), {"Y", "Z"})),
              ::testing::IsEmpty());
  EXPECT_THAT(wished(Serve(first + StepText("taker", "T", "Y") + StepText("taker", "T", "Z"), {"Y", "Z"})),
              ElementsAre("OUT"));
  // The client gets T, too.
  EXPECT_THAT(wished(Serve(first + StepText("taker", "T", "Y"), {"Y", "T"})), ::testing::IsEmpty());
  maker->set_device_tensors(false, false);
  EXPECT_THAT(wished(Serve(first + StepText("taker", "T", "Y"))), ::testing::IsEmpty());
}

TEST_F(EnsembleTest, TensorsOnADeviceGoThroughOneWithinAnother) {
  const auto maker = AddStep("maker");
  const auto taker = AddStep("taker");
  AddStep("other", Identity());
  maker->set_device_tensors(false, true);
  taker->set_device_tensors(true, true);
  // Depends on the steps that take its inputs and on those that make its outputs.
  EXPECT_TRUE(Serve(StepText("taker", "X", "Y"))->info().device_inputs);
  EXPECT_TRUE(Serve(StepText("taker", "X", "T") + StepText("other", "T", "Y"))->info().device_inputs);
  EXPECT_FALSE(Serve(StepText("other", "X", "T") + StepText("taker", "T", "Y"))->info().device_inputs);
  EXPECT_FALSE(
      Serve(StepText("taker", "X", "Y") + StepText("other", "X", "Z"), {"Y", "Z"})->info().device_inputs);
  EXPECT_TRUE(Serve(StepText("maker", "X", "Y"))->info().device_outputs);
  EXPECT_FALSE(Serve(StepText("other", "X", "Y"))->info().device_outputs);
  // An output may stay on the device if the caller takes it there.
  const auto e = Serve(StepText("maker", "X", "T") + StepText("taker", "T", "Y"), {"Y", "T"});
  for (const bool taken : {true, false}) {
    KeepingSink sink;
    auto asked = Request(e, sink, {Int32Tensor("X", {1})});
    if (taken) asked->device_outputs = {"T"};
    e->Begin(std::move(asked));
    auto made = maker->Take();
    EXPECT_EQ(made->device_outputs.size(), taken ? 1u : 0u);
    AnswerPlus(*made, 1);
    made.reset();
    auto last = taker->Take();
    EXPECT_THAT(last->device_outputs, ::testing::IsEmpty());
    AnswerPlus(*last, 1);
    EXPECT_TRUE(sink.ended());
  }
}

TEST_F(EnsembleTest, AStepThatWasLoadedAgainMayTakeNothingOnADevice) {
  const auto taker = AddStep("taker");
  taker->set_device_tensors(true, true);
  const auto e = Serve(StepText("taker", "X", "Y"));
  taker->set_device_tensors(false, false);
  KeepingSink sink;
  auto asked = Request(e, sink, {Int32Tensor("X", {1})});
  asked->inputs[0].data = Buffer(nullptr, 4, nullptr);  // on a device
  e->Begin(std::move(asked));
  EXPECT_EQ(taker->kept(), 0u);
  ASSERT_TRUE(sink.ended());
  EXPECT_THAT(sink.responses()[0].status.message(), HasSubstr("no longer accepts inputs on a GPU"));
}

TEST_F(EnsembleTest, AThousandStepsNeedTheStackOfOne) {
  int depth = 0;
  int deepest = 0;
  AddStep("a", [&](std::unique_ptr<InferenceRequest> request) {
    deepest = std::max(deepest, ++depth);
    AnswerPlus(*request, 1);
    --depth;
  });
  auto tensor = [](int i) { return std::string("T").append(std::to_string(i)); };
  std::string steps;
  // In reverse order, so that no step can run before the steps that are read after it.
  for (int i = 999; i >= 0; --i) {
    steps += StepText("a", i == 0 ? "X" : tensor(i), i == 999 ? "Y" : tensor(i + 1));
  }
  auto e = Serve(steps);
  KeepingSink sink;
  Ask(e, sink, {0});
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{1000}));
  EXPECT_EQ(deepest, 1);
}

TEST_F(EnsembleTest, BranchesRunBesideEachOtherAndShareTheirTensor) {
  AddStep("split", Identity());
  auto left = AddStep("left");
  auto right = AddStep("right");
  AddStep("join",
          [](std::unique_ptr<InferenceRequest> request) {
            EXPECT_EQ(request->inputs[0].name, "A");
            EXPECT_EQ(request->inputs[1].name, "B");
            const int32_t sum = Int32Values(request->inputs[0])[0] + 100 * Int32Values(request->inputs[1])[0];
            request->Respond(FakeStep::Response({Int32Tensor("OUT", {sum})}), true);
          },
          false, {"A", "B"});
  auto e =
      Serve(StepText("split", "X", "T") + StepText("left", "T", "L") + StepText("right", "T", "R") +
            "step { model_name: 'join' input_map { key: 'B' value: 'R' } input_map { key: 'A' value: 'L' } "
            "output_map { key: 'OUT' value: 'Y' } }");
  KeepingSink sink;
  Ask(e, sink, {3});
  ASSERT_EQ(left->kept(), 1u);
  ASSERT_EQ(right->kept(), 1u);
  auto l = left->Take();
  auto r = right->Take();
  EXPECT_EQ(l->inputs[0].data.data(), r->inputs[0].data.data());
  EXPECT_FALSE(l->inputs[0].data.owner()->unique());
  AnswerPlus(*r, 4);
  EXPECT_FALSE(sink.ended());
  // The remaining consumer has the only reference.
  r.reset();
  EXPECT_TRUE(l->inputs[0].data.owner()->unique());
  AnswerPlus(*l, 1);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{704}));
}

TEST_F(EnsembleTest, TensorsGoOnByTheirHandles) {
  AddStep("a", Identity());
  auto last = AddStep("b");
  auto e = Serve(StepText("a", "X", "T") + StepText("b", "T", "Y"));
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {5})});
  const std::byte* bytes = request->inputs[0].data.data();
  e->Infer(std::move(request));
  auto step = last->Take();
  EXPECT_EQ(step->inputs[0].data.data(), bytes);
  EXPECT_TRUE(step->inputs[0].data.owner()->unique());
  Identity()(std::move(step));
  EXPECT_EQ(sink.responses()[0].outputs[0].data.data(), bytes);
  EXPECT_EQ(sink.responses()[0].outputs[0].name, "Y");
}

TEST_F(EnsembleTest, WhatAClientSaysHoldsForEveryStep) {
  auto a = AddStep("a", {}, false, {"IN"}, {"OUT", "OTHER"});
  auto e = Serve(StepText("a", "X", "Y"));
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {5})});
  request->correlation_id = uint64_t{7};
  request->sequence_start = true;
  request->sequence_end = true;
  request->priority = 3;
  request->timeout_us = 500;
  request->parameters = {{"p", int64_t{9}}};
  e->Infer(std::move(request));
  auto step = a->Take();
  EXPECT_EQ(step->id, "id");
  EXPECT_EQ(std::get<uint64_t>(step->correlation_id), 7u);
  EXPECT_TRUE(step->sequence_start && step->sequence_end);
  EXPECT_EQ(step->priority, 3u);
  EXPECT_EQ(step->timeout_us, 500u);
  EXPECT_EQ(step->parameters.size(), 1u);
  EXPECT_THAT(step->requested_outputs, ElementsAre("OUT"));
  EXPECT_GT(step->start_ns, 0);
  AnswerPlus(*step, 0);
  EXPECT_TRUE(sink.ended());
}

TEST_F(EnsembleTest, GivesTheOutputsThatAreAskedFor) {
  AddStep("a", Plus(1));
  AddStep("b", Plus(1));
  auto e = Serve(StepText("a", "X", "Y") + StepText("b", "Y", "Z"), {"Y", "Z"});
  KeepingSink both;
  Ask(e, both);
  EXPECT_THAT(both.Values("Y"), ElementsAre(Values{2}));
  EXPECT_THAT(both.Values("Z"), ElementsAre(Values{3}));
  KeepingSink one;
  auto request = Request(e, one, {Int32Tensor("X", {1})});
  request->requested_outputs = {"Z"};
  e->Infer(std::move(request));
  ASSERT_EQ(one.responses().size(), 1u);
  ASSERT_EQ(one.responses()[0].outputs.size(), 1u);
  EXPECT_EQ(one.responses()[0].outputs[0].name, "Z");
}

TEST_F(EnsembleTest, ChecksItsOwnInputs) {
  AddStep("a", Plus(1));
  auto e = Serve(StepText("a", "X", "Y"));
  KeepingSink sink;
  e->Infer(Request(e, sink, {Int32Tensor("W", {1})}));
  EXPECT_EQ(sink.status().message(), "unexpected inference input 'W' for model 'e'");
}

TEST_F(EnsembleTest, OptionalInputsThatNothingFeedsAreNotSent) {
  auto step = std::make_shared<FakeStep>("a", std::vector{Spec("IN"), Spec("MAYBE"), Spec("ALSO")},
                                         std::vector{Spec("OUT")});
  step->set_behaviour([](std::unique_ptr<InferenceRequest> request) {
    AnswerPlus(*request, 10 * static_cast<int32_t>(request->inputs.size()));
  });
  const_cast<TensorSpec&>(step->info().inputs[1]).optional = true;
  const_cast<TensorSpec&>(step->info().inputs[2]).optional = true;
  catalog_.Publish(step);
  auto made = Make(
      "step { model_name: 'a' input_map { key: 'IN' value: 'X' } input_map { key: 'ALSO' value: 'W' } "
      "output_map { key: 'OUT' value: 'Y' } }",
      {"Y"}, {"X", "W"});
  ASSERT_TRUE(made.ok()) << made.status();
  const_cast<TensorSpec&>((*made)->info().inputs[1]).optional = true;
  KeepingSink without;
  Ask(*made, without);
  EXPECT_THAT(without.Values("Y"), ElementsAre(Values{11}));
  KeepingSink with;
  (*made)->Infer(Request(*made, with, {Int32Tensor("X", {1}), Int32Tensor("W", {1})}));
  EXPECT_THAT(with.Values("Y"), ElementsAre(Values{21}));
}

TEST_F(EnsembleTest, ItsOwnReshapesHoldAtItsEnds) {
  auto step = std::make_shared<FakeStep>("a", std::vector{Spec("IN", DataType::kInt32, {2, -1})},
                                         std::vector{Spec("OUT", DataType::kInt32, {2, -1})});
  step->set_behaviour(Identity());
  catalog_.Publish(step);
  inference::ModelConfig config;
  config.set_name("e");
  config.add_output()->set_name("Y");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(StepText("a", "X", "Y"),
                                                            config.mutable_ensemble_scheduling()));
  ServableInfo info;
  info.name = "e";
  info.inputs.push_back(Spec("X", DataType::kInt32, {1, 2, -1}));
  info.inputs[0].model_shape.emplace(std::initializer_list<int64_t>{2, -1});
  info.outputs.push_back(Spec("Y", DataType::kInt32, {-1, 2}));
  info.outputs[0].model_shape.emplace(std::initializer_list<int64_t>{2, -1});
  info.config = std::make_shared<inference::ModelConfig>(std::move(config));
  auto e = MakeEnsemble(std::move(info), deps_);
  ASSERT_TRUE(e.ok()) << e.status();
  KeepingSink sink;
  Tensor x = Int32Tensor("X", {1, 2, 3, 4, 5, 6});
  x.shape = {1, 2, 3};
  (*e)->Infer(Request(*e, sink, {x}));
  ASSERT_TRUE(sink.status().ok()) << sink.status();
  EXPECT_EQ(sink.responses()[0].outputs[0].shape, (Shape{3, 2}));
}

TEST_F(EnsembleTest, BatchDimensionsComeAndGoBetweenModelsThatBatchAndThoseThatDoNot) {
  const auto add = [this](const std::string& name, int64_t most) {
    const Shape shape = most > 0 ? Shape{-1, 2} : Shape{2};
    auto step = std::make_shared<FakeStep>(name, std::vector{Spec("IN", DataType::kInt32, shape)},
                                           std::vector{Spec("OUT", DataType::kInt32, shape)});
    const_cast<ServableInfo&>(step->info()).max_batch_size = most;
    const_cast<ServableInfo&>(step->info()).outputs[0].labels = {name};
    step->set_behaviour([shape](std::unique_ptr<InferenceRequest> request) {
      EXPECT_EQ(request->inputs[0].shape.size(), shape.size());
      Identity()(std::move(request));
    });
    catalog_.Publish(step);
  };
  add("rows", 8);
  add("row", 0);
  struct Case {
    std::string steps;
    int64_t most;  // of the ensemble
    Shape shape;
    std::vector<std::string> own_labels = {};
    std::vector<std::string> labels;
  };
  const std::string both = StepText("row", "X", "T") + StepText("rows", "T", "Y");
  const std::string back = StepText("rows", "X", "T") + StepText("row", "T", "Y");
  for (const Case& each : {Case{StepText("rows", "X", "Y"), 0, {2}, {}, {"rows"}},
                           Case{StepText("row", "X", "Y"), 8, {1, 2}, {"own"}, {"own"}},
                           Case{both, 0, {2}, {}, {"rows"}}, Case{both, 8, {1, 2}, {}, {"rows"}},
                           Case{back, 0, {2}, {}, {"row"}}, Case{back, 8, {1, 2}, {}, {"row"}}}) {
    SCOPED_TRACE(each.steps + std::to_string(each.most));
    ServableInfo info = EnsembleInfo(each.steps);
    info.max_batch_size = each.most;
    for (auto* spec : {&info.inputs[0], &info.outputs[0]})
      spec->shape = each.most > 0 ? Shape{-1, 2} : Shape{2};
    info.outputs[0].labels = each.own_labels;
    auto e = MakeEnsemble(std::move(info), deps_);
    ASSERT_TRUE(e.ok()) << e.status();
    EXPECT_EQ((*e)->info().outputs[0].labels, each.labels);
    KeepingSink sink;
    Tensor x = Int32Tensor("X", {1, 2});
    x.shape = each.shape;
    (*e)->Infer(Request(*e, sink, {x}));
    ASSERT_TRUE(sink.status().ok()) << sink.status();
    EXPECT_EQ(sink.responses()[0].outputs[0].shape, each.shape);
  }
}

TEST_F(EnsembleTest, TheResponseCacheAnswersForTheWholeOfIt) {
  ResponseCache cache(1 << 20);
  const auto make = [&](const std::string& steps) {
    ServableInfo info = EnsembleInfo(steps);
    inference::ModelConfig config = *info.config;
    config.mutable_response_cache()->set_enable(true);
    info.config = std::make_shared<inference::ModelConfig>(std::move(config));
    return MakeEnsemble(std::move(info), {catalog_, timers_, call_graph_, &images_, &cache});
  };
  int runs = 0;
  AddStep("a", [&](std::unique_ptr<InferenceRequest> request) {
    if (++runs == 3) return request->Fail(UnavailableError("no"));
    AnswerPlus(*request, runs);
  })->set_device_tensors(true, true);
  AddStep("stream", {}, true);
  const auto e = make(StepText("a", "X", "Y"));
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_FALSE((*e)->info().device_inputs || (*e)->info().device_outputs);
  const auto ask = [&](int32_t x, uint64_t sequence = 0) {
    KeepingSink sink;
    auto request = Request(*e, sink, {Int32Tensor("X", {x})});
    request->correlation_id = sequence;
    (*e)->Infer(std::move(request));
    EXPECT_EQ(sink.responses()[0].model_name, "e");
    return sink.status().ok() ? sink.Values("Y")[0][0] : -1;
  };
  EXPECT_EQ(ask(10), 11);
  EXPECT_EQ(ask(10), 11);
  EXPECT_EQ(ask(20), 22);
  EXPECT_EQ(ask(30), -1);  // errors are not cached
  EXPECT_EQ(ask(30), 34);
  EXPECT_EQ(ask(30), 34);
  EXPECT_EQ(ask(30, 7), 35);
  const auto statistics = (*e)->statistics().Snapshot();
  EXPECT_EQ(statistics.cache_hit.count, 2u);
  EXPECT_EQ(statistics.cache_miss.count, 3u);
  EXPECT_EQ(make(StepText("stream", "X", "Y")).status().message(),
            "Response Cache does not currently support model e with 'decoupled' transaction policy. Please "
            "disable the "
            "response cache.");
}

TEST_F(EnsembleTest, AnEnsembleCanBeAStep) {
  AddStep("a", Plus(1));
  auto inner = Serve(StepText("a", "X", "T") + StepText("a", "T", "Y"));
  auto text = "step { model_name: 'e' input_map { key: 'X' value: 'P' } output_map { key: 'Y' value: 'Q' } }";
  inference::ModelConfig config;
  config.set_name("outer");
  config.add_output()->set_name("Q");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, config.mutable_ensemble_scheduling()));
  ServableInfo info;
  info.name = "outer";
  info.inputs.push_back(Spec("P"));
  info.outputs.push_back(Spec("Q"));
  info.config = std::make_shared<inference::ModelConfig>(std::move(config));
  auto outer = MakeEnsemble(std::move(info), deps_);
  ASSERT_TRUE(outer.ok()) << outer.status();
  KeepingSink sink;
  (*outer)->Infer(Request(*outer, sink, {Int32Tensor("P", {1})}));
  EXPECT_THAT(sink.Values("Q"), ElementsAre(Values{3}));
}

// ---- faults ----

TEST_F(EnsembleTest, AnErrorOfAStepEndsIt) {
  auto a = AddStep("a");
  auto b = AddStep("b");
  auto e = Serve(StepText("a", "X", "Y") + StepText("b", "X", "Z"), {"Y", "Z"});
  KeepingSink sink;
  Ask(e, sink);
  auto failing = a->Take();
  auto other = b->Take();
  EXPECT_FALSE(other->cancelled());
  failing->Fail(UnavailableError("no"));
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status(), UnavailableError("in ensemble 'e', no"));
  EXPECT_TRUE(other->cancelled());
  EXPECT_EQ(e->gate().inside(), 0u);
  // A late answer is ignored.
  AnswerPlus(*other, 1);
  EXPECT_EQ(sink.responses().size(), 1u);
  EXPECT_EQ(e->statistics().Snapshot().fail.count, 1u);
}

TEST_F(EnsembleTest, NothingIsGivenBeforeAllStepsAreWell) {
  AddStep("a", Plus(1));
  auto b = AddStep("b");
  auto e = Serve(StepText("a", "X", "Y") + StepText("b", "X", "Z"), {"Y", "Z"});
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {1})});
  request->requested_outputs = {"Y"};
  e->Infer(std::move(request));
  EXPECT_TRUE(sink.responses().empty());
  b->Take()->Fail(InternalError("no"));
  ASSERT_EQ(sink.responses().size(), 1u);
  EXPECT_EQ(sink.status(), InternalError("in ensemble 'e', no"));
}

TEST_F(EnsembleTest, AMissingOutputIsADeadlock) {
  AddStep("a",
          [](std::unique_ptr<InferenceRequest> request) { request->Respond(FakeStep::Response({}), true); });
  AddStep("b", Plus(1));
  auto e = Serve(StepText("a", "X", "T") + StepText("b", "T", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  EXPECT_EQ(
      sink.status(),
      InternalError("in ensemble 'e', unexpected deadlock, at least one output is not set while no more "
                    "ensemble steps can be made: step 'a' (number 1) did not return output 'OUT', which is "
                    "tensor 'T'"));
  // A step that ends without a response also fails the request.
  AddStep("a", [](std::unique_ptr<InferenceRequest> request) { request->Respond(std::nullopt, true); });
  KeepingSink silent;
  Ask(e, silent);
  EXPECT_THAT(silent.status().message(), HasSubstr("unexpected deadlock"));
}

TEST_F(EnsembleTest, AStepThatAnswersTwiceUnexpectedlyIsAFault) {
  AddStep("a", [](std::unique_ptr<InferenceRequest> request) {
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), false);
    request->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), true);
  });
  auto e = Serve(StepText("a", "X", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  EXPECT_EQ(sink.status().code(), StatusCode::kInternal);
  EXPECT_THAT(sink.status().message(), HasSubstr("step 'a' (number 1) responded more than once"));
}

TEST_F(EnsembleTest, ACancelledClientCancelsTheStepsThatRun) {
  auto a = AddStep("a");
  auto b = AddStep("b");
  AddStep("after", Plus(1));
  auto e = Serve(StepText("a", "X", "T") + StepText("b", "X", "Z") + StepText("after", "T", "Y"), {"Y", "Z"});
  KeepingSink sink;
  auto cancellation = Ask(e, sink);
  auto first = a->Take();
  auto second = b->Take();
  cancellation->Cancel();
  EXPECT_TRUE(first->cancelled());
  EXPECT_TRUE(second->cancelled());
  EXPECT_FALSE(sink.ended());
  AnswerPlus(*first, 1);
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  second->Fail(CancelledError("late"));
  EXPECT_EQ(sink.responses().size(), 1u);
  EXPECT_EQ(e->statistics().Snapshot().failures[static_cast<int>(FailureReason::kCanceled)], 1u);
}

TEST_F(EnsembleTest, ARequestThatIsCancelledBeforeItBeginsRunsNothing) {
  auto a = AddStep("a");
  auto e = Serve(StepText("a", "X", "Y"));
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {1})});
  request->cancellation->Cancel();
  e->Infer(std::move(request));
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(a->kept(), 0u);
}

TEST_F(EnsembleTest, AStopEndsWhatDoesNotEnd) {
  auto a = AddStep("a");
  auto e = Serve(StepText("a", "X", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  e->gate().Close();
  e->Stop(SteadyNowNs());
  EXPECT_EQ(sink.status().code(), StatusCode::kUnavailable);
  auto late = a->Take();
  EXPECT_TRUE(late->cancelled());
  AnswerPlus(*late, 1);
  EXPECT_EQ(sink.responses().size(), 1u);
}

// ---- loads and unloads ----

TEST_F(EnsembleTest, AsksTheModelThatIsThereNow) {
  AddStep("a", Plus(1));
  auto e = Serve(StepText("a", "X", "Y"));
  AddStep("a", Plus(2));
  KeepingSink sink;
  Ask(e, sink);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{3}));

  catalog_.SetState("a", 1, VersionState::kUnavailable, "unloaded");
  EXPECT_FALSE(e->readiness().ready);
  EXPECT_EQ(e->readiness().reason, "ensemble 'e' depends on 'a' which has no loaded version.");
  KeepingSink gone;
  Ask(e, gone);
  EXPECT_EQ(gone.status(), UnavailableError("ensemble 'e' depends on 'a' which has no loaded version."));
  // The index asks the ensemble, which asks the catalog.
  EXPECT_EQ(catalog_.Index(true).size(), 0u);

  AddStep("a", Plus(3));
  EXPECT_TRUE(e->readiness().ready);
  KeepingSink again;
  Ask(e, again);
  EXPECT_THAT(again.Values("Y"), ElementsAre(Values{4}));
}

TEST_F(EnsembleTest, ARequestKeepsTheModelsItBeganWith) {
  auto a = AddStep("a");
  auto b = AddStep("b", Plus(1));
  auto e = Serve(StepText("a", "X", "T") + StepText("b", "T", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  // An unload closes the gate and waits for the requests inside.
  catalog_.SetState("b", 1, VersionState::kUnloading, "");
  b->gate().Close();
  EXPECT_EQ(b->gate().inside(), 1u);
  AnswerPlus(*a->Take(), 0);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{2}));
  EXPECT_EQ(b->gate().inside(), 0u);
}

TEST_F(EnsembleTest, AsksForTheVersionOfTheStep) {
  AddStep("a", Plus(1));
  auto second = std::make_shared<FakeStep>("a", std::vector{Spec("IN")}, std::vector{Spec("OUT")}, false, 2);
  second->set_behaviour(Plus(2));
  catalog_.Publish(second);
  auto ask = [&](int version) {
    auto e = Serve("step { model_name: 'a' model_version: " + std::to_string(version) +
                   " input_map { key: 'IN' value: 'X' } output_map { key: 'OUT' value: 'Y' } }");
    KeepingSink sink;
    Ask(e, sink);
    return sink.Values("Y").at(0).at(0);
  };
  EXPECT_EQ(ask(1), 2);
  EXPECT_EQ(ask(2), 3);
  EXPECT_EQ(ask(-1), 3);
  EXPECT_EQ(ask(0), 3);
}

TEST_F(EnsembleTest, IsReadyWhenItsStepsAre) {
  auto a = AddStep("a", Plus(1));
  auto e = Serve(StepText("a", "X", "Y"));
  EXPECT_TRUE(e->readiness().ready);
  a->set_readiness({false, "restarting"});
  EXPECT_EQ(e->readiness().reason, "ensemble 'e' depends on 'a' which is not ready: restarting");
}

TEST_F(EnsembleTest, InputsGoToTheMemoryOfTheirFirstStep) {
  auto b = AddStep("b", Plus(1));
  auto a = AddStep("a", Plus(1));
  auto e = Serve(StepText("b", "T", "Y") + StepText("a", "X", "T"));
  ASSERT_TRUE(e->input_allocator().Allocate(8).ok());
  EXPECT_EQ(a->allocator.allocations, 1);
  EXPECT_EQ(b->allocator.allocations, 0);
  catalog_.RemoveModel("a");
  EXPECT_EQ(e->input_allocator().Allocate(8)->size(), 8u);
  EXPECT_EQ(a->allocator.allocations, 1);
}

// ---- decoupled steps ----

TEST_F(EnsembleTest, EveryResponseOfADecoupledStepFlowsOn) {
  auto stream = AddStep("stream", {}, true);
  AddStep("add",
          [](std::unique_ptr<InferenceRequest> request) {
            const int32_t sum = Int32Values(request->inputs[0])[0] + Int32Values(request->inputs[1])[0];
            request->Respond(FakeStep::Response({Int32Tensor("OUT", {sum})}), true);
          },
          false, {"A", "B"});
  auto late = AddStep("late");
  auto e =
      Serve(StepText("stream", "X", "S") + StepText("late", "X", "L") +
            "step { model_name: 'add' input_map { key: 'A' value: 'S' } input_map { key: 'B' value: 'L' } "
            "output_map { key: 'OUT' value: 'Y' } }");
  EXPECT_TRUE(e->info().decoupled);
  EXPECT_TRUE(e->info().config->model_transaction_policy().decoupled());
  KeepingSink sink;
  Ask(e, sink);
  auto source = stream->Take();
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), false);
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), false);
  EXPECT_TRUE(sink.responses().empty());
  // From another buffer, kept for later answers.
  AnswerPlus(*late->Take(), 99);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{101}, Values{102}));
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {3})}), false);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{101}, Values{102}, Values{103}));
  EXPECT_FALSE(sink.ended());
  source->Respond(std::nullopt, true);
  EXPECT_TRUE(sink.ended());
  EXPECT_EQ(sink.responses().size(), 3u);
  const auto statistics = e->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count, 1u);
  EXPECT_EQ(statistics.responses.size(), 4u);
  EXPECT_EQ(statistics.responses.at(3).empty_response.count, 1u);
}

TEST_F(EnsembleTest, ResponsesLeaveInTheOrderOfTheStream) {
  auto stream = AddStep("stream", {}, true);
  auto work = AddStep("work");
  auto e = Serve(StepText("stream", "X", "S") + StepText("work", "S", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  auto source = stream->Take();
  for (int i = 0; i < 3; ++i) source->Respond(FakeStep::Response({Int32Tensor("OUT", {i})}), i == 2);
  auto first = work->Take();
  auto second = work->Take();
  auto third = work->Take();
  AnswerPlus(*third, 0);
  AnswerPlus(*second, 0);
  EXPECT_TRUE(sink.responses().empty());
  AnswerPlus(*first, 0);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{0}, Values{1}, Values{2}));
  EXPECT_TRUE(sink.ended());
}

TEST_F(EnsembleTest, StreamsOfStreamsKeepTheirOrder) {
  auto outer = AddStep("outer", {}, true);
  auto inner = AddStep("inner", {}, true);
  auto e = Serve(StepText("outer", "X", "S") + StepText("inner", "S", "Y"), {"S", "Y"});
  KeepingSink sink;
  Ask(e, sink);
  auto source = outer->Take();
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), false);
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), true);
  auto one = inner->Take();
  auto two = inner->Take();
  two->Respond(FakeStep::Response({Int32Tensor("OUT", {20})}), false);
  one->Respond(FakeStep::Response({Int32Tensor("OUT", {10})}), false);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{10}));
  two->Respond(FakeStep::Response({Int32Tensor("OUT", {21})}), true);
  one->Respond(FakeStep::Response({Int32Tensor("OUT", {11})}), false);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{10}, Values{11}));
  one->Respond(std::nullopt, true);
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{10}, Values{11}, Values{20}, Values{21}));
  EXPECT_THAT(sink.Values("S"), ElementsAre(Values{1}, Values{1}, Values{2}, Values{2}));
  EXPECT_TRUE(sink.ended());
}

TEST_F(EnsembleTest, AStreamWithoutResponsesEndsWithoutOne) {
  AddStep(
      "stream", [](std::unique_ptr<InferenceRequest> request) { request->Respond(std::nullopt, true); },
      true);
  auto e = Serve(StepText("stream", "X", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  EXPECT_TRUE(sink.ended());
  EXPECT_TRUE(sink.responses().empty());
}

TEST_F(EnsembleTest, AStreamOfWhichNothingIsWantedIsDropped) {
  AddStep(
      "stream",
      [](std::unique_ptr<InferenceRequest> request) {
        for (int i = 0; i < 5; ++i) request->Respond(FakeStep::Response({Int32Tensor("OUT", {i})}), i == 4);
      },
      true);
  AddStep("plain", Plus(1));
  auto e = Serve(StepText("stream", "X", "S") + StepText("plain", "X", "Y"), {"S", "Y"});
  KeepingSink sink;
  auto request = Request(e, sink, {Int32Tensor("X", {1})});
  request->requested_outputs = {"Y"};
  e->Infer(std::move(request));
  EXPECT_TRUE(sink.ended());
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{2}));
}

TEST_F(EnsembleTest, AnErrorInAStreamEndsItAndStopsTheSource) {
  auto stream = AddStep("stream", {}, true);
  auto work = AddStep("work");
  auto e = Serve(StepText("stream", "X", "S") + StepText("work", "S", "Y"));
  KeepingSink sink;
  Ask(e, sink);
  auto source = stream->Take();
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), false);
  AnswerPlus(*work->Take(), 0);
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), false);
  work->Take()->Fail(InvalidArgumentError("two"));
  ASSERT_EQ(sink.responses().size(), 2u);
  EXPECT_EQ(sink.status(), InvalidArgumentError("in ensemble 'e', two"));
  EXPECT_TRUE(source->cancelled());
  source->Respond(FakeStep::Response({Int32Tensor("OUT", {3})}), true);
  EXPECT_EQ(work->kept(), 0u);
}

TEST_F(EnsembleTest, OnlySoManyRequestsOfAStepAreInFlight) {
  auto stream = AddStep("stream", {}, true);
  auto work = AddStep("work");
  auto e = Serve(StepText("stream", "X", "S") + StepText("work", "S", "Y") + "max_inflight_requests: 2");
  KeepingSink sink;
  Ask(e, sink);
  auto source = stream->Take();
  for (int i = 0; i < 5; ++i) source->Respond(FakeStep::Response({Int32Tensor("OUT", {i})}), i == 4);
  EXPECT_EQ(work->kept(), 2u);
  for (int i = 0; i < 5; ++i) {
    ASSERT_GE(work->kept(), 1u);
    AnswerPlus(*work->Take(), 0);
    EXPECT_EQ(work->kept(), std::min<size_t>(2, static_cast<size_t>(4 - i)));
  }
  EXPECT_TRUE(sink.ended());
  EXPECT_THAT(sink.Values("Y"), ElementsAre(Values{0}, Values{1}, Values{2}, Values{3}, Values{4}));
}

// ---- configurations ----

TEST_F(EnsembleTest, SaysWhatDoesNotFit) {
  AddStep("a", Plus(1));
  AddStep("b", Plus(1));
  AddStep("both", Plus(1), false, {"IN", "B"});
  const_cast<ServableInfo&>(AddStep("few", Plus(1))->info()).max_batch_size = 2;
  auto floats = std::make_shared<FakeStep>("floats", std::vector{Spec("IN", DataType::kFp32)},
                                           std::vector{Spec("OUT", DataType::kInt32, {4})});
  catalog_.Publish(floats);
  catalog_.Publish(std::make_shared<FakeStep>("pairs", std::vector{Spec("IN", DataType::kInt32, {2})},
                                              std::vector{Spec("OUT", DataType::kInt32, {4, 4})}));
  auto fault = [this](const std::string& steps) { return Make(steps).status().message(); };
  EXPECT_EQ(fault(StepText("no", "X", "Y")), "ensemble 'e' depends on 'no' which has no loaded version.");
  EXPECT_EQ(fault("step { model_name: 'a' model_version: 4 input_map { key: 'IN' value: 'X' } output_map { "
                  "key: 'OUT' value: 'Y' } }"),
            "ensemble 'e' depends on 'a' whose required version 4 is not loaded.");
  EXPECT_EQ(fault(""), "in ensemble 'e', at least one step must be specified");
  EXPECT_EQ(fault("step { }"), "in ensemble 'e', step '' (number 1) must specify 'model_name'");
  EXPECT_EQ(fault("step { model_name: 'a' model_namespace: 'n' }"),
            "in ensemble 'e', 'model_namespace' of step 'a' (number 1) is not supported; leave it empty");
  EXPECT_EQ(
      fault("step { model_name: 'a' input_map { key: 'WRONG' value: 'X' } output_map { key: 'OUT' value: 'Y' "
            "} }"),
      "in ensemble 'e', the 'input_map' of step 'a' (number 1) names input 'WRONG', which model 'a' does not "
      "have");
  EXPECT_EQ(
      fault("step { model_name: 'both' input_map { key: 'IN' value: 'X' } output_map { key: 'OUT' value: 'Y' "
            "} }"),
      "in ensemble 'e', the 'input_map' of step 'both' (number 1) lacks input 'B', which model 'both' needs");
  EXPECT_EQ(fault("step { model_name: 'a' output_map { key: 'OUT' value: 'Y' } }"),
            "in ensemble 'e', step 'a' (number 1) must specify 'input_map'");
  EXPECT_EQ(fault("step { model_name: 'a' input_map { key: 'IN' value: 'X' } }"),
            "in ensemble 'e', step 'a' (number 1) must specify 'output_map'");
  EXPECT_EQ(
      fault(StepText("a", "X", "T") + StepText("b", "X", "Y")),
      "in ensemble 'e', tensor 'T' of step 'a' (number 1) is not an output of the ensemble, and no step "
      "uses it; leave "
      "it out of the 'output_map'");
  EXPECT_EQ(Make(StepText("a", "X", "Y"), {"Y"}, {"X", "W"}).status().message(),
            "in ensemble 'e', input 'W' is not used by any step");
  ServableInfo large = EnsembleInfo(StepText("few", "X", "Y"));
  large.max_batch_size = 3;
  EXPECT_EQ(MakeEnsemble(std::move(large), deps_).status().message(),
            "in ensemble 'e', 'max_batch_size' is 3, but step 'few' (number 1) takes 2 at most");
  EXPECT_EQ(
      fault("step { model_name: 'a' input_map { key: 'IN' value: 'X' } output_map { key: 'Z' value: 'Y' } }"),
      "in ensemble 'e', the 'output_map' of step 'a' (number 1) names output 'Z', which model 'a' does not "
      "have");
  EXPECT_EQ(
      fault(StepText("floats", "X", "Y")),
      "in ensemble 'e', tensor 'X' has data type TYPE_INT32 as input of the ensemble but TYPE_FP32 as input "
      "'IN' of step 'floats' (number 1)");
  EXPECT_EQ(
      fault(StepText("pairs", "X", "T") + StepText("a", "T", "Y")),
      "in ensemble 'e', tensor 'T' has shape [4,4] as output 'OUT' of step 'pairs' (number 1) but [-1] as "
      "input 'IN' of step 'a' (number 2), batch dimensions included");
  EXPECT_EQ(
      fault(StepText("a", "X", "Y") + StepText("b", "X", "Y")),
      "in ensemble 'e', tensor 'Y' is produced twice: by step 'a' (number 1) and by step 'b' (number 2)");
  EXPECT_EQ(fault(StepText("a", "X", "Z")), "in ensemble 'e', output 'Y' is not produced by any step");
  EXPECT_EQ(fault(StepText("a", "T", "U") + StepText("b", "U", "T") + StepText("a", "X", "Y")),
            "in ensemble 'e', these steps form a cycle: 'a' (number 1) -> 'b' (number 2) -> 'a' (number 1)");
  EXPECT_EQ(fault(StepText("a", "X", "Y")), "");
}

TEST_F(EnsembleTest, RefusesWhatAnEnsembleCannotHave) {
  auto fault = [this](const std::string& text) {
    inference::ModelConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
    ServableInfo info;
    info.name = config.name();
    info.config = std::make_shared<inference::ModelConfig>(config);
    return MakeEnsemble(std::move(info), deps_).status().message();
  };
  EXPECT_EQ(fault("name: 'm' platform: 'ensemble'"),
            "ensemble scheduling must be set for ensemble 'm' whose platform is 'ensemble'");
  EXPECT_EQ(fault("name: 'm' backend: 'python' ensemble_scheduling { }"),
            "ensemble scheduling cannot be set for model 'm' whose platform is not 'ensemble'");
  EXPECT_EQ(fault("name: 'm' platform: 'ensemble' ensemble_scheduling { } instance_group { count: 1 }"),
            "'instance_group' cannot be specified for ensemble 'm'");
  EXPECT_THAT(fault("name: 'm' ensemble_scheduling { } model_warmup { name: 'w' }"),
              HasSubstr("'model_warmup'"));
  EXPECT_EQ(fault("name: 'm' ensemble_scheduling { } optimization { priority: PRIORITY_MAX }"),
            "'optimization' cannot be specified for ensemble 'm'; specify it for its models");
  EXPECT_EQ(fault("name: 'm' ensemble_scheduling { }"),
            "in ensemble 'm', at least one output must be specified");
}

}  // namespace
}  // namespace braid
