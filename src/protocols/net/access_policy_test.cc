#include "protocols/net/access_policy.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(AccessPolicy, IsOpenByDefault) {
  AccessPolicy policy;
  for (int i = 0; i < kApiCount; ++i) EXPECT_EQ(policy.restriction(static_cast<Api>(i)), nullptr);
}

TEST(AccessPolicy, TakesSeveralApisInOneGroup) {
  AccessPolicy policy;
  ASSERT_TRUE(policy.AddRestriction("shared-memory,model-repository:admin-key=a=b:c", "api").ok());
  for (Api api : {Api::kSharedMemory, Api::kModelRepository}) {
    ASSERT_NE(policy.restriction(api), nullptr);
    EXPECT_EQ(policy.restriction(api)->header, "admin-key");
    EXPECT_EQ(policy.restriction(api)->value, "a=b:c");
  }
  EXPECT_EQ(policy.restriction(Api::kInference), nullptr);
}

TEST(AccessPolicy, RefusesAnApiInTwoGroups) {
  AccessPolicy policy;
  ASSERT_TRUE(policy.AddRestriction("health:k=v", "protocol").ok());
  EXPECT_EQ(policy.AddRestriction("inference,health:k=w", "protocol").message(),
            "restricted protocol 'health' can not be specified in multiple config groups");
  EXPECT_EQ(policy.restriction(Api::kInference), nullptr);
}

TEST(AccessPolicy, RefusesUnknownApisAndOtherForms) {
  AccessPolicy policy;
  EXPECT_EQ(policy.AddRestriction("helth:k=v", "api").message(), "unknown restricted api 'helth'");
  for (const char* text : {"", "health", "health:", "health:k", "health:=v", "health:k=", "k=v", ":k=v"}) {
    EXPECT_FALSE(policy.AddRestriction(text, "api").ok()) << text;
  }
  EXPECT_EQ(policy.restriction(Api::kHealth), nullptr);
}

TEST(AccessPolicy, BothProtocolsKnowAllGroups) {
  for (const char* what : {"api", "protocol"}) {
    AccessPolicy policy;
    EXPECT_TRUE(policy.AddRestriction("metrics,reflection:k=v", what).ok());
    EXPECT_NE(policy.restriction(Api::kMetrics), nullptr);
    EXPECT_NE(policy.restriction(Api::kReflection), nullptr);
  }
}

TEST(AccessPolicy, ComparesSecretsWhole) {
  EXPECT_TRUE(AccessPolicy::SameSecret("secret", "secret"));
  EXPECT_FALSE(AccessPolicy::SameSecret("secret", "secreT"));
  EXPECT_FALSE(AccessPolicy::SameSecret("secret", "secre"));
  EXPECT_TRUE(AccessPolicy::SameSecret("", ""));
}

}  // namespace
}  // namespace braid
