// StorageUrl: a place in an object store, as Triton and OpenVINO Model Server spell it.
//
//   s3://BUCKET/PATH, s3://HOST:PORT/BUCKET/PATH, s3://https://HOST[:PORT]/BUCKET/PATH
//   gs://BUCKET/PATH
//   as://ACCOUNT/CONTAINER/PATH, az://CONTAINER/PATH
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct StorageUrl {
  enum class Store : unsigned char { kS3, kGoogle, kAzure };
  Store store = Store::kS3;
  // S3: "http://HOST:PORT"; empty: named by the credentials, or the store's own.
  std::string endpoint = {};
  // Azure: the name or host of the account; empty: named by the credentials.
  std::string account = {};
  std::string bucket = {};  // Azure: the container

  // In the bucket, without slashes at its ends; may be empty.
  std::string path = {};
  std::string text = {};  // the whole URL, without a slash at its end

  // Returns the place of a file or folder beneath this one. REQUIRES: IsPlainRelativePath(name).
  StorageUrl Beneath(const std::string& name) const;
};

// Whether the text has a scheme ("s3://"), supported or not.
bool IsUrl(std::string_view text);

// Errors: INVALID_ARGUMENT; the text names the expected form.
Result<StorageUrl> ParseStorageUrl(std::string_view text);

}  // namespace braid
