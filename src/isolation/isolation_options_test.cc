#include "isolation/isolation_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/check.h"
#include "isolation/confinement.h"
#include "isolation/syscall_filter.h"

namespace braid {
namespace {

using ::testing::Contains;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

TEST(IsolationOptionsTest, TheServersLevelAndThoseOfModels) {
  IsolationOptions options;
  EXPECT_EQ(IsolationOf(options, "m", "").value().level, IsolationLevel::kBasic);
  ASSERT_TRUE(SetIsolation(options, "none").ok());
  ASSERT_TRUE(SetIsolation(options, "a=b=basic").ok()) << "names may have '=' in them";
  EXPECT_EQ(IsolationOf(options, "m", "").value().level, IsolationLevel::kNone);
  EXPECT_EQ(IsolationOf(options, "m", "basic").value().level, IsolationLevel::kBasic);
  EXPECT_EQ(IsolationOf(options, "a=b", "none").value().level, IsolationLevel::kBasic)
      << "the operator has said so";
}

TEST(IsolationOptionsTest, RefusesWhatIsNoLevel) {
  IsolationOptions options;
  EXPECT_THAT(SetIsolation(options, "severe").message(), HasSubstr("none, basic, strict or separate"));
  EXPECT_THAT(SetIsolation(options, "m=").message(), HasSubstr("unknown isolation level ''"));
  EXPECT_THAT(SetIsolation(options, "=basic").message(), HasSubstr("has no model name"));
}

TEST(IsolationOptionsTest, AModelCannotLowerItsOwn) {
  const Status lower = IsolationOf({}, "m", "none").status();
  EXPECT_EQ(lower.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(lower.message(),
            "parameter WORKER_ISOLATION of model 'm': 'none' is less than the server's 'basic'; only "
            "--worker-isolation=m=none can lower it");
}

// Simulates a container whose seccomp filter refuses calls that the server's rights allow.
TEST(IsolationOptionsDeathTest, WhatTheMachineRefusesIsRefusedOrMissing) {
  if (!ReportIsolation(IsolationLevel::kSeparate).refused.empty()) GTEST_SKIP() << "needs root and Landlock";
  // Runs in a fresh process, because this one has cached the result of the first try.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_a_container = [] {
    BRAID_CHECK(SyscallFilter::Of(IsolationLevel::kStrict).value().Enter().ok());
    EXPECT_TRUE(CheckIsolation({.level = IsolationLevel::kStrict}).ok());
    EXPECT_THAT(ReportIsolation(IsolationLevel::kStrict).missing,
                Contains("names and dates of files, Unix sockets and shared memory by name: needs mounts, as "
                         "root or in a user namespace"));
    const Status refused = CheckIsolation({.level = IsolationLevel::kSeparate});
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr(" is not possible here: "));
    EXPECT_THAT(refused.message(), HasSubstr("Operation not permitted"));
    _exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(in_a_container(), ExitedWithCode(0), "");
  for (const IsolationLevel level : {IsolationLevel::kStrict, IsolationLevel::kSeparate})
    EXPECT_TRUE(CheckIsolation({.level = level}).ok());
}

}  // namespace
}  // namespace braid
