#include "base/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

namespace braid {
namespace {

// A folder is created under this name and renamed once it is locked, so that it never looks abandoned.
constexpr std::string_view kUnlockedPrefix = ".braid-new-";
constexpr std::string_view kRandomPart = "XXXXXX";
// Folders that still have that name are removed at this age, when no server can still be about to lock them.
constexpr time_t kSettleSeconds = 60;

}  // namespace

Result<std::shared_ptr<TemporaryFolder>> TemporaryFolder::Create(const std::string& parent,
                                                                 std::string_view prefix) {
  std::string made = parent + "/" + std::string(kUnlockedPrefix) + std::string(kRandomPart);
  if (::mkdtemp(made.data()) == nullptr)
    return ErrnoError("failed to create a temporary folder in " + parent, errno);
  UniqueFd lock(::open(made.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  std::string path = parent + "/" + std::string(prefix) + made.substr(made.size() - kRandomPart.size());
  if (!lock.valid() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const Status status = ErrnoError("failed to lock temporary folder " + path, errno);
    ::rmdir(made.c_str());
    return status;
  }
  return std::shared_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path), std::move(lock)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // the next server to start removes the rest
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::RemoveAbandoned(const std::string& parent, std::string_view prefix) {
  std::error_code fault;
  std::filesystem::directory_iterator it(parent, fault);
  for (; !fault && it != std::filesystem::directory_iterator(); it.increment(fault)) {
    const std::string name = it->path().filename().string();
    const bool unlocked = name.starts_with(kUnlockedPrefix);
    if (!unlocked && !name.starts_with(prefix)) continue;
    UniqueFd folder(::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info = {};
    if (!folder.valid() || ::fstat(folder.get(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (unlocked && std::time(nullptr) - info.st_mtime < kSettleSeconds) continue;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(it->path(), ignored);
  }
}

}  // namespace braid
