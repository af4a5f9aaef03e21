#include "load/workload.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <string_view>

namespace braid::load {
namespace {

// Returns the sequence id of an HTTP request; 0 if it has none.
int64_t SequenceOf(const LoadRequest& request) {
  constexpr std::string_view kName = "\"sequence_id\":";
  const std::string& text = request.message.bytes;
  const size_t at = text.find(kName);
  int64_t id = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), id);
  return id;
}

TEST(WorkloadSequences, TakeNoIdThatAnotherSourceIsStillAt) {
  WorkloadOptions options;
  options.sequences = {.enabled = true, .first_id = 10, .ids = 3, .length = 2, .variation = 0};
  DataSet data;
  data.streams.emplace_back().emplace_back();
  auto workload = Workload::Make(options, ModelInfo(), std::move(data), 1);
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  auto slow = (*workload)->NewSource();
  auto fast = (*workload)->NewSource();
  EXPECT_EQ(SequenceOf(slow->Next()), 10);
  for (const int64_t id : {11, 12, 11, 12}) {
    EXPECT_EQ(SequenceOf(fast->Next()), id);
    EXPECT_EQ(SequenceOf(fast->Next()), id);
  }
  EXPECT_EQ(SequenceOf(slow->Next()), 10);
  EXPECT_EQ(SequenceOf(fast->Next()), 10 + 1);
  slow.reset();
  EXPECT_EQ(SequenceOf(*fast->Last()), 11);
}

}  // namespace
}  // namespace braid::load
