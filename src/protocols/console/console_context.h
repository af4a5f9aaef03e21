// ConsoleContext: the sources of the console's data. Built in server/; outlives the console.
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

// The operations that change the set of served models.
enum class ManageHow : unsigned char {
  kNone,    // none, the server manages the set
  kLoad,    // load and unload single models, in explicit mode
  kReload,  // reload the config.json
};

// The ports for clients, and the numbers of open connections.
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
  const ClientLimits& limits;  // of the models' clients
  ProcessMemory& memory;
  std::span<const ConsoleAsset> assets;
  ManageHow manage_how = ManageHow::kNone;
  int64_t started_ms = 0;     // since 1970
  uint64_t memory_bytes = 0;  // memory available to the server
  // Any thread.
  std::function<ConsolePorts()> ports;
  const ConsoleHistory& history;
  const RecentLog* log = nullptr;  // null: no lines are kept
  SlowTraces* traces = nullptr;    // null: no tracing
  // Returns JSON text about the replicas of the fleet, queried with this Authorization header; "" for none.
  // Blocks, perhaps for seconds. Null: no fleet is configured.
  std::function<Result<std::string>(const std::string& authorization)> fleet;
  // Returns the JSON text of a configuration.
  std::function<std::string(const inference::ModelConfig&)> config_to_json;
};

}  // namespace braid
