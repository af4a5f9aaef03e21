#include "backends/python/environment_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace braid {
namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kMaxPathBytes = 4096;
// The most entries and bytes between two reports.
constexpr uint64_t kReportEntries = 256;
constexpr uint64_t kReportBytes = 4 << 20;

// libarchive converts names to the character set of the thread's locale. The process's locale may be C, which
// has no letters beyond ASCII.
class Utf8Locale {
 public:
  Utf8Locale() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = ::uselocale(locale_);
  }
  ~Utf8Locale() {
    if (locale_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t locale_;
  locale_t before_ = nullptr;
};

// A name of an archive, taken apart: "./a//b/" is a, b.
Result<std::vector<std::string>> Parts(std::string_view name) {
  if (name.size() > kMaxPathBytes) return InternalError("its name is too long");
  if (name.starts_with('/')) return InternalError("its name is an absolute path");
  std::vector<std::string> parts;
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    if (part == "..") return InternalError("its name contains '..'");
    if (!part.empty() && part != ".") parts.emplace_back(part);
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return parts;
}

class Unpacker {
 public:
  Unpacker(archive& source, UniqueFd root, const UnpackLimits& limits, const UnpackReport& report)
      : source_(source), root_(std::move(root)), limits_(limits), report_(report) {}

  Result<UnpackProgress> Run() {
    while (true) {
      archive_entry* entry = nullptr;
      const int outcome = archive_read_next_header(&source_, &entry);
      if (outcome == ARCHIVE_EOF) break;
      // A warning is about a detail of the entry that cannot be kept; the name is checked below.
      if (outcome < ARCHIVE_WARN) return SourceError();
      const char* name = archive_entry_pathname(entry);
      if (name == nullptr) return InternalError("an entry has an invalid name");
      const Status made = Make(entry, name);
      if (!given_up_.ok()) return given_up_;
      if (!made.ok()) return made.WithPrefix("entry '" + std::string(name) + "': ");
      BRAID_RETURN_IF_ERROR(Report());
    }
    done_.archive_bytes = BytesRead();
    return done_;
  }

 private:
  Status SourceError() {
    const char* text = archive_error_string(&source_);
    return InternalError(text != nullptr ? text : "it cannot be read");
  }

  uint64_t BytesRead() {
    return static_cast<uint64_t>(std::max<la_int64_t>(archive_filter_bytes(&source_, -1), 0));
  }

  // Reports if enough has happened since the last report.
  Status Report() {
    if (done_.entries - reported_.entries < kReportEntries && done_.bytes - reported_.bytes < kReportBytes)
      return OkStatus();
    done_.archive_bytes = BytesRead();
    reported_ = done_;
    given_up_ = report_(done_);
    return given_up_;
  }

  // Counts everything that takes an inode.
  Status CountEntry() {
    if (done_.entries == limits_.max_entries) {
      return InternalError("the archive has more than " + std::to_string(limits_.max_entries) + " entries");
    }
    ++done_.entries;
    return OkStatus();
  }

  Status CheckBytes(uint64_t more) const {
    if (more <= limits_.max_bytes - done_.bytes) return OkStatus();
    return InternalError("the files in the archive exceed " + std::to_string(limits_.max_bytes) + " bytes; " +
                         limits_.max_bytes_option + " sets the limit");
  }

  Status Make(archive_entry* entry, std::string_view name) {
    BRAID_ASSIGN_OR_RETURN(std::vector<std::string> parts, Parts(name));
    const auto type = archive_entry_filetype(entry);
    const char* hard_link = archive_entry_hardlink(entry);
    if (hard_link == nullptr && type == AE_IFDIR) return OpenFolder(parts, true).status();
    if (parts.empty()) return InternalError("its name does not name a file");
    const std::string last = std::move(parts.back());
    parts.pop_back();
    BRAID_ASSIGN_OR_RETURN(const int parent, OpenFolder(parts, true));
    BRAID_RETURN_IF_ERROR(CountEntry());
    // A later entry replaces an earlier one of the same name, as in other tools. The earlier one is unlinked,
    // never written to: it may be a link.
    if (::unlinkat(parent, last.c_str(), 0) != 0 && errno != ENOENT)
      return ErrnoError("cannot replace the existing entry", errno);
    if (hard_link != nullptr) return MakeHardLink(hard_link, parent, last);
    switch (type) {
      case AE_IFREG:
        return MakeFile(entry, parent, last);
      case AE_IFLNK:
        return MakeSymbolicLink(entry, parent, last);
      default:
        return InternalError("it is not a file, folder or link");
    }
  }

  // Opens the folder of these names beneath the root; creates it if `make` is set. No part of the path is a
  // symbolic link. This object owns the descriptor, which is valid until the next call.
  Result<int> OpenFolder(const std::vector<std::string>& parts, bool make) {
    if (parts.empty()) return root_.get();
    if (folder_.valid() && parts == folder_parts_) return folder_.get();
    UniqueFd folder;
    for (const std::string& part : parts) {
      const int above = folder.valid() ? folder.get() : root_.get();
      if (make) {
        if (::mkdirat(above, part.c_str(), 0700) == 0) {
          BRAID_RETURN_IF_ERROR(CountEntry());
        } else if (errno != EEXIST) {
          return ErrnoError("cannot create folder '" + part + "'", errno);
        }
      }
      UniqueFd next(::openat(above, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next.valid()) {
        if (errno == ENOTDIR || errno == ELOOP) {
          return InternalError("its parent '" + part + "' is a symbolic link or a file");
        }
        return ErrnoError("cannot open its parent folder '" + part + "'", errno);
      }
      folder = std::move(next);
    }
    folder_ = std::move(folder);
    folder_parts_ = parts;
    return folder_.get();
  }

  Status MakeSymbolicLink(archive_entry* entry, int parent, const std::string& name) {
    const char* target = archive_entry_symlink(entry);
    if (target == nullptr || *target == '\0') return InternalError("its link target is empty");
    if (::symlinkat(target, parent, name.c_str()) != 0) return ErrnoError("cannot create the link", errno);
    return OkStatus();
  }

  Status MakeHardLink(const char* target, int parent, const std::string& name) {
    auto parts = Parts(target);
    if (!parts.ok() || parts->empty())
      return InternalError("it is a hard link to '" + std::string(target) + "', outside the archive");
    const std::string last = std::move(parts->back());
    parts->pop_back();
    // Duplicated, since OpenFolder() below closes its previous result.
    const UniqueFd here(::fcntl(parent, F_DUPFD_CLOEXEC, 0));
    auto there = OpenFolder(*parts, false);
    struct stat info = {};
    if (!there.ok() || ::fstatat(*there, last.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(info.st_mode) || S_ISLNK(info.st_mode))) {
      return InternalError("it is a hard link to '" + std::string(target) +
                           "', which is not an earlier file of the archive");
    }
    if (::linkat(*there, last.c_str(), here.get(), name.c_str(), 0) != 0)
      return ErrnoError("cannot create the hard link", errno);
    return OkStatus();
  }

  Status MakeFile(archive_entry* entry, int parent, const std::string& name) {
    const bool sized = archive_entry_size_is_set(entry) != 0;
    const auto size = sized ? static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0)) : 0;
    BRAID_RETURN_IF_ERROR(CheckBytes(size));
    const UniqueFd file(
        ::openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return ErrnoError("cannot create the file", errno);
    BRAID_ASSIGN_OR_RETURN(const uint64_t written, WriteData(file.get()));
    if (written < size) {
      // The file ends with a hole.
      if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
        return ErrnoError("cannot write the file", errno);
      done_.bytes += size - written;
    }
    const mode_t mode = (archive_entry_perm(entry) & 0755u) | S_IRUSR | S_IWUSR;
    timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    if (archive_entry_mtime_is_set(entry) != 0)
      times[1] = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
    if (::fchmod(file.get(), mode) != 0 || ::futimens(file.get(), times) != 0)
      return ErrnoError("cannot set the file's permissions and time", errno);
    return OkStatus();
  }

  // Returns the end of the last byte written, holes included; the bytes are counted on the way.
  Result<uint64_t> WriteData(int file) {
    uint64_t end = 0;
    while (true) {
      const void* block = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int outcome = archive_read_data_block(&source_, &block, &size, &offset);
      if (outcome == ARCHIVE_EOF) return end;
      if (outcome != ARCHIVE_OK) return SourceError();
      if (size == 0) continue;
      if (offset < 0 || static_cast<uint64_t>(offset) < end) return InternalError("its data is out of order");
      BRAID_RETURN_IF_ERROR(CheckBytes(static_cast<uint64_t>(offset) - end));
      BRAID_RETURN_IF_ERROR(CheckBytes(static_cast<uint64_t>(offset) - end + size));
      const auto* data = static_cast<const char*>(block);
      for (size_t done = 0; done < size;) {
        const ssize_t count = ::pwrite(file, data + done, size - done, offset + static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return ErrnoError("cannot write the file", errno);
        done += static_cast<size_t>(count);
      }
      done_.bytes += static_cast<uint64_t>(offset) + size - end;
      end = static_cast<uint64_t>(offset) + size;
      BRAID_RETURN_IF_ERROR(Report());
    }
  }

  archive& source_;
  const UniqueFd root_;
  const UnpackLimits& limits_;
  const UnpackReport& report_;
  UnpackProgress done_;
  UnpackProgress reported_;
  Status given_up_;  // an error of report_, not of the current entry
  // The last folder used: neighbouring entries are often in the same one.
  UniqueFd folder_;
  std::vector<std::string> folder_parts_;
};

}  // namespace

Result<UnpackProgress> UnpackArchive(int archive_fd, const std::string& folder, const UnpackLimits& limits,
                                     const UnpackReport& report) {
  const Utf8Locale locale;
  auto close = [](archive* a) { archive_read_free(a); };
  const std::unique_ptr<archive, decltype(close)> source(archive_read_new(), close);
  if (!source) return InternalError("not enough memory to read the archive");
  // Enables filters one by one: some of libarchive's filters run programs.
  archive_read_support_filter_gzip(source.get());
  archive_read_support_filter_bzip2(source.get());
  archive_read_support_filter_xz(source.get());
  archive_read_support_filter_zstd(source.get());
  archive_read_support_format_tar(source.get());
  archive_read_support_format_zip_seekable(source.get());
  // Opened by path, so that libarchive can seek: a zip file has permissions and links at its end.
  const std::string path = "/proc/self/fd/" + std::to_string(archive_fd);
  if (archive_read_open_filename(source.get(), path.c_str(), kReadBytes) != ARCHIVE_OK) {
    const char* text = archive_error_string(source.get());
    return InternalError(text != nullptr ? text : "it cannot be read");
  }
  UniqueFd root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.valid()) return ErrnoError("failed to open " + folder, errno);
  return Unpacker(*source, std::move(root), limits, report).Run();
}

}  // namespace braid
