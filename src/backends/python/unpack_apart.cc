#include "backends/python/unpack_apart.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "isolation/confinement.h"
#include "isolation/start_program.h"

namespace braid {
namespace {

constexpr int kArchive = 3;
constexpr int kLookMs = 200;
constexpr int64_t kTellNs = 100'000'000;
constexpr size_t kMostText = 64 << 10;
// The first letter of the process's lines: progress, the end, or an error.
constexpr char kProgress = 'P';
constexpr char kDone = 'D';
constexpr char kError = 'E';

bool Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

std::string Line(char kind, const UnpackProgress& progress) {
  return fmt::format("{} {} {} {}\n", kind, progress.archive_bytes, progress.bytes, progress.entries);
}

std::optional<UnpackProgress> Numbers(std::string_view text) {
  UnpackProgress progress;
  for (uint64_t* number : {&progress.archive_bytes, &progress.bytes, &progress.entries}) {
    if (!text.starts_with(' ')) return std::nullopt;
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return text.empty() ? std::optional(progress) : std::nullopt;
}

// Reads the process's reports until it has ended.
class Telling {
 public:
  Telling(UniqueFd pipe, const UnpackReport& report) : pipe_(std::move(pipe)), report_(report) {}

  Result<UnpackProgress> Hear() {
    while (true) {
      pollfd wait{pipe_.get(), POLLIN, 0};
      const int ready = ::poll(&wait, 1, kLookMs);
      if (ready < 0 && errno != EINTR) return ErrnoError("poll", errno);
      if (ready > 0) {
        char block[4096];
        const ssize_t length = ::read(pipe_.get(), block, sizeof(block));
        if (length < 0 && errno != EINTR) return ErrnoError("read", errno);
        if (length == 0) return End();
        if (length > 0) text_.append(block, static_cast<size_t>(length));
        if (text_.size() > kMostText) return InternalError("its unpacking process sent too much output");
        TakeLines();
      }
      BRAID_RETURN_IF_ERROR(report_(progress_));
    }
  }

 private:
  void TakeLines() {
    while (text_.starts_with(kProgress) || text_.starts_with(kDone)) {
      const size_t end = text_.find('\n');
      if (end == std::string::npos) return;
      if (const auto numbers = Numbers(std::string_view(text_).substr(1, end - 1))) progress_ = *numbers;
      done_ = text_.starts_with(kDone);
      text_.erase(0, end + 1);
    }
  }

  Result<UnpackProgress> End() {
    if (done_ && text_.empty()) return progress_;
    if (text_.starts_with(kError)) return InternalError(text_.substr(1));
    return InternalError("its unpacking process ended early");
  }

  const UniqueFd pipe_;
  const UnpackReport& report_;
  std::string text_;
  UnpackProgress progress_;
  bool done_ = false;
};

}  // namespace

Result<UnpackProgress> UnpackApart(const std::string& program, ChildReaper& reaper, int archive_fd,
                                   const std::string& folder, const UnpackLimits& limits,
                                   const UnpackReport& report) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  pid_t pid = 0;
  {
    const ChildReaper::SpawnScope scope(reaper);
    BRAID_ASSIGN_OR_RETURN(
        pid,
        StartProgram({.arguments = {program, "unpack-environment", folder, std::to_string(limits.max_bytes),
                                    limits.max_bytes_option, std::to_string(limits.max_entries)},
                      .variables = {},
                      .descriptors = {null.get(), write_end.get(), null.get(), archive_fd}}));
    BRAID_RETURN_IF_ERROR(reaper.Watch(pid, [](ExitCause) {}));
  }
  write_end.Reset();
  Result<UnpackProgress> unpacked = Telling(std::move(read_end), report).Hear();
  if (!unpacked.ok()) reaper.Kill(pid, SIGKILL);
  return unpacked;
}

int RunUnpackEnvironment(int argc, const char* const* argv) {
  constexpr int kArguments = 6;
  if (argc != kArguments) return 1;
  const std::string folder = argv[2];
  UnpackLimits limits{.max_bytes_option = argv[4]};
  const auto read = [](std::string_view text, uint64_t& number) {
    std::from_chars(text.data(), text.data() + text.size(), number);
  };
  read(argv[3], limits.max_bytes);
  read(argv[5], limits.max_entries);
  int64_t told_ns = 0;
  const auto tell = [&told_ns](const UnpackProgress& progress) {
    const int64_t now = SteadyNowNs();
    if (now - told_ns < kTellNs) return OkStatus();
    told_ns = now;
    // If the reader is gone, the result is not needed.
    return Write(Line(kProgress, progress)) ? OkStatus() : CancelledError("no longer needed");
  };
  // Opened again, by its name among this process's descriptors.
  Status status = ConfineProcess({{folder, true}, {fmt::format("/proc/self/fd/{}", kArchive)}});
  if (status.ok()) {
    const Result<UnpackProgress> unpacked = UnpackArchive(kArchive, folder, limits, tell);
    if (unpacked.ok()) return Write(Line(kDone, *unpacked)) ? 0 : 1;
    status = unpacked.status();
  }
  Write(kError + status.message());
  return 1;
}

}  // namespace braid
