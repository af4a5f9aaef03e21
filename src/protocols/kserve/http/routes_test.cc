#include "protocols/kserve/http/routes.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using Kind = HttpRouteMatch::Kind;

TEST(HttpRoutes, NameRegions) {
  EXPECT_EQ(MatchHttpRoute("POST", "/v2/systemsharedmemory/region/a%20b/register").region, "a b");
  EXPECT_EQ(MatchHttpRoute("POST", "/v2/systemsharedmemory/unregister").region, "");
}

TEST(HttpRoutes, AreFoundByMethodAndPath) {
  struct Case {
    std::string_view method;
    std::string_view target;
    HttpAction action;
    std::string_view model;
    int64_t version;
  };
  for (const Case& c : {
           Case{"GET", "/v2", HttpAction::kServerMetadata, "", -1},
           Case{"POST", "/v2/models/m/infer", HttpAction::kInfer, "m", -1},
           Case{"POST", "/v2/models/m/versions/12/infer?x=/y", HttpAction::kInfer, "m", 12},
           Case{"GET", "/v2/models/a%2Fb%20c", HttpAction::kModelMetadata, "a/b c", -1},
           Case{"GET", "/v2/models/stats", HttpAction::kStatistics, "", -1},
           Case{"GET", "/v2/models/stats/stats", HttpAction::kStatistics, "stats", -1},
           Case{"GET", "/v2/models/m/versions/1/ready", HttpAction::kModelReady, "m", 1},
           Case{"POST", "/v2/repository/index", HttpAction::kRepositoryIndex, "", -1},
           Case{"POST", "/v2/repository/models/m/load", HttpAction::kRepositoryLoad, "m", -1},
           Case{"POST", "/v2/repository/r/models/m/load", HttpAction::kNamedRepository, "m", -1},
           Case{"POST", "/v2/repository/r/index", HttpAction::kNamedRepository, "", -1},
           Case{"POST", "/v2/models/m/trace/setting", HttpAction::kSetTrace, "m", -1},
           Case{"GET", "/v2/cudasharedmemory/region/r/status", HttpAction::kCudaMemoryStatus, "", -1},
       }) {
    const HttpRouteMatch match = MatchHttpRoute(c.method, c.target);
    ASSERT_EQ(match.kind, Kind::kFound) << c.target;
    EXPECT_EQ(match.route->action, c.action) << c.target;
    EXPECT_EQ(match.model, c.model) << c.target;
    EXPECT_EQ(match.version, c.version) << c.target;
  }
}

TEST(HttpRoutes, OthersAreNot) {
  for (auto* target : {"",
                       "/",
                       "v2",
                       "/v2/",
                       "/v3",
                       "/v2/models",
                       "/v2/models/",
                       "/v2/models//infer",
                       "/v2/models/m/",
                       "/v2/models/m/versions/abc",
                       "/v2/models/m/versions/",
                       "/v2/models/m/versions/-1",
                       "/v2/models/m/versions/+1",
                       "/v2/models/m/versions/1x",
                       "/v2/models/m/versions/99999999999999999999",
                       "/v2/models/m/infer/x",
                       "/a/b/c/d/e/f/g/h/i/j/k",
                       "/metrics",
                       "//v2",
                       "/v2//health/live"}) {
    EXPECT_EQ(MatchHttpRoute("GET", target).kind, Kind::kNoSuchPath) << target;
  }
  EXPECT_EQ(MatchHttpRoute("GET", "/v2/models/m/infer").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchHttpRoute("PUT", "/v2").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchHttpRoute("GET", "/v2/models/%zz").kind, Kind::kBadEscape);
  EXPECT_EQ(MatchHttpRoute("POST", "/v2/repository/models/m%FF/load").kind, Kind::kBadEscape);
  EXPECT_EQ(MatchHttpRoute("POST", "/v2/systemsharedmemory/region/r%ff/register").kind, Kind::kBadEscape);
}

}  // namespace
}  // namespace braid
