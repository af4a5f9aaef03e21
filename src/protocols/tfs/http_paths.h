// The table of all routes of TensorFlow Serving's REST API. What is not in it is not served.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocols/access/api.h"

namespace braid {

enum class TfsAction : unsigned char {
  kPredict,
  kNotServed,  // classify and regress
  kStatus,
  kMetadata,
  kConfig,
  kReload,
};

struct TfsRoute {
  std::string_view method;
  // As in path_pattern.h.
  std::string_view pattern;
  Api api;
  TfsAction action;
};

std::span<const TfsRoute> TfsHttpRoutes();

struct TfsRouteMatch {
  enum class Kind : unsigned char {
    kFound,
    kNotOurs,  // not below /v1
    kNoSuchPath,
    kWrongMethod,
    kBadPath,     // "..", or an escape that is none
    kBadVersion,  // too many digits
  } kind = Kind::kNotOurs;
  const TfsRoute* route = nullptr;
  std::string model;    // decoded
  int64_t version = 0;  // 0: the default one, or all
};

// Looks a request up. A query behind the path is left out.
TfsRouteMatch MatchTfsRoute(std::string_view method, std::string_view target);

}  // namespace braid
