#include "protocols/access/access_policy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace braid {
namespace {

using Wire = AccessPolicy::Wire;

class TestSender final : public AccessPolicy::Sender {
 public:
  TestSender() = default;
  TestSender(std::string header, std::string value) : header_(std::move(header)), value_(std::move(value)) {}
  bool Shows(std::string_view header, std::string_view secret) const override {
    return header == header_ && AccessPolicy::SameSecret(value_, secret);
  }
  Credentials credentials() const override { return {}; }

 private:
  const std::string header_;
  const std::string value_;
};

Status Ask(const AccessPolicy& policy, Api api, const TestSender& sender = TestSender()) {
  AccessReader reader = policy.Reader();
  return policy.Check(reader, sender, {api, std::nullopt});
}

TEST(AccessPolicy, IsOpenByDefault) {
  const AccessPolicy policy(Wire::kHttp);
  AccessReader reader = policy.Reader();
  for (int i = 0; i < kApiCount; ++i) {
    const auto authorization = policy.Authorize(reader, TestSender(), {static_cast<Api>(i), std::nullopt});
    ASSERT_TRUE(authorization.ok());
    EXPECT_TRUE((*authorization).Check("m").ok());
  }
}

TEST(AccessPolicy, TakesSeveralApisInOneGroup) {
  AccessPolicy policy(Wire::kHttp);
  ASSERT_TRUE(policy.AddRestriction("shared-memory,model-repository:Admin-Key=a=b:c").ok());
  for (Api api : {Api::kSharedMemory, Api::kModelRepository}) {
    EXPECT_EQ(Ask(policy, api),
              PermissionDeniedError("This API is restricted, expecting header 'Admin-Key'"));
    EXPECT_FALSE(Ask(policy, api, TestSender("Admin-Key", "a=b")).ok());
    EXPECT_TRUE(Ask(policy, api, TestSender("Admin-Key", "a=b:c")).ok());
  }
  EXPECT_TRUE(Ask(policy, Api::kInference).ok());
}

TEST(AccessPolicy, OverGrpcTheHeaderHasAPrefixAndTheErrorAnotherCode) {
  AccessPolicy policy(Wire::kGrpc);
  ASSERT_TRUE(policy.AddRestriction("trace:Admin-Key=v").ok());
  EXPECT_EQ(
      Ask(policy, Api::kTrace),
      UnavailableError("This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'"));
  EXPECT_TRUE(Ask(policy, Api::kTrace, TestSender("triton-grpc-protocol-admin-key", "v")).ok());
}

TEST(AccessPolicy, RefusesAnApiInTwoGroups) {
  AccessPolicy policy(Wire::kGrpc);
  ASSERT_TRUE(policy.AddRestriction("health:k=v").ok());
  EXPECT_EQ(policy.AddRestriction("inference,health:k=w").message(),
            "restricted protocol 'health' can not be specified in multiple config groups");
  EXPECT_TRUE(Ask(policy, Api::kInference).ok());
}

TEST(AccessPolicy, RefusesUnknownApisAndOtherForms) {
  AccessPolicy policy(Wire::kHttp);
  EXPECT_EQ(policy.AddRestriction("helth:k=v").message(), "unknown restricted api 'helth'");
  for (const char* text : {"", "health", "health:", "health:k", "health:=v", "health:k=", "k=v", ":k=v"}) {
    EXPECT_FALSE(policy.AddRestriction(text).ok()) << text;
  }
  EXPECT_TRUE(Ask(policy, Api::kHealth).ok());
}

TEST(AccessPolicy, BothProtocolsKnowAllGroups) {
  for (const Wire wire : {Wire::kHttp, Wire::kGrpc}) {
    AccessPolicy policy(wire);
    EXPECT_TRUE(policy.AddRestriction("metrics,reflection:k=v").ok());
    EXPECT_FALSE(Ask(policy, Api::kMetrics).ok());
    EXPECT_FALSE(Ask(policy, Api::kReflection).ok());
  }
}

TEST(AccessPolicy, TakesRestrictionsFromAFile) {
  const auto folder =
      TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-access-").value();
  const std::string file = folder->path() + "/groups";
  std::ofstream(file) << "# management\n\n  model-repository:key=secret value \r\ntrace:key=other\n";
  AccessPolicy policy(Wire::kHttp);
  ASSERT_TRUE(policy.AddRestrictionsOf(file).ok());
  EXPECT_TRUE(Ask(policy, Api::kModelRepository, TestSender("key", "secret value")).ok());
  EXPECT_TRUE(Ask(policy, Api::kTrace, TestSender("key", "other")).ok());
  EXPECT_FALSE(Ask(policy, Api::kTrace, TestSender("key", "secret value")).ok());
  EXPECT_EQ(
      policy.AddRestrictionsOf(file).message(),
      "the file of restricted groups '" + file +
          "': line 3: restricted api 'model-repository' can not be specified in multiple config groups");
  EXPECT_EQ(policy.AddRestrictionsOf(file + "x").message(),
            "cannot open the file of restricted groups '" + file + "x': No such file or directory");
  EXPECT_EQ(policy.AddRestrictionsOf(folder->path()).message(),
            "cannot read the file of restricted groups '" + folder->path() + "'");
}

TEST(AccessPolicy, ServesSomeApisOnly) {
  AccessPolicy policy(Wire::kHttp);
  policy.ServeOnly(ApiSet::Of({Api::kHealth, Api::kMetrics}));
  EXPECT_TRUE(Ask(policy, Api::kHealth).ok());
  EXPECT_TRUE(Ask(policy, Api::kMetrics).ok());
  EXPECT_EQ(Ask(policy, Api::kModelRepository),
            PermissionDeniedError("the API 'model-repository' is not served at this port"));
}

TEST(AccessPolicy, ComparesSecretsWhole) {
  EXPECT_TRUE(AccessPolicy::SameSecret("secret", "secret"));
  EXPECT_FALSE(AccessPolicy::SameSecret("secret", "secreT"));
  EXPECT_FALSE(AccessPolicy::SameSecret("secret", "secre"));
  EXPECT_TRUE(AccessPolicy::SameSecret("", ""));
}

}  // namespace
}  // namespace braid
