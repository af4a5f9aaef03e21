#include "config/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/unique_fd.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

}  // namespace

Result<std::string> ReadConfigFile(const std::string& path) {
  const auto fail = [&path](const std::string& why) {
    return FaultError(Fault::kFileInvalid, path + ": " + why);
  };
  // O_NONBLOCK: opening a named pipe must not block.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0) {
    return fail(std::error_code(errno, std::generic_category()).message());
  }
  if (!S_ISREG(about.st_mode)) return fail("not a file");
  std::string text;
  for (;;) {
    if (text.size() > kMaxBytes) return fail("larger than 16 MiB");
    const size_t before = text.size();
    text.resize(before + 65536);
    const ssize_t got = ::read(file.get(), text.data() + before, text.size() - before);
    if (got < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (got < 0) return fail(std::error_code(errno, std::generic_category()).message());
    text.resize(before + static_cast<size_t>(got));
    if (got == 0) return text;
  }
}

}  // namespace braid
