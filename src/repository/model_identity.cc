#include "repository/model_identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/content_hash.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "repository/config_plan.h"
#include "repository/model_folders.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {
namespace {

constexpr size_t kMaxFiles = 100000;
constexpr size_t kMaxFolderDepth = 16;
constexpr size_t kReadBytes = size_t{1} << 20;
// Log the duration if it is at least this long.
constexpr int64_t kLongNs = 1000 * kMillisecondNs;

class FilesHash {
 public:
  explicit FilesHash(ContentHash& hash) : hash_(hash), piece_(kReadBytes) {}

  Status Add(const std::string& path) {
    std::error_code fault;
    if (std::filesystem::is_regular_file(path, fault)) {
      for (const std::string& name : FilesOfVersionFile(path)) {
        const std::string where = (std::filesystem::path(path).parent_path() / name).string();
        const UniqueFd file(::open(where.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        if (!file.valid()) return ErrnoError("failed to read " + where, errno);
        hash_.AddText(name);
        BRAID_RETURN_IF_ERROR(AddFile(file, where));
      }
      return OkStatus();
    }
    UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return ErrnoError("failed to open folder " + path, errno);
    return AddFolder(std::move(folder), path, 0);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  // Adds the folder's contents, sorted by name, with its subfolders.
  Status AddFolder(UniqueFd folder, const std::string& path, size_t depth) {
    if (depth > kMaxFolderDepth) return InternalError("failed to read " + path + ": it is nested too deeply");
    BRAID_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(folder, path));
    for (const std::string& name : names) {
      const std::string where = path + "/" + name;
      hash_.AddText(name);
      // O_NONBLOCK: opening a pipe must not block.
      UniqueFd entry(::openat(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      // Skip broken links and sockets.
      if (!entry.valid() && (errno == ENOENT || errno == ELOOP || errno == ENXIO)) continue;
      struct stat info = {};
      if (!entry.valid() || ::fstat(entry.get(), &info) != 0) {
        return ErrnoError("failed to read " + where, errno);
      }
      if (S_ISDIR(info.st_mode)) {
        hash_.AddText("{");
        BRAID_RETURN_IF_ERROR(AddFolder(std::move(entry), where, depth + 1));
        hash_.AddText("}");
      } else if (S_ISREG(info.st_mode)) {
        BRAID_RETURN_IF_ERROR(AddFile(entry, where));
      }
    }
    return OkStatus();
  }
  Result<std::vector<std::string>> List(const UniqueFd& folder, const std::string& path) {
    // A second descriptor, which the stream owns.
    UniqueFd again(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto close = [](DIR* dir) { ::closedir(dir); };
    const std::unique_ptr<DIR, decltype(close)> dir(again.valid() ? ::fdopendir(again.get()) : nullptr,
                                                    close);
    if (!dir) return ErrnoError("failed to list " + path, errno);
    (void)again.Release();  // closedir() closes it
    std::vector<std::string> names;
    for (errno = 0; const struct dirent* found = ::readdir(dir.get()); errno = 0) {
      const std::string name = found->d_name;
      if (IsIgnored(name)) continue;
      if (++entries_ > kMaxFiles) return InternalError("failed to list " + path + ": too many files");
      names.push_back(name);
    }
    if (errno != 0) return ErrnoError("failed to list " + path, errno);
    std::sort(names.begin(), names.end());
    return names;
  }
  // The size follows the bytes, so that it marks their end.
  Status AddFile(const UniqueFd& file, const std::string& path) {
    uint64_t size = 0;
    for (;;) {
      const ssize_t got = ::read(file.get(), piece_.data(), piece_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoError("failed to read " + path, errno);
      if (got == 0) break;
      hash_.Add(piece_.data(), static_cast<size_t>(got));
      size += static_cast<uint64_t>(got);
    }
    hash_.Add(&size, sizeof(size));
    bytes_ += size;
    return OkStatus();
  }

  ContentHash& hash_;
  std::vector<char> piece_;
  size_t entries_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

std::string IdentityOfModel(const std::string& version_path, std::string_view states, const std::string& who,
                            Logger& log) {
  const int64_t begin_ns = SteadyNowNs();
  ContentHash hash;
  hash.AddText(states);
  FilesHash files(hash);
  if (Status added = files.Add(version_path); !added.ok()) {
    BRAID_LOG_ERROR(log, "{}: its sequences will not be kept: {}", who, added.message());
    return {};
  }
  if (const int64_t took_ns = SteadyNowNs() - begin_ns; took_ns >= kLongNs) {
    BRAID_LOG_INFO(log, "{}: read {} MiB of files in {} ms to identify its sequences", who,
                   files.bytes() >> 20, took_ns / kMillisecondNs);
  }
  return hash.text();
}

std::string DescribeStates(const StatefulSpec& spec) {
  std::string text = "config.json";
  for (const StateSpec& state : spec.states) {
    text += fmt::format("\n{}:{} {}{}", state.name.size(), state.name, WireName(state.type),
                        ShapeToString(state.shape));
  }
  return text;
}

std::string DescribeStates(const inference::ModelConfig& config) {
  inference::ModelConfig part;
  part.set_backend(config.backend());
  part.set_platform(config.platform());
  part.set_default_model_filename(config.default_model_filename());
  part.set_max_batch_size(config.max_batch_size());
  *part.mutable_parameters() = config.parameters();
  *part.mutable_sequence_batching()->mutable_state() = config.sequence_batching().state();
  std::string text = "config.pbtxt\n";
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream coded(&stream);
    // Otherwise map entries have no fixed order.
    coded.SetSerializationDeterministic(true);
    part.SerializeToCodedStream(&coded);
  }
  return text;
}

}  // namespace braid
