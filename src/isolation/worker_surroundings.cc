#include "isolation/worker_surroundings.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 32> kReadable = {"/usr",
                                                   "/bin",
                                                   "/sbin",
                                                   "/lib",
                                                   "/lib32",
                                                   "/lib64",
                                                   "/libx32",
                                                   "/etc/alternatives",
                                                   "/etc/ld.so.cache",
                                                   "/etc/ld.so.conf",
                                                   "/etc/ld.so.conf.d",
                                                   "/etc/ld.so.preload",
                                                   "/etc/localtime",
                                                   "/etc/timezone",
                                                   "/etc/passwd",
                                                   "/etc/group",
                                                   "/etc/nsswitch.conf",
                                                   "/etc/host.conf",
                                                   "/etc/hosts",
                                                   "/etc/gai.conf",
                                                   "/etc/resolv.conf",
                                                   "/etc/ssl/certs",
                                                   "/etc/ssl/openssl.cnf",
                                                   "/etc/mime.types",
                                                   "/etc/magic",
                                                   "/etc/fonts",
                                                   "/etc/OpenCL",
                                                   "/etc/os-release",
                                                   "/etc/debian_version",
                                                   "/proc",
                                                   "/sys",
                                                   "/dev/random"};
constexpr std::array<const char*, 5> kWritable = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom",
                                                  "/dev/shm"};

// Names, or prefixes that end with '*'.
constexpr std::array<std::string_view, 18> kVariables = {
    "PATH",        "LANG",         "LANGUAGE", "LC_*",    "TZ",    "PYTHON*", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CONDA_PREFIX", "OMP_*",    "GOMP_*",  "KMP_*", "MKL_*",   "OPENBLAS_*",
    "NUMEXPR_*",   "CUDA_*",       "NVIDIA_*", "MALLOC_*"};

bool Matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool IsKnown(const std::string& folder) {
  return std::any_of(kReadable.begin(), kReadable.end(), [&](std::string_view known) {
    return folder == known || folder.starts_with(std::string(known) + "/");
  });
}

// Whether the folder is a Python installation, and not for example a home folder with bin/python3.
bool HasPython(const fs::path& folder) {
  std::error_code fault;
  if (fs::exists(folder / "pyvenv.cfg", fault) || fs::exists(folder / "conda-meta", fault)) return true;
  for (const auto& entry : fs::directory_iterator(folder / "lib", fault)) {
    if (entry.path().filename().string().starts_with("python3")) return true;
  }
  return false;
}

}  // namespace

std::vector<LandlockPath> SystemPaths() {
  std::vector<LandlockPath> paths;
  for (const char* path : kReadable) paths.push_back({path, false});
  for (const char* path : kWritable) paths.push_back({path, true});
  return paths;
}

std::vector<LandlockPath> GpuPaths(const std::string& devices) {
  std::vector<LandlockPath> paths;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(devices, fault)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") || name == "dri") paths.push_back({entry.path().string(), true});
  }
  return paths;
}

std::vector<LandlockPath> InterpreterPaths(const std::string& python) {
  std::vector<LandlockPath> paths;
  if (python.empty()) return paths;
  std::error_code fault;
  for (const fs::path& program :
       {fs::absolute(python, fault).lexically_normal(), fs::canonical(python, fault)}) {
    const fs::path folder = program.parent_path().parent_path();
    if (folder.empty() || folder == folder.root_path() || IsKnown(folder.string())) continue;
    if (HasPython(folder)) paths.push_back({folder.string(), false});
  }
  return paths;
}

std::vector<LandlockPath> FolderPaths(const std::string& folder) {
  constexpr size_t kMostEntries = 100000;  // a link may lead to a huge folder
  std::vector<LandlockPath> paths = {{folder, false}};
  std::vector<fs::path> ahead = {folder};
  std::set<fs::path> seen;
  size_t entries = 0;
  while (!ahead.empty()) {
    const fs::path place = std::move(ahead.back());
    ahead.pop_back();
    std::error_code fault;
    if (!seen.insert(fs::canonical(place, fault)).second || fault) continue;
    for (fs::directory_iterator at(place, fault), end; !fault && at != end; at.increment(fault)) {
      if (++entries > kMostEntries) return paths;
      std::error_code ignored;
      if (at->is_symlink(ignored)) paths.push_back({at->path().string(), false});
      if (at->is_directory(ignored)) ahead.push_back(at->path());
    }
  }
  return paths;
}

std::vector<LandlockPath> ProgramPaths() {
  // The running file, even if another one has replaced it.
  std::vector<LandlockPath> paths = {{"/proc/self/exe", false}};
  std::error_code fault;
  const fs::path folder = fs::read_symlink("/proc/self/exe", fault).parent_path();
  std::set<std::string> folders;
  if (!folder.empty())
    folders = {(folder / "lib").string(), (folder.parent_path() / "lib" / "braid").string()};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const fs::path file(info->dlpi_name);
        if (file.is_absolute())
          static_cast<std::set<std::string>*>(found)->insert(file.parent_path().lexically_normal());
        return 0;
      },
      &folders);
  for (const std::string& each : folders) {
    if (!IsKnown(each) && fs::is_directory(each, fault)) paths.push_back({each, false});
  }
  return paths;
}

std::vector<std::string> ShortEnvironment(const std::vector<std::string>& variables,
                                          const std::vector<std::string>& more, const std::string& folder) {
  std::vector<std::string> kept = {"HOME=" + folder, "TMPDIR=" + folder};
  for (const std::string& variable : variables) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    if (name == "HOME" || name == "TMPDIR") continue;
    const auto matches = [name](std::string_view pattern) { return Matches(name, pattern); };
    if (std::any_of(kVariables.begin(), kVariables.end(), matches) ||
        std::find(more.begin(), more.end(), name) != more.end()) {
      kept.push_back(variable);
    }
  }
  return kept;
}

}  // namespace braid
