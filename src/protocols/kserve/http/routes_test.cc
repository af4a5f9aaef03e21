// KServe's routing table, tested with the matcher that all tables share.
#include <gtest/gtest.h>

#include "protocols/kserve/http/service.h"

namespace braid {
namespace {

using Found = HttpMatch::Found;

HttpMatch Match(std::string_view method, std::string_view path) {
  return MatchRoute(KserveHttp::Routes(), method, path);
}

TEST(HttpRoutes, NameRegions) {
  EXPECT_EQ(Match("POST", "/v2/systemsharedmemory/region/a%20b/register").region, "a b");
  EXPECT_EQ(Match("POST", "/v2/systemsharedmemory/unregister").region, "");
}

TEST(HttpRoutes, AreFoundByMethodAndPath) {
  struct Case {
    std::string_view method;
    std::string_view path;
    std::string_view pattern;
    std::string_view model;
    int64_t version;
  };
  for (const Case& c : {
           Case{"GET", "/v2", "/v2", "", -1},
           Case{"POST", "/v2/models/m/infer", "/v2/models/{m}/infer", "m", -1},
           Case{"POST", "/v2/models/m/versions/12/infer", "/v2/models/{m}/versions/{v}/infer", "m", 12},
           Case{"GET", "/v2/models/a%2Fb%20c", "/v2/models/{m}", "a/b c", -1},
           Case{"GET", "/v2/models/stats", "/v2/models/stats", "", -1},
           Case{"GET", "/v2/models/stats/stats", "/v2/models/{m}/stats", "stats", -1},
           Case{"GET", "/v2/models/m/versions/1/ready", "/v2/models/{m}/versions/{v}/ready", "m", 1},
           Case{"POST", "/v2/repository/index", "/v2/repository/index", "", -1},
           Case{"POST", "/v2/repository/models/m/load", "/v2/repository/models/{m}/load", "m", -1},
           Case{"POST", "/v2/repository/r/models/m/load", "/v2/repository/{r}/models/{m}/load", "m", -1},
           Case{"POST", "/v2/repository/r/index", "/v2/repository/{r}/index", "", -1},
           Case{"POST", "/v2/models/m/trace/setting", "/v2/models/{m}/trace/setting", "m", -1},
           Case{"GET", "/v2/cudasharedmemory/region/r/status", "/v2/cudasharedmemory/region/{r}/status", "",
                -1},
       }) {
    const HttpMatch match = Match(c.method, c.path);
    ASSERT_EQ(match.found, Found::kRoute) << c.path;
    EXPECT_EQ(match.route->pattern, c.pattern) << c.path;
    EXPECT_EQ(match.model.value_or(""), c.model) << c.path;
    EXPECT_EQ(match.version, c.version) << c.path;
  }
}

TEST(HttpRoutes, OthersAreNot) {
  for (auto* target :
       {"", "/", "v2", "/v2/", "/v3", "/v2/models", "/v2/models/", "/v2/models//infer", "/v2/models/m/",
        "/v2/models/m/versions/abc", "/v2/models/m/versions/", "/v2/models/m/versions/-1",
        "/v2/models/m/versions/+1", "/v2/models/m/versions/1x", "/v2/models/m/infer/x",
        "/a/b/c/d/e/f/g/h/i/j/k", "/metrics", "//v2", "/v2//health/live"}) {
    EXPECT_EQ(Match("GET", target).found, Found::kNoSuchPath) << target;
  }
  EXPECT_EQ(Match("GET", "/v2/models/m/infer").found, Found::kWrongMethod);
  EXPECT_EQ(Match("PUT", "/v2").found, Found::kWrongMethod);
  EXPECT_EQ(Match("GET", "/v2/models/m/versions/99999999999999999999").found, Found::kBadVersion);
  EXPECT_FALSE(Match("POST", "/v2/models/m/versions/99999999999999999999").version_fits);
  EXPECT_EQ(Match("GET", "/v2/models/%zz").found, Found::kBadEscape);
  EXPECT_EQ(Match("POST", "/v2/repository/models/m%FF/load").found, Found::kBadEscape);
  EXPECT_EQ(Match("POST", "/v2/systemsharedmemory/region/r%ff/register").found, Found::kBadEscape);
}

}  // namespace
}  // namespace braid
