#include "sequences/sequence_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/content_hash.h"

namespace braid {
namespace {

// The limit of an encoded name; the system allows 255 bytes for a whole file name.
constexpr size_t kMaxNameBytes = 160;
constexpr size_t kKeptBytes = 100;
constexpr std::string_view kProbe = ".writable";

Status Refused(const std::string& path, const std::string& why) {
  return InvalidArgumentError("the folder for sequence states '" + path + "' " + why);
}
Status Refused(const std::string& path, const std::string& why, int error_number) {
  return Refused(path, why + ": " + std::generic_category().message(error_number));
}

// Tries to write, because permissions do not show everything (a read-only file system, a quota).
Status CheckWritable(const std::string& path, const UniqueFd& folder) {
  ::unlinkat(folder.get(), kProbe.data(), 0);
  const UniqueFd file(
      ::openat(folder.get(), kProbe.data(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return Refused(path, "cannot be written", errno);
  ::unlinkat(folder.get(), kProbe.data(), 0);
  return OkStatus();
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

std::string Encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    // A leading dot would hide the file.
    if (IsPlain(c) && !(encoded.empty() && c == '.')) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

}  // namespace

Result<SequenceFolder> SequenceFolder::Open(const std::string& path) {
  if (path.empty()) return InvalidArgumentError("the folder for sequence states has no name");
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Refused(path, "cannot be created", errno);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return errno == ENOTDIR ? Refused(path, "is not a folder") : Refused(path, "cannot be opened", errno);
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Refused(path, "is used by another server")
                                : Refused(path, "cannot be locked", errno);
  }
  BRAID_RETURN_IF_ERROR(CheckWritable(path, fd));
  std::error_code fault;
  std::string absolute = std::filesystem::absolute(path, fault).lexically_normal().string();
  if (fault) absolute = path;
  if (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return SequenceFolder(std::move(absolute), std::move(fd));
}

std::string SequenceFolder::NameOf(std::string_view model, int64_t version) {
  std::string name = Encode(model);
  if (name.size() > kMaxNameBytes) {
    ContentHash hash;
    hash.AddText(model);
    // Encoded names do not contain this character.
    name = name.substr(0, kKeptBytes) + "~" + hash.text();
  }
  return name + "." + std::to_string(version) + ".sequences";
}

Status SequenceFolder::Remove(const std::string& name) const {
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0) {
    return errno == ENOENT ? OkStatus() : ErrnoError("remove", errno);
  }
  return ::fsync(fd_.get()) == 0 ? OkStatus() : ErrnoError("fsync of the folder", errno);
}

Status SequenceFolder::SetAside(const std::string& name, std::string_view suffix) const {
  const std::string aside = name + std::string(suffix);
  if (::renameat(fd_.get(), name.c_str(), fd_.get(), aside.c_str()) != 0) {
    return errno == ENOENT ? OkStatus() : ErrnoError("rename", errno);
  }
  return ::fsync(fd_.get()) == 0 ? OkStatus() : ErrnoError("fsync of the folder", errno);
}

}  // namespace braid
