#include "protocols/console/console_paths.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using Kind = ConsoleRouteMatch::Kind;

TEST(ConsolePaths, FindARouteWithItsVariables) {
  ConsoleRouteMatch match = MatchConsoleRoute("GET", "/console/api/models/a%20b/versions/12?x=1");
  ASSERT_EQ(match.kind, Kind::kFound);
  EXPECT_EQ(match.route->action, ConsoleAction::kModel);
  EXPECT_EQ(match.route->api, Api::kStatistics);
  EXPECT_EQ(match.model, "a b");
  EXPECT_EQ(match.version, 12);

  match = MatchConsoleRoute("GET", "/console/api/log?model=m%2Fn&after=3&limit=7");
  ASSERT_EQ(match.kind, Kind::kFound);
  EXPECT_EQ(match.route->action, ConsoleAction::kLog);
  EXPECT_EQ(match.route->api, Api::kLogging);
  EXPECT_EQ(match.model, "m/n");
  EXPECT_EQ(match.after, 3u);
  EXPECT_EQ(match.limit, 7u);

  match = MatchConsoleRoute("GET", "/console/api/log");
  ASSERT_EQ(match.kind, Kind::kFound);
  EXPECT_EQ(match.model, std::nullopt);
  EXPECT_EQ(match.after, std::nullopt);

  match = MatchConsoleRoute("POST", "/console/api/traces?model=m&seconds=5");
  ASSERT_EQ(match.kind, Kind::kFound);
  EXPECT_EQ(match.route->action, ConsoleAction::kWatch);
  EXPECT_EQ(match.seconds, 5u);
}

TEST(ConsolePaths, SayWhatIsWrong) {
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/other").kind, Kind::kNoSuchPath);
  EXPECT_EQ(MatchConsoleRoute("POST", "/console/api/models").kind, Kind::kWrongMethod);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/models/%ff/versions/1").kind, Kind::kBadEscape);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/log?model=%").kind, Kind::kBadEscape);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/models/m/versions/99999999999999999999").kind,
            Kind::kBadNumber);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/log?after=-1").kind, Kind::kBadNumber);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/log?limit=").kind, Kind::kBadNumber);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/history?version=1x").kind, Kind::kBadNumber);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/traces").kind, Kind::kNoModel);
  EXPECT_EQ(MatchConsoleRoute("GET", "/console/api/sequences?version=1").kind, Kind::kNoModel);
}

}  // namespace
}  // namespace braid
