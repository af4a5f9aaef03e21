// The server's log. One Logger is made in server/ and passed down; two can live in one process.
//
//   BRAID_LOG_INFO(log, "loaded '{}' version {}", name, version);
//
// A line: level letter, month and day, UTC time, process id, source location, message:
//   I1121 06:45:12.123456 4711 catalog.cc:52] loaded 'add_sub' version 1
//
// Levels can be switched at run time from any thread. Text from outside is escaped, so that a message stays
// on one line. Messages with several lines, such as a traceback, keep them: lines after the first are
// indented, and no other line begins with a blank. A message of more than kMostLogged bytes is cut.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace spdlog::sinks {
class sink;
}

namespace braid {

inline constexpr size_t kMostLogged = size_t{64} << 10;

enum class LogLevel : unsigned char { kInfo = 0, kWarning = 1, kError = 2, kVerbose = 3 };

// One message, while it is being written.
struct LogLine {
  int64_t at_ms = 0;              // since 1970
  std::optional<LogLevel> level;  // nothing: printed by user code
  std::string_view model;         // the model that the message is about; empty: none
  std::string_view text;          // escaped, except line ends of WriteLines(); without the prefix of the line
};

// A listener that receives each line as it is written.
class LogObserver {
 public:
  virtual ~LogObserver() = default;
  // Any thread, several at once. Must be quick and must not log.
  virtual void OnLine(const LogLine& line) = 0;
};

// While one exists, messages of this thread are about a model. The innermost one applies; "" is for the
// server itself.
class LogAbout {
 public:
  // `model` outlives the object.
  explicit LogAbout(std::string_view model) : before_(std::exchange(current_, model)) {}
  ~LogAbout() { current_ = before_; }
  LogAbout(const LogAbout&) = delete;
  LogAbout& operator=(const LogAbout&) = delete;

  // The model of the calling thread; empty: none.
  static std::string_view Model() { return current_; }

 private:
  static thread_local std::string_view current_;
  const std::string_view before_;
};

// While one exists, messages of this thread are about the requests with these ids. Only terminals show them.
class LogRequests {
 public:
  // `ids` outlives the object.
  explicit LogRequests(std::string_view ids) : before_(std::exchange(current_, ids)) {}
  ~LogRequests() { current_ = before_; }
  LogRequests(const LogRequests&) = delete;
  LogRequests& operator=(const LogRequests&) = delete;

  static std::string_view Ids() { return current_; }

 private:
  static thread_local std::string_view current_;
  const std::string_view before_;
};

enum class LogFormat : unsigned char { kDefault, kIso8601 };

class Logger {
 public:
  struct Options {
    bool info = true;
    bool warning = true;
    bool error = true;
    int verbose_level = 0;  // 0 is off
    LogFormat format = LogFormat::kDefault;
    std::string file;                 // empty: standard error
    bool colours = false;             // for a terminal
    LogObserver* observer = nullptr;  // outlives the logger; null: none
  };

  static Result<std::unique_ptr<Logger>> Create(const Options& options);
  // Writes to standard error with default options; for tests and tools.
  Logger();
  ~Logger();

  bool enabled(LogLevel level, int verbose = 1) const {
    return level == LogLevel::kVerbose ? verbose_level_.load(std::memory_order_relaxed) >= verbose
                                       : enabled_[static_cast<int>(level)].load(std::memory_order_relaxed);
  }

  // Writes one line if the level is enabled. `file` is shown without its folders; `line` 0 is not shown.
  void Write(LogLevel level, std::string_view file, int line, std::string_view message, int verbose = 1);
  // Writes a line for each non-empty line of the message, indented after the first one.
  void WriteLines(LogLevel level, std::string_view file, int line, std::string_view message);

  // Writes a line that user code has printed, regardless of the levels. `source` names the code that printed
  // it, `model` the model it runs for; empty: none.
  void WriteOutput(std::string_view source, std::string_view line, std::string_view model = {});

  // Run-time switches (the logging extension of the protocols).
  void set_enabled(LogLevel level, bool on) { enabled_[static_cast<int>(level)] = on; }
  int verbose_level() const { return verbose_level_; }
  void set_verbose_level(int level) { verbose_level_ = level; }
  LogFormat format() const { return format_; }
  void set_format(LogFormat format) { format_ = format; }
  const std::string& file() const { return file_; }
  bool colours() const { return colours_; }

  void Flush();

 private:
  explicit Logger(std::shared_ptr<spdlog::sinks::sink> sink, const Options& options);
  // `escaped` may contain line ends.
  void WriteEscaped(LogLevel level, std::string_view file, int line, const std::string& escaped);

  std::shared_ptr<spdlog::sinks::sink> sink_;  // spdlog's sinks are shared by its own interface
  std::string file_;
  const bool colours_;
  LogObserver* const observer_;  // null: none
  std::atomic<bool> enabled_[3];
  std::atomic<int> verbose_level_;
  std::atomic<LogFormat> format_;
};

// Returns `text` with control characters (including line ends) as \n, \r, \t or \xNN, for messages that
// contain text from outside.
std::string EscapeForLog(std::string_view text);

}  // namespace braid

#define BRAID_LOG_AT(logger, level, verbose, ...)                                          \
  do {                                                                                     \
    ::braid::Logger& braid_logger_ = (logger);                                             \
    if (braid_logger_.enabled(level, verbose)) {                                           \
      braid_logger_.Write(level, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__), verbose); \
    }                                                                                      \
  } while (false)
// For messages of several lines.
#define BRAID_LOG_LINES(logger, level, ...) \
  (logger).WriteLines(::braid::LogLevel::level, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__))
#define BRAID_LOG_INFO(logger, ...) BRAID_LOG_AT(logger, ::braid::LogLevel::kInfo, 1, __VA_ARGS__)
#define BRAID_LOG_WARNING(logger, ...) BRAID_LOG_AT(logger, ::braid::LogLevel::kWarning, 1, __VA_ARGS__)
#define BRAID_LOG_ERROR(logger, ...) BRAID_LOG_AT(logger, ::braid::LogLevel::kError, 1, __VA_ARGS__)
#define BRAID_LOG_VERBOSE(logger, ...) BRAID_LOG_AT(logger, ::braid::LogLevel::kVerbose, 1, __VA_ARGS__)
