#include "sequences/sequence_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace braid {
namespace {

using Reason = SequenceStore::Reason;

Tensor State(std::string name, std::vector<float> values) {
  return {std::move(name), DataType::kFp32, Shape(1, static_cast<int64_t>(values.size())),
          CopyToHeap(std::as_bytes(std::span(values)))};
}

std::vector<float> Values(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class SequenceStoreTest : public ::testing::Test {
 protected:
  static SequenceStore::Options Options() {
    SequenceStore::Options options;
    options.states = {{"a", DataType::kFp32, {-1}}, {"b", DataType::kFp32, {2}}};
    options.savable = true;
    options.identity = "model 1";
    return options;
  }
  static std::vector<Tensor> States(float value) { return {State("a", {value}), State("b", {value, value})}; }
  // The saved sequences as "id:a", ordered by id.
  std::string Saved() const {
    std::map<uint64_t, float> values;
    for (const SavedSequence& saved : store_.Save()) {
      values[std::get<uint64_t>(saved.id)] = saved.states.empty() ? -1 : Values(saved.states[0]).at(0);
    }
    std::string text;
    for (const auto& [id, value] : values) {
      text += (text.empty() ? "" : " ") + std::to_string(id) + ":" + std::to_string(static_cast<int>(value));
    }
    return text;
  }

  SequenceStore store_{Options()};
};

TEST_F(SequenceStoreTest, ListsTheOldestSequences) {
  const uint64_t first = store_.Begin(uint64_t{7});
  store_.Begin(std::string("text"));
  store_.Begin(uint64_t{9});
  store_.Put(first, States(1), true);
  store_.Put(first, States(2), true);
  const auto list = store_.List(2);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].id, CorrelationId(uint64_t{7}));
  EXPECT_EQ(list[0].requests, 2u);
  EXPECT_LE(*list[0].idle_ns, *list[0].age_ns);
  EXPECT_EQ(list[1].id, CorrelationId(std::string("text")));
  EXPECT_EQ(list[1].requests, 0u);
  EXPECT_EQ(store_.List(200).size(), 3u);
}

TEST_F(SequenceStoreTest, NumbersAreNeverUsedAgain) {
  const uint64_t first = store_.Begin(uint64_t{7});
  store_.End(first, Reason::kEnded);
  const uint64_t second = store_.Begin(uint64_t{7});
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  // Late events of the first do not affect the second.
  store_.Put(first, States(1), true);
  store_.Settle(first);
  store_.SetEnding(first, true);
  store_.End(first, Reason::kLost);
  EXPECT_EQ(store_.Get(first), nullptr);
  EXPECT_FALSE(store_.HasRun(second));
  EXPECT_EQ(store_.counts().active, 1u);
  EXPECT_EQ(store_.counts().lost, 0u);
}

TEST_F(SequenceStoreTest, SavesWhatHasRunAndDoesNotEnd) {
  const uint64_t one = store_.Begin(uint64_t{1});
  const uint64_t two = store_.Begin(uint64_t{2});
  EXPECT_EQ(Saved(), "");
  store_.Put(one, States(10), true);
  store_.Put(two, States(20), true);
  EXPECT_EQ(Saved(), "1:10 2:20");
  store_.Put(one, States(11), true);
  store_.SetEnding(two, true);
  EXPECT_EQ(Saved(), "1:11");
  store_.SetEnding(two, false);
  EXPECT_EQ(Saved(), "1:11 2:20");
  store_.End(one, Reason::kEnded);
  EXPECT_EQ(Saved(), "2:20");
}

TEST_F(SequenceStoreTest, SavesTheOldestFirst) {
  std::vector<CorrelationId> ids;
  for (uint64_t id = 100; id > 0; --id) {
    store_.Put(store_.Begin(id), States(1), true);
    ids.emplace_back(id);
  }
  std::vector<CorrelationId> saved;
  for (const SavedSequence& one : store_.Save()) saved.push_back(one.id);
  EXPECT_EQ(saved, ids);
}

TEST_F(SequenceStoreTest, SavesTheStatesAfterWholeRequests) {
  const uint64_t one = store_.Begin(uint64_t{1});
  store_.Put(one, States(10), false);
  EXPECT_EQ(Saved(), "");
  EXPECT_EQ(Values(store_.Get(one)->at(0)), (std::vector<float>{10}));
  store_.Settle(one);
  EXPECT_EQ(Saved(), "1:10");
  store_.Put(one, States(11), false);
  EXPECT_EQ(Saved(), "1:10");
  store_.Settle(one);
  EXPECT_EQ(Saved(), "1:11");
}

TEST_F(SequenceStoreTest, TakesBackWhatHasComeSinceAMark) {
  const uint64_t one = store_.Begin(uint64_t{1});
  EXPECT_FALSE(store_.MarkOf(one).has_value()) << "it has not run";
  store_.Put(one, States(1), true);
  const auto mark = store_.MarkOf(one);
  ASSERT_TRUE(mark.has_value());
  store_.Put(one, States(2), true);
  store_.Put(one, States(3), true);
  const uint64_t changes = store_.changes();
  store_.TakeBack(*mark, 1);
  EXPECT_EQ(Saved(), "1:3") << "one more has gone on from there";
  EXPECT_EQ(store_.changes(), changes);
  store_.TakeBack(*mark, 2);
  EXPECT_EQ(Saved(), "1:1");
  EXPECT_EQ(Values(store_.Get(one)->at(0)).at(0), 1);
  EXPECT_GT(store_.changes(), changes);
  // The sequence continues from there, and can be taken back to there again.
  store_.Put(one, States(4), true);
  EXPECT_EQ(Saved(), "1:4");
  store_.TakeBack(*mark, 1);
  EXPECT_EQ(Saved(), "1:1");
}

TEST_F(SequenceStoreTest, AMarkIsOfOneSequence) {
  const uint64_t first = store_.Begin(uint64_t{1});
  store_.Put(first, States(1), true);
  const auto mark = store_.MarkOf(first);
  store_.End(first, Reason::kEnded);
  const uint64_t second = store_.Begin(uint64_t{1});
  store_.Put(second, States(2), true);
  store_.Put(second, States(3), true);
  ASSERT_TRUE(mark.has_value());
  store_.TakeBack(*mark, 1);
  EXPECT_EQ(Saved(), "1:3");
  EXPECT_FALSE(store_.MarkOf(first).has_value());
}

TEST_F(SequenceStoreTest, BeginsWithTheInitialStates) {
  SequenceStore::Options options = Options();
  options.initial = std::make_shared<const std::vector<Tensor>>(States(5));
  SequenceStore store(options);
  EXPECT_EQ(Values(store.Get(store.Begin(uint64_t{1}))->at(0)), (std::vector<float>{5}));
  EXPECT_EQ(store_.Get(store_.Begin(uint64_t{1})), nullptr);
}

TEST_F(SequenceStoreTest, CountsEverySequenceOnce) {
  const uint64_t one = store_.Begin(uint64_t{1});
  const uint64_t two = store_.Begin(uint64_t{2});
  const uint64_t three = store_.Begin(uint64_t{3});
  store_.Begin(uint64_t{4});
  EXPECT_NE(store_.Restore({uint64_t{5}, States(1)}), 0u);
  store_.End(one, Reason::kEnded);
  store_.End(one, Reason::kEnded);
  store_.End(two, Reason::kExpired);
  store_.End(three, Reason::kLost);
  store_.CountRejected();
  const SequenceCounts counts = store_.counts();
  EXPECT_EQ(counts.started, 4u);
  EXPECT_EQ(counts.restored, 1u);
  EXPECT_EQ(counts.ended, 1u);
  EXPECT_EQ(counts.expired, 1u);
  EXPECT_EQ(counts.lost, 1u);
  EXPECT_EQ(counts.rejected, 1u);
  EXPECT_EQ(counts.active, counts.restored + counts.started - counts.ended - counts.expired - counts.lost);
}

TEST_F(SequenceStoreTest, ChangesGrowWithWhatIsSaved) {
  uint64_t before = store_.changes();
  const auto changed = [&] { return std::exchange(before, store_.changes()) != before; };
  const uint64_t one = store_.Begin(uint64_t{1});
  EXPECT_FALSE(changed()) << "it has not run";
  store_.Put(one, States(1), false);
  EXPECT_FALSE(changed());
  store_.Settle(one);
  EXPECT_TRUE(changed());
  store_.Settle(one);
  EXPECT_FALSE(changed()) << "nothing new";
  store_.SetEnding(one, true);
  EXPECT_TRUE(changed());
  store_.SetEnding(one, true);
  EXPECT_FALSE(changed());
  store_.SetEnding(one, false);
  EXPECT_TRUE(changed());
  store_.Put(one, States(2), true);
  EXPECT_TRUE(changed());
  store_.End(one, Reason::kLost);
  EXPECT_TRUE(changed());
  EXPECT_NE(store_.Restore({uint64_t{1}, States(1)}), 0u);
  EXPECT_TRUE(changed());
}

TEST_F(SequenceStoreTest, RestoresWhatFits) {
  const uint64_t number = store_.Restore({uint64_t{9}, States(3)});
  ASSERT_NE(number, 0u);
  EXPECT_TRUE(store_.HasRun(number));
  EXPECT_EQ(Values(store_.Get(number)->at(1)), (std::vector<float>{3, 3}));
  EXPECT_EQ(Saved(), "9:3");

  auto others = States(3);
  std::swap(others[0].name, others[1].name);
  EXPECT_EQ(store_.Restore({uint64_t{1}, others}), 0u) << "names";
  EXPECT_EQ(store_.Restore({uint64_t{1}, {}}), 0u) << "too few";
  others = States(3);
  others.push_back(State("c", {1}));
  EXPECT_EQ(store_.Restore({uint64_t{1}, others}), 0u) << "too many";
  others = States(3);
  others[1] = State("b", {1, 2, 3});
  EXPECT_EQ(store_.Restore({uint64_t{1}, others}), 0u) << "shape";
  EXPECT_EQ(store_.counts().active, 1u);
}

TEST_F(SequenceStoreTest, SaysWhatIsWrongWithStates) {
  EXPECT_EQ(store_.Check(std::vector<Tensor>{}).message(), "there are 0 states, but the model has 2");
  auto states = States(1);
  states[1] = State("b", {1, 2, 3});
  EXPECT_EQ(store_.Check(states).message(), "state 'b' is FP32 [3], but the model has FP32 [2]");
  states = States(1);
  states[0].type = DataType::kInt32;
  EXPECT_EQ(store_.Check(states).message(), "state 'a' is INT32 [1], but the model has FP32 [-1]");
  states = States(1);
  states[0].shape = {-1};
  EXPECT_EQ(store_.Check(states).message(), "state 'a' is FP32 [-1], but the model has FP32 [-1]");
  states = States(1);
  states[0].data = states[0].data.Slice(0, 3);
  EXPECT_EQ(store_.Check(states).message(), "state 'a' has 3 bytes, which does not match FP32 [1]");
}

TEST_F(SequenceStoreTest, CountsTheElementsOfTexts) {
  SequenceStore::Options options;
  options.states = {{"t", DataType::kBytes, {-1}}};
  const SequenceStore store(options);
  const std::string bytes("\1\0\0\0x\0\0\0\0", 9);
  Tensor texts{"t", DataType::kBytes, {2}, CopyToHeap(std::as_bytes(std::span(bytes)))};
  EXPECT_TRUE(store.Check(std::span(&texts, 1)).ok());
  texts.shape = {1};
  EXPECT_FALSE(store.Check(std::span(&texts, 1)).ok());
  texts.shape = {2};
  texts.data = texts.data.Slice(0, 7);
  EXPECT_FALSE(store.Check(std::span(&texts, 1)).ok());
}

}  // namespace
}  // namespace braid
