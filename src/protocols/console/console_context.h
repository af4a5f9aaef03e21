// What the console shows, and where it gets it from. Built in server/; outlives the console.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/process_memory.h"
#include "base/recent_log.h"
#include "base/status.h"
#include "protocols/console/console_asset.h"
#include "protocols/console/history.h"
#include "protocols/inference/context.h"
#include "protocols/net/client_limits.h"
#include "serving/slow_traces.h"

namespace inference {
class ModelConfig;
}

namespace braid {

// What a person can do about which models are served.
enum class ManageHow : unsigned char {
  kNone,    // the server looks after it alone
  kLoad,    // load and unload each, in explicit mode
  kReload,  // have the config.json read again
};

// The ports that clients reach, and who is there.
struct ConsolePorts {
  std::string http;  // "127.0.0.1:8000"; empty: not served
  std::string grpc;
  std::string metrics;
  std::string admin;
  size_t http_connections = 0;
  size_t grpc_connections = 0;
};

struct ConsoleContext {
  const ProtocolContext& server;
  const ClientLimits& limits;  // of the clients of models
  ProcessMemory& memory;
  std::span<const ConsoleAsset> assets;
  ManageHow manage_how = ManageHow::kNone;
  int64_t started_ms = 0;     // since 1970
  uint64_t memory_bytes = 0;  // that there is for the server
  // Any thread.
  std::function<ConsolePorts()> ports;
  const ConsoleHistory& history;
  const RecentLog* log = nullptr;  // null: none is kept
  SlowTraces* traces = nullptr;    // null: nothing is traced
  // JSON text about the replicas of the fleet, asked with this value of the header Authorization, "" for none. Blocks, for seconds. Null:
  // the server knows of no fleet.
  std::function<Result<std::string>(const std::string& authorization)> fleet;
  // JSON text of a configuration.
  std::function<std::string(const inference::ModelConfig&)> config_to_json;
};

}  // namespace braid
