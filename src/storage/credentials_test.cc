#include "storage/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

class Credentials : public ::testing::Test {
 protected:
  RcloneRemote Of(std::string_view url, const Variables& variables) {
    auto remote = RemoteOf(*ParseStorageUrl(url), variables);
    EXPECT_TRUE(remote.ok()) << remote.status().message();
    return remote.ok() ? *remote : RcloneRemote();
  }
  std::string Refusal(std::string_view url, const Variables& variables) {
    return RemoteOf(*ParseStorageUrl(url), variables).status().message();
  }
  static std::string Get(const RcloneRemote& remote, const std::string& name) {
    const auto found = remote.variables.find("RCLONE_CONFIG_BRAID_" + name);
    return found == remote.variables.end() ? "-" : found->second;
  }
  // The variable that names a file with this content.
  Variables File(const std::string& content) {
    scratch_.Write("credentials.json", content);
    return {{"TRITON_CLOUD_CREDENTIAL_PATH", scratch_ / "credentials.json"}};
  }

  testing::ScratchFolder scratch_;
};

TEST_F(Credentials, S3) {
  const RcloneRemote plain = Of("s3://b/m", {{"AWS_ACCESS_KEY_ID", "id"},
                                             {"AWS_SECRET_ACCESS_KEY", "secret"},
                                             {"AWS_DEFAULT_REGION", "eu-west-1"},
                                             {"AWS_CA_BUNDLE", "/ca.pem"}});
  EXPECT_EQ(plain.place, "braid:b/m");
  EXPECT_EQ(Get(plain, "TYPE"), "s3");
  EXPECT_EQ(Get(plain, "PROVIDER"), "AWS");
  EXPECT_EQ(Get(plain, "ENV_AUTH"), "true");
  EXPECT_EQ(Get(plain, "REGION"), "eu-west-1");
  EXPECT_EQ(Get(plain, "ENDPOINT"), "-");
  EXPECT_EQ(plain.variables.at("AWS_SECRET_ACCESS_KEY"), "secret");
  EXPECT_EQ(plain.secrets, std::vector<std::string>{"secret"});
  // rclone 1.60 fails if it gets the variable.
  EXPECT_FALSE(plain.variables.contains("AWS_CA_BUNDLE"));
  EXPECT_EQ(plain.ca_file, "/ca.pem");
  EXPECT_EQ(plain.anonymous.at("RCLONE_CONFIG_BRAID_ENV_AUTH"), "false");

  EXPECT_EQ(Get(Of("s3://b", {{"AWS_REGION", "a"}, {"AWS_DEFAULT_REGION", "b"}}), "REGION"), "a");
  const RcloneRemote other = Of("s3://b", {{"S3_ENDPOINT", "http://localhost:9000"}});
  EXPECT_EQ(other.place, "braid:b");
  EXPECT_EQ(Get(other, "PROVIDER"), "Other");
  EXPECT_EQ(Get(other, "ENDPOINT"), "http://localhost:9000");
  // The URL's own comes first.
  EXPECT_EQ(Get(Of("s3://host:1/b/m", {{"S3_ENDPOINT", "http://localhost:9000"}}), "ENDPOINT"),
            "http://host:1");
  EXPECT_EQ(Get(Of("s3://b", {{"AWS_ENDPOINT_URL", "https://x"}}), "ENDPOINT"), "https://x");
  EXPECT_THAT(Refusal("s3://b", {{"S3_ENDPOINT", "http://key:secret@host"}}), HasSubstr("must not contain"));
}

TEST_F(Credentials, Google) {
  const RcloneRemote plain = Of("gs://b/m", {{"GOOGLE_APPLICATION_CREDENTIALS", "/key.json"}});
  EXPECT_EQ(Get(plain, "TYPE"), "gcs");
  EXPECT_EQ(plain.variables.at("GOOGLE_APPLICATION_CREDENTIALS"), "/key.json");
  EXPECT_EQ(plain.anonymous.at("RCLONE_CONFIG_BRAID_ANONYMOUS"), "true");
  const RcloneRemote emulator = Of("gs://b/m", {{"STORAGE_EMULATOR_HOST", "localhost:9023"}});
  EXPECT_EQ(Get(emulator, "ENDPOINT"), "http://localhost:9023/storage/v1/");
}

TEST_F(Credentials, Azure) {
  const Variables key = {{"AZURE_STORAGE_ACCOUNT", "account"}, {"AZURE_STORAGE_KEY", "secret"}};
  for (const char* url : {"as://account/c/m", "az://c/m"}) {
    const RcloneRemote remote = Of(url, key);
    EXPECT_EQ(remote.place, "braid:c/m");
    EXPECT_EQ(Get(remote, "TYPE"), "azureblob");
    EXPECT_EQ(Get(remote, "ACCOUNT"), "account");
    EXPECT_EQ(Get(remote, "KEY"), "secret");
    EXPECT_EQ(remote.secrets, std::vector<std::string>{"secret"});
  }
  EXPECT_EQ(Get(Of("as://account.blob.core.chinacloudapi.cn/c", key), "ENDPOINT"),
            "blob.core.chinacloudapi.cn");
  // A public container.
  EXPECT_EQ(Get(Of("as://account/c/m", {}), "SAS_URL"), "https://account.blob.core.windows.net");
  EXPECT_EQ(Refusal("as://other/c/m", key),
            "'as://other/c/m' names the account 'other', and AZURE_STORAGE_ACCOUNT 'account'");
  EXPECT_EQ(Refusal("az://c/m", {}), "'az://c/m' needs an account; set the variable AZURE_STORAGE_ACCOUNT");
}

TEST_F(Credentials, ConnectionStringsOfAzure) {
  const auto text = [](std::string value) {
    return Variables{{"AZURE_STORAGE_CONNECTION_STRING", std::move(value)}};
  };
  const RcloneRemote key = Of("az://c/m", text("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=s==;"
                                               "EndpointSuffix=core.windows.net"));
  EXPECT_EQ(Get(key, "ACCOUNT"), "a");
  EXPECT_EQ(Get(key, "KEY"), "s==");
  EXPECT_EQ(Get(key, "ENDPOINT"), "blob.core.windows.net");
  const RcloneRemote shared =
      Of("az://c/m", text("BlobEndpoint=https://a.example/;SharedAccessSignature=sv=1&sig=s%3D"));
  EXPECT_EQ(Get(shared, "SAS_URL"), "https://a.example?sv=1&sig=s%3D");
  EXPECT_THAT(shared.secrets, ::testing::Contains("sv=1&sig=s%3D"));
  const RcloneRemote emulator = Of("az://c/m", text("UseDevelopmentStorage=true"));
  EXPECT_EQ(Get(emulator, "USE_EMULATOR"), "true");
  EXPECT_EQ(Get(emulator, "ENDPOINT"), "http://127.0.0.1:10000/devstoreaccount1");
  EXPECT_THAT(Refusal("az://c/m", text("AccountName=a")), HasSubstr("expected AccountName with AccountKey"));
  EXPECT_THAT(Refusal("az://c/m", text("AccountName=a;AccountKey=s;BlobEndpoint=http://host:1/a")),
              HasSubstr("only with a SharedAccessSignature"));
  EXPECT_THAT(Refusal("as://b/c", text("AccountName=a;AccountKey=s")), HasSubstr("names the account 'b'"));
}

TEST_F(Credentials, TheLongestPrefixOfTheFileDecides) {
  const Variables file = File(R"({
    "gs": {"": "/all.json", "gs://one": "/one.json"},
    "s3": {"": {"key_id": "a", "secret_key": "sa", "region": "ra", "session_token": "ta", "profile": ""},
           "s3://bucket-2": {"key_id": "b", "secret_key": "sb"},
           "s3://bucket-3": {"profile": "p"}},
    "as": {"": {"account_str": "c", "account_key": "sc"}}})");
  EXPECT_EQ(Of("gs://one/m", file).variables.at("GOOGLE_APPLICATION_CREDENTIALS"), "/one.json");
  EXPECT_EQ(Of("gs://two/m", file).variables.at("GOOGLE_APPLICATION_CREDENTIALS"), "/all.json");
  const RcloneRemote all = Of("s3://bucket-1/m", file);
  EXPECT_EQ(Get(all, "ACCESS_KEY_ID"), "a");
  EXPECT_EQ(Get(all, "SECRET_ACCESS_KEY"), "sa");
  EXPECT_EQ(Get(all, "SESSION_TOKEN"), "ta");
  EXPECT_EQ(Get(all, "REGION"), "ra");
  EXPECT_EQ(Get(all, "ENV_AUTH"), "false");
  EXPECT_EQ(all.secrets, (std::vector<std::string>{"sa", "ta"}));
  EXPECT_EQ(Get(Of("s3://bucket-2/m", file), "ACCESS_KEY_ID"), "b");
  Variables with_key = file;
  with_key["AWS_ACCESS_KEY_ID"] = "other";
  const RcloneRemote profile = Of("s3://bucket-3/m", with_key);
  EXPECT_EQ(profile.variables.at("AWS_PROFILE"), "p");
  EXPECT_FALSE(profile.variables.contains("AWS_ACCESS_KEY_ID"));
  EXPECT_EQ(Get(Of("as://c/d", file), "KEY"), "sc");
}

TEST_F(Credentials, FaultsOfTheFileAreNamed) {
  EXPECT_THAT(Refusal("s3://b", File(R"({"s3": {"": {"key": "x"}}, "gs": {"": 1}, "other": {}})")),
              ::testing::AllOf(HasSubstr("credentials.json': "), HasSubstr("/s3//key: unknown key"),
                               HasSubstr("/gs/: expected"), HasSubstr("/other: unknown key")));
  EXPECT_THAT(Refusal("s3://b", File(R"({"s3": {"": {"key_id": "x"}}})")), HasSubstr("must be set together"));
  EXPECT_THAT(Refusal("s3://b", File("{")), HasSubstr("TRITON_CLOUD_CREDENTIAL_PATH"));
  EXPECT_THAT(Refusal("s3://b", {{"TRITON_CLOUD_CREDENTIAL_PATH", "/nothing"}}),
              HasSubstr("TRITON_CLOUD_CREDENTIAL_PATH: "));
}

TEST_F(Credentials, RcloneGetsOnlySettingsOfItsStores) {
  const RcloneRemote remote = Of("s3://b", {{"RCLONE_S3_REGION", "x"},
                                            {"RCLONE_CONFIG", "/mine"},
                                            {"RCLONE_LOG_LEVEL", "DEBUG"},
                                            {"HTTPS_PROXY", "http://proxy"}});
  EXPECT_TRUE(remote.variables.contains("RCLONE_S3_REGION"));
  EXPECT_TRUE(remote.variables.contains("HTTPS_PROXY"));
  EXPECT_FALSE(remote.variables.contains("RCLONE_CONFIG"));
  EXPECT_FALSE(remote.variables.contains("RCLONE_LOG_LEVEL"));
}

}  // namespace
}  // namespace braid
