#include "isolation/isolation_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "isolation/confinement.h"
#include "isolation/syscall_filter.h"

namespace braid {
namespace {

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
  EXPECT_THAT(SetIsolation(options, "m=").message(), HasSubstr("'' is no level"));
  EXPECT_THAT(SetIsolation(options, "=basic").message(), HasSubstr("names no model"));
}

TEST(IsolationOptionsTest, AModelCannotLowerItsOwn) {
  const Status lower = IsolationOf({}, "m", "none").status();
  EXPECT_EQ(lower.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(lower.message(),
            "parameter WORKER_ISOLATION of model 'm': 'none' is less than the server's 'basic'; only "
            "--worker-isolation=m=none can lower it");
}

// As in a container whose filter of system calls takes away what the server's rights would allow.
TEST(IsolationOptionsTest, RefusesAtStartWhatTheMachineDoesNotDo) {
  if (!ReportIsolation(IsolationLevel::kSeparate).refused.empty()) GTEST_SKIP() << "needs root and Landlock";
  const SyscallFilter filter = SyscallFilter::Of(IsolationLevel::kStrict).value();
  for (const IsolationLevel level : {IsolationLevel::kStrict, IsolationLevel::kSeparate}) {
    EXPECT_TRUE(CheckIsolation({.level = level}).ok());
    const pid_t pid = fork();
    if (pid == 0) {
      BRAID_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter.Enter().ok());
      const Status refused = CheckIsolation({.level = level});
      EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(refused.message(), HasSubstr(" is not possible here: "));
      EXPECT_THAT(refused.message(), HasSubstr("Operation not permitted"));
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << IsolationLevelName(level);
  }
}

}  // namespace
}  // namespace braid
