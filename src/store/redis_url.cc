#include "store/redis_url.h"

#include <charconv>

#include "http_client/socket.h"

namespace braid {
namespace {

constexpr std::string_view kForms = "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH?db=DB";

Status ReadDatabase(std::string_view text, RedisUrl& url) {
  if (text.empty()) return OkStatus();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), url.database);
  if (error == std::errc() && end == text.data() + text.size() && url.database >= 0 && url.database < 65536) {
    return OkStatus();
  }
  return InvalidArgumentError("the database is no number: " + std::string(kForms));
}

Result<RedisUrl> ReadSocketPath(std::string_view text) {
  RedisUrl url;
  const size_t query = std::min(text.find('?'), text.size());
  url.host = text.substr(0, query);
  if (!url.host.starts_with('/')) {
    return InvalidArgumentError("the path of a Unix socket begins with '/': " + std::string(kForms));
  }
  if (query == text.size()) return url;
  const std::string_view rest = text.substr(query + 1);
  if (!rest.starts_with("db=")) {
    return InvalidArgumentError("behind the path only ?db=DB may stand: " + std::string(kForms));
  }
  BRAID_RETURN_IF_ERROR(ReadDatabase(rest.substr(3), url));
  return url;
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view text) {
  if (text.starts_with("redis+sentinel://") || text.starts_with("rediss+sentinel://")) {
    return InvalidArgumentError(
        "Redis Sentinel is not supported; name a Redis, or what stands in front of them");
  }
  if (text.starts_with("unix://")) return ReadSocketPath(text.substr(7));
  RedisUrl url;
  url.tls = text.starts_with("rediss://");
  if (!url.tls && !text.starts_with("redis://")) {
    return InvalidArgumentError("the scheme is not known: " + std::string(kForms));
  }
  text.remove_prefix(url.tls ? 9 : 8);
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    url.user = text.substr(0, at);
    text.remove_prefix(at + 1);
    if (url.user.find(':') != std::string::npos) {
      return InvalidArgumentError(
          "a password in the URL would be seen by all who list processes; write it to a file, and name that "
          "by "
          "--sequence_state_store_password_file");
    }
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    BRAID_RETURN_IF_ERROR(ReadDatabase(text.substr(slash + 1), url));
    text = text.substr(0, slash);
  }
  if (text.find(',') != std::string_view::npos) {
    return InvalidArgumentError("several hosts are not supported: " + std::string(kForms));
  }
  auto address = client::ParseAddress(text, "6379");
  if (!address.ok() || address->host.starts_with('/')) {
    return InvalidArgumentError("it names no host: " + std::string(kForms));
  }
  url.host = std::move(address->host);
  url.port = std::move(address->port);
  return url;
}

}  // namespace braid
