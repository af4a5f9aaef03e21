// The table of all routes of the KServe v2 HTTP protocol. What is not in it is not served.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocols/access/api.h"

namespace braid {

// What a route does.
enum class HttpAction : unsigned char {
  kInfer,
  kGenerate,
  kGenerateStream,
  kServerMetadata,
  kServerLive,
  kServerReady,
  kModelMetadata,
  kModelReady,
  kModelConfig,
  kStatistics,
  kRepositoryIndex,
  kRepositoryLoad,
  kRepositoryUnload,
  kNamedRepository,  // a repository named in the path, which is not supported
  kGetLogging,
  kSetLogging,
  kGetTrace,
  kSetTrace,
  kSystemMemoryStatus,
  kSystemMemoryRegister,
  kSystemMemoryUnregister,
  kCudaMemoryStatus,
  kCudaMemoryRegister,
  kCudaMemoryUnregister,
};

struct HttpRoute {
  std::string_view method;
  // As in path_pattern.h.
  std::string_view pattern;
  Api api;
  HttpAction action;
};

std::span<const HttpRoute> HttpRoutes();

struct HttpRouteMatch {
  enum class Kind : unsigned char { kFound, kNoSuchPath, kWrongMethod, kBadEscape } kind = Kind::kNoSuchPath;
  const HttpRoute* route = nullptr;
  std::string model;     // decoded
  std::string region;    // likewise
  int64_t version = -1;  // -1: none in the path
};

// Looks a request up. A query behind the path is left out.
HttpRouteMatch MatchHttpRoute(std::string_view method, std::string_view target);

}  // namespace braid
