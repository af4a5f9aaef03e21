#include "repository/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

namespace braid {
namespace {

constexpr std::string_view kPrefix = "braid-files-";
// Between making a folder and locking it, it looks abandoned; nobody takes this long.
constexpr time_t kSettleSeconds = 60;

}  // namespace

Result<std::shared_ptr<TemporaryFolder>> TemporaryFolder::Create(const std::string& parent) {
  std::string path = parent + "/" + std::string(kPrefix) + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return ErrnoError("failed to create a temporary folder in " + parent, errno);
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.valid() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const Status status = ErrnoError("failed to lock temporary folder " + path, errno);
    ::rmdir(path.c_str());
    return status;
  }
  return std::shared_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path), std::move(lock)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // what cannot be removed now is removed by the next server that starts
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::RemoveAbandoned(const std::string& parent) {
  std::error_code fault;
  std::filesystem::directory_iterator it(parent, fault);
  for (; !fault && it != std::filesystem::directory_iterator(); it.increment(fault)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    UniqueFd folder(::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info = {};
    if (!folder.valid() || ::fstat(folder.get(), &info) != 0) continue;
    if (info.st_uid != ::geteuid() || std::time(nullptr) - info.st_mtime < kSettleSeconds) continue;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(it->path(), ignored);
  }
}

}  // namespace braid
