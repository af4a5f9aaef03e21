#include "base/unix_address.h"

#include <sys/socket.h>

#include <filesystem>
#include <system_error>

#include "base/check.h"

namespace braid {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kAbstract = "unix-abstract:";

// One byte is for the NUL at the end.
constexpr size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

bool IsUnixAddress(std::string_view address) {
  return address.starts_with(kUnix) || address.starts_with(kAbstract);
}

Result<std::string> UnixPath(std::string_view address) {
  const auto refuse = [address](std::string_view why) {
    return InvalidArgumentError(std::string("'").append(address).append("' ").append(why));
  };
  if (address.starts_with(kAbstract)) {
    return refuse("is not supported: abstract sockets have no permissions; use unix:PATH");
  }
  if (!address.starts_with(kUnix)) return refuse("must have the form unix:PATH");
  std::string_view text = address.substr(kUnix.size());
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    if (!text.starts_with('/'))
      return refuse("names a host; it must have the form unix:PATH or unix:///PATH");
  }
  if (text.empty() || text.ends_with('/')) return refuse("has no file name; it must have the form unix:PATH");
  if (text.find('\0') != std::string_view::npos) return refuse("has a NUL byte");
  std::error_code error;
  std::string path = std::filesystem::absolute(text, error).string();
  if (error) return refuse("is relative to a folder that is unknown: " + error.message());
  if (path.size() > kMostBytes) {
    return refuse("has a path of " + std::to_string(path.size()) +
                  " bytes; a Unix socket's path has at most " + std::to_string(kMostBytes));
  }
  return path;
}

sockaddr_un UnixName(const std::string& path) {
  BRAID_CHECK(path.size() <= kMostBytes);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, path.size());
  return name;
}

}  // namespace braid
