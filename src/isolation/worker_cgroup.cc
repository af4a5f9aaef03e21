#include "isolation/worker_cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kFiles = {"memory.max", "memory.high", "memory.swap.max",
                                                    "pids.max",   "cpu.max",     "cpu.weight"};
// Names of groups: "braid-worker-PID-3" and "braid-server-PID", with the server's process id.
constexpr std::string_view kWorkerPrefix = "braid-worker-";
constexpr std::string_view kServerPrefix = "braid-server-";
// How long to wait until killed processes are gone.
constexpr auto kLookAgain = std::chrono::milliseconds(2);
constexpr int kLooks = 250;

// The kernel applies one write to these files completely or not at all.
Status Write(const std::string& path, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) < 0)
    return FailedPreconditionError(ErrnoError(fmt::format("'{}' into {}", text, path), errno).message());
  return OkStatus();
}

std::set<std::string, std::less<>> Words(const std::string& path) {
  std::ifstream file(path);
  std::set<std::string, std::less<>> words;
  for (std::string word; file >> word;) words.insert(word);
  return words;
}

std::string_view ControllerOf(std::string_view file) { return file.substr(0, file.find('.')); }

// Whether the name is a group's whose server has ended; false for other names.
bool IsAbandoned(std::string_view name) {
  for (const std::string_view prefix : {kWorkerPrefix, kServerPrefix}) {
    if (!name.starts_with(prefix)) continue;
    pid_t server = 0;
    const std::string_view number = name.substr(prefix.size());
    std::from_chars(number.data(), number.data() + number.size(), server);
    return server > 0 && ::kill(server, 0) != 0 && errno == ESRCH;
  }
  return false;
}

void RemoveAbandoned(const std::string& folder) {
  std::error_code fault;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, fault); !fault && it != fs::directory_iterator();
       it.increment(fault))
    if (IsAbandoned(it->path().filename().string())) found.push_back(it->path());
  for (const fs::path& path : found) ::rmdir(path.c_str());
}

// Moves this process out of `folder`: a group with processes cannot enable controllers for its children.
Status LeaveTo(const std::string& folder) {
  if (!Words(folder + "/cgroup.procs").contains(std::to_string(::getpid()))) return OkStatus();
  const std::string own = fmt::format("{}/{}{}", folder, kServerPrefix, ::getpid());
  if (::mkdir(own.c_str(), 0755) != 0 && errno != EEXIST)
    return FailedPreconditionError(ErrnoError("the server's own group " + own, errno).message());
  return Write(own + "/cgroup.procs", std::to_string(::getpid()));
}

Status CheckControllers(const std::string& folder, const std::vector<CgroupSetting>& settings) {
  const auto controllers = Words(folder + "/cgroup.controllers");
  for (const CgroupSetting& setting : settings) {
    const std::string_view controller = ControllerOf(setting.file);
    if (controllers.contains(controller)) continue;
    return FailedPreconditionError(fmt::format(
        "the folder has no controller '{}' (cgroup.controllers), which {} needs", controller, setting.file));
  }
  return OkStatus();
}

Status HandOn(const std::string& folder, const std::vector<CgroupSetting>& settings) {
  for (const CgroupSetting& setting : settings) {
    BRAID_RETURN_IF_ERROR(
        Write(folder + "/cgroup.subtree_control", fmt::format("+{}", ControllerOf(setting.file))));
  }
  return OkStatus();
}

}  // namespace

Result<CgroupSetting> ParseCgroupSetting(std::string_view text) {
  CgroupSetting setting;
  const size_t equals = text.rfind('=');
  const std::string_view left = text.substr(0, std::min(equals, text.size()));
  const size_t before = left.rfind('=');
  if (before != std::string_view::npos) setting.model = left.substr(0, before);
  setting.file = before == std::string_view::npos ? left : left.substr(before + 1);
  if (equals != std::string_view::npos) setting.value = text.substr(equals + 1);
  if (std::ranges::find(kFiles, setting.file) == kFiles.end() || setting.value.empty() ||
      (before != std::string_view::npos && setting.model.empty())) {
    return InvalidArgumentError(fmt::format("'{}' must have the form [MODEL=]FILE=VALUE, with FILE one of {}",
                                            text, fmt::join(kFiles, ", ")));
  }
  return setting;
}

Status PrepareCgroups(const std::string& folder, const std::vector<CgroupSetting>& settings) {
  const auto prepare = [&]() -> Status {
    struct statfs info {};
    if (::statfs(folder.c_str(), &info) != 0)
      return FailedPreconditionError(ErrnoError("the folder", errno).message());
    if (info.f_type != CGROUP2_SUPER_MAGIC) return FailedPreconditionError("it is not a cgroup v2 folder");
    BRAID_RETURN_IF_ERROR(CheckControllers(folder, settings));
    RemoveAbandoned(folder);
    BRAID_RETURN_IF_ERROR(LeaveTo(folder));
    BRAID_RETURN_IF_ERROR(HandOn(folder, settings));
    return WorkerCgroup::Create(folder, settings).status();
  };
  return prepare().WithPrefix(fmt::format("--worker-cgroup={}: ", folder));
}

Result<std::shared_ptr<WorkerCgroup>> WorkerCgroup::Create(const std::string& folder,
                                                           const std::vector<CgroupSetting>& settings) {
  static std::atomic<uint64_t> last = 0;
  std::string path;
  int made = 0;
  do {
    path = fmt::format("{}/{}{}-{}", folder, kWorkerPrefix, ::getpid(), ++last);
    made = ::mkdir(path.c_str(), 0755);
    // The name is left from a killed server with the same process id.
  } while (made != 0 && errno == EEXIST);
  if (made != 0) return FailedPreconditionError(ErrnoError("a control group " + path, errno).message());
  std::shared_ptr<WorkerCgroup> group(new WorkerCgroup(std::move(path)));
  for (const CgroupSetting& setting : settings)
    BRAID_RETURN_IF_ERROR(Write(group->path_ + "/" + setting.file, setting.value));
  // If memory runs out, the kernel kills the whole group instead of one child, for which the worker would
  // wait. Without the memory controller the file does not exist.
  static_cast<void>(Write(group->path_ + "/memory.oom.group", "1"));
  return group;
}

WorkerCgroup::~WorkerCgroup() {
  static_cast<void>(Write(path_ + "/cgroup.kill", "1"));  // since Linux 5.14
  // The next server removes groups that remain.
  for (int look = 0; look < kLooks && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++look)
    std::this_thread::sleep_for(kLookAgain);
}

Status WorkerCgroup::Add(pid_t pid) { return Write(path_ + "/cgroup.procs", std::to_string(pid)); }

}  // namespace braid
