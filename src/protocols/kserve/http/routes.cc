#include "protocols/kserve/http/routes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "protocols/http/message.h"

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

constexpr size_t kMaxSegments = 8;

struct Path {
  std::array<std::string_view, kMaxSegments> segments;
  size_t count = 0;
};

// Nothing for what is no path, and for more segments than any route has.
std::optional<Path> Split(std::string_view text) {
  if (text.empty() || text.front() != '/') return std::nullopt;
  Path path;
  while (!text.empty()) {
    text.remove_prefix(1);
    const size_t end = std::min(text.find('/'), text.size());
    if (path.count == kMaxSegments) return std::nullopt;
    path.segments[path.count++] = text.substr(0, end);
    text.remove_prefix(end);
  }
  return path;
}

std::optional<int64_t> Version(std::string_view segment) {
  int64_t version = 0;
  const char* end = segment.data() + segment.size();
  if (segment.empty() || segment.front() < '0' || segment.front() > '9') return std::nullopt;
  auto [rest, error] = std::from_chars(segment.data(), end, version);
  if (error != std::errc() || rest != end) return std::nullopt;
  return version;
}

// Where the variable segments are.
struct Variables {
  std::string_view model;
  std::string_view region;
  int64_t version = -1;
};

std::optional<Variables> Match(std::string_view pattern, const Path& path) {
  Variables variables;
  for (size_t i = 0; i < path.count; ++i) {
    if (pattern.empty()) return std::nullopt;
    pattern.remove_prefix(1);
    const size_t end = std::min(pattern.find('/'), pattern.size());
    const std::string_view expected = pattern.substr(0, end);
    pattern.remove_prefix(end);
    const std::string_view segment = path.segments[i];
    if (expected.front() != '{') {
      if (segment != expected) return std::nullopt;
    } else if (segment.empty()) {
      return std::nullopt;
    } else if (expected == "{m}") {
      variables.model = segment;
    } else if (expected == "{r}") {
      variables.region = segment;
    } else if (expected == "{v}") {
      const auto version = Version(segment);
      if (!version) return std::nullopt;
      variables.version = *version;
    }
  }
  if (!pattern.empty()) return std::nullopt;
  return variables;
}

}  // namespace

std::span<const HttpRoute> HttpRoutes() { return kRoutes; }

HttpRouteMatch MatchHttpRoute(std::string_view method, std::string_view target) {
  HttpRouteMatch match;
  const auto path = Split(target.substr(0, target.find('?')));
  if (!path) return match;
  for (const HttpRoute& route : kRoutes) {
    const auto variables = Match(route.pattern, *path);
    if (!variables) continue;
    if (route.method != method) {
      match.kind = HttpRouteMatch::Kind::kWrongMethod;
      continue;
    }
    auto model = PercentDecode(variables->model);
    auto region = PercentDecode(variables->region);
    if (!model || !region) {
      match.kind = HttpRouteMatch::Kind::kBadEscape;
      return match;
    }
    match.kind = HttpRouteMatch::Kind::kFound;
    match.route = &route;
    match.model = std::move(*model);
    match.region = std::move(*region);
    match.version = variables->version;
    return match;
  }
  return match;
}

}  // namespace braid
