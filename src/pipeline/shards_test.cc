#include "pipeline/shards.h"

#include <gmock/gmock.h>

#include "pipeline/testing/fake_step.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

Tensor Make(Shape shape) {
  std::vector<int32_t> values(static_cast<size_t>(*ElementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  Tensor tensor = Int32Tensor("x", values);
  tensor.shape = std::move(shape);
  return tensor;
}

std::string CountFault(const Tensor& tensor, int32_t demultiply) {
  return CountShards("node 'a'", {&tensor}, demultiply).status().message();
}

TEST(Shards, AreViewsOfTheirPart) {
  const Tensor whole = Make({3, 2});
  ASSERT_EQ(*CountShards("", {&whole}, 3), 3u);
  const Tensor shard = Shard(whole, 1, 3);
  EXPECT_EQ(shard.shape, (Shape{2}));
  EXPECT_THAT(Int32Values(shard), ElementsAre(2, 3));
  EXPECT_EQ(shard.data.data(), whole.data.data() + 8);
  EXPECT_EQ(shard.data.owner(), whole.data.owner());
}

TEST(Shards, OfTensorsWithoutElements) {
  const Tensor whole = Make({3, 0});
  EXPECT_EQ(*CountShards("", {&whole}, -1), 3u);
  EXPECT_EQ(Shard(whole, 2, 3).shape, (Shape{0}));
}

TEST(Shards, CountsAreChecked) {
  EXPECT_EQ(
      CountFault(Make({2, 2}), 3),
      "Wrong dimension size. Should match demultiply count - node 'a', output 'x' of shape [2,2], expected "
      "3 pieces");
  EXPECT_EQ(
      CountFault(Make({2}), -1),
      "Wrong number of dimensions in a demultiplexed tensor - node 'a', output 'x' of shape [2] has fewer "
      "than 2 dimensions");
  EXPECT_EQ(CountFault(Make({0, 2}), -1),
            FaultError(Fault::kPipelineDemultiplexerNoResults, "node 'a'").message());
  EXPECT_THAT(CountFault(Make({0, 2}), 2), StartsWith("Wrong dimension size. Should match demultiply count"));
  EXPECT_EQ(
      CountFault(Make({10001, 1}), -1),
      "Too large dynamic demultiplication requested. - node 'a', output 'x' of shape [10001,1], at most "
      "10000 pieces are possible");
  const Tensor most = Make({10000, 1});
  EXPECT_EQ(*CountShards("", {&most}, -1), 10000u);
  Tensor text = Make({2, 2});
  text.type = DataType::kBytes;
  EXPECT_THAT(CountFault(text, -1), StartsWith("Demultiplexing of string tensors is not supported"));
  Tensor odd = Make({2, 2});
  odd.shape = {2, 3};
  EXPECT_THAT(CountFault(odd, -1), StartsWith("Internal server error - node 'a', output 'x'"));
  const Tensor two = Make({2, 2});
  const Tensor three = Make({3, 2});
  EXPECT_THAT(
      CountShards("n", {&two, &three}, -1).status().message(),
      StartsWith("Wrong dimension size. Should match demultiply count - n, output 'x' of shape [3,2]"));
}

TEST(Shards, InARowAreStackedWithoutACopy) {
  const Tensor whole = Make({3, 2});
  Shards shards{{3}, {}};
  for (uint32_t i = 0; i < 3; ++i) shards.tensors.push_back(Shard(whole, i, 3));
  FakeStep::CountingAllocator allocator;
  auto stacked = Stack("", std::move(shards), allocator);
  ASSERT_TRUE(stacked.ok());
  EXPECT_EQ(stacked->shape, (Shape{3, 2}));
  EXPECT_EQ(stacked->data.data(), whole.data.data());
  EXPECT_EQ(stacked->data.size(), whole.data.size());
  EXPECT_EQ(allocator.allocations, 0);
  EXPECT_EQ(whole.data.owner()->references(), 2u);
}

TEST(Shards, OutOfOrderAreCopiedOnce) {
  const Tensor whole = Make({2, 2});
  Shards shards{{2, 1}, {Shard(whole, 1, 2), Shard(whole, 0, 2)}};
  FakeStep::CountingAllocator allocator;
  auto stacked = Stack("", std::move(shards), allocator);
  ASSERT_TRUE(stacked.ok());
  EXPECT_EQ(stacked->shape, (Shape{2, 1, 2}));
  EXPECT_THAT(Int32Values(*stacked), ElementsAre(2, 3, 0, 1));
  EXPECT_EQ(allocator.allocations, 1);
}

TEST(Shards, ThatDifferAreNotStacked) {
  HeapAllocator heap;
  EXPECT_EQ(Stack("node 'g', input 'x'", {{2}, {Make({2}), Make({3})}}, heap).status().message(),
            "Gathered tensor shards dimensions are different - node 'g', input 'x': INT32 [2] and INT32 [3]");
  Tensor other = Make({2});
  other.type = DataType::kFp32;
  EXPECT_EQ(Stack("g", {{2}, {Make({2}), other}}, heap).status().message(),
            "Gathered tensor shards dimensions are different - g: INT32 [2] and FP32 [2]");
}

TEST(Shards, OfSeveralScopesAreJoined) {
  std::vector<Shards> parts(2);
  parts[0] = {{1}, {Make({2})}};
  parts[1] = {{1}, {Make({2})}};
  auto joined = Join("", std::move(parts));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->counts, (Shape{2, 1}));
  EXPECT_EQ(joined->tensors.size(), 2u);
  parts = std::vector<Shards>(2);
  parts[0] = {{1}, {Make({2})}};
  parts[1] = {{2}, {Make({2}), Make({2})}};
  EXPECT_EQ(Join("g", std::move(parts)).status().message(),
            "Gathered tensor shards dimensions are different - g: [1] and [2] pieces");
}

}  // namespace
}  // namespace braid
