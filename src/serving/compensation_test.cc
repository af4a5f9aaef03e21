#include "serving/compensation.h"

#include <gmock/gmock.h>

#include <set>

#include "serving/faults.h"
#include "serving/testing/fake_keeper.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Records drops and undone steps.
class Dropping final : public Servable {
 public:
  Dropping() : Servable(ServableInfo()) {}
  bool has_sequences() const override { return true; }
  SequenceKeeper* sequences() override { return &keeper; }
  void DropSequence(const CorrelationId& id) override { dropped.push_back(std::get<uint64_t>(id)); }
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

  std::vector<uint64_t> dropped;
  FakeKeeper keeper;

 private:
  HeapAllocator heap_;
};

class CompensationTest : public ::testing::Test {
 protected:
  void Make(bool start, bool end) {
    compensation_ = std::make_unique<Compensation>(uint64_t{7}, start, end);
    first_ = compensation_->Add(a_);
    second_ = compensation_->Add(b_);
  }
  void Run(size_t part, const Status& status) {
    compensation_->Asked(part);
    compensation_->Answered(part, status);
  }
  void Fail() {
    compensation_->Fail([this] { ++told_; });
  }

  const std::shared_ptr<Dropping> a_ = std::make_shared<Dropping>();
  const std::shared_ptr<Dropping> b_ = std::make_shared<Dropping>();
  std::unique_ptr<Compensation> compensation_;
  size_t first_ = 0;
  size_t second_ = 0;
  int told_ = 0;
};

TEST_F(CompensationTest, AStartIsTakenBackWhereItWentWell) {
  Make(true, false);
  Run(first_, OkStatus());
  Run(second_, FaultError(Fault::kSequenceAlreadyExists));
  EXPECT_EQ(told_, 0);
  Fail();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->dropped, ElementsAre(7));
  EXPECT_THAT(b_->dropped, IsEmpty());
}

TEST_F(CompensationTest, WhatIsStillAskedIsWaitedFor) {
  Make(true, false);
  compensation_->Asked(first_);
  compensation_->Asked(second_);
  compensation_->Answered(first_, InternalError("broken"));
  Fail();
  EXPECT_EQ(told_, 0);
  compensation_->Answered(second_, OkStatus());
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->dropped, IsEmpty());
  EXPECT_THAT(b_->dropped, ElementsAre(7));
}

TEST_F(CompensationTest, AnEndThatHasBegunIsBroughtToItsEnd) {
  Make(false, true);
  Run(first_, OkStatus());
  Fail();
  EXPECT_THAT(a_->dropped, IsEmpty());
  EXPECT_THAT(b_->dropped, ElementsAre(7));
}

TEST_F(CompensationTest, AnEndThatHasEndedNothingLeavesAll) {
  Make(false, true);
  Run(first_, InternalError("broken"));
  Fail();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->dropped, IsEmpty());
  EXPECT_THAT(b_->dropped, IsEmpty());
}

TEST_F(CompensationTest, ACancelledEndCountsAsOne) {
  Make(false, true);
  Run(first_, CancelledError("cancelled"));
  Fail();
  EXPECT_THAT(b_->dropped, ElementsAre(7));
}

TEST_F(CompensationTest, AnEndHoldsWhenItsClientHasGone) {
  Make(false, true);
  compensation_->ClientGone();
  Fail();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->dropped, ElementsAre(7));
  EXPECT_THAT(b_->dropped, ElementsAre(7));
  Make(false, true);
  compensation_->Asked(first_);
  compensation_->ClientGone();
  Fail();
  compensation_->Answered(first_, CancelledError("cancelled"));
  EXPECT_THAT(a_->dropped, ElementsAre(7));
  EXPECT_THAT(b_->dropped, ElementsAre(7, 7));
}

TEST_F(CompensationTest, AStartDidNotHappenWhenItsClientHasGone) {
  Make(true, false);
  Run(first_, OkStatus());
  compensation_->ClientGone();
  Fail();
  EXPECT_THAT(a_->dropped, ElementsAre(7));
  EXPECT_THAT(b_->dropped, IsEmpty());
}

TEST_F(CompensationTest, ASequenceOfOneRequestLeavesNothing) {
  Make(true, true);
  Run(first_, OkStatus());
  Run(second_, FaultError(Fault::kSequenceAlreadyExists));
  Fail();
  EXPECT_THAT(a_->dropped, IsEmpty());
  EXPECT_THAT(b_->dropped, IsEmpty());
}

TEST_F(CompensationTest, AStepIsTakenBackWhereItWentWell) {
  a_->keeper.takes_back = true;
  b_->keeper.takes_back = true;
  Make(false, false);
  Run(first_, OkStatus());
  Run(second_, InternalError("broken"));
  Fail();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->keeper.taken_back, ElementsAre(Pair(0, 1)));
  EXPECT_THAT(b_->keeper.taken_back, IsEmpty());
  EXPECT_THAT(a_->dropped, IsEmpty());
  EXPECT_THAT(b_->dropped, IsEmpty());
}

TEST_F(CompensationTest, StepsOfOneRequestAreTakenBackTogetherToWhereTheFirstBegan) {
  a_->keeper.takes_back = true;
  Make(false, false);
  Run(first_, OkStatus());
  Run(first_, OkStatus());
  compensation_->Asked(first_);
  Fail();
  EXPECT_EQ(told_, 0);
  compensation_->Answered(first_, OkStatus());
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->keeper.taken_back, ElementsAre(Pair(0, 3)));
}

TEST_F(CompensationTest, AStepStaysWhereItCannotBeTakenBack) {
  Make(false, false);
  Run(first_, OkStatus());
  Fail();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(a_->keeper.taken_back, IsEmpty());
}

TEST_F(CompensationTest, AServableThatIsGoneHasNoSequences) {
  Compensation compensation(uint64_t{7}, true, false);
  auto gone = std::make_shared<Dropping>();
  const std::weak_ptr<Dropping> watched = gone;
  const size_t part = compensation.Add(gone);
  gone.reset();
  EXPECT_TRUE(watched.expired());
  compensation.Asked(part);
  compensation.Answered(part, OkStatus());
  compensation.Fail([this] { ++told_; });
  EXPECT_EQ(told_, 1);
}

TEST(RandomSequenceIdTest, IsAPositiveSignedNumber) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    const uint64_t id = RandomSequenceId();
    EXPECT_GT(id, 0u);
    EXPECT_LE(id, uint64_t{INT64_MAX});
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100u);
}

TEST(SequenceIdOutputTest, IsOneNumber) {
  const Tensor output = SequenceIdOutput(0x0102030405060708);
  EXPECT_EQ(output.name, "sequence_id");
  EXPECT_EQ(output.type, DataType::kUint64);
  EXPECT_EQ(output.shape, Shape{1});
  EXPECT_EQ(output.data.text(), "\x08\x07\x06\x05\x04\x03\x02\x01");
}

}  // namespace
}  // namespace braid
