#include "protocols/access/access_control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temporary_folder.h"

namespace braid {
namespace {

constexpr std::optional<std::string_view> kNone;
constexpr std::string_view kPolicy = R"({"rules": [
  {"identities": ["alice"], "apis": ["inference"], "models": ["a*"]},
  {"identities": ["spiffe://cluster/bob"], "apis": ["*"]},
  {"identities": ["anonymous"], "apis": ["health"]}]})";

class AccessControlTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view text) const {
    const std::string path = folder_->path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::unique_ptr<AccessControl> Create(std::string_view tokens, std::string_view policy) {
    AccessControl::Files files;
    if (!tokens.empty()) files.tokens = Write("tokens", tokens);
    if (!policy.empty()) files.policy = Write("policy", policy);
    auto made = AccessControl::Create(files, *log_);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(made).value();
  }

  std::shared_ptr<TemporaryFolder> folder_ =
      TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-access-").value();
  std::unique_ptr<Logger> log_ = Logger::Create({}).value();
};

TEST_F(AccessControlTest, NothingIsRestrictedWithoutIt) {
  AccessReader reader(nullptr);
  const auto authorization = reader.Authorize({"Bearer x", ""}, {Api::kModelRepository, ""});
  ASSERT_TRUE(authorization.ok());
  EXPECT_TRUE((*authorization).Check("m").ok());
}

TEST_F(AccessControlTest, TokensSayWhoItIs) {
  const auto control = Create("alice a-token\nbob b-token\n", "");
  AccessReader reader(control.get());
  for (const char* shown : {"Bearer a-token", "bearer a-token", "BEARER  a-token"})
    EXPECT_TRUE(reader.Check({shown, ""}, {Api::kModelRepository, ""}).ok()) << shown;
  EXPECT_TRUE(reader.Check({"", ""}, {Api::kHealth, kNone}).ok());
  EXPECT_EQ(reader.Check({"", ""}, {Api::kMetadata, kNone}),
            UnauthenticatedError("the API 'metadata' requires a bearer token in the "
                                 "header 'authorization'"));
  const Status unknown = UnauthenticatedError("unknown bearer token in the header 'authorization'");
  // Refused even for APIs that need no token, because the sender expects to be identified.
  EXPECT_EQ(reader.Check({"Bearer c-token", ""}, {Api::kHealth, kNone}), unknown);
  EXPECT_EQ(reader.Check({"Bearer ", ""}, {Api::kMetadata, kNone}), unknown);
  EXPECT_EQ(reader.Check({"Basic YTpi", ""}, {Api::kMetadata, kNone}),
            UnauthenticatedError("expected 'Bearer TOKEN' in the header 'authorization'"));
  EXPECT_EQ(control->refused(AccessControl::Refusal::kUnauthenticated), 4u);
  EXPECT_EQ(control->refused(AccessControl::Refusal::kPermissionDenied), 0u);
}

TEST_F(AccessControlTest, AnAuthorizationKnowsTheModels) {
  const auto control = Create("alice a-token\n", kPolicy);
  AccessReader reader(control.get());
  const auto authorization = reader.Authorize({"Bearer a-token", ""}, {Api::kInference, kNone});
  ASSERT_TRUE(authorization.ok()) << authorization.status();
  EXPECT_TRUE((*authorization).Check("add").ok());
  EXPECT_EQ((*authorization).Check("bert"),
            PermissionDeniedError("'alice' may not use the API 'inference' of model 'bert'"));
  EXPECT_EQ((*authorization).CheckAlso(Api::kSharedMemory, "add"),
            PermissionDeniedError("'alice' may not use the API 'shared-memory' of model 'add'"));
  EXPECT_TRUE(Authorization().CheckAlso(Api::kSharedMemory, "add").ok());
  EXPECT_EQ((*authorization).Check(""),
            PermissionDeniedError("'alice' may not use the API 'inference' of all models"));
  EXPECT_EQ(reader.Authorize({"Bearer a-token", ""}, {Api::kMetadata, kNone}).status(),
            PermissionDeniedError("'alice' may not use the API 'metadata'"));
}

TEST_F(AccessControlTest, CertificatesSayWhoItIsAndTokensWeighMore) {
  const auto control = Create("alice a-token\n", kPolicy);
  AccessReader reader(control.get());
  EXPECT_TRUE(reader.Check({"", "spiffe://cluster/bob"}, {Api::kTrace, ""}).ok());
  EXPECT_EQ(reader.Check({"", "carol"}, {Api::kTrace, ""}),
            PermissionDeniedError("'carol' may not use the API 'trace' of all models"));
  EXPECT_EQ(reader.Check({"Bearer a-token", "spiffe://cluster/bob"}, {Api::kTrace, kNone}),
            PermissionDeniedError("'alice' may not use the API 'trace'"));
}

TEST_F(AccessControlTest, WithoutATokenFileTokensAreOfNoInterest) {
  const auto control = Create("", kPolicy);
  AccessReader reader(control.get());
  EXPECT_TRUE(reader.Check({"Bearer for-somebody-else", ""}, {Api::kHealth, kNone}).ok());
  EXPECT_EQ(reader.Check({"Bearer for-somebody-else", ""}, {Api::kTrace, kNone}),
            UnauthenticatedError("the API 'trace' requires a client certificate"));
}

TEST_F(AccessControlTest, FilesAreReadAgainAndFaultsChangeNothing) {
  const auto control = Create("alice a-token\n", kPolicy);
  AccessReader reader(control.get());
  const auto authorization = reader.Authorize({"Bearer a-token", ""}, {Api::kInference, "add"});
  ASSERT_TRUE(authorization.ok());
  Write("tokens", "alice\n");
  control->Reload();
  EXPECT_TRUE((*authorization).Check("add").ok());
  EXPECT_TRUE(reader.Check({"Bearer a-token", ""}, {Api::kInference, "add"}).ok());
  Write("tokens", "alice new-token\n");
  control->Reload();
  // Earlier authorizations are checked anew.
  EXPECT_EQ((*authorization).Check("add").code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(reader.Check({"Bearer a-token", ""}, {Api::kInference, "add"}).code(),
            StatusCode::kUnauthenticated);
  EXPECT_TRUE(reader.Check({"Bearer new-token", ""}, {Api::kInference, "add"}).ok());
  Write("policy", R"({"rules": []})");
  control->Reload();
  EXPECT_EQ(reader.Check({"Bearer new-token", ""}, {Api::kInference, "add"}).code(),
            StatusCode::kPermissionDenied);
}

TEST_F(AccessControlTest, FaultsAtTheStartAreErrors) {
  const std::string tokens = Write("tokens", "alice");
  EXPECT_EQ(
      AccessControl::Create({tokens, ""}, *log_).status(),
      InvalidArgumentError("the token file '" + tokens + "': line 1: expected an identity and a token"));
  EXPECT_EQ(AccessControl::Create({"", tokens}, *log_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AccessControl::Create({folder_->path() + "/none", ""}, *log_).status(),
            InvalidArgumentError("cannot open the token file '" + folder_->path() +
                                 "/none': No such file or directory"));
}

TEST_F(AccessControlTest, ReadersGoOnWhileItIsReadAgain) {
  const auto control = Create("alice a-token\n", kPolicy);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      AccessReader reader(control.get());
      while (!stop) {
        const auto authorization = reader.Authorize({"Bearer a-token", ""}, {Api::kInference, kNone});
        ASSERT_TRUE(authorization.ok());
        ASSERT_TRUE((*authorization).Check("add").ok());
      }
    });
  }
  for (int i = 0; i < 200; ++i) control->Reload();
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace braid
