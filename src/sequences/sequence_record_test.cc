#include "sequences/sequence_record.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

std::vector<Tensor> Some() {
  const std::string_view numbers("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16);
  const std::string_view texts("\2\0\0\0hi", 6);
  return {{"a", DataType::kInt32, {2, 2}, CopyToHeap(std::as_bytes(std::span(numbers)))},
          {"a text", DataType::kBytes, {1}, CopyToHeap(std::as_bytes(std::span(texts)))},
          {"nothing", DataType::kFp64, {0}, {}}};
}

TEST(SequenceRecordTest, GivesBackWhatItWasGiven) {
  const auto before = Some();
  const auto after = DecodeSequenceRecord(EncodeSequenceRecord(before)).value();
  ASSERT_EQ(after.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after[i].name, before[i].name);
    EXPECT_EQ(after[i].type, before[i].type);
    EXPECT_EQ(after[i].shape, before[i].shape);
    EXPECT_EQ(after[i].data.text(), before[i].data.text());
  }
  EXPECT_TRUE(DecodeSequenceRecord(EncodeSequenceRecord({})).value().empty());
}

TEST(SequenceRecordTest, BelievesNothing) {
  const std::string whole = EncodeSequenceRecord(Some());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeSequenceRecord(std::string_view(whole).substr(0, size)).ok()) << size;
  }
  EXPECT_EQ(DecodeSequenceRecord(whole + "x").status().code(), StatusCode::kInvalidArgument);
  std::string later = whole;
  later[0] = 9;
  EXPECT_EQ(DecodeSequenceRecord(later).status().code(), StatusCode::kUnsupported);
  // For any value of a byte: a result or an error, within bounds.
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char byte : {'\x00', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[i] = byte;
      (void)DecodeSequenceRecord(changed).ok();
    }
  }
}

}  // namespace
}  // namespace braid
