#include "protocols/console/process_memory.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

uint64_t Microseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
}

uint64_t CountDescriptors() {
  // Newer systems tell their number as the size of the folder.
  struct stat status {};
  if (::stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
    return static_cast<uint64_t>(status.st_size);
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(folder);
  return count - 1;  // the folder itself is open
}

}  // namespace

std::optional<uint64_t> ReadProportionalBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("Pss:")) return std::stoull(line.substr(4)) * 1024;
  }
  return std::nullopt;
}

OwnProcess ReadOwnProcess() {
  OwnProcess process;
  uint64_t size = 0;
  uint64_t resident = 0;
  if (std::ifstream("/proc/self/statm") >> size >> resident) {
    process.resident_bytes = resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("Threads:")) process.threads = std::stoull(line.substr(8));
  }
  process.descriptors = CountDescriptors();
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    process.cpu_us = Microseconds(usage.ru_utime) + Microseconds(usage.ru_stime);
  }
  return process;
}

std::optional<uint64_t> ProcessMemory::ProportionalBytes(pid_t pid) const {
  MutexLock lock(mutex_);
  const auto found = bytes_.find(pid);
  return found == bytes_.end() ? std::nullopt : std::optional(found->second);
}

void ProcessMemory::Look(std::vector<pid_t> pids, const RunAside& run) {
  {
    MutexLock lock(mutex_);
    if (looking_ || SteadyNowNs() < next_ns_) return;
    looking_ = true;
  }
  const auto look = [this, pids = std::move(pids)] {
    std::unordered_map<pid_t, uint64_t> bytes;
    GuardedOrReport("memory of processes", [&] {
      for (const pid_t pid : pids) {
        if (const auto found = ReadProportionalBytes(pid)) bytes.emplace(pid, *found);
      }
    });
    MutexLock lock(mutex_);
    bytes_.swap(bytes);
    looking_ = false;
    next_ns_ = SteadyNowNs() + kFreshNs;
  };
  if (run(look)) return;
  MutexLock lock(mutex_);
  looking_ = false;
}

}  // namespace braid
