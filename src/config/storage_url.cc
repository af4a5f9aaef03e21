#include "config/storage_url.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "config/folder.h"

namespace braid {
namespace {

struct Scheme {
  std::string_view name;
  StorageUrl::Store store;
  std::string_view form;
};

constexpr std::array kSchemes = {
    Scheme{"s3://", StorageUrl::Store::kS3, "s3://BUCKET/PATH or s3://HOST:PORT/BUCKET/PATH"},
    Scheme{"gs://", StorageUrl::Store::kGoogle, "gs://BUCKET/PATH"},
    Scheme{"as://", StorageUrl::Store::kAzure, "as://ACCOUNT/CONTAINER/PATH"},
    Scheme{"az://", StorageUrl::Store::kAzure, "az://CONTAINER/PATH"}};

bool IsName(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '$';
  });
}

// A host with an optional port, as in the URL of an endpoint.
bool IsHost(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == ':' || c == '[' || c == ']' || c == '_';
  });
}

std::string_view TakePart(std::string_view& rest) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view part = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

Status Wrong(std::string_view text, std::string_view form, std::string_view what = "") {
  return InvalidArgumentError("'" + WithoutCredentials(text) + "': expected " + std::string(form) +
                              std::string(what));
}

}  // namespace

bool IsUrl(std::string_view text) { return text.find("://") != std::string_view::npos; }

StorageUrl StorageUrl::Beneath(const std::string& name) const {
  StorageUrl url = *this;
  url.path += (url.path.empty() ? "" : "/") + name;
  url.text += "/" + name;
  return url;
}

Result<StorageUrl> ParseStorageUrl(std::string_view text) {
  const auto scheme =
      std::ranges::find_if(kSchemes, [&](const Scheme& one) { return text.starts_with(one.name); });
  if (scheme == kSchemes.end()) return Wrong(text, "a folder, or a URL with s3://, gs://, as:// or az://");
  while (text.ends_with('/')) text.remove_suffix(1);
  StorageUrl url{.store = scheme->store, .text = std::string(text)};
  std::string_view rest = text.substr(std::min(scheme->name.size(), text.size()));
  if (url.store == StorageUrl::Store::kS3) {
    std::string_view protocol;
    for (const std::string_view one : {"http://", "https://"}) {
      if (rest.starts_with(one)) protocol = one;
    }
    rest.remove_prefix(protocol.size());
    if (!protocol.empty() || rest.substr(0, rest.find('/')).find(':') != std::string_view::npos) {
      const std::string_view host = TakePart(rest);
      if (host.find('@') != std::string_view::npos) return Wrong(text, scheme->form, " without credentials");
      if (!IsHost(host)) return Wrong(text, scheme->form);
      url.endpoint = std::string(protocol.empty() ? "http://" : protocol) + std::string(host);
    }
  } else if (scheme->name == "as://") {
    url.account = TakePart(rest);
    if (!IsName(url.account)) return Wrong(text, scheme->form);
  }
  url.bucket = TakePart(rest);
  if (url.bucket.find('@') != std::string::npos) return Wrong(text, scheme->form, " without credentials");
  if (!IsName(url.bucket)) return Wrong(text, scheme->form);
  url.path = rest;
  if (!url.path.empty() && !IsPlainRelativePath(url.path))
    return Wrong(text, scheme->form, ", with a path without empty parts, '..' and control characters");
  return url;
}

}  // namespace braid
