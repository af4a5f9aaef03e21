#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/clock.h"
#include "base/log_colours.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr char kLetters[] = {'I', 'W', 'E', 'V'};

// Precedes each line of a message but the first.
constexpr std::string_view kIndent = "    ";

std::string Prefix(LogFormat format, LogLevel level, std::string_view file, int line) {
  const std::string place = line > 0 ? fmt::format("{}:{}", file, line) : std::string(file);
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::time_t seconds = micros / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  const int fraction = static_cast<int>(micros % 1'000'000);
  const char letter = kLetters[static_cast<int>(level)];
  if (format == LogFormat::kIso8601) {
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z {} {} {}] ", utc.tm_year + 1900, utc.tm_mon + 1,
                       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, letter, ::getpid(), place);
  }
  return fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {} {}] ", letter, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, fraction, ::getpid(), place);
}

}  // namespace

thread_local std::string_view LogAbout::current_;
thread_local std::string_view LogRequests::current_;

std::string EscapeForLog(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const auto character = TakeCharacter(text);
    if (character && !IsControlCharacter(*character)) {
      out += before.substr(0, before.size() - text.size());
    } else if (character == U'\n') {
      out += "\\n";
    } else if (character == U'\r') {
      out += "\\r";
    } else if (character == U'\t') {
      out += "\\t";
    } else if (character && *character >= 0x80) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(*character));
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(before.front()));
    }
  }
  return out;
}

Result<std::unique_ptr<Logger>> Logger::Create(const Options& options) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& error) {
      return InvalidArgumentError("cannot open log file '" + options.file + "': " + error.what());
    }
  }
  return std::unique_ptr<Logger>(new Logger(std::move(sink), options));
}

Logger::Logger() : Logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), Options{}) {}

Logger::Logger(std::shared_ptr<spdlog::sinks::sink> sink, const Options& options)
    : sink_(std::move(sink)),
      file_(options.file),
      colours_(options.colours),
      observer_(options.observer),
      enabled_{options.info, options.warning, options.error},
      verbose_level_(options.verbose_level),
      format_(options.format) {
  sink_->set_pattern("%v");
}

Logger::~Logger() { sink_->flush(); }

void Logger::Write(LogLevel level, std::string_view file, int line, std::string_view message, int verbose) {
  if (!enabled(level, verbose)) return;
  WriteEscaped(level, file, line, EscapeForLog(Shortened(message, kMostLogged)));
}

void Logger::WriteLines(LogLevel level, std::string_view file, int line, std::string_view message) {
  if (!enabled(level)) return;
  const std::string shown = Shortened(message, kMostLogged);
  std::string lines;
  for (std::string_view rest = shown; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    if (one.empty()) continue;
    if (!lines.empty()) lines += '\n';
    lines += EscapeForLog(one);
  }
  WriteEscaped(level, file, line, lines);
}

void Logger::WriteEscaped(LogLevel level, std::string_view file, int line, const std::string& escaped) {
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  const std::string prefix = Prefix(format_, level, EscapeForLog(file), line);
  std::string text;
  for (const char c : colours_ ? ColouredLines(level, prefix, EscapeForLog(LogRequests::Ids()), escaped)
                               : prefix + escaped) {
    text += c;
    if (c == '\n') text += kIndent;
  }
  if (observer_ != nullptr) observer_->OnLine({WallNowMs(), level, LogAbout::Model(), escaped});
  sink_->log(spdlog::details::log_msg(spdlog::string_view_t{}, spdlog::level::info, text));
  if (level == LogLevel::kError) sink_->flush();
}

void Logger::WriteOutput(std::string_view source, std::string_view line, std::string_view model) {
  std::string text = EscapeForLog(fmt::format("[{}] {}", source, line));
  if (observer_ != nullptr) observer_->OnLine({WallNowMs(), std::nullopt, model, text});
  if (colours_) text = ColouredOutput(EscapeForLog(source), EscapeForLog(line));
  sink_->log(spdlog::details::log_msg(spdlog::string_view_t{}, spdlog::level::info, text));
  sink_->flush();
}

void Logger::Flush() { sink_->flush(); }

}  // namespace braid
