#include "isolation/worker_cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

// Tests that need cgroup v2 are in tests/test_cgroups.py.

TEST(WorkerCgroupTest, ASettingIsOfAllOrOfOneModel) {
  const CgroupSetting all = ParseCgroupSetting("memory.max=2G").value();
  EXPECT_EQ(all.model, "");
  EXPECT_EQ(all.file, "memory.max");
  EXPECT_EQ(all.value, "2G");
  const CgroupSetting one = ParseCgroupSetting("a=b=cpu.max=50000 100000").value();
  EXPECT_EQ(one.model, "a=b") << "names may have '=' in them";
  EXPECT_EQ(one.file, "cpu.max");
  EXPECT_EQ(one.value, "50000 100000");
}

TEST(WorkerCgroupTest, RefusesWhatIsNoSetting) {
  for (const char* text :
       {"", "memory.max", "memory.max=", "=memory.max=1", "memory.min=1", "m=../cgroup.procs=1"}) {
    const Status refused = ParseCgroupSetting(text).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(refused.message(), HasSubstr("FILE one of memory.max, memory.high, ")) << text;
  }
}

TEST(WorkerCgroupTest, AnotherFolderIsRefused) {
  const Status refused = PrepareCgroups(::testing::TempDir(), {});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("it is not a cgroup v2 folder"));
  EXPECT_THAT(PrepareCgroups("/no/such/folder", {}).message(),
              HasSubstr("the folder: No such file or directory"));
}

}  // namespace
}  // namespace braid
