// ProtocolContext: the parts of the server that the protocols need. Built in server/; they outlive the
// protocols.
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
  // The access policies of the two transports. (--strict-readiness belongs to ModelControl.)
  AccessPolicy http_access{AccessPolicy::Wire::kHttp};
  AccessPolicy grpc_access{AccessPolicy::Wire::kGrpc};
  // The headers that become parameters of requests.
  HeaderForwarding http_headers = {};
  HeaderForwarding grpc_headers = {};
  // Regions that clients have registered. Shared because a context may be copied.
  std::shared_ptr<ClientSharedMemory> client_memory = std::make_shared<ClientSharedMemory>();
  // null: nothing is traced, and the trace extension is refused
  Tracer* tracer = nullptr;
};

}  // namespace braid
