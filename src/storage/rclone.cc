#include "storage/rclone.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <string_view>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "base/utf8.h"
#include "config/folder.h"
#include "isolation/start_program.h"

namespace braid {
namespace {

constexpr int kRcloneLookMs = 100;
constexpr size_t kMostListingBytes = size_t{256} << 20;
constexpr size_t kMostLogBytes = size_t{1} << 20;
constexpr size_t kMostReasonBytes = 2000;
constexpr int kNoBucket = 3;  // its exit code

// rclone's log line that names no credentials: the SDKs of S3 and of Google.
bool FoundNoCredentials(std::string_view reason) {
  return reason.find("NoCredentialProviders") != std::string_view::npos ||
         reason.find("could not find default credentials") != std::string_view::npos;
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// The lines that rclone logs: statistics each second, errors, and at its end a plain text.
class RcloneLog {
 public:
  explicit RcloneLog(const std::vector<std::string>& secrets) : secrets_(secrets) {}

  void Take(std::string_view text) {
    text_ += text;
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      TakeLine(std::string_view(text_).substr(0, end));
      text_.erase(0, end + 1);
    }
    if (text_.size() > kMostLogBytes) text_.clear();
  }

  const CopyProgress& progress() const { return progress_; }
  // Changes whenever rclone has done something.
  uint64_t activity() const { return activity_; }
  // The errors, without credentials.
  const std::string& reason() const { return reason_; }

 private:
  void TakeLine(std::string_view line) {
    if (!line.starts_with('{')) {
      // Its last words: a line with the time, and lines with causes.
      const size_t begin = line.find("Failed to ");
      if (begin != std::string_view::npos && reason_.empty()) AddReason(line.substr(begin));
      if (line.starts_with("caused by: ")) AddReason(line);
      return;
    }
    const Json json = ParseJson(line);
    if (!json.is_object()) return;
    if (const auto stats = json.find("stats"); stats != json.end() && stats->is_object()) {
      progress_ = {Number(*stats, "bytes"), Number(*stats, "totalBytes")};
      activity_ = progress_.bytes + Number(*stats, "transfers") + Number(*stats, "checks");
      return;
    }
    const auto level = json.find("level");
    const auto message = json.find("msg");
    if (level == json.end() || message == json.end() || !message->is_string() || *level != "error") return;
    const auto object = json.find("object");
    const std::string name =
        object != json.end() && object->is_string() ? object->get<std::string>() : std::string();
    AddReason((name.empty() ? "" : name + ": ") + message->get<std::string>());
  }

  static uint64_t Number(const Json& stats, const char* key) {
    const auto found = stats.find(key);
    return found != stats.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  }

  void AddReason(std::string_view text) {
    std::string clean(text);
    for (const std::string& secret : secrets_) {
      for (size_t at = clean.find(secret); at != std::string::npos; at = clean.find(secret, at + 3))
        clean.replace(at, secret.size(), "***");
    }
    // Signatures of URLs.
    for (size_t at = clean.find("sig="); at != std::string::npos; at = clean.find("sig=", at + 4))
      clean.replace(at + 4, clean.find_first_of("&\" \n", at) - at - 4, "***");
    std::ranges::replace(clean, '\n', ' ');
    if (reason_.find(clean) != std::string::npos || reason_.size() > kMostReasonBytes) return;
    reason_ += (reason_.empty() ? "" : "; ") + Shortened(clean, kMostReasonBytes);
  }

  const std::vector<std::string>& secrets_;
  std::string text_;
  std::string reason_;
  CopyProgress progress_;
  uint64_t activity_ = 0;
};

}  // namespace

bool IsPlainObjectName(std::string_view path) {
  if (!IsPlainRelativePath(path)) return false;
  if (path.size() >= PATH_MAX / 2) return false;
  // U+2400 to U+2421 stand for control characters, U+FF0F for a slash, U+201B quotes such a character.
  for (size_t at = path.find('\xe2'); at != std::string_view::npos; at = path.find('\xe2', at + 1)) {
    const std::string_view character = path.substr(at, 3);
    if (character == "\xe2\x80\x9b" || (character >= "\xe2\x90\x80" && character <= "\xe2\x90\xa1"))
      return false;
  }
  if (path.find("\xef\xbc\x8f") != std::string_view::npos) return false;
  for (std::string_view rest = path; !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    // U+FF0E stands for a dot.
    if (part == "\xef\xbc\x8e" || part == "\xef\xbc\x8e\xef\xbc\x8e" || part.size() > NAME_MAX) return false;
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  return true;
}

Status CheckNames(const Listing& listing) {
  for (const auto& [path, object] : listing) {
    if (!IsPlainObjectName(path)) {
      return InvalidArgumentError("the object '" + Shortened(path) +
                                  "' has a name that no file of a model can have");
    }
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      if (listing.contains(path.substr(0, slash))) {
        return InvalidArgumentError("the object '" + Shortened(path.substr(0, slash)) +
                                    "' is also the folder of another object");
      }
    }
  }
  return OkStatus();
}

Result<Listing> ParseListing(std::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_array()) return InternalError("rclone has not listed the objects as JSON");
  Listing listing;
  for (const Json& entry : json) {
    const auto path = entry.find("Path");
    const auto size = entry.find("Size");
    const auto modified = entry.find("ModTime");
    if (path == entry.end() || !path->is_string() || size == entry.end() || !size->is_number_unsigned() ||
        modified == entry.end() || !modified->is_string())
      return InternalError("rclone has listed an object without its path, size or time");
    StoredObject object{size->get<uint64_t>(), modified->get<std::string>(), ""};
    if (const auto hashes = entry.find("Hashes"); hashes != entry.end() && hashes->is_object()) {
      if (const auto md5 = hashes->find("md5"); md5 != hashes->end() && md5->is_string())
        object.md5 = md5->get<std::string>();
    }
    listing.emplace(path->get<std::string>(), std::move(object));
  }
  return listing;
}

Result<Listing> Rclone::List(const RcloneRemote& remote) {
  BRAID_ASSIGN_OR_RETURN(const std::string text,
                         Run(remote,
                             {"lsjson", "--recursive", "--files-only", "--hash", "--hash-type=md5",
                              "--no-mimetype", "--use-server-modtime", "--fast-list", remote.place},
                             "", {}));
  return ParseListing(text);
}

Result<std::vector<std::string>> Rclone::ListFolders(const RcloneRemote& remote) {
  BRAID_ASSIGN_OR_RETURN(
      const std::string text,
      Run(remote, {"lsjson", "--dirs-only", "--no-mimetype", "--no-modtime", remote.place}, "", {}));
  const Json json = ParseJson(text);
  if (!json.is_array()) return InternalError("rclone has not listed the folders as JSON");
  std::vector<std::string> names;
  for (const Json& entry : json) {
    const auto path = entry.find("Path");
    if (path == entry.end() || !path->is_string())
      return InternalError("rclone has listed a folder without its path");
    names.push_back(path->get<std::string>());
  }
  return names;
}

Status Rclone::Copy(const RcloneRemote& remote, const std::vector<std::string>& files,
                    const std::string& folder, const OnProgress& progress) {
  std::string names;
  for (const std::string& file : files) names += file + "\n";
  return Run(remote,
             {"copy", "--files-from-raw=-", "--no-traverse", "--ignore-times", "--use-server-modtime",
              remote.place, folder},
             names, progress)
      .status();
}

Result<std::string> Rclone::FindProgram() const {
  for (std::string_view rest = options_.path; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string program = std::string(rest.substr(0, end)) + "/rclone";
    if (program.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return FailedPreconditionError(
      "object storage needs the program rclone, which is not on the PATH; install Debian's package rclone");
}

Result<std::string> Rclone::Run(const RcloneRemote& remote, std::vector<std::string> arguments,
                                const std::string& input, const OnProgress& progress) {
  BRAID_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  // Shorter than the limit here, so that rclone can try again.
  const std::string connect = fmt::format("--contimeout={}ms", options_.timeout_ns / kMillisecondNs / 4);
  const std::string idle = fmt::format("--timeout={}ms", options_.timeout_ns / kMillisecondNs / 2);
  arguments.insert(arguments.begin(), program);
  // An empty name of a configuration file means none.
  for (const char* option :
       {"--config=", "--use-json-log", "--log-level=NOTICE", "--stats=1s", "--stats-log-level=NOTICE",
        "--ask-password=false", "--retries=1", "--low-level-retries=3", connect.c_str(), idle.c_str()})
    arguments.emplace_back(option);
  if (!remote.ca_file.empty()) arguments.push_back("--ca-cert=" + remote.ca_file);
  auto done = RunOnce(remote, remote.variables, arguments, input, progress);
  if (done.ok() || remote.anonymous.empty() || !FoundNoCredentials(done.status().message())) return done;
  // A public bucket needs none.
  Variables variables = remote.variables;
  for (const auto& [name, value] : remote.anonymous) variables[name] = value;
  auto again = RunOnce(remote, variables, arguments, input, progress);
  if (again.ok()) return again;
  return Status(again.status().code(), again.status().message() + " (no credentials were found)");
}

Result<std::string> Rclone::RunOnce(const RcloneRemote& remote, const Variables& variables,
                                    const std::vector<std::string>& arguments, const std::string& input,
                                    const OnProgress& progress) {
  if (stopping_.load(std::memory_order_relaxed)) return UnavailableError("Server exiting");
  BRAID_ASSIGN_OR_RETURN(const auto support, options_.support());
  ChildReaper& reaper = *support->reaper;
  const UniqueFd in(::memfd_create("names", MFD_CLOEXEC));
  if (!in.valid() || !WriteAll(in.get(), input) || ::lseek(in.get(), 0, SEEK_SET) != 0)
    return ErrnoError("the list of files", errno);
  std::array<UniqueFd, 2> reading;
  std::array<UniqueFd, 2> writing;
  for (size_t i = 0; i < reading.size(); ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
    reading[i].Reset(ends[0]);
    writing[i].Reset(ends[1]);
  }
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  const auto ended = std::make_shared<std::promise<ExitCause>>();
  std::future<ExitCause> end = ended->get_future();
  pid_t pid = 0;
  {
    const ChildReaper::SpawnScope scope(reaper);
    BRAID_ASSIGN_OR_RETURN(pid, StartProgram({.arguments = arguments,
                                              .variables = std::move(texts),
                                              .descriptors = {in.get(), writing[0].get(), writing[1].get()},
                                              .ends_with_thread = true}));
    BRAID_RETURN_IF_ERROR(reaper.Watch(pid, [ended](ExitCause cause) { ended->set_value(cause); }));
  }
  for (UniqueFd& each : writing) each.Reset();

  std::string output;
  RcloneLog lines(remote.secrets);
  uint64_t seen = 0;
  int64_t active_ns = SteadyNowNs();
  Status stopped;
  while (stopped.ok() && (reading[0].valid() || reading[1].valid())) {
    std::array<pollfd, 2> waits = {pollfd{reading[0].get(), POLLIN, 0}, pollfd{reading[1].get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), kRcloneLookMs) < 0 && errno != EINTR)
      stopped = ErrnoError("poll", errno);
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0 || !reading[i].valid()) continue;
      std::array<char, 65536> block;
      const ssize_t length = ::read(reading[i].get(), block.data(), block.size());
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) {
        reading[i].Reset();
        continue;
      }
      const std::string_view text(block.data(), static_cast<size_t>(length));
      if (i == 0) {
        output += text;
      } else {
        lines.Take(text);
        if (progress) progress(lines.progress());
      }
    }
    const int64_t now = SteadyNowNs();
    const uint64_t activity = output.size() + lines.activity();
    if (activity != seen) active_ns = now;
    seen = activity;
    if (output.size() > kMostListingBytes)
      stopped = ResourceExhaustedError("the list of objects is too long");
    if (now - active_ns > options_.timeout_ns) {
      stopped = UnavailableError(fmt::format("rclone has made no progress in {} s ({}){}{}",
                                             options_.timeout_ns / kSecondNs, options_.timeout_option,
                                             lines.reason().empty() ? "" : ": ", lines.reason()));
    }
    if (stopping_.load(std::memory_order_relaxed)) stopped = UnavailableError("Server exiting");
  }
  if (!stopped.ok()) reaper.Kill(pid, SIGKILL);
  // It has closed its output, or was killed.
  if (end.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
    reaper.Kill(pid, SIGKILL);
    return InternalError("rclone does not end");
  }
  if (!stopped.ok()) return stopped;
  const ExitCause cause = end.get();
  if (!cause.signalled && cause.number == 0) {
    if (!lines.reason().empty()) BRAID_LOG_WARNING(log_, "rclone: {}", lines.reason());
    return output;
  }
  const std::string reason = lines.reason().empty() ? cause.ToString() : lines.reason();
  if (!cause.signalled && cause.number == kNoBucket)
    return FailedPreconditionError("there is no such bucket or container (" + reason + ")");
  return UnavailableError("rclone: " + reason);
}

}  // namespace braid
