#include "isolation/isolation_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace braid
