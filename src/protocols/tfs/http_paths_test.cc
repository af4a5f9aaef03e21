#include "protocols/tfs/http_paths.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using Kind = TfsRouteMatch::Kind;

TEST(TfsHttpPaths, AreFoundByMethodAndPath) {
  struct Case {
    std::string_view method;
    std::string_view target;
    TfsAction action;
    std::string_view model;
    int64_t version;
  };
  for (const Case& c : {
           Case{"POST", "/v1/models/m:predict", TfsAction::kPredict, "m", 0},
           Case{"POST", "/v1/models/m/versions/12:predict?x=/y", TfsAction::kPredict, "m", 12},
           Case{"POST", "/v1/models/m/versions/0:predict", TfsAction::kPredict, "m", 0},
           Case{"POST", "/v1/models/m/labels/stable:predict", TfsAction::kPredict, "m", 0},
           Case{"POST", "/v1/models/a%20b%2Fc%3A:predict", TfsAction::kPredict, "a b/c:", 0},
           Case{"POST", "/v1/models/m:classify", TfsAction::kNotServed, "m", 0},
           Case{"POST", "/v1/models/m/versions/1:regress", TfsAction::kNotServed, "m", 1},
           Case{"GET", "/v1/models/m", TfsAction::kStatus, "m", 0},
           Case{"GET", "/v1/models/m/versions/3", TfsAction::kStatus, "m", 3},
           Case{"GET", "/v1/models/m/labels/l", TfsAction::kStatus, "m", 0},
           Case{"GET", "/v1/models/m/metadata", TfsAction::kMetadata, "m", 0},
           Case{"GET", "/v1/models/m/versions/3/metadata", TfsAction::kMetadata, "m", 3},
           Case{"GET", "/v1/models/metadata/metadata", TfsAction::kMetadata, "metadata", 0},
           Case{"GET", "/v1/config", TfsAction::kConfig, "", 0},
           Case{"POST", "/v1/config/reload", TfsAction::kReload, "", 0},
       }) {
    const TfsRouteMatch match = MatchTfsRoute(c.method, c.target);
    ASSERT_EQ(match.kind, Kind::kFound) << c.target;
    EXPECT_EQ(match.route->action, c.action) << c.target;
    EXPECT_EQ(match.model, c.model) << c.target;
    EXPECT_EQ(match.version, c.version) << c.target;
  }
}

TEST(TfsHttpPaths, OthersAreNot) {
  for (auto* target : {"", "/", "v1", "/v10", "/v2/models/m", "/metrics", "/v2/../v1"}) {
    EXPECT_EQ(MatchTfsRoute("GET", target).kind, Kind::kNotOurs) << target;
  }
  for (auto* target :
       {"/v1", "/v1/", "/v1/models", "/v1/models/", "/v1/models/m/", "/v1//models/m",
        "/v1/models/m:", "/v1/models/m:predict:predict", "/v1/models/:predict", "/v1/models/m:explain",
        "/v1/models/m/versions", "/v1/models/m/versions/", "/v1/models/m/versions/one",
        "/v1/models/m/versions/-1", "/v1/models/m/versions/1/metadata/x", "/v1/config/",
        "/v1/models/m/versions/1/versions/2"}) {
    EXPECT_EQ(MatchTfsRoute("GET", target).kind, Kind::kNoSuchPath) << target;
  }
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/m:predict").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchTfsRoute("PUT", "/v1/models/m").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/config/reload").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/../x").kind, Kind::kBadPath);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/%2e%2E").kind, Kind::kBadPath);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/%zz").kind, Kind::kBadPath);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/m%FF").kind, Kind::kBadPath);
  EXPECT_EQ(MatchTfsRoute("GET", "/v1/models/m/versions/99999999999999999999").kind, Kind::kBadVersion);
}

}  // namespace
}  // namespace braid
