// TensorFlow Serving's routing table, tested with the matcher that all tables share.
#include <gtest/gtest.h>

#include "protocols/tfs/tfs_routes.h"

namespace braid {
namespace {

using Found = HttpMatch::Found;

HttpMatch Match(std::string_view method, std::string_view path) {
  return MatchRoute(TfsRoutes::Routes(), method, path);
}

TEST(TfsHttpPaths, AreFoundByMethodAndPath) {
  struct Case {
    std::string_view method;
    std::string_view path;
    std::string_view pattern;
    std::string_view model;
    int64_t version;
  };
  for (const Case& c : {
           Case{"POST", "/v1/models/m:predict", "/v1/models/{n}:predict", "m", -1},
           Case{"POST", "/v1/models/m/versions/12:predict", "/v1/models/{n}/versions/{v}:predict", "m", 12},
           Case{"POST", "/v1/models/m/versions/0:predict", "/v1/models/{n}/versions/{v}:predict", "m", 0},
           Case{"POST", "/v1/models/m/labels/stable:predict", "/v1/models/{n}/labels/{l}:predict", "m", -1},
           Case{"POST", "/v1/models/a%20b%2Fc%3A:predict", "/v1/models/{n}:predict", "a b/c:", -1},
           Case{"POST", "/v1/models/m:classify", "/v1/models/{n}:classify", "m", -1},
           Case{"POST", "/v1/models/m/versions/1:regress", "/v1/models/{n}/versions/{v}:regress", "m", 1},
           Case{"GET", "/v1/models/m", "/v1/models/{n}", "m", -1},
           Case{"GET", "/v1/models/m/versions/3", "/v1/models/{n}/versions/{v}", "m", 3},
           Case{"GET", "/v1/models/m/labels/l", "/v1/models/{n}/labels/{l}", "m", -1},
           Case{"GET", "/v1/models/m/metadata", "/v1/models/{n}/metadata", "m", -1},
           Case{"GET", "/v1/models/m/versions/3/metadata", "/v1/models/{n}/versions/{v}/metadata", "m", 3},
           Case{"GET", "/v1/models/metadata/metadata", "/v1/models/{n}/metadata", "metadata", -1},
           Case{"GET", "/v1/config", "/v1/config", "", -1},
           Case{"POST", "/v1/config/reload", "/v1/config/reload", "", -1},
       }) {
    const HttpMatch match = Match(c.method, c.path);
    ASSERT_EQ(match.found, Found::kRoute) << c.path;
    EXPECT_EQ(match.route->pattern, c.pattern) << c.path;
    EXPECT_EQ(match.model.value_or(""), c.model) << c.path;
    EXPECT_EQ(match.version, c.version) << c.path;
  }
}

TEST(TfsHttpPaths, OthersAreNot) {
  for (auto* target :
       {"/v1", "/v1/", "/v1/models", "/v1/models/", "/v1/models/m/", "/v1//models/m",
        "/v1/models/m:", "/v1/models/m:predict:predict", "/v1/models/:predict", "/v1/models/m:explain",
        "/v1/models/m/versions", "/v1/models/m/versions/", "/v1/models/m/versions/one",
        "/v1/models/m/versions/-1", "/v1/models/m/versions/1/metadata/x", "/v1/config/",
        "/v1/models/m/versions/1/versions/2"}) {
    EXPECT_EQ(Match("GET", target).found, Found::kNoSuchPath) << target;
  }
  EXPECT_EQ(Match("GET", "/v1/models/m:predict").found, Found::kWrongMethod);
  EXPECT_EQ(Match("PUT", "/v1/models/m").found, Found::kWrongMethod);
  EXPECT_EQ(Match("GET", "/v1/config/reload").found, Found::kWrongMethod);
  EXPECT_EQ(Match("GET", "/v1/models/m/versions/99999999999999999999").found, Found::kBadVersion);
}

}  // namespace
}  // namespace braid
