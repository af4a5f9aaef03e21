#include "load/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace braid::load {

Result<std::unique_ptr<SharedRegion>> SharedRegion::Make(size_t bytes) {
  static std::atomic<int> made{0};
  const std::string name = "braid_bench_" + std::to_string(getpid()) + "_" + std::to_string(made++);
  const std::string key = "/" + name;
  const UniqueFd file(shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoError("cannot create shared memory " + key, errno);
  void* base = MAP_FAILED;
  // Allocates the pages now: a later write without free memory would kill the program (SIGBUS).
  if (bytes > 0 && posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (base == MAP_FAILED) {
    shm_unlink(key.c_str());
    return ResourceExhaustedError("cannot allocate " + std::to_string(bytes) + " bytes of shared memory");
  }
  return std::unique_ptr<SharedRegion>(new SharedRegion(name, static_cast<char*>(base), bytes));
}

SharedRegion::~SharedRegion() {
  munmap(base_, bytes_);
  shm_unlink(key_.c_str());
}

}  // namespace braid::load
