#include "backends/python/node_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "base/clock.h"
#include "ipc/arena.h"

namespace braid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = NodeStep::Kind;
using Sent = NodeStepMessage::Kind;

constexpr int64_t kSecond = 1'000'000'000;

class Listener final : public NodeCallListener {
 public:
  void OnStep(uint64_t call, NodeStep step) override {
    EXPECT_NE(call, 0u);
    EXPECT_EQ(inside_.fetch_add(1), 0) << "two steps at the same time";
    std::function<void()> then;
    {
      std::lock_guard lock(mutex_);
      steps_.push_back(std::move(step));
      then = then_;
    }
    if (then) then();
    inside_.fetch_sub(1);
  }
  // Sets a function to call within each step.
  void Then(std::function<void()> then) { then_ = std::move(then); }
  std::vector<NodeStep> steps() const {
    std::lock_guard lock(mutex_);
    return steps_;
  }
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    for (const NodeStep& step : steps()) kinds.push_back(step.kind);
    return kinds;
  }
  void Forget() {
    std::lock_guard lock(mutex_);
    steps_.clear();
  }

 private:
  std::atomic<int> inside_{0};
  mutable std::mutex mutex_;
  std::vector<NodeStep> steps_;
  std::function<void()> then_;
};

// The test plays the worker: it owns the other end of the channel.
class NodeCallsTest : public testing::Test {
 protected:
  void SetUp() override { Connect(false); }

  void Connect(bool wants_sessions) {
    Channel::WorkerEnd end;
    auto channel = Channel::CreateServerEnd({}, end);
    ASSERT_TRUE(channel.ok()) << channel.status();
    auto worker = Channel::OpenWorkerEnd(std::move(end));
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = std::move(worker).value();
    link_.channel = std::move(channel).value();
    link_.memory = std::make_shared<WorkerMemory>(link_.channel, arena_);
    calls_.Open(link_, wants_sessions);
  }
  // Ends the worker's life, as the host does.
  void Die(const std::string& reason) {
    calls_.Refuse(reason);
    calls_.Forget();
    link_.memory->Abandon();
    calls_.Fail(reason);
  }

  // Receives the worker's next message, which has that type; it points into `message_`.
  template <class Message>
  Message Receive() {
    Message message;
    EXPECT_EQ(worker_->Receive(message_, 10 * kSecond), Channel::Outcome::kMessage);
    EXPECT_TRUE(Decode(message_, message)) << static_cast<int>(TypeOf(message_));
    return message;
  }
  bool NothingCame() { return worker_->Receive(message_, 0) == Channel::Outcome::kTimeout; }

  static NodeTensor Input(const std::string& name, Buffer data) {
    NodeTensor input;
    input.tensor.name = name;
    input.tensor.type = DataType::kUint8;
    input.tensor.shape = {static_cast<int64_t>(data.size())};
    input.tensor.data = std::move(data);
    return input;
  }
  static NodeTensor Input(const std::string& name, std::string_view text) {
    return Input(name, CopyToHeap(std::as_bytes(std::span(text))));
  }
  uint64_t Execute(std::vector<NodeTensor> inputs = {}) {
    return calls_.Execute(0, 0, std::move(inputs), listener_);
  }

  static NodeTensorMessage Output(std::string_view name, std::string_view text, uint64_t object = 0) {
    NodeTensorMessage output;
    output.object = object;
    output.tensor.name = name;
    output.tensor.type = DataType::kUint8;
    output.tensor.shape = {static_cast<int64_t>(text.size())};
    output.tensor.bytes = std::as_bytes(std::span(text));
    return output;
  }
  Status Step(uint64_t call, Sent kind, std::vector<NodeTensorMessage> outputs = {},
              std::string_view error = "") {
    return calls_.OnStep({call, kind, error, std::move(outputs)});
  }
  std::string TextOf(size_t step, size_t output = 0) {
    return std::string(listener_->steps().at(step).outputs.at(output).tensor.data.text());
  }

  SegmentIds ids_;
  Arena arena_{ids_, Arena::Options()};
  WorkerLink link_;
  std::unique_ptr<Channel> worker_;
  NodeCalls calls_;
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  std::vector<std::byte> message_;
};

TEST_F(NodeCallsTest, PassesInputsOnAndAListBack) {
  NodeTensor custom = Input("image", "jpeg");
  custom.tensor.type = DataType::kCustom;
  custom.tensor.custom_type = "my_string";
  custom.tensor.shape = {3};
  const uint64_t call = calls_.Execute(2, 7, {custom, Input("b", "xy")}, listener_);
  const auto sent = Receive<NodeExecuteMessage>();
  EXPECT_EQ(sent.call_id, call);
  EXPECT_EQ(sent.node, 2u);
  EXPECT_EQ(sent.session, 7u);
  EXPECT_EQ(sent.credit, NodeCalls::kWindow);
  ASSERT_EQ(sent.inputs.size(), 2u);
  EXPECT_EQ(sent.inputs[0].object, 0u);
  EXPECT_TRUE(sent.inputs[0].has_bytes);
  EXPECT_EQ(sent.inputs[0].tensor.name, "image");
  EXPECT_EQ(sent.inputs[0].tensor.type, DataType::kCustom);
  EXPECT_EQ(sent.inputs[0].tensor.custom_type, "my_string");
  EXPECT_THAT(sent.inputs[0].tensor.shape, ElementsAre(3));
  EXPECT_EQ(sent.inputs[0].tensor.bytes.size(), 4u);
  EXPECT_EQ(sent.inputs[1].tensor.name, "b");

  NodeTensorMessage output = Output("out", "hello");
  output.tensor.type = DataType::kCustom;
  output.tensor.custom_type = "9w";
  output.tensor.shape = {};
  ASSERT_TRUE(Step(call, Sent::kList, {output, Output("other", "")}).ok());
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kList));
  const NodeStep step = listener_->steps()[0];
  ASSERT_EQ(step.outputs.size(), 2u);
  EXPECT_EQ(step.outputs[0].tensor.name, "out");
  EXPECT_EQ(TypeName(step.outputs[0].tensor), "9w");
  EXPECT_THAT(step.outputs[0].tensor.shape, IsEmpty());
  EXPECT_EQ(step.outputs[0].tensor.data.text(), "hello");
  EXPECT_EQ(step.outputs[0].object, nullptr);
  EXPECT_EQ(step.outputs[1].tensor.data.size(), 0u);
  EXPECT_EQ(calls_.pending(), 0u);
  EXPECT_EQ(Step(call, Sent::kList).code(), StatusCode::kInvalidArgument) << "it has ended";
}

TEST_F(NodeCallsTest, AnErrorHasThePythonTextAndWhatCameBeforeIt) {
  const uint64_t call = Execute();
  ASSERT_TRUE(Step(call, Sent::kError, {Output("a", "1")}, "ValueError: no").ok());
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status.code(), StatusCode::kInternal);
  EXPECT_EQ(listener_->steps()[0].status.message(), "ValueError: no");
  EXPECT_EQ(TextOf(0), "1");
}

TEST_F(NodeCallsTest, AGeneratorRunsAheadAndEachItemIsAskedFor) {
  const uint64_t call = Execute();
  Receive<NodeExecuteMessage>();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Step(call, Sent::kItem, {Output("a", std::to_string(i))}).ok());
  }
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kItem));
  EXPECT_EQ(TextOf(0), "0");
  EXPECT_TRUE(calls_.Resume(call));
  EXPECT_EQ(TextOf(1), "1");
  EXPECT_TRUE(calls_.Resume(call));
  EXPECT_EQ(TextOf(2), "2");
  EXPECT_TRUE(calls_.Resume(call));
  EXPECT_EQ(listener_->steps().size(), 3u);
  EXPECT_TRUE(NothingCame());
  ASSERT_TRUE(Step(call, Sent::kEnd).ok());
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kItem, Kind::kItem, Kind::kItem, Kind::kEnd));
  EXPECT_EQ(calls_.pending(), 0u);
  EXPECT_FALSE(calls_.Resume(call));
}

TEST_F(NodeCallsTest, CreditIsGivenAsItemsAreConsumed) {
  const uint64_t call = Execute();
  Receive<NodeExecuteMessage>();
  for (uint32_t i = 0; i < NodeCalls::kWindow; ++i) ASSERT_TRUE(Step(call, Sent::kItem).ok());
  for (int i = 0; i < 3; ++i) calls_.Resume(call);
  EXPECT_TRUE(NothingCame());
  calls_.Resume(call);
  const auto resume = Receive<NodeResumeMessage>();
  EXPECT_EQ(resume.call_id, call);
  EXPECT_EQ(resume.credit, 4u);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Step(call, Sent::kItem).ok());
  EXPECT_EQ(Step(call, Sent::kItem).code(), StatusCode::kInvalidArgument) << "nobody asked for it";
}

TEST_F(NodeCallsTest, WhatPassesTheLimitFailsAndWhatComesOfItLaterIsDropped) {
  calls_.SetTimeLimit(kSecond, "too slow");
  const uint64_t slow = Execute();
  const auto other = std::make_shared<Listener>();
  const uint64_t generator = calls_.Execute(0, 0, {}, other);
  const int64_t now = SteadyNowNs();
  EXPECT_LE(calls_.Expire(now), now + kSecond);
  EXPECT_FALSE(calls_.stuck());
  // A generator without credit waits for its listener, not for the worker.
  for (uint32_t i = 0; i < NodeCalls::kWindow; ++i) ASSERT_TRUE(Step(generator, Sent::kItem).ok());
  EXPECT_EQ(calls_.Expire(now + 2 * kSecond), now + 3 * kSecond);
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status, UnavailableError("too slow"));
  EXPECT_THAT(other->kinds(), ElementsAre(Kind::kItem));
  EXPECT_TRUE(calls_.stuck());
  EXPECT_EQ(calls_.pending(), 1u);
  ASSERT_TRUE(Step(slow, Sent::kItem).ok());
  EXPECT_TRUE(calls_.stuck());
  ASSERT_TRUE(Step(slow, Sent::kEnd).ok());
  EXPECT_FALSE(calls_.stuck());
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(Step(slow, Sent::kEnd).code(), StatusCode::kInvalidArgument) << "it has ended";
  // The wait for the next item begins when the listener asks for it.
  for (uint32_t i = 0; i < NodeCalls::kWindow / 2; ++i) calls_.Resume(generator);
  const int64_t later = SteadyNowNs();
  EXPECT_LE(calls_.Expire(later), later + kSecond);
  EXPECT_FALSE(calls_.stuck());
  static_cast<void>(calls_.Expire(later + 2 * kSecond));
  EXPECT_TRUE(calls_.stuck());
  Die("gone");
  EXPECT_FALSE(calls_.stuck());
}

TEST_F(NodeCallsTest, ResumingWithinAStepDoesNotNest) {
  const uint64_t call = Execute();
  uint64_t known = call;
  listener_->Then([&] { calls_.Resume(known); });
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Step(call, Sent::kItem, {Output("a", "x")}).ok());
  ASSERT_TRUE(Step(call, Sent::kEnd).ok());
  EXPECT_EQ(listener_->steps().size(), 1001u);
}

TEST_F(NodeCallsTest, NothingButTheEndComesAfterClose) {
  const uint64_t call = Execute();
  Receive<NodeExecuteMessage>();
  ASSERT_TRUE(Step(call, Sent::kItem).ok());
  ASSERT_TRUE(Step(call, Sent::kItem).ok());
  calls_.Close(call);
  EXPECT_EQ(Receive<NodeCloseMessage>().call_id, call);
  calls_.Close(call);
  EXPECT_TRUE(NothingCame());
  ASSERT_TRUE(Step(call, Sent::kItem).ok());
  EXPECT_TRUE(calls_.Resume(call)) << "the end is still to come";
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kItem));
  ASSERT_TRUE(Step(call, Sent::kEnd).ok());
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kItem, Kind::kEnd));

  // No step is expected, so none follows.
  listener_->Forget();
  const uint64_t silent = Execute();
  ASSERT_TRUE(Step(silent, Sent::kItem).ok());
  calls_.Close(silent);
  EXPECT_EQ(calls_.pending(), 1u) << "the worker has not said that it is over";
  ASSERT_TRUE(Step(silent, Sent::kError, {}, "ValueError: late").ok());
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kItem));
  EXPECT_EQ(calls_.pending(), 0u);
  EXPECT_FALSE(calls_.Resume(silent));

  // The call is over, but its end waits for Resume().
  listener_->Forget();
  const uint64_t over = Execute();
  ASSERT_TRUE(Step(over, Sent::kItem).ok());
  ASSERT_TRUE(Step(over, Sent::kEnd).ok());
  calls_.Close(over);
  EXPECT_FALSE(calls_.Resume(over));
  EXPECT_EQ(calls_.pending(), 0u);

  // A list that arrives too late.
  listener_->Forget();
  const uint64_t late = Execute();
  calls_.Close(late);
  ASSERT_TRUE(Step(late, Sent::kList, {Output("a", "x")}).ok());
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kEnd));
  EXPECT_THAT(listener_->steps()[0].outputs, IsEmpty());
}

TEST_F(NodeCallsTest, AllThatADeadWorkerHadFailsWithTheCause) {
  const uint64_t list = Execute();
  auto generator = std::make_shared<Listener>();
  const uint64_t items = calls_.Execute(0, 0, {}, generator);
  ASSERT_TRUE(Step(items, Sent::kItem, {Output("a", "1")}).ok());
  ASSERT_TRUE(Step(items, Sent::kItem, {Output("a", "2")}).ok());
  auto closed = std::make_shared<Listener>();
  const uint64_t gone = calls_.Execute(0, 0, {}, closed);
  ASSERT_TRUE(Step(gone, Sent::kItem).ok());
  calls_.Close(gone);
  EXPECT_TRUE(calls_.readiness().ready);

  Die("Killed by signal 9");
  EXPECT_FALSE(calls_.readiness().ready);
  EXPECT_EQ(calls_.readiness().reason, "Killed by signal 9");
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status.code(), StatusCode::kInternal);
  EXPECT_EQ(listener_->steps()[0].status.message(), "Killed by signal 9");
  EXPECT_THAT(closed->kinds(), ElementsAre(Kind::kItem));
  // Earlier items are not lost.
  EXPECT_THAT(generator->kinds(), ElementsAre(Kind::kItem));
  EXPECT_TRUE(calls_.Resume(items));
  EXPECT_TRUE(calls_.Resume(items));
  EXPECT_THAT(generator->kinds(), ElementsAre(Kind::kItem, Kind::kItem, Kind::kError));
  EXPECT_EQ(calls_.pending(), 0u);

  listener_->Forget();
  const uint64_t refused = Execute();
  EXPECT_GT(refused, list);
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status, UnavailableError("Killed by signal 9"));

  Connect(false);
  EXPECT_TRUE(calls_.readiness().ready);
  listener_->Forget();
  const uint64_t again = Execute();
  EXPECT_EQ(Receive<NodeExecuteMessage>().call_id, again);
  ASSERT_TRUE(Step(again, Sent::kList).ok());
  EXPECT_THAT(listener_->kinds(), ElementsAre(Kind::kList));
}

TEST_F(NodeCallsTest, ObjectsGoBackToTheWorkerThatHasThemAndAreDroppedWithTheLastShare) {
  const uint64_t call = Execute();
  Receive<NodeExecuteMessage>();
  NodeTensorMessage kept = Output("a", "", 41);
  kept.has_bytes = false;
  kept.tensor.shape = {100, 100};
  ASSERT_TRUE(Step(call, Sent::kList, {kept, Output("b", "both", 42)}).ok());
  std::vector<NodeTensor> outputs = listener_->steps()[0].outputs;
  listener_->Forget();
  EXPECT_FALSE(outputs[0].has_bytes);

  const uint64_t next = Execute(outputs);
  auto sent = Receive<NodeExecuteMessage>();
  ASSERT_EQ(sent.inputs.size(), 2u);
  EXPECT_EQ(sent.inputs[0].object, 41u);
  EXPECT_THAT(sent.inputs[0].tensor.shape, ElementsAre(100, 100));
  EXPECT_EQ(sent.inputs[1].object, 42u);
  EXPECT_FALSE(sent.inputs[1].has_bytes);
  ASSERT_TRUE(Step(next, Sent::kList).ok());
  outputs.pop_back();
  EXPECT_THAT(Receive<NodeDropMessage>().objects, ElementsAre(42u));

  // Tensors that are only objects are lost with the worker; bytes are not.
  const uint64_t both = Execute();
  Receive<NodeExecuteMessage>();
  listener_->Forget();
  ASSERT_TRUE(Step(both, Sent::kList, {Output("b", "both", 43)}).ok());
  const NodeTensor with_bytes = listener_->steps()[0].outputs[0];
  listener_->Forget();
  Die("dead");
  Connect(false);
  Execute({with_bytes});
  sent = Receive<NodeExecuteMessage>();
  EXPECT_EQ(sent.inputs[0].object, 0u);
  EXPECT_EQ(sent.inputs[0].tensor.bytes.size(), 4u);
  Execute(outputs);
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status.code(), StatusCode::kInternal);
  EXPECT_EQ(listener_->steps()[0].status.message(),
            "the worker that held tensor 'a' for the next node has ended");
  EXPECT_TRUE(NothingCame());
}

TEST_F(NodeCallsTest, LargeTensorsAreLentAndNotCopied) {
  Buffer data = arena_.Allocate(1 << 20).value();
  std::memset(data.mutable_data(), 5, data.size());
  NodeTensor packet = Input("a", data);
  data = {};
  const uint64_t call = Execute(std::vector<NodeTensor>(1, packet));
  const auto sent = Receive<NodeExecuteMessage>();
  const TensorMessage& tensor = sent.inputs.at(0).tensor;
  EXPECT_EQ(tensor.place, Place::kSenderMemory) << "nobody but the packet holds it";
  EXPECT_EQ(tensor.handle.size, size_t{1} << 20);
  const NodeTensor somebody_else = packet;
  Execute(std::vector<NodeTensor>(1, packet));
  EXPECT_EQ(Receive<NodeExecuteMessage>().inputs.at(0).tensor.place, Place::kSharedMemory);

  // The worker passes the input through: the same bytes, which the server owns again.
  NodeTensorMessage through = Output("out", "");
  through.tensor.place = Place::kReceiverMemory;
  through.tensor.handle = {tensor.handle.segment, tensor.handle.offset, tensor.handle.size};
  ASSERT_TRUE(Step(call, Sent::kList, {through}).ok());
  EXPECT_EQ(listener_->steps()[0].outputs[0].tensor.data.data(), packet.tensor.data.data());

  // An output in the worker's memory is kept until its last reader is done.
  SegmentIds worker_ids;
  Arena worker_arena(worker_ids, Arena::Options());
  Buffer output = worker_arena.Allocate(1 << 20).value();
  std::memset(output.mutable_data(), 9, output.size());
  const Segment& segment = *dynamic_cast<SegmentBlock*>(output.owner())->segment();
  ASSERT_TRUE(worker_->SendSegment(segment, segment.id()).ok());
  NodeTensorMessage large = Output("out", "");
  large.tensor.place = Place::kSenderMemory;
  large.tensor.handle = {segment.id(), static_cast<uint64_t>(output.data() - segment.base()), output.size()};
  const uint64_t made = Execute();
  Receive<NodeExecuteMessage>();
  listener_->Forget();
  ASSERT_TRUE(Step(made, Sent::kList, {large}).ok());
  Buffer seen = listener_->steps()[0].outputs[0].tensor.data;
  listener_->Forget();
  std::memset(output.mutable_data(), 8, output.size());
  EXPECT_EQ(seen.data()[seen.size() - 1], std::byte{8}) << "the same memory";
  EXPECT_TRUE(NothingCame());
  seen = {};
  const auto release = Receive<ReleaseMessage>();
  ASSERT_EQ(release.handles.size(), 1u);
  EXPECT_EQ(release.handles[0].segment, large.tensor.handle.segment);
  EXPECT_EQ(release.handles[0].offset, large.tensor.handle.offset);
}

TEST_F(NodeCallsTest, WhatCannotBeLentFailsTheCallAndNothingStaysLent) {
  Arena::Options options;
  options.max_bytes = 1 << 20;
  options.max_bytes_option = "--memory-max-bytes";
  Arena small(ids_, options);
  link_.memory = std::make_shared<WorkerMemory>(link_.channel, small);
  calls_.Open(link_, false);
  const Buffer lent = small.Allocate(256 << 10).value();
  const uint64_t call = Execute({Input("a", lent), Input("b", std::string(2 << 20, 'x'))});
  EXPECT_NE(call, 0u);
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(listener_->steps()[0].status.message(), HasSubstr("--memory-max-bytes"));
  EXPECT_EQ(calls_.pending(), 0u);
  EXPECT_TRUE(lent.owner()->unique());
}

TEST_F(NodeCallsTest, SessionsAreToldOnlyToAWorkerThatWantsThem) {
  const uint64_t untold = calls_.BeginSession({{"p", int64_t{1}}}, nullptr);
  EXPECT_NE(untold, 0u);
  calls_.EndSession(untold);
  EXPECT_TRUE(NothingCame());
  Die("dead");
  const uint64_t early = calls_.BeginSession({{"early", true}}, nullptr);
  const uint64_t ended = calls_.BeginSession({}, nullptr);
  calls_.EndSession(ended);

  Connect(true);
  auto begin = Receive<NodeSessionMessage>();
  EXPECT_EQ(begin.session, early);
  EXPECT_FALSE(begin.end);
  EXPECT_EQ(begin.parameters_json, R"({"early":true})");
  const uint64_t session = calls_.BeginSession({{"p", std::string("x")}}, nullptr);
  begin = Receive<NodeSessionMessage>();
  EXPECT_EQ(begin.session, session);
  EXPECT_EQ(begin.parameters_json, R"({"p":"x"})");
  calls_.Execute(0, session, {}, listener_);
  EXPECT_EQ(Receive<NodeExecuteMessage>().session, session);
  calls_.EndSession(early);
  const auto end = Receive<NodeSessionMessage>();
  EXPECT_EQ(end.session, early);
  EXPECT_TRUE(end.end);
  EXPECT_TRUE(NothingCame());

  // The state of a run is lost with its worker.
  Die("dead");
  Connect(true);
  EXPECT_TRUE(NothingCame());
  listener_->Forget();
  calls_.Execute(0, session, {}, listener_);
  ASSERT_THAT(listener_->kinds(), ElementsAre(Kind::kError));
  EXPECT_EQ(listener_->steps()[0].status.code(), StatusCode::kInternal);
  EXPECT_THAT(listener_->steps()[0].status.message(), HasSubstr("restarted"));
  calls_.EndSession(session);
  EXPECT_TRUE(NothingCame());
}

TEST_F(NodeCallsTest, StepsThatBreakTheRules) {
  EXPECT_EQ(Step(99, Sent::kList).code(), StatusCode::kInvalidArgument);
  const uint64_t call = Execute();
  NodeTensorMessage nothing = Output("a", "");
  nothing.has_bytes = false;
  EXPECT_EQ(Step(call, Sent::kList, {nothing}).code(), StatusCode::kInvalidArgument);
  NodeTensorMessage untyped = Output("a", "");
  untyped.tensor.type = DataType::kInvalid;
  EXPECT_EQ(Step(call, Sent::kList, {untyped}).code(), StatusCode::kInvalidArgument);
  NodeTensorMessage foreign = Output("a", "");
  foreign.tensor.place = Place::kReceiverMemory;
  foreign.tensor.handle = {1, 0, 4096};
  EXPECT_EQ(Step(call, Sent::kList, {foreign}).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(listener_->kinds(), IsEmpty());
}

// Threads resume and close calls while steps arrive; run under TSan.
TEST_F(NodeCallsTest, AnyThreadResumesAndCloses) {
  constexpr int kCalls = 40;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::mutex mutex;
  std::vector<uint64_t> open;
  std::atomic<bool> over{false};
  std::thread worker([&] {
    // Sends as many items as there is credit, and ends closed calls.
    std::map<uint64_t, uint32_t> credit;
    std::vector<std::byte> message;
    while (!over || !credit.empty()) {
      if (worker_->Receive(message, 1'000'000) == Channel::Outcome::kMessage) {
        NodeExecuteMessage execute;
        NodeResumeMessage resume;
        NodeCloseMessage close;
        if (Decode(message, execute)) credit[execute.call_id] = execute.credit;
        if (Decode(message, resume) && credit.contains(resume.call_id))
          credit[resume.call_id] += resume.credit;
        if (Decode(message, close) && credit.erase(close.call_id) != 0) {
          std::lock_guard lock(mutex);
          ASSERT_TRUE(Step(close.call_id, Sent::kEnd).ok());
        }
      }
      std::lock_guard lock(mutex);
      for (auto& [id, left] : credit) {
        if (left > 0) {
          --left;
          ASSERT_TRUE(Step(id, Sent::kItem, {Output("a", "x", id)}).ok());
        }
      }
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        auto listener = std::make_shared<Listener>();
        const uint64_t id = calls_.Execute(0, 0, {Input("a", "y")}, listener);
        for (int k = 0; k < 30; ++k) {
          const size_t before = listener->steps().size();
          while (listener->steps().size() == static_cast<size_t>(k)) std::this_thread::yield();
          EXPECT_LE(before, static_cast<size_t>(k) + 1);
          if (k < 29) calls_.Resume(id);
        }
        calls_.Close(id);
        EXPECT_EQ(listener->steps().size(), 30u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  over = true;
  worker.join();
  EXPECT_EQ(calls_.pending(), 0u);
}

}  // namespace
}  // namespace braid
