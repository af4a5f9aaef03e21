#include "fleet/envoy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EnvoyFleet Two() {
  EnvoyFleet fleet;
  fleet.upstreams = {{{"10.0.0.1", 8000, 8001, 0}, "", false}, {{"10.0.0.2", 8000, 8001, 0}, "", false}};
  fleet.sequence_models = {"a b", "sums"};
  return fleet;
}

const Json& RoutesOf(const Json& whole, size_t listener) {
  return whole["static_resources"]["listeners"][listener]["filter_chains"][0]["filters"][0]["typed_config"]
              ["route_config"]["virtual_hosts"][0]["routes"];
}

// Returns the cluster of each route ("grpc-sequences"), or the status of a direct response ("403").
std::vector<std::string> Targets(const Json& routes) {
  std::vector<std::string> targets;
  for (const Json& route : routes) {
    targets.push_back(route.contains("route")
                          ? route["route"]["cluster"].get<std::string>()
                          : std::to_string(route["direct_response"]["status"].get<int>()));
  }
  return targets;
}

TEST(Envoy, SendsAgainOnlyWhatWasNotDone) {
  const Json whole = EnvoyConfiguration(Two(), {});
  for (const size_t listener : {0, 1}) {
    for (const Json& route : RoutesOf(whole, listener)) {
      if (!route.contains("route")) continue;
      const Json& policy = route["route"]["retry_policy"];
      const bool sequences = route["route"]["cluster"].get<std::string>().ends_with("-sequences");
      const std::string refused = listener == 0 ? "retriable-headers" : "retriable-status-codes";
      EXPECT_EQ(policy["retry_on"], "connect-failure,refused-stream,reset-before-request," + refused);
      if (listener == 1) {
        EXPECT_EQ(policy["retriable_status_codes"], Json::array({sequences ? 409 : 429}));
      } else {
        EXPECT_EQ(policy["retriable_headers"][0]["name"], sequences ? "grpc-message" : "braid-refused");
      }
    }
  }
}

TEST(Envoy, LeavesNoReplicaOfSequencesForItsAnswers) {
  const Json whole = EnvoyConfiguration(Two(), {});
  for (const Json& cluster : whole["static_resources"]["clusters"]) {
    const bool sequences = cluster["name"].get<std::string>().ends_with("-sequences");
    EXPECT_EQ(cluster["outlier_detection"]["enforcing_consecutive_5xx"], sequences ? 0 : 100);
  }
}

TEST(Envoy, GivesEachReplicaManyPlacesOnTheRing) {
  EnvoyFleet fleet = Two();
  const auto places = [&]() -> size_t {
    const Json cluster = EnvoyConfiguration(fleet, {})["static_resources"]["clusters"].back();
    const Json policy = cluster["load_balancing_policy"]["policies"][0]["typed_extension_config"];
    return policy["typed_config"]["minimum_ring_size"];
  };
  EXPECT_EQ(places(), 4096);
  fleet.upstreams.resize(100, fleet.upstreams.front());
  EXPECT_EQ(places(), 25600);
  fleet.by_dns = true;
  EXPECT_EQ(places(), 65536);
}

TEST(Envoy, AnswersSequencesWithoutTheirHeaderOverHttp) {
  const Json whole = EnvoyConfiguration(Two(), {});
  EXPECT_THAT(Targets(RoutesOf(whole, 1)), ElementsAre("403", "403", "403", "403", "http-sequences", "400",
                                                       "400", "400", "400", "400", "400", "http"));
  EXPECT_THAT(DumpJson(RoutesOf(whole, 1)), HasSubstr(R"("path_separated_prefix":"/v2/models/a%20b")"));
}

TEST(Envoy, HasOnePlaceOnTheRingForAReplica) {
  const Json whole = EnvoyConfiguration(Two(), {});
  for (const Json& cluster : whole["static_resources"]["clusters"]) {
    EXPECT_EQ(cluster["type"], "STATIC");
    const Json& first = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0];
    EXPECT_EQ(first["metadata"]["filter_metadata"]["envoy.lb"]["hash_key"], "10.0.0.1:8000");
  }
  // All addresses of one name would have the same place on the ring.
  EnvoyFleet named;
  named.upstreams = {{{"braid.example", 8000, 8001, 0}, "", false}};
  named.by_dns = true;
  const Json by_name = EnvoyConfiguration(named, {});
  EXPECT_EQ(by_name["static_resources"]["clusters"][0]["type"], "STRICT_DNS");
  EXPECT_EQ(DumpJson(by_name).find("hash_key"), std::string::npos);
}

TEST(Envoy, KeepsSessionsAtReplicasThatDrain) {
  EnvoyOptions options;
  options.session_header = "braid-session";
  EnvoyFleet fleet = Two();
  fleet.upstreams[1].draining = true;
  const Json clusters = EnvoyConfiguration(fleet, options)["static_resources"]["clusters"];
  EXPECT_FALSE(clusters[0]["common_lb_config"].contains("override_host_status"));
  EXPECT_THAT(DumpJson(clusters[2]["common_lb_config"]["override_host_status"]), HasSubstr("UNHEALTHY"));
  EXPECT_EQ(clusters[0]["load_assignment"]["endpoints"][0]["lb_endpoints"][1]["health_status"], "DRAINING");
}

TEST(Envoy, HasFilesThatNameEachOther) {
  const auto files = EnvoyFiles(Two(), {}, "/etc/envoy/braid");
  std::vector<std::string> names;
  for (const auto& [name, json] : files) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("envoy.json", "routes-grpc.json", "routes-http.json", "endpoints-grpc.json",
                                 "endpoints-http.json", "endpoints-grpc-sequences.json",
                                 "endpoints-http-sequences.json", "clusters.json"));
  const std::string all = DumpJson(files.front().second) + DumpJson(files.back().second);
  for (size_t i = 1; i < names.size(); ++i)
    EXPECT_THAT(all, HasSubstr("\"/etc/envoy/braid/" + names[i] + "\""));
}

TEST(LiftSequenceId, NamesModelsAsTextsOfLua) {
  EXPECT_THAT(LiftSequenceIdScript({"sums", "a\"b"}),
              HasSubstr("local models = {[\"sums\"] = true, [\"a\\034b\"] = true, }\n"));
}

}  // namespace
}  // namespace braid::fleet
