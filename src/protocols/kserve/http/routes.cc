#include "protocols/kserve/http/routes.h"

#include <charconv>

#include "protocols/http/message.h"
#include "protocols/http/path_pattern.h"

namespace braid {
namespace {

using A = HttpAction;

// Fixed segments stand before variable ones of the same place: "/v2/models/stats" is no model.
constexpr HttpRoute kRoutes[] = {
    {"POST", "/v2/models/{m}/infer", Api::kInference, A::kInfer},
    {"POST", "/v2/models/{m}/versions/{v}/infer", Api::kInference, A::kInfer},
    {"POST", "/v2/models/{m}/generate", Api::kInference, A::kGenerate},
    {"POST", "/v2/models/{m}/versions/{v}/generate", Api::kInference, A::kGenerate},
    {"POST", "/v2/models/{m}/generate_stream", Api::kInference, A::kGenerateStream},
    {"POST", "/v2/models/{m}/versions/{v}/generate_stream", Api::kInference, A::kGenerateStream},
    {"GET", "/v2", Api::kMetadata, A::kServerMetadata},
    {"GET", "/v2/health/live", Api::kHealth, A::kServerLive},
    {"GET", "/v2/health/ready", Api::kHealth, A::kServerReady},
    {"GET", "/v2/models/stats", Api::kStatistics, A::kStatistics},
    {"GET", "/v2/models/{m}/stats", Api::kStatistics, A::kStatistics},
    {"GET", "/v2/models/{m}/versions/{v}/stats", Api::kStatistics, A::kStatistics},
    {"GET", "/v2/models/{m}/ready", Api::kHealth, A::kModelReady},
    {"GET", "/v2/models/{m}/versions/{v}/ready", Api::kHealth, A::kModelReady},
    {"GET", "/v2/models/{m}/config", Api::kModelConfig, A::kModelConfig},
    {"GET", "/v2/models/{m}/versions/{v}/config", Api::kModelConfig, A::kModelConfig},
    {"GET", "/v2/models/{m}", Api::kMetadata, A::kModelMetadata},
    {"GET", "/v2/models/{m}/versions/{v}", Api::kMetadata, A::kModelMetadata},
    {"POST", "/v2/repository/index", Api::kModelRepository, A::kRepositoryIndex},
    {"POST", "/v2/repository/models/{m}/load", Api::kModelRepository, A::kRepositoryLoad},
    {"POST", "/v2/repository/models/{m}/unload", Api::kModelRepository, A::kRepositoryUnload},
    {"POST", "/v2/repository/{r}/index", Api::kModelRepository, A::kNamedRepository},
    {"POST", "/v2/repository/{r}/models/{m}/load", Api::kModelRepository, A::kNamedRepository},
    {"POST", "/v2/repository/{r}/models/{m}/unload", Api::kModelRepository, A::kNamedRepository},
    {"GET", "/v2/logging", Api::kLogging, A::kGetLogging},
    {"POST", "/v2/logging", Api::kLogging, A::kSetLogging},
    {"GET", "/v2/trace/setting", Api::kTrace, A::kGetTrace},
    {"POST", "/v2/trace/setting", Api::kTrace, A::kSetTrace},
    {"GET", "/v2/models/{m}/trace/setting", Api::kTrace, A::kGetTrace},
    {"POST", "/v2/models/{m}/trace/setting", Api::kTrace, A::kSetTrace},
    {"GET", "/v2/systemsharedmemory/status", Api::kSharedMemory, A::kSystemMemoryStatus},
    {"GET", "/v2/systemsharedmemory/region/{r}/status", Api::kSharedMemory, A::kSystemMemoryStatus},
    {"POST", "/v2/systemsharedmemory/unregister", Api::kSharedMemory, A::kSystemMemoryUnregister},
    {"POST", "/v2/systemsharedmemory/region/{r}/unregister", Api::kSharedMemory, A::kSystemMemoryUnregister},
    {"POST", "/v2/systemsharedmemory/region/{r}/register", Api::kSharedMemory, A::kSystemMemoryRegister},
    {"GET", "/v2/cudasharedmemory/status", Api::kSharedMemory, A::kCudaMemoryStatus},
    {"GET", "/v2/cudasharedmemory/region/{r}/status", Api::kSharedMemory, A::kCudaMemoryStatus},
    {"POST", "/v2/cudasharedmemory/unregister", Api::kSharedMemory, A::kCudaMemoryUnregister},
    {"POST", "/v2/cudasharedmemory/region/{r}/unregister", Api::kSharedMemory, A::kCudaMemoryUnregister},
    {"POST", "/v2/cudasharedmemory/region/{r}/register", Api::kSharedMemory, A::kCudaMemoryRegister},
};

}  // namespace

std::span<const HttpRoute> HttpRoutes() { return kRoutes; }

HttpRouteMatch MatchHttpRoute(std::string_view method, std::string_view target) {
  HttpRouteMatch match;
  const std::string_view path = target.substr(0, target.find('?'));
  for (const HttpRoute& route : kRoutes) {
    PathVariables variables;
    if (!MatchPath(route.pattern, path, variables)) continue;
    const std::string_view digits = variables.version;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), match.version).ec ==
        std::errc::result_out_of_range) {
      continue;
    }
    if (route.method != method) {
      match.kind = HttpRouteMatch::Kind::kWrongMethod;
      continue;
    }
    auto model = PercentDecode(variables.model);
    auto region = PercentDecode(variables.region);
    if (!model || !region) {
      match.kind = HttpRouteMatch::Kind::kBadEscape;
      return match;
    }
    match.kind = HttpRouteMatch::Kind::kFound;
    match.route = &route;
    match.model = std::move(*model);
    match.region = std::move(*region);
    return match;
  }
  return match;
}

}  // namespace braid
