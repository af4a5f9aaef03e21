#include "sequences/sequence_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/content_hash.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using ::testing::HasSubstr;
using testing::ScratchFolder;

Tensor Make(std::string name, DataType type, Shape shape, std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {std::move(name), type, std::move(shape), CopyToHeap({data, bytes.size()})};
}

// The bytes of a file, built piece by piece.
struct Image {
  std::string bytes;
  template <class T>
  Image& Number(T number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  Image& Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes += text;
    return *this;
  }
  // Appends a correct checksum.
  std::string Signed() const {
    ContentHash hash;
    hash.Add(bytes.data(), bytes.size());
    const ContentHash::Bytes sum = hash.bytes();
    return bytes + std::string(reinterpret_cast<const char*>(sum.data()), sum.size());
  }
};
Image Head(uint64_t sequences) {
  Image image{"BRAIDSEQ"};
  return image.Number(uint32_t{1}).Text("id").Number(int64_t{5}).Number(sequences);
}
// One sequence up to the type of its only state.
Image UpToType(uint8_t type) {
  return Head(1).Number(uint8_t{0}).Number(uint64_t{7}).Number(uint32_t{1}).Text("s").Number(type);
}

class SequenceFileTest : public ::testing::Test {
 protected:
  SequenceFileTest() : folder_(::open(scratch_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

  Status Write(const SequenceFile& content) {
    return WriteSequenceFile(folder_, "f", content, [] { return false; });
  }
  Result<SequenceFile> Read() const { return ReadSequenceFile(folder_, "f"); }
  Result<SequenceFile> ReadBytes(std::string_view bytes) {
    scratch_.Write("f", bytes);
    return Read();
  }
  std::string Bytes() const {
    std::ifstream file(scratch_ / "f", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static SequenceFile Small() {
    SequenceFile content{"model", 1234, {}};
    content.sequences.push_back({uint64_t{7}, {Make("h", DataType::kFp32, {2}, "12345678")}});
    content.sequences.push_back(
        {std::string("user"), {Make("t", DataType::kBytes, {1}, {"\x02\0\0\0ab", 6})}});
    return content;
  }

  ScratchFolder scratch_;
  const UniqueFd folder_;
};

TEST_F(SequenceFileTest, GivesBackWhatWasWritten) {
  SequenceFile content{"0123456789abcdef", 1700000000123, {}};
  content.sequences.push_back({uint64_t{0xfedcba9876543210}, {}});
  // Larger than the buffer, and not a round size.
  const std::string large(3 * (size_t{1} << 20) + 5, 'x');
  content.sequences.push_back(
      {std::string("a\0b\nc", 5),
       {Make("large", DataType::kUint8, {1, int64_t(large.size())}, large),
        Make("none", DataType::kInt64, {0, 4}, ""), Make("scalar", DataType::kFp64, {}, "abcdefgh"),
        Make("", DataType::kBytes, {2}, {"\0\0\0\0\x01\0\0\0z", 9})}});
  ASSERT_TRUE(Write(content).ok());

  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->identity, content.identity);
  EXPECT_EQ(read->written_ms, content.written_ms);
  ASSERT_EQ(read->sequences.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const SavedSequence& expected = content.sequences[i];
    const SavedSequence& found = read->sequences[i];
    EXPECT_EQ(found.id, expected.id);
    ASSERT_EQ(found.states.size(), expected.states.size());
    for (size_t j = 0; j < found.states.size(); ++j) {
      EXPECT_EQ(found.states[j].name, expected.states[j].name);
      EXPECT_EQ(found.states[j].type, expected.states[j].type);
      EXPECT_EQ(found.states[j].shape, expected.states[j].shape);
      EXPECT_TRUE(found.states[j].data.text() == expected.states[j].data.text());
    }
  }
}

TEST_F(SequenceFileTest, OnlyTheServersUserCanReadIt) {
  ASSERT_TRUE(Write(Small()).ok());
  struct stat info = {};
  ASSERT_EQ(::stat((scratch_ / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_THAT(Files(), ::testing::ElementsAre("f"));
}

TEST_F(SequenceFileTest, WhatWasGivenUpLeavesTheFileAsItWas) {
  ASSERT_TRUE(Write(Small()).ok());
  const std::string before = Bytes();
  SequenceFile content = Small();
  const std::string large(5 << 20, 'x');
  content.sequences.push_back({uint64_t{9}, {Make("l", DataType::kUint8, {5 << 20}, large)}});
  int asked = 0;
  const Status status = WriteSequenceFile(folder_, "f", content, [&asked] { return ++asked > 3; });
  EXPECT_EQ(status, UnavailableError("it took too long"));
  EXPECT_EQ(Bytes(), before);
  EXPECT_THAT(Files(), ::testing::ElementsAre("f"));
}

TEST_F(SequenceFileTest, WhatAKilledServerHasLeftIsOverwritten) {
  scratch_.Write(".f.tmp", "half a file");
  ASSERT_TRUE(Write(Small()).ok());
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(Files(), ::testing::ElementsAre("f"));
}

TEST_F(SequenceFileTest, SaysThatThereIsNone) { EXPECT_EQ(Read().status().code(), StatusCode::kNotFound); }

TEST_F(SequenceFileTest, EveryTruncationIsAnError) {
  ASSERT_TRUE(Write(Small()).ok());
  const std::string bytes = Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto read = ReadBytes(bytes.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << size << read.status();
    EXPECT_THAT(read.status().message(), HasSubstr("it is damaged: ")) << size;
  }
}

TEST_F(SequenceFileTest, EveryChangedByteIsAnError) {
  ASSERT_TRUE(Write(Small()).ok());
  const std::string bytes = Bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x02, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const auto read = ReadBytes(changed);
      ASSERT_FALSE(read.ok()) << i;
      const bool format = i >= 8 && i < 12;
      EXPECT_EQ(read.status().code(), format ? StatusCode::kUnsupported : StatusCode::kInvalidArgument) << i;
    }
  }
}

TEST_F(SequenceFileTest, BytesBehindTheEndAreAnError) {
  ASSERT_TRUE(Write(Small()).ok());
  const std::string bytes = Bytes();
  EXPECT_EQ(ReadBytes(bytes + "x").status(),
            InvalidArgumentError("it is damaged: it has data after its last sequence"));
}

// With a correct checksum: an attacker who can write to the folder can compute one.
TEST_F(SequenceFileTest, HostileValuesAreErrors) {
  const auto expect = [this](const Image& image, const std::string& what) {
    EXPECT_EQ(ReadBytes(image.Signed()).status(), InvalidArgumentError("it is damaged: " + what));
  };
  constexpr uint64_t kHuge = ~uint64_t{0};
  constexpr uint32_t kMany = ~uint32_t{0};
  expect(Head(kHuge), "it ends within the id of a sequence");
  expect(Head(1).Number(uint8_t{2}), "a sequence has an id of unknown kind 2");
  expect(Head(1).Number(uint8_t{0}).Number(uint64_t{0}), "a sequence has no id");
  expect(Head(1).Number(uint8_t{1}).Text(""), "a sequence has no id");
  expect(Head(1).Number(uint8_t{1}).Number(kMany), "it ends within the id of a sequence");
  expect(Head(1).Number(uint8_t{0}).Number(uint64_t{7}).Number(kMany), "it ends within the name of a state");
  expect(UpToType(0), "a state has unknown type 0");
  expect(UpToType(15), "a state has unknown type 15");
  expect(UpToType(11).Number(kMany), "it ends within the shape of a state");
  expect(UpToType(11).Number(uint32_t{1}).Number(int64_t{-1}).Number(uint64_t{0}),
         "a state has an invalid shape");
  expect(UpToType(11).Number(uint32_t{2}).Number(INT64_MAX).Number(INT64_MAX).Number(uint64_t{0}),
         "a state has an invalid shape");
  expect(UpToType(11).Number(uint32_t{1}).Number(INT64_MAX).Number(uint64_t{0}),
         "a state's size does not match its shape");
  expect(UpToType(11).Number(uint32_t{0}).Number(kHuge), "it ends within the bytes of a state");
  expect(UpToType(11).Number(uint32_t{0}).Number(uint64_t{5}).Number(uint32_t{0}).Number(uint8_t{0}),
         "a state's size does not match its shape");
  expect(UpToType(13).Number(uint32_t{0}).Number(uint64_t{4}).Number(uint32_t{9}),
         "a state's number of strings does not match its shape");
  expect(UpToType(13).Number(uint32_t{1}).Number(int64_t{2}).Number(uint64_t{4}).Number(uint32_t{0}),
         "a state's number of strings does not match its shape");
}

TEST_F(SequenceFileTest, AFileOfALaterServerIsCalledThat) {
  Image image{"BRAIDSEQ"};
  image.Number(uint32_t{2}).Text("whatever comes then");
  EXPECT_EQ(ReadBytes(image.Signed()).status(),
            UnsupportedError("it has format 2, but this server reads format 1"));
}

TEST_F(SequenceFileTest, OnlyRegularFilesAreRead) {
  std::filesystem::create_directory(scratch_ / "f");
  EXPECT_EQ(Read().status(), InvalidArgumentError("it is damaged: it is not a regular file"));
  std::filesystem::remove(scratch_ / "f");
  ASSERT_EQ(::mkfifo((scratch_ / "f").c_str(), 0600), 0);
  EXPECT_EQ(Read().status(), InvalidArgumentError("it is damaged: it is not a regular file"));
  std::filesystem::remove(scratch_ / "f");
  std::filesystem::create_symlink("/dev/zero", scratch_ / "f");
  EXPECT_EQ(Read().status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace braid
