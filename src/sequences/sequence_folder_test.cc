#include "sequences/sequence_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using ::testing::HasSubstr;
using testing::ScratchFolder;

TEST(SequenceFolder, MakesAFolderThatOthersCannotEnter) {
  const ScratchFolder scratch;
  const auto folder = SequenceFolder::Open(scratch / "states");
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info = {};
  ASSERT_EQ(::stat((scratch / "states").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "states"));
}

TEST(SequenceFolder, BelongsToOneServer) {
  const ScratchFolder scratch;
  std::optional first = SequenceFolder::Open(scratch.path());
  ASSERT_TRUE(first->ok());
  EXPECT_EQ(SequenceFolder::Open(scratch.path()).status(),
            InvalidArgumentError("the folder for sequence states '" + scratch.path() +
                                 "' is used by another server"));
  first.reset();
  EXPECT_TRUE(SequenceFolder::Open(scratch.path()).ok());
}

TEST(SequenceFolder, RefusesWhatIsNoFolder) {
  const ScratchFolder scratch;
  scratch.Write("file", "");
  EXPECT_THAT(SequenceFolder::Open(scratch / "file").status().message(), HasSubstr("is not a folder"));
  EXPECT_THAT(SequenceFolder::Open(scratch / "a/b").status().message(),
              HasSubstr("cannot be created: No such file or directory"));
  EXPECT_THAT(SequenceFolder::Open("/proc/self").status().message(), HasSubstr("cannot be written"));
  EXPECT_THAT(SequenceFolder::Open("").status().message(), HasSubstr("has no name"));
}

TEST(SequenceFolder, NamesDoNotLeaveTheFolder) {
  EXPECT_EQ(SequenceFolder::NameOf("resnet_50-a.b", 3), "resnet_50-a.b.3.sequences");
  EXPECT_EQ(SequenceFolder::NameOf("../../etc/x", 1), "%2E.%2F..%2Fetc%2Fx.1.sequences");
  EXPECT_EQ(SequenceFolder::NameOf("..", 1), "%2E..1.sequences");
  EXPECT_EQ(SequenceFolder::NameOf(".hidden", 1), "%2Ehidden.1.sequences");
  EXPECT_EQ(SequenceFolder::NameOf("", 1), ".1.sequences");
  EXPECT_EQ(SequenceFolder::NameOf("a%b~\xc3\xa4", 1), "a%25b%7E%C3%A4.1.sequences");
  EXPECT_NE(SequenceFolder::NameOf("a.1", 2), SequenceFolder::NameOf("a", 12));
}

TEST(SequenceFolder, LongNamesStayDifferent) {
  const std::string begin(300, 'x');
  const std::string a = SequenceFolder::NameOf(begin + "a", 1);
  const std::string b = SequenceFolder::NameOf(begin + "b", 1);
  EXPECT_NE(a, b);
  EXPECT_LT(a.size(), 200u);
  EXPECT_EQ(a, SequenceFolder::NameOf(begin + "a", 1));
}

TEST(SequenceFolder, KeepsTheLastFileThatWasSetAside) {
  const ScratchFolder scratch;
  const auto folder = SequenceFolder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(folder->SetAside("f", ".damaged").ok());
  EXPECT_TRUE(folder->Remove("f").ok());
  for (const char* text : {"1", "22"}) {
    scratch.Write("f", text);
    EXPECT_TRUE(folder->SetAside("f", ".damaged").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "f"));
  EXPECT_EQ(std::filesystem::file_size(scratch / "f.damaged"), 2u);
}

}  // namespace
}  // namespace braid
