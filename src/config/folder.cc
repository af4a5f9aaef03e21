#include "config/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

namespace braid {
namespace {

constexpr size_t kMaxPathBytes = 4096;
constexpr size_t kMaxPathParts = 32;

// Returns "{what} {path}: No such file or directory", as NOT_FOUND if that is the reason.
Status OpenError(const std::string& what, const std::string& path, int error_number) {
  Status status = ErrnoError(what + " " + path, error_number);
  if (error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG) {
    return NotFoundError(status.message());
  }
  return status;
}

}  // namespace

Result<Folder> Folder::Open(const std::string& path) {
  std::error_code fault;
  std::string absolute = std::filesystem::absolute(path, fault).lexically_normal().string();
  if (fault) return ErrnoError("failed to open folder " + path, fault.value());
  if (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  UniqueFd fd(::open(absolute.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return OpenError("failed to open folder", path, errno);
  return Folder(std::move(absolute), std::move(fd));
}

// A path of plain names can lead out only through the operator's links.
Result<UniqueFd> Folder::OpenBeneath(const std::string& relative_path, int flags) const {
  return OpenBeneath(relative_path, flags,
                     RESOLVE_NO_MAGICLINKS | (IsPlainRelativePath(relative_path) ? 0 : RESOLVE_BENEATH));
}

Result<UniqueFd> Folder::OpenBeneath(const std::string& relative_path, int flags, uint64_t resolve) const {
  if (relative_path.size() > kMaxPathBytes || relative_path.find('\0') != std::string::npos) {
    return NotFoundError("failed to open: invalid path");
  }
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = resolve;
  // With a concurrent rename the kernel fails with EAGAIN; retry.
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, fd_.get(), relative_path.c_str(), &how, sizeof(how));
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    const int error_number = errno;
    if (error_number == EINTR || (error_number == EAGAIN && attempt < 16)) continue;
    const std::string path = path_ + "/" + relative_path;
    if (error_number == EXDEV) return InternalError("failed to open " + path + ": it is outside the folder");
    struct stat link = {};
    if (error_number == ENOENT &&
        ::fstatat(fd_.get(), relative_path.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(link.st_mode)) {
      return InternalError("failed to open " + path + ": it is a dangling symbolic link");
    }
    return OpenError("failed to open", path, error_number);
  }
}

Result<Folder> Folder::OpenFolder(const std::string& relative_path) const {
  BRAID_ASSIGN_OR_RETURN(UniqueFd fd, OpenBeneath(relative_path, O_RDONLY | O_DIRECTORY));
  return Folder(path_ + "/" + relative_path, std::move(fd));
}

Result<std::string> Folder::ReadFile(const std::string& relative_path, size_t max_bytes) const {
  // O_NONBLOCK: opening a pipe must not block.
  BRAID_ASSIGN_OR_RETURN(UniqueFd fd, OpenBeneath(relative_path, O_RDONLY | O_NONBLOCK));
  const std::string path = path_ + "/" + relative_path;
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoError("failed to read " + path, errno);
  if (!S_ISREG(info.st_mode)) return InternalError("failed to read " + path + ": it is not a regular file");
  std::string content;
  char piece[65536];
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("failed to read " + path, errno);
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > max_bytes) {
      return InternalError("failed to read " + path + ": it is larger than " + std::to_string(max_bytes) +
                           " bytes");
    }
    content.append(piece, static_cast<size_t>(got));
  }
}

bool Folder::HasFile(const std::string& relative_path) const {
  auto fd = OpenBeneath(relative_path, O_PATH);
  struct stat info = {};
  return fd.ok() && ::fstat(fd->get(), &info) == 0 && S_ISREG(info.st_mode);
}

Result<std::vector<Folder::Entry>> Folder::List(size_t max_entries) const {
  // A second descriptor, because threads would share the first one's read position.
  BRAID_ASSIGN_OR_RETURN(UniqueFd fd, OpenBeneath(".", O_RDONLY | O_DIRECTORY));
  auto close = [](DIR* dir) { ::closedir(dir); };
  std::unique_ptr<DIR, decltype(close)> dir(::fdopendir(fd.get()), close);
  if (!dir) return ErrnoError("failed to list " + path_, errno);
  (void)fd.Release();  // closedir() closes it
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const struct dirent* found = ::readdir(dir.get());
    if (found == nullptr) {
      if (errno != 0) return ErrnoError("failed to list " + path_, errno);
      break;
    }
    Entry entry;
    entry.name = found->d_name;
    if (entry.name == "." || entry.name == "..") continue;
    if (entries.size() == max_entries) {
      return InternalError("failed to list " + path_ + ": it has more than " + std::to_string(max_entries) +
                           " entries");
    }
    if (found->d_type == DT_DIR) {
      entry.kind = Kind::kFolder;
    } else if (found->d_type == DT_REG) {
      entry.kind = Kind::kFile;
    } else {
      auto target = OpenBeneath(entry.name, O_PATH);
      entry.fault = target.status();
      struct stat info = {};
      if (target.ok() && ::fstat(target->get(), &info) == 0) {
        entry.kind = S_ISDIR(info.st_mode)   ? Kind::kFolder
                     : S_ISREG(info.st_mode) ? Kind::kFile
                                             : Kind::kOther;
      }
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool Folder::Stat(const std::string& name, struct stat& result) const {
  return ::fstatat(fd_.get(), name.c_str(), &result, 0) == 0;
}

Status Folder::CreateFile(const std::string& relative_path, std::string_view content) const {
  BRAID_CHECK(IsPlainRelativePath(relative_path));
  const std::string path = path_ + "/" + relative_path;
  for (size_t slash = relative_path.find('/'); slash != std::string::npos;
       slash = relative_path.find('/', slash + 1)) {
    const std::string parent = relative_path.substr(0, slash);
    const size_t last = parent.rfind('/');
    Result<UniqueFd> above = OpenBeneath(last == std::string::npos ? "." : parent.substr(0, last),
                                         O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (!above.ok()) return above.status();
    const std::string name = last == std::string::npos ? parent : parent.substr(last + 1);
    if (::mkdirat(above->get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoError("failed to create the folder of " + path, errno);
    }
  }
  const size_t last = relative_path.rfind('/');
  BRAID_ASSIGN_OR_RETURN(UniqueFd above,
                         OpenBeneath(last == std::string::npos ? "." : relative_path.substr(0, last),
                                     O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
  const std::string name = last == std::string::npos ? relative_path : relative_path.substr(last + 1);
  UniqueFd file(
      ::openat(above.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoError("failed to create " + path, errno);
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError("failed to write " + path, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return OkStatus();
}

bool IsPlainRelativePath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  size_t parts = 0;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255 || ++parts > kMaxPathParts)
      return false;
    if (std::any_of(part.begin(), part.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f; })) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;  // a trailing slash
}

}  // namespace braid
