// The order of the requests of a sequence in pipelines and ensembles over stateful models.
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "images/testing/pictures.h"
#include "pipeline/testing/fake_stateful.h"
#include "pipeline/testing/pipeline_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class SequenceOrderTest : public PipelineFixture {
 protected:
  // x -> a -> b -> out, both stateful; b can hold requests.
  std::shared_ptr<Servable> ServeChain() {
    a_ = AddStateful("ma");
    b_ = AddStateful("mb");
    return PipelineFixture::Serve(Chain());
  }
  static OvmsPipelineConfig Chain() {
    return Entry({"x"}, {"out=b/y"},
                 {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("b", "mb", {"IN=a/y"}, {"OUT=y"})});
  }
  std::shared_ptr<FakeStateful> AddStateful(const std::string& name) {
    auto model = std::make_shared<FakeStateful>(name);
    catalog_.Publish(model);
    return model;
  }

  struct Asked {
    std::unique_ptr<KeepingSink> sink = std::make_unique<KeepingSink>();
    std::shared_ptr<Cancellation> cancellation;
    bool waits() const { return !sink->ended(); }
    Status status() const {
      sink->Wait();
      return sink->status();
    }
    int32_t out(const std::string& name = "out") const {
      sink->Wait();
      EXPECT_TRUE(sink->status().ok()) << sink->status();
      return sink->status().ok() ? Int32Values(Named(sink->responses()[0].outputs, name))[0] : -1;
    }
  };
  Asked Send(const std::shared_ptr<Servable>& servable, const Turn& turn, int32_t x = 1) {
    return Send(servable, turn, Int32Tensor("x", {x}));
  }
  Asked Send(const std::shared_ptr<Servable>& servable, const Turn& turn, Tensor x,
             std::shared_ptr<const CallChain> chain = nullptr) {
    Asked asked;
    auto request = Request(servable, *asked.sink, {std::move(x)});
    Name(*request, turn);
    request->call_chain = std::move(chain);
    asked.cancellation = request->cancellation;
    servable->Infer(std::move(request));
    return asked;
  }

  std::shared_ptr<FakeStateful> a_;
  std::shared_ptr<FakeStateful> b_;
};

TEST_F(SequenceOrderTest, ARequestWaitsUntilTheOneBeforeItIsAnswered) {
  const auto p = ServeChain();
  EXPECT_EQ(Send(p, StartOf(7), 1).out(), 1);
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked second = Send(p, MiddleOf(7), 100);
  const Asked end = Send(p, EndOf(7), 1000);
  const Asked other = Send(p, StartOf(8), 5);
  // A request of another sequence runs concurrently.
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 11), Pair(8, 5)));
  EXPECT_EQ(p->pending_requests(), 2);
  EXPECT_TRUE(b_->LetGo());
  EXPECT_EQ(first.out(), 1 + 11);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 111), Pair(8, 5)));
  EXPECT_EQ(p->pending_requests(), 1);
  b_->LetAllGo();
  EXPECT_EQ(other.out(), 5);
  EXPECT_EQ(second.out(), 12 + 111);
  EXPECT_EQ(end.out(), 123 + 1111);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(8, 5)));
  EXPECT_EQ(p->pending_requests(), 0);
  EXPECT_EQ(p->gate().inside(), 0u);
  const StatisticsSnapshot counted = p->statistics().Snapshot();
  EXPECT_EQ(counted.success.count, 5u);
  EXPECT_GT(counted.queue.ns, 0u);
}

TEST_F(SequenceOrderTest, TheNextGoesOnWhateverBecomesOfTheOneBefore) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked fails = Send(p, MiddleOf(7), 10);
  const Asked goes = Send(p, MiddleOf(7), 100);
  const Asked last = Send(p, MiddleOf(7), 1000);
  b_->FailNext(InternalError("broken"));
  EXPECT_TRUE(b_->LetGo());
  EXPECT_EQ(fails.status(), InternalError("broken (pipeline 'p', node 'b')"));
  goes.cancellation->Cancel();
  EXPECT_TRUE(b_->LetGo());
  EXPECT_EQ(goes.status().code(), StatusCode::kCancelled);
  b_->LetAllGo();
  EXPECT_EQ(last.out(), 1 + 1001);
  // A request that begins the sequence anew finds nothing left of the failed one.
  b_->Hold();
  b_->FailNext(InternalError("broken"));
  const Asked start = Send(p, StartOf(9), 1);
  const Asked again = Send(p, StartOf(9), 2);
  b_->LetAllGo();
  EXPECT_EQ(start.status().code(), StatusCode::kInternal);
  EXPECT_EQ(again.out(), 2);
}

TEST_F(SequenceOrderTest, ASequenceMayBeBegunBehindItsEnd) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked end = Send(p, EndOf(7), 10);
  const Asked start = Send(p, StartOf(7), 3);
  const Asked step = Send(p, MiddleOf(7), 4);
  b_->LetAllGo();
  EXPECT_EQ(end.out(), 1 + 11);
  EXPECT_EQ(start.out(), 3);
  EXPECT_EQ(step.out(), 3 + 7);
}

TEST_F(SequenceOrderTest, WhoseClientGoesWhileItWaitsEndsAtOnce) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked gone = Send(p, MiddleOf(7), 100);
  const Asked last = Send(p, MiddleOf(7), 1000);
  gone.cancellation->Cancel();
  EXPECT_EQ(gone.status(), CancelledError("Request cancelled while it waited for model 'p'"));
  EXPECT_TRUE(first.waits());
  b_->LetAllGo();
  EXPECT_EQ(last.out(), 1 + 11 + 1011);
  EXPECT_EQ(p->statistics().Snapshot().failures[static_cast<int>(FailureReason::kCanceled)], 1u);
}

TEST_F(SequenceOrderTest, AnEndHoldsThoughItsClientGoes) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked end = Send(p, EndOf(7), 100);
  const Asked late = Send(p, MiddleOf(7), 1000);
  const Asked again = Send(p, StartOf(7), 2);
  end.cancellation->Cancel();
  EXPECT_EQ(end.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 11)));
  EXPECT_EQ(p->gate().inside(), 4u);
  b_->LetAllGo();
  EXPECT_EQ(first.out(), 12);
  EXPECT_EQ(late.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(again.out(), 2);
  EXPECT_EQ(p->gate().inside(), 0u);
  // Also when no node has received the request.
  KeepingSink sink;
  auto request = Request(p, sink, {Int32Tensor("x", {1})});
  Name(*request, EndOf(7));
  request->cancellation->Cancel();
  p->Infer(std::move(request));
  sink.Wait();
  EXPECT_EQ(sink.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(a_->sums(), IsEmpty());
  EXPECT_THAT(b_->sums(), IsEmpty());
}

TEST_F(SequenceOrderTest, WhatWaitsHearsOfAStop) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked second = Send(p, MiddleOf(7), 100);
  p->gate().Close();
  p->Stop(0);
  EXPECT_EQ(second.status(),
            UnavailableError("Server exiting or model 'p' being unloaded: the request did not run in time"));
  EXPECT_TRUE(first.waits()) << "to be told when nothing is left of it";
  b_->LetAllGo();
  EXPECT_EQ(first.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(p->gate().inside(), 0u);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 1)));
}

TEST_F(SequenceOrderTest, AStopWaitsForTheLine) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked second = Send(p, MiddleOf(7), 100);
  p->gate().Close();
  std::thread goes_on([this] { b_->LetAllGo(); });
  p->Stop(SteadyNowNs() + 60'000'000'000);
  goes_on.join();
  EXPECT_EQ(second.out(), 1 + 11 + 111);
}

TEST_F(SequenceOrderTest, WhatReplacesAPipelineLetsItsRequestsGoFirst) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked second = Send(p, MiddleOf(7), 100);
  const auto replaced = PipelineFixture::Serve(Chain());
  const Asked third = Send(replaced, MiddleOf(7), 1000);
  const Asked other = Send(replaced, StartOf(8), 5);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 11), Pair(8, 5)));
  EXPECT_EQ(p->pending_requests(), 1);
  EXPECT_EQ(replaced->pending_requests(), 1);
  // It refuses only its own requests.
  p->gate().Close();
  p->Stop(0);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  b_->LetAllGo();
  EXPECT_EQ(first.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(other.out(), 5);
  EXPECT_EQ(third.status().code(), StatusCode::kOk);
  EXPECT_EQ(a_->sums().at(7), 1001);
}

TEST_F(SequenceOrderTest, ThousandsInALineNeedTheStackOfOne) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 0).out();
  b_->Hold();
  std::deque<Asked> asked;
  for (int i = 0; i < 5000; ++i) asked.push_back(Send(p, MiddleOf(7), 1));
  b_->LetAllGo();
  EXPECT_EQ(asked.back().out(), 5000 * 5001 / 2);
}

TEST_F(SequenceOrderTest, RequestsWhoseNodesAreNotThereGoOnToo) {
  const auto p = ServeChain();
  Send(p, StartOf(7), 1).out();
  b_->Hold();
  const Asked first = Send(p, MiddleOf(7), 10);
  const Asked second = Send(p, MiddleOf(7), 100);
  const Asked third = Send(p, MiddleOf(7), 1000);
  catalog_.RemoveModel("ma");
  b_->LetAllGo();
  EXPECT_EQ(first.out(), 12);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(third.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(p->gate().inside(), 0u);
}

// ---- images ----

TEST_F(SequenceOrderTest, ImagesDoNotCostTheirPlace) {
  const Shape shape = {1, 1, 1, 3};
  const auto first_pixel = [](const std::vector<Tensor>& inputs) {
    return std::vector{Int32Tensor("OUT", {static_cast<int32_t>(*inputs[0].data.data())})};
  };
  auto look = AddModel("look", {Spec("IN", DataType::kUint8, shape)}, {Spec("OUT")}, first_pixel);
  a_ = AddStateful("ma");
  auto entry = Entry({"x"}, {"out=a/y"},
                     {Dl("l", "look", {"IN=request/x"}, {"OUT=y"}), Dl("a", "ma", {"IN=l/y"}, {"OUT=y"})});
  const auto p = PipelineFixture::Serve(entry);
  const auto picture = [](uint8_t value) {
    const std::string png = Png(1, 1, 3, std::vector<uint8_t>(3, value));
    const auto size = static_cast<uint32_t>(png.size());
    const std::string bytes = std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + png;
    return Tensor{"x", DataType::kBytes, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(bytes)))};
  };
  const auto pixel = [&shape](uint8_t value) {
    const std::vector<uint8_t> bytes(3, value);
    return Tensor{"x", DataType::kUint8, shape, CopyToHeap(std::as_bytes(std::span(bytes)))};
  };
  std::promise<void> decodes;
  std::promise<void> may_go_on;
  look->allocator.on_allocate = [&, called = false]() mutable {
    if (std::exchange(called, true)) return;
    decodes.set_value();
    may_go_on.get_future().wait();
  };
  const Asked start = Send(p, StartOf(7), picture(1));
  decodes.get_future().wait();
  const Asked tensor = Send(p, MiddleOf(7), pixel(10));
  Tensor broken = picture(0);
  broken.data = CopyToHeap(std::as_bytes(std::span(std::string_view("\1\0\0\0x", 5))));
  const Asked wrong = Send(p, MiddleOf(7), std::move(broken));
  const Asked end = Send(p, EndOf(7), pixel(100));
  const Asked other = Send(p, StartOf(8), pixel(3));
  EXPECT_EQ(other.out(), 3);
  EXPECT_TRUE(tensor.waits());
  may_go_on.set_value();
  EXPECT_EQ(start.out(), 1);
  EXPECT_EQ(tensor.out(), 11);
  EXPECT_EQ(wrong.status(), FaultError(Fault::kImageParsingFailed, "image 0; input name: x"));
  EXPECT_EQ(end.out(), 111);
}

// ---- calls ----

TEST_F(SequenceOrderTest, ANodeThatCallsItsOwnSequenceIsToldSo) {
  a_ = AddStateful("ma");
  auto n = AddModel("n", {Spec("IN")}, {Spec("OUT")});
  n->set_makes_calls();
  const auto p = PipelineFixture::Serve(Entry(
      {"x"}, {"out=n/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"}), Dl("n", "n", {"IN=a/y"}, {"OUT=y"})}));
  EXPECT_TRUE(p->info().makes_calls);
  const Asked start = Send(p, StartOf(7), 1);
  auto step = n->Take();
  ASSERT_NE(step, nullptr);
  auto chain = std::make_shared<CallChain>();
  chain->model = "n";
  chain->instance = "n_0";
  chain->blocked_instance = n.get();
  chain->parents = {step->call_chain};
  const Asked call = Send(p, MiddleOf(7), Int32Tensor("x", {1}), chain);
  EXPECT_EQ(call.status(),
            InternalError("the call to model 'p' would wait for itself: p (sequence 7) -> n_0 -> p"));
  // It may be of another sequence.
  const Asked other = Send(p, StartOf(8), Int32Tensor("x", {1}), chain);
  auto inner = n->Take();
  ASSERT_NE(inner, nullptr);
  inner->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), true);
  EXPECT_EQ(other.out(), 2);
  step->Respond(FakeStep::Response({Int32Tensor("OUT", {3})}), true);
  EXPECT_EQ(start.out(), 3);
  EXPECT_EQ(call_graph_.size(), 0u);
}

TEST_F(SequenceOrderTest, WhatIsInsideAPipelineSaysWhetherItCalls) {
  AddStateful("ma");
  AddModel("n", {Spec("IN")}, {Spec("OUT")})->set_makes_calls();
  auto inner = Entry({"x"}, {"y=n/y"}, {Dl("n", "n", {"IN=request/x"}, {"OUT=y"})});
  inner.name = "inner";
  EXPECT_TRUE(PipelineFixture::Serve(inner)->info().makes_calls);
  EXPECT_TRUE(PipelineFixture::Serve(
                  Entry({"x"}, {"out=a/y"},
                        {Dl("i", "inner", {"x=request/x"}, {"y=y"}), Dl("a", "ma", {"IN=i/y"}, {"OUT=y"})}))
                  ->info()
                  .makes_calls);
  EXPECT_FALSE(PipelineFixture::Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "ma", {"IN=request/x"}, {"OUT=y"})}))
                   ->info()
                   .makes_calls);
}

// ---- ensembles ----

TEST_F(SequenceOrderTest, EnsemblesKeepTheOrderToo) {
  a_ = AddStateful("ma");
  b_ = AddStateful("mb");
  const std::string steps = StepText("ma", "x", "between") + StepText("mb", "between", "Y");
  const auto e = EnsembleFixture::Serve(steps, {"Y"}, {"x"});
  EXPECT_EQ(Send(e, StartOf(7), 1).out("Y"), 1);
  b_->Hold();
  const Asked first = Send(e, MiddleOf(7), 10);
  const Asked second = Send(e, MiddleOf(7), 100);
  const auto replaced = EnsembleFixture::Serve(steps, {"Y"}, {"x"});
  const Asked third = Send(replaced, EndOf(7), 1000);
  EXPECT_THAT(a_->sums(), ElementsAre(Pair(7, 11)));
  EXPECT_EQ(e->pending_requests(), 1);
  b_->LetAllGo();
  EXPECT_EQ(first.out("Y"), 12);
  EXPECT_EQ(second.out("Y"), 123);
  EXPECT_EQ(third.out("Y"), 123 + 1111);
}

TEST_F(SequenceOrderTest, EnsemblesWithoutSequencesLetRequestsOvertakeEachOther) {
  auto model = std::make_shared<FakeStep>("m", std::vector{Spec("IN")}, std::vector{Spec("OUT")});
  catalog_.Publish(model);
  const auto e = EnsembleFixture::Serve(StepText("m", "x", "Y"), {"Y"}, {"x"});
  const Asked first = Send(e, MiddleOf(7), 1);
  const Asked second = Send(e, MiddleOf(7), 2);
  ASSERT_EQ(model->kept(), 2u);
  const auto one = model->Take();
  model->Take()->Respond(FakeStep::Response({Int32Tensor("OUT", {2})}), true);
  EXPECT_EQ(second.out("Y"), 2);
  one->Respond(FakeStep::Response({Int32Tensor("OUT", {1})}), true);
  EXPECT_EQ(first.out("Y"), 1);
}

}  // namespace
}  // namespace braid
