#include "config/storage_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

StorageUrl Parsed(std::string_view text) {
  auto url = ParseStorageUrl(text);
  EXPECT_TRUE(url.ok()) << url.status().message();
  return url.ok() ? *url : StorageUrl();
}

TEST(StorageUrl, ReadsTheFormsOfS3) {
  const StorageUrl plain = Parsed("s3://models/a/b/");
  EXPECT_EQ(plain.endpoint, "");
  EXPECT_EQ(plain.bucket, "models");
  EXPECT_EQ(plain.path, "a/b");
  EXPECT_EQ(plain.text, "s3://models/a/b");
  EXPECT_EQ(Parsed("s3://models").path, "");
  const StorageUrl port = Parsed("s3://localhost:9000/models/a");
  EXPECT_EQ(port.endpoint, "http://localhost:9000");
  EXPECT_EQ(port.bucket, "models");
  EXPECT_EQ(port.path, "a");
  const StorageUrl tls = Parsed("s3://https://store.example/models/a");
  EXPECT_EQ(tls.endpoint, "https://store.example");
  EXPECT_EQ(tls.bucket, "models");
  EXPECT_EQ(Parsed("s3://http://10.0.0.1:80/models").endpoint, "http://10.0.0.1:80");
}

TEST(StorageUrl, ReadsTheOtherStores) {
  const StorageUrl google = Parsed("gs://models/a");
  EXPECT_EQ(google.store, StorageUrl::Store::kGoogle);
  EXPECT_EQ(google.bucket, "models");
  const StorageUrl azure = Parsed("as://account/models/a");
  EXPECT_EQ(azure.store, StorageUrl::Store::kAzure);
  EXPECT_EQ(azure.account, "account");
  EXPECT_EQ(azure.bucket, "models");
  EXPECT_EQ(azure.path, "a");
  const StorageUrl container = Parsed("az://models/a");
  EXPECT_EQ(container.account, "");
  EXPECT_EQ(container.bucket, "models");
}

TEST(StorageUrl, NamesWhatIsBeneath) {
  EXPECT_EQ(Parsed("s3://models").Beneath("m").path, "m");
  EXPECT_EQ(Parsed("s3://models/a").Beneath("m/1").path, "a/m/1");
  EXPECT_EQ(Parsed("s3://models/a").Beneath("m").text, "s3://models/a/m");
}

TEST(StorageUrl, RefusesOtherForms) {
  const auto refusal = [](std::string_view text) { return ParseStorageUrl(text).status().message(); };
  EXPECT_EQ(refusal("hdfs://a/b"),
            "'hdfs://a/b': expected a folder, or a URL with s3://, gs://, as:// or az://");
  for (const char* text : {"s3://", "gs:///a", "as://account", "az://", "s3://https://host", "s3://a b/c"})
    EXPECT_THAT(refusal(text), HasSubstr("expected " + std::string(text, 5))) << text;
  EXPECT_EQ(
      refusal("s3://key:secret@host:9000/b"),
      "'s3://***@host:9000/b': expected s3://BUCKET/PATH or s3://HOST:PORT/BUCKET/PATH without credentials");
  EXPECT_THAT(refusal("s3://b/a/../c"), HasSubstr("'..'"));
  EXPECT_THAT(refusal("s3://b/a//c"), HasSubstr("empty parts"));
}

}  // namespace
}  // namespace braid
