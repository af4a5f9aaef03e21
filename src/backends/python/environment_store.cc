#include "backends/python/environment_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "backends/python/environment_archive.h"
#include "backends/python/unpack_apart.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "braid-env-";
constexpr int64_t kReportNs = kSecondNs;
constexpr int64_t kLogNs = 10 * kSecondNs;
constexpr double kMiB = 1 << 20;

// Returns a text that differs between two files, and between two states of one file.
std::string StateOf(const struct stat& info) {
  return fmt::format("{}:{}:{}:{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::string StateOf(const fs::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? StateOf(info) : "none";
}

// Returns a text that changes when the environment in a folder is rebuilt, or packages are installed into it.
std::string StateOfFolder(const fs::path& folder) {
  std::string state;
  for (const char* part : {"bin/activate", "bin/python3", "bin/python", "pyvenv.cfg", "conda-meta"})
    state += StateOf(folder / part) + ' ';
  std::error_code fault;
  fs::directory_iterator it(folder / "lib", fault);
  for (; !fault && it != fs::directory_iterator(); it.increment(fault)) {
    if (it->path().filename().string().starts_with("python"))
      state += fmt::format("{} {} ", it->path().string(), StateOf(it->path() / "site-packages"));
  }
  return state;
}

}  // namespace

EnvironmentStore::EnvironmentStore(Options options, WorkerSupport& support)
    : options_(std::move(options)), support_(support), log_(support.log) {
  TemporaryFolder::RemoveAbandoned(options_.temporary_directory, kFolderPrefix);
}

Status EnvironmentStore::CheckRunning() const {
  if (stopping_.load(std::memory_order_relaxed))
    return UnavailableError("the server stopped while preparing the environment");
  return OkStatus();
}

EnvironmentStore::Value EnvironmentStore::Get(const std::string& path,
                                              const std::function<void(const std::string&)>& progress) {
  if (IsUrl(path)) return UseRemote(path, progress);
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0)
    return ErrnoError("the Python environment '" + path + "' (EXECUTION_ENV_PATH)", errno);
  if (S_ISDIR(info.st_mode)) return UseFolder(path);
  if (S_ISREG(info.st_mode)) return UseArchive(path, progress);
  return InternalError("the Python environment '" + path +
                       "' (EXECUTION_ENV_PATH) is neither a folder nor an archive");
}

EnvironmentStore::Value EnvironmentStore::UseFolder(const std::string& path) {
  return environments_.Get(
      fmt::format("folder {} {}", path, StateOfFolder(path)), [&] { return Make(path, nullptr); },
      [this] { return CheckRunning(); });
}

EnvironmentStore::Value EnvironmentStore::UseArchive(
    const std::string& path, const std::function<void(const std::string&)>& progress) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return ErrnoError("environment archive '" + path + "'", errno);
  const auto waiting = [&] {
    progress("waiting until environment '" + path + "' is unpacked for another model");
    return CheckRunning();
  };
  return environments_.Get(
      fmt::format("archive {}", StateOf(info)), [&] { return UnpackFile(path, file, info, progress); },
      waiting);
}

EnvironmentStore::Value EnvironmentStore::UnpackFile(
    const std::string& path, const UniqueFd& file, const struct stat& info,
    const std::function<void(const std::string&)>& progress) {
  Value made = Unpack(path, file.get(), static_cast<uint64_t>(info.st_size), progress);
  struct stat after = {};
  if (made.ok() && (::fstat(file.get(), &after) != 0 || StateOf(after) != StateOf(info)))
    return InternalError("environment archive '" + path + "' changed while it was unpacked");
  return made;
}

// The copy of the archive is removed once it is unpacked.
EnvironmentStore::Value EnvironmentStore::UseRemote(const std::string& text,
                                                    const std::function<void(const std::string&)>& progress) {
  const std::string prefix = "environment archive (EXECUTION_ENV_PATH): ";
  auto url = ParseStorageUrl(text);
  if (!url.ok()) return url.status().WithPrefix(prefix);
  if (options_.storage == nullptr)
    return UnsupportedError(prefix + "'" + text + "' is remote; expected a local file");
  auto state = options_.storage->StateOfFile(*url);
  if (!state.ok()) return state.status().WithPrefix(prefix);
  const auto waiting = [&] {
    progress("waiting until environment '" + text + "' is unpacked for another model");
    return CheckRunning();
  };
  return environments_.Get(
      "remote " + text + " " + *state,
      [&]() -> Value {
        progress("copying environment '" + text + "'");
        auto copy = options_.storage->CopyFile(*url);
        if (!copy.ok()) return copy.status().WithPrefix(prefix);
        const UniqueFd file(::open((*copy)->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        struct stat info = {};
        if (!file.valid() || ::fstat(file.get(), &info) != 0)
          return ErrnoError("environment archive '" + text + "'", errno);
        return UnpackFile(text, file, info, progress);
      },
      waiting);
}

EnvironmentStore::Value EnvironmentStore::Unpack(const std::string& path, int archive_fd,
                                                 uint64_t archive_bytes,
                                                 const std::function<void(const std::string&)>& progress) {
  BRAID_RETURN_IF_ERROR(CheckRunning());
  BRAID_ASSIGN_OR_RETURN(auto files, TemporaryFolder::Create(options_.temporary_directory, kFolderPrefix));
  BRAID_LOG_INFO(log_, "unpacking environment '{}' ({:.1f} MiB) into '{}'", path,
                 static_cast<double>(archive_bytes) / kMiB, files->path());
  const int64_t start = SteadyNowNs();
  int64_t next_report = start + kReportNs;
  int64_t next_log = start + kLogNs;
  const auto report = [&](const UnpackProgress& done) {
    const int64_t now = SteadyNowNs();
    if (now >= next_report) {
      next_report = now + kReportNs;
      const std::string text =
          fmt::format("unpacking environment '{}': {} %, {} files, {:.0f} MiB", path,
                      archive_bytes == 0 ? 100 : done.archive_bytes * 100 / archive_bytes, done.entries,
                      static_cast<double>(done.bytes) / kMiB);
      progress(text);
      if (now >= next_log) {
        next_log = now + kLogNs;
        BRAID_LOG_INFO(log_, "{}", text);
      }
    }
    return CheckRunning();
  };
  const UnpackLimits limits{.max_bytes = options_.max_bytes, .max_bytes_option = options_.max_bytes_option};
  auto unpacked = options_.unpack_program.empty() ? UnpackArchive(archive_fd, files->path(), limits, report)
                                                  : UnpackApart(options_.unpack_program, *support_.reaper,
                                                                archive_fd, files->path(), limits, report);
  if (!unpacked.ok()) return unpacked.status().WithPrefix("environment archive '" + path + "': ");
  BRAID_LOG_INFO(log_, "unpacked environment '{}': {} files, {:.1f} MiB, in {:.1f} s", path,
                 unpacked->entries, static_cast<double>(unpacked->bytes) / kMiB,
                 static_cast<double>(SteadyNowNs() - start) / kSecondNs);
  Value made = Make(files->path(), files);
  if (made.ok()) return made;
  return Status(made.status().code(), made.status().message() + " (unpacked from '" + path + "')");
}

EnvironmentStore::Value EnvironmentStore::Make(const std::string& folder,
                                               std::shared_ptr<TemporaryFolder> files) {
  WorkerSpawner::Options spawner = options_.spawner;
  BRAID_ASSIGN_OR_RETURN(spawner.python, FindInterpreter(folder));
  spawner.environment = EnvironmentVariables(environ, folder);
  return std::make_shared<PythonEnvironment>(std::move(spawner), std::move(files), support_);
}

}  // namespace braid
