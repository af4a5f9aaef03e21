// Random clients, deaths, cancellations and pauses against a simple model of a client's expectations. A
// sequence runs in order, one request at a time, on one instance and in one slot; each request is answered
// once.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "sequences/testing/sequence_harness.h"

namespace braid {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kIdleNs = 1'000'000'000;
constexpr char kReady[] =
    "control_input { name: 'READY' control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }";

enum class Mode { kDirect, kOldest, kIterative };

class Simulation : public SequenceHarness {
 public:
  Simulation(Mode mode, unsigned seed) : mode_(mode), random_(seed) {
    instances_ = 1 + random_() % 3;
    const int batch = static_cast<int>(1 + random_() % 4);
    const std::string delay = random_() % 2 == 0 ? "max_queue_delay_microseconds: 20000 " : "";
    std::string batching = kReady;
    if (mode == Mode::kDirect) batching += "direct { " + delay + "minimum_slot_utilization: 0.5 }";
    if (mode != Mode::kDirect) batching += "oldest { max_candidate_sequences: 3 " + delay + " }";
    if (mode == Mode::kIterative) batching += "iterative_sequence: true";
    Start(instances_, batching, batch);
    seats_.resize(instances_);
    alive_.assign(instances_, true);
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      const unsigned dice = random_() % 100;
      if (dice < 45) {
        SendOne();
      } else if (dice < 80) {
        FinishOne(random_() % instances_);
      } else if (dice < 85) {
        CancelOne();
      } else if (dice < 95) {
        timers_.Advance(static_cast<int64_t>(random_() % 300) * kMs);
      } else if (dice < 97) {
        Kill(random_() % instances_);
      } else {
        Revive(random_() % instances_);
      }
      timers_.Run();
      Collect();
      CheckInside();
    }
    // All accepted requests end when clients wait for them.
    for (int round = 0; round < 2000 && !::testing::Test::HasFailure() && !outstanding_.empty(); ++round) {
      for (size_t i = 0; i < instances_; ++i) {
        Revive(i);
        while (instance(i).inside() > 0) FinishOne(i);
      }
      timers_.Advance(10 * kMs);
      Collect();
    }
    EXPECT_TRUE(outstanding_.empty()) << "nothing is lost";
    timers_.Advance(2 * kIdleNs);
    EXPECT_EQ(model_->sequences()->counts().active, 0u);
    EXPECT_EQ(model_->pending_requests(), 0);
    EXPECT_EQ(stats().success.count, succeeded_);
    EXPECT_EQ(stats().inference_count, succeeded_);
    EXPECT_EQ(failures(FailureReason::kCanceled), cancelled_);
  }

 private:
  // A sequence, as its client sees it.
  struct Life {
    size_t number = 0;
    uint64_t id = 0;
    bool open = true;
    bool lost = false;
    bool cancelled = false;
    std::set<size_t> pending;  // clients
    std::vector<size_t> order;
    size_t next = 0;  // index in `order` of the next to run
    bool begun = false;
    bool over = false;  // another sequence has had its slot since
    size_t instance = 0;
    size_t slot = 0;
    int64_t last_ns = 0;
  };
  struct Sent {
    SequenceClient client;
    size_t life = 0;
    bool start = false;
    bool ran = false;
    bool cancelled = false;
  };

  Life& Current(uint64_t id) { return lives_[current_.at(id)]; }

  void SendOne() {
    const uint64_t id = 1 + random_() % 7;
    unsigned flags = kMiddle;
    if (random_() % 4 == 0) flags |= kStart;
    if (random_() % 5 == 0) flags |= kEnd;
    // The middle of a missing sequence tests less than its beginning.
    if (!current_.contains(id) && random_() % 4 != 0) flags |= kStart;
    const bool start = mode_ == Mode::kIterative || (flags & kStart) != 0;
    std::string refusal;
    if (!start) {
      if (!current_.contains(id)) {
        refusal = "must specify the START flag";
      } else {
        Life& life = Current(id);
        if (life.open && life.pending.empty() && timers_.NowNs() - life.last_ns >= kIdleNs) life.open = false;
        if (!life.open) refusal = life.lost ? "was lost" : "must specify the START flag";
      }
    }
    const size_t number = sent_.size();
    sent_.emplace_back();
    Sent& sent = sent_.back();
    if (refusal.empty()) {
      if (start) {
        if (current_.contains(id)) Current(id).open = false;
        current_[id] = lives_.size();
        lives_.emplace_back();
        lives_.back().number = lives_.size() - 1;
        lives_.back().id = id;
      }
      Life& life = Current(id);
      sent.life = life.number;
      sent.start = start;
      life.order.push_back(number);
      life.pending.insert(number);
      outstanding_.insert(number);
      if (mode_ == Mode::kIterative || (flags & kEnd) != 0) life.open = false;
    }
    SequenceClient client = sent.client;
    Send(client, id, flags, 1, 1, std::to_string(number));
    if (!refusal.empty()) {
      EXPECT_NE(client.error().find(refusal), std::string::npos) << id << ": " << client.error();
    }
  }

  // Checks an execution when it begins.
  void Check(size_t index) {
    Execution& execution = instance(index).running();
    std::set<size_t> seen;
    for (size_t row = 0; row < execution.requests.size(); ++row) {
      const InferenceRequest& request = *execution.requests[row];
      const bool real = std::get<uint64_t>(request.correlation_id) != 0;
      EXPECT_EQ(ValueOf<int32_t>(request, "READY"), real ? 1 : 0);
      if (!real) {
        EXPECT_EQ(mode_, Mode::kDirect) << "padding is for slots";
        continue;
      }
      const size_t number = std::stoul(request.id);
      Sent& sent = sent_[number];
      Life& life = lives_[sent.life];
      EXPECT_TRUE(seen.insert(life.number).second) << "one at a time";
      ASSERT_LT(life.next, life.order.size());
      EXPECT_EQ(life.order[life.next], number) << "in order";
      EXPECT_EQ(request.sequence_start, sent.start && !sent.ran);
      EXPECT_FALSE(life.over) << "it had left its slot";
      for (size_t before : lives_of_[life.id]) {
        if (before >= life.number) break;
        EXPECT_TRUE(lives_[before].pending.empty()) << "one sequence of an id at a time";
      }
      if (life.begun) {
        EXPECT_EQ(life.instance, index) << "one instance";
        EXPECT_TRUE(mode_ != Mode::kDirect || life.slot == row) << "one slot";
      } else {
        lives_of_[life.id].insert(life.number);
      }
      if (mode_ == Mode::kDirect) TakeSlot(index, row, life);
      life.begun = true;
      life.instance = index;
      life.slot = row;
      sent.ran = true;
    }
    EXPECT_GT(seen.size(), 0u) << "an execution of nothing";
    EXPECT_LE(static_cast<int64_t>(execution.requests.size()), model_->info().max_batch_size);
  }
  void TakeSlot(size_t index, size_t row, Life& life) {
    auto& owner = seats_[index][row];
    if (owner != nullptr && owner->number != life.number) {
      EXPECT_TRUE(owner->pending.empty()) << "a slot has one sequence";
      EXPECT_TRUE(!owner->open || timers_.NowNs() - owner->last_ns >= kIdleNs) << "and keeps it";
      owner->over = true;
    }
    owner = &life;
  }

  // No request runs beside another of its sequence, including executions that were handed over ahead.
  void CheckInside() {
    std::set<size_t> lives;
    for (size_t i = 0; i < instances_; ++i) {
      for (const auto& execution : instance(i).executions()) {
        for (const auto& request : execution->requests) {
          if (std::get<uint64_t>(request->correlation_id) == 0) continue;
          EXPECT_TRUE(lives.insert(sent_[std::stoul(request->id)].life).second) << "one at a time";
        }
      }
    }
  }

  void FinishOne(size_t index) {
    if (instance(index).inside() == 0) return;
    Check(index);
    if (::testing::Test::HasFailure()) return;
    auto execution = instance(index).Take();
    const int64_t now_ns = timers_.NowNs();
    const ExecutionTimes times{execution->compute_start_ns, now_ns - 10'000, now_ns, now_ns};
    ExecutionListener& listener = *instance(index).listener_;
    listener.OnExecuted(instance(index), execution->rows, execution->requests.size(), times);
    for (auto& request : execution->requests) {
      const bool real = std::get<uint64_t>(request->correlation_id) != 0;
      if (real && mode_ == Mode::kIterative && random_() % 2 == 0) {
        listener.OnRescheduled(instance(index), std::move(request));
        continue;
      }
      if (real) {
        Life& life = lives_[sent_[std::stoul(request->id)].life];
        ++life.next;
        life.last_ns = now_ns;
      }
      listener.OnResponse(instance(index), *request, InferenceResponse(), true, times);
    }
    listener.OnDelivered(instance(index));
    Collect();
  }

  void CancelOne() {
    if (outstanding_.empty()) return;
    auto chosen = outstanding_.begin();
    std::advance(chosen, static_cast<ptrdiff_t>(random_() % outstanding_.size()));
    Sent& sent = sent_[*chosen];
    sent.cancelled = true;
    sent.client.cancellation->Cancel();
  }

  void Kill(size_t index) {
    if (!alive_[index]) return;
    alive_[index] = false;
    if (instance(index).inside() > 0) Check(index);
    for (Life& life : lives_) {
      if (!life.begun || life.instance != index || life.over) continue;
      if (life.open) life.lost = life.pending.empty() ? timers_.NowNs() - life.last_ns < kIdleNs : true;
      life.open = false;
      life.over = true;
    }
    seats_[index].clear();
    instance(index).Die();
  }
  void Revive(size_t index) {
    if (alive_[index]) return;
    alive_[index] = true;
    instance(index).Revive();
  }

  // Collects the answers since the last call.
  void Collect() {
    for (auto it = outstanding_.begin(); it != outstanding_.end();) {
      Sent& sent = sent_[*it];
      if (sent.client.waits()) {
        ++it;
        continue;
      }
      Life& life = lives_[sent.life];
      life.pending.erase(*it);
      it = outstanding_.erase(it);
      const Status status = sent.client.sink->status();
      const auto says = [&](std::string_view text) {
        return status.message().find(text) != std::string::npos;
      };
      if (status.ok()) {
        EXPECT_TRUE(sent.ran);
        ++succeeded_;
      } else if (status.code() == StatusCode::kCancelled) {
        // One of the sequence was cancelled, and all its queued requests were dropped.
        EXPECT_TRUE(std::any_of(life.order.begin(), life.order.end(),
                                [this](size_t number) { return sent_[number].cancelled; }));
        life.open = false;
        ++cancelled_;
      } else if (says("the instance died")) {
        EXPECT_TRUE(sent.ran);
        EXPECT_TRUE(life.over);
      } else if (says("was lost")) {
        EXPECT_TRUE(life.over || returned_.contains(life.number)) << "its instance lives";
      } else if (says("times before they began")) {
        returned_.insert(life.number);
        life.lost = life.open;
        life.open = false;
      } else if (says("has waited for a slot")) {
        EXPECT_FALSE(life.begun);
        EXPECT_TRUE(life.open || !life.pending.empty() || life.order.size() > 1) << "it was complete";
        life.open = false;
      } else if (says("no instance of model")) {
        life.open = false;
      } else {
        ADD_FAILURE() << status.message();
      }
    }
  }

  const Mode mode_;
  std::mt19937 random_;
  size_t instances_;
  std::deque<Sent> sent_;
  std::deque<Life> lives_;
  std::map<uint64_t, size_t> current_;
  std::map<uint64_t, std::set<size_t>> lives_of_;  // by id; those that have begun
  std::set<size_t> outstanding_;
  std::set<size_t> returned_;
  std::vector<std::map<size_t, Life*>> seats_;
  std::vector<bool> alive_;
  uint64_t succeeded_ = 0;
  uint64_t cancelled_ = 0;
};

class SequenceProperties : public ::testing::TestWithParam<Mode> {};

TEST_P(SequenceProperties, HoldForRandomClients) {
  for (unsigned seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(GetParam(), seed).Run(400);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, SequenceProperties,
                         ::testing::Values(Mode::kDirect, Mode::kOldest, Mode::kIterative),
                         [](const auto& info) {
                           return std::string(info.param == Mode::kDirect   ? "Direct"
                                              : info.param == Mode::kOldest ? "Oldest"
                                                                            : "Iterative");
                         });

}  // namespace
}  // namespace braid
