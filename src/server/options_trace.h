// The options of tracing: --trace-config and its older forms.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/options.h"

namespace braid {

// Parses "level=TIMESTAMPS", "triton,file=F", "opentelemetry,url=U" and the like. Errors: INVALID_ARGUMENT.
Status SetTraceConfig(ServerOptions& options, std::string_view text);
std::string ShowTraceConfig(const ServerOptions& options);

// The older options, as prefixes of the settings that they stand for.
inline constexpr char kTraceFile[] = "triton,file=";
inline constexpr char kTraceLevel[] = "level=";
inline constexpr char kTraceRate[] = "rate=";
inline constexpr char kTraceCount[] = "count=";
inline constexpr char kTraceLogFrequency[] = "triton,log-frequency=";

template <const char* kSetting>
Status SetTrace(ServerOptions& options, std::string_view text) {
  return SetTraceConfig(options, std::string(kSetting) + std::string(text));
}
std::string ShowTraceFile(const ServerOptions& options);
std::string ShowTraceLevel(const ServerOptions& options);
std::string ShowTraceRate(const ServerOptions& options);
std::string ShowTraceCount(const ServerOptions& options);
std::string ShowTraceLogFrequency(const ServerOptions& options);

}  // namespace braid
