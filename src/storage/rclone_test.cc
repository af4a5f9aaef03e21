#include "storage/rclone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

TEST(RcloneListing, IsRead) {
  auto listing = ParseListing(R"([
    {"Path":"m/1/model.py","Name":"model.py","Size":7,"ModTime":"2026-01-01T00:00:00Z","IsDir":false,"Hashes":{"md5":"ab"}},
    {"Path":"m/big","Size":0,"ModTime":"t"}])");
  ASSERT_TRUE(listing.ok());
  EXPECT_EQ(listing->at("m/1/model.py"), (StoredObject{7, "2026-01-01T00:00:00Z", "ab"}));
  EXPECT_EQ(listing->at("m/big"), (StoredObject{0, "t", ""}));
  for (const char* text : {"", "{}", "[", R"([{"Path":"a"}])", R"([{"Path":"a","Size":-1,"ModTime":"t"}])"})
    EXPECT_FALSE(ParseListing(text).ok()) << text;
}

TEST(RcloneListing, NamesStayInTheirFolder) {
  const auto fault = [](std::initializer_list<const char*> names) {
    Listing listing;
    for (const char* name : names) listing[name] = {};
    return CheckNames(listing).message();
  };
  EXPECT_EQ(fault({"config.pbtxt", "1/model.py", "1/\xc3\xbc x", "1/...", "1/a\xef\xbc\x8e"}), "");
  // U+FF0E, U+2401 and U+FF0F: the forms in which rclone shows a dot, a control character and a slash.
  for (const char* name : {"../a", "a/../b", "/a", "a//b", "a/.", "", "a\\b", "a\nb",
                           "\xef\xbc\x8e\xef\xbc\x8e/a", "a/\xef\xbc\x8e", "a\xe2\x90\x81",
                           "a\xef\xbc\x8f"
                           "b",
                           "\xe2\x80\x9b"
                           "a"}) {
    EXPECT_THAT(fault({name}), HasSubstr("has a name that no file of a model can have")) << name;
  }
  EXPECT_NE(fault({std::string(300, 'x').c_str()}), "");
  EXPECT_EQ(fault({"a", "a/b"}), "the object 'a' is also the folder of another object");
  EXPECT_EQ(fault({"a/b", "a/b-c", "a/b/c"}), "the object 'a/b' is also the folder of another object");
}

// Runs a script in rclone's place.
class RcloneProgram : public ::testing::Test {
 protected:
  Result<Listing> List(const std::string& script, RcloneRemote remote = {.place = "braid:b"}) {
    std::ofstream(scratch_ / "rclone") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(scratch_ / "rclone", std::filesystem::perms::owner_all);
    Rclone rclone({.timeout_ns = timeout_ns_,
                   .timeout_option = "--limit",
                   .path = "relative:" + scratch_.path(),
                   .support = [this] { return WorkerSupport::Create(log_); }},
                  log_);
    return rclone.List(remote);
  }

  testing::ScratchFolder scratch_;
  Logger log_;
  int64_t timeout_ns_ = 60 * kSecondNs;
};

TEST_F(RcloneProgram, GetsVariablesAndNoSecretArguments) {
  auto listing = List(R"(
for word in "$@"; do case "$word" in *hidden*) exit 9;; esac; done
echo "[{\"Path\":\"$KEY\",\"Size\":1,\"ModTime\":\"$HOME\"}]"
)",
                      {.place = "braid:b", .variables = {{"KEY", "hidden"}}});
  ASSERT_TRUE(listing.ok()) << listing.status().message();
  EXPECT_EQ(listing->begin()->first, "hidden");
  EXPECT_EQ(listing->begin()->second.modified, "");  // nothing of this process
}

TEST_F(RcloneProgram, ErrorsHaveItsReasonsWithoutSecrets) {
  const std::string script = R"(
echo '{"level":"error","msg":"no access for s3cret at http://h/?sv=1&sig=abc","object":"m/1"}' >&2
echo '{"level":"error","msg":"no access for s3cret at http://h/?sv=1&sig=abc","object":"m/1"}' >&2
echo '{"level":"warning","msg":"not this","stats":{}}' >&2
exit )";
  auto fault = List(script + "1", {.place = "braid:b", .secrets = {"s3cret"}}).status();
  EXPECT_EQ(fault.code(), StatusCode::kUnavailable);
  EXPECT_EQ(fault.message(), "rclone: m/1: no access for *** at http://h/?sv=1&sig=***");
  fault = List(script + "3").status();
  EXPECT_EQ(fault.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(fault.message(), HasSubstr("there is no such bucket or container"));
  EXPECT_EQ(List("exit 4").status().message(), "rclone: it exited with code 4");
  EXPECT_EQ(List("printf '2026 Failed to start\\ncaused by: dust\\n' >&2; exit 1").status().message(),
            "rclone: Failed to start; caused by: dust");
  EXPECT_EQ(List("echo nothing").status().code(), StatusCode::kInternal);
}

TEST_F(RcloneProgram, WithoutCredentialsAPublicPlaceIsTried) {
  const std::string script = R"(
if [ "$ANONYMOUS" = yes ]; then echo "$ANSWER"; [ -n "$ANSWER" ]; exit; fi
echo '{"level":"error","msg":"NoCredentialProviders: no valid providers"}' >&2
exit 1
)";
  const RcloneRemote remote{
      .place = "braid:b", .variables = {{"ANSWER", "[]"}}, .anonymous = {{"ANONYMOUS", "yes"}}};
  EXPECT_TRUE(List(script, remote).ok());
  EXPECT_THAT(List(script, {.place = "braid:b", .anonymous = {{"ANONYMOUS", "yes"}}}).status().message(),
              HasSubstr("(no credentials were found)"));
}

TEST_F(RcloneProgram, IsEndedWithoutProgress) {
  timeout_ns_ = kSecondNs / 5;
  EXPECT_THAT(List("sleep 60 & sleep 60").status().message(),
              HasSubstr("has made no progress in 0 s (--limit)"));
}

TEST_F(RcloneProgram, IsNamedIfItIsNotThere) {
  Rclone rclone({.timeout_ns = kSecondNs, .path = "/nothing::bin", .support = {}}, log_);
  const Status fault = rclone.List({.place = "braid:b"}).status();
  EXPECT_EQ(fault.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(fault.message(), HasSubstr("install Debian's package rclone"));
}

}  // namespace
}  // namespace braid
