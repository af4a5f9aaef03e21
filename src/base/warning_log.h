// WarningLog: a log in memory with the warnings and errors since its owner last took them.
//
//   BRAID_ASSIGN_OR_RETURN(auto log, WarningLog::Create());
//   LoadSomething(log->logger());
//   for (const std::string& warning : log->Take()) ...
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"

namespace braid {

class WarningLog final : private LogObserver {
 public:
  // Errors: /dev/null cannot be opened.
  static Result<std::unique_ptr<WarningLog>> Create() {
    std::unique_ptr<WarningLog> made(new WarningLog);
    Logger::Options options;
    options.info = false;
    options.file = "/dev/null";
    options.observer = made.get();
    BRAID_ASSIGN_OR_RETURN(made->logger_, Logger::Create(options));
    return made;
  }

  Logger& logger() { return *logger_; }
  // Returns and clears the lines. Any thread.
  std::vector<std::string> Take() {
    MutexLock lock(mutex_);
    return std::exchange(warnings_, {});
  }

 private:
  WarningLog() = default;
  void OnLine(const LogLine& line) override {
    MutexLock lock(mutex_);
    warnings_.emplace_back(line.text);
  }

  Mutex mutex_;
  std::vector<std::string> warnings_ BRAID_GUARDED_BY(mutex_);
  std::unique_ptr<Logger> logger_;
};

}  // namespace braid
