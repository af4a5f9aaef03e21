// What the protocols need of the rest of the server. Built in server/; outlives them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "protocols/access/access_policy.h"
#include "protocols/inference/client_shared_memory.h"
#include "protocols/inference/request_headers.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "serving/tracer.h"

namespace braid {

struct ProtocolContext {
  Catalog& catalog;
  ModelControl& control;
  Logger& log;
  // Server metadata.
  std::string server_name = "braid";
  std::string server_version;
  std::vector<std::string> extensions;
  // --strict-readiness is ModelControl's; these are the restrictions of each protocol.
  AccessPolicy http_access{AccessPolicy::Wire::kHttp};
  AccessPolicy grpc_access{AccessPolicy::Wire::kGrpc};
  // Which headers become parameters of requests.
  HeaderForwarding http_headers = {};
  HeaderForwarding grpc_headers = {};
  // Regions that clients have registered; shared because a context may be copied.
  std::shared_ptr<ClientSharedMemory> client_memory = std::make_shared<ClientSharedMemory>();
  // Null: nothing is traced, and the trace extension is refused.
  Tracer* tracer = nullptr;
};

}  // namespace braid
