#include "sequences/redis_url.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "http_client/socket.h"

namespace braid {
namespace {

constexpr std::string_view kForms =
    "expected redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix:///PATH?db=DB, "
    "redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB or redis+cluster://HOST:PORT,HOST:PORT";

Status ReadDatabase(std::string_view text, RedisUrl& url) {
  if (text.empty()) return OkStatus();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), url.database);
  if (error == std::errc() && end == text.data() + text.size() && url.database >= 0 && url.database < 65536) {
    return OkStatus();
  }
  return InvalidArgumentError("the database is not a number: " + std::string(kForms));
}

Result<RedisUrl> ReadSocketPath(std::string_view text) {
  RedisUrl url;
  const size_t query = std::min(text.find('?'), text.size());
  url.addresses.push_back({std::string(text.substr(0, query)), ""});
  if (!text.starts_with('/')) {
    return InvalidArgumentError("the path of a Unix socket must begin with '/': " + std::string(kForms));
  }
  if (query == text.size()) return url;
  const std::string_view rest = text.substr(query + 1);
  if (!rest.starts_with("db=")) {
    return InvalidArgumentError("only ?db=DB may follow the path: " + std::string(kForms));
  }
  BRAID_RETURN_IF_ERROR(ReadDatabase(rest.substr(3), url));
  return url;
}

Status ReadAddress(std::string_view text, std::string_view usual_port, RedisUrl& url) {
  auto address = client::ParseAddress(text, usual_port);
  if (!address.ok() || address->host.starts_with('/')) {
    return InvalidArgumentError("the host is missing: " + std::string(kForms));
  }
  url.addresses.push_back(std::move(address).value());
  return OkStatus();
}

// Removes `scheme` from the front of `text`, if it is there.
bool TakeScheme(std::string_view scheme, std::string_view& text) {
  if (!text.starts_with(scheme)) return false;
  text.remove_prefix(scheme.size());
  return true;
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view text) {
  if (TakeScheme("unix://", text)) return ReadSocketPath(text);
  RedisUrl url;
  url.tls = text.starts_with("rediss");
  const bool sentinels = TakeScheme("redis+sentinel://", text) || TakeScheme("rediss+sentinel://", text);
  url.cluster = TakeScheme("redis+cluster://", text) || TakeScheme("rediss+cluster://", text);
  if (!sentinels && !url.cluster && !TakeScheme("redis://", text) && !TakeScheme("rediss://", text)) {
    return InvalidArgumentError("unknown scheme: " + std::string(kForms));
  }
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    url.user = text.substr(0, at);
    text.remove_prefix(at + 1);
    if (url.user.find(':') != std::string::npos) {
      return InvalidArgumentError(
          "the URL must not have a password, which process listings show; use "
          "--sequence_state_store_password_file");
    }
  }
  const auto take = [&text] {
    const size_t slash = std::min(text.find('/'), text.size());
    const std::string_view piece = text.substr(0, slash);
    text.remove_prefix(std::min(slash + 1, text.size()));
    return piece;
  };
  std::string_view hosts = take();
  if (sentinels) {
    url.master = take();
    if (url.master.empty()) {
      return InvalidArgumentError("the master's name is missing: " + std::string(kForms));
    }
  } else if (!url.cluster && hosts.find(',') != std::string_view::npos) {
    return InvalidArgumentError("only sentinels and clusters can have several hosts: " + std::string(kForms));
  }
  BRAID_RETURN_IF_ERROR(ReadDatabase(text, url));
  if (url.cluster && url.database != 0) {
    return InvalidArgumentError("a cluster has only database 0: " + std::string(kForms));
  }
  while (true) {
    const size_t comma = std::min(hosts.find(','), hosts.size());
    BRAID_RETURN_IF_ERROR(ReadAddress(hosts.substr(0, comma), sentinels ? "26379" : "6379", url));
    if (comma == hosts.size()) return url;
    hosts.remove_prefix(comma + 1);
  }
}

}  // namespace braid
