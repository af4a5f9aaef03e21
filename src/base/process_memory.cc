#include "base/process_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "base/unique_fd.h"

namespace braid {
namespace {

uint64_t Microseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
}

uint64_t CountDescriptors() {
  // Newer kernels report their number as the size of the folder.
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

std::shared_ptr<const UniqueFd> OpenRollup(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/smaps_rollup";
  return std::make_shared<const UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

// The open files of KeepReadable(), by process. There is one map for the program, since process ids are
// global.
class Kept {
 public:
  static Kept& Files() {
    static Kept kept;
    return kept;
  }
  std::shared_ptr<const UniqueFd> Find(pid_t pid) {
    MutexLock lock(mutex_);
    const auto found = files_.find(pid);
    return found == files_.end() ? nullptr : found->second;
  }
  void Add(pid_t pid, std::shared_ptr<const UniqueFd> file) {
    MutexLock lock(mutex_);
    files_[pid] = std::move(file);
  }
  // Does not remove the file of a newer process with the same id.
  void Remove(pid_t pid, const std::shared_ptr<const UniqueFd>& file) {
    MutexLock lock(mutex_);
    const auto found = files_.find(pid);
    if (found != files_.end() && found->second == file) files_.erase(found);
  }

 private:
  Mutex mutex_;
  std::unordered_map<pid_t, std::shared_ptr<const UniqueFd>> files_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<uint64_t> ReadProportionalBytes(pid_t pid) {
  std::shared_ptr<const UniqueFd> file = Kept::Files().Find(pid);
  if (!file) file = OpenRollup(pid);
  // The file has some twenty lines.
  std::array<char, 4096> text{};
  const ssize_t length = ::pread(file->get(), text.data(), text.size(), 0);
  const std::string_view lines(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  constexpr std::string_view kName = "\nPss:";
  const size_t found = lines.find(kName);
  if (found == std::string_view::npos) return std::nullopt;
  return std::strtoull(lines.data() + found + kName.size(), nullptr, 10) * 1024;
}

std::shared_ptr<const void> KeepReadable(pid_t pid) {
  std::shared_ptr<const UniqueFd> file = OpenRollup(pid);
  if (!file->valid()) return nullptr;
  Kept::Files().Add(pid, file);
  return {file.get(), [pid, file](const void*) { Kept::Files().Remove(pid, file); }};
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

std::optional<uint64_t> ReadResidentBytes(pid_t pid) {
  uint64_t size = 0;
  uint64_t resident = 0;
  if (!(std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> size >> resident)) return std::nullopt;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

ProcessMemory::~ProcessMemory() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    asked_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void ProcessMemory::AskLocked(pid_t pid, int64_t now_ns) {
  Process& process = processes_[pid];
  process.until_ns = now_ns + kAskedForNs;
  if (process.looked_at) return;
  if (!thread_.joinable()) thread_ = StartThread("brd-memory", [this] { Run(); });
  asked_.NotifyAll();
}

std::optional<uint64_t> ProcessMemory::ProportionalBytes(pid_t pid) const {
  MutexLock lock(mutex_);
  const auto found = processes_.find(pid);
  return found == processes_.end() ? std::nullopt : found->second.bytes;
}

void ProcessMemory::Ask(const std::vector<pid_t>& pids, int64_t wait_ns) {
  const int64_t now_ns = SteadyNowNs();
  MutexLock lock(mutex_);
  for (const pid_t pid : pids) AskLocked(pid, now_ns);
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
  while (HasNewLocked() && looked_.WaitUntil(mutex_, until)) {
  }
}

bool ProcessMemory::HasNewLocked() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return !process.second.looked_at; });
}

void ProcessMemory::Run() {
  int64_t next_ns = 0;
  MutexLock lock(mutex_);
  while (!stopping_) {
    const int64_t now_ns = SteadyNowNs();
    if (!HasNewLocked() && now_ns < next_ns) {
      asked_.WaitFor(mutex_, std::chrono::nanoseconds(next_ns - now_ns));
      continue;
    }
    const bool all = now_ns >= next_ns;
    std::erase_if(processes_, [now_ns](const auto& process) { return process.second.until_ns < now_ns; });
    std::vector<pid_t> pids;
    for (const auto& [pid, process] : processes_) {
      if (all || !process.looked_at) pids.push_back(pid);
    }
    if (all) next_ns = now_ns + (processes_.empty() ? kAskedForNs : kEveryNs);
    for (const pid_t pid : pids) {
      lock.Unlock();
      std::optional<uint64_t> bytes;
      GuardedOrReport("brd-memory", [&] { bytes = ReadProportionalBytes(pid); });
      lock.Lock();
      if (stopping_) return;
      processes_[pid].looked_at = true;
      processes_[pid].bytes = bytes;
    }
    looked_.NotifyAll();
  }
}

}  // namespace braid
