#include "protocols/grpc/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace braid {
namespace {

// One object for the process: each protobuf library has one global handler without context.
struct Routes {
  Mutex mutex;
  std::vector<Logger*> loggers BRAID_GUARDED_BY(mutex);
};

Routes& TheRoutes() {
  static auto* routes = new Routes;  // never destroyed: threads may log while the program ends
  return *routes;
}

void Log(LogLevel level, const char* file, int line, std::string_view message) {
  Routes& routes = TheRoutes();
  MutexLock lock(routes.mutex);
  if (routes.loggers.empty()) {
    if (level != LogLevel::kVerbose) std::fputs((EscapeForLog(message) + "\n").c_str(), stderr);
  } else {
    routes.loggers.back()->Write(level, file, line, message);
  }
}

void LogOfProtobuf(google::protobuf::LogLevel severity, const char* file, int line,
                   const std::string& message) {
  LogLevel level = LogLevel::kError;
  if (severity == google::protobuf::LOGLEVEL_INFO) level = LogLevel::kInfo;
  if (severity == google::protobuf::LOGLEVEL_WARNING) level = LogLevel::kWarning;
  Log(level, file, line, message);
}

}  // namespace

ProtobufLogRoute::ProtobufLogRoute(Logger& log) : log_(log) {
  Routes& routes = TheRoutes();
  MutexLock lock(routes.mutex);
  routes.loggers.push_back(&log);
  google::protobuf::SetLogHandler(LogOfProtobuf);
}

ProtobufLogRoute::~ProtobufLogRoute() {
  Routes& routes = TheRoutes();
  MutexLock lock(routes.mutex);
  routes.loggers.erase(std::find(routes.loggers.begin(), routes.loggers.end(), &log_));
}

}  // namespace braid
