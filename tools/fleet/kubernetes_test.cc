#include "fleet/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Braid's chart: three pods of a StatefulSet, one of them not ready and one terminating.
constexpr char kReplicas[] = R"({"kind": "EndpointSliceList", "items": [{
  "addressType": "IPv4",
  "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}, {"name": "grpc", "port": 8001}, {"name": "metrics", "port": 8002}],
  "endpoints": [
    {"addresses": ["10.0.0.3"], "hostname": "braid-2", "targetRef": {"uid": "c"},
     "conditions": {"ready": true, "serving": true, "terminating": false}},
    {"addresses": ["10.0.0.1"], "hostname": "braid-0", "targetRef": {"uid": "a"},
     "conditions": {"ready": true, "serving": false, "terminating": true}},
    {"addresses": ["10.0.0.2"], "hostname": "braid-1", "targetRef": {"uid": "b"},
     "conditions": {"ready": true, "serving": false, "terminating": false}}]}]})";

KubernetesService Service(std::string_view text) { return ParseKubernetesService(text).value(); }

TEST(KubernetesService, IsNamedWithWhatIsWantedOfIt) {
  const KubernetesService plain = Service("models/braid-replicas");
  EXPECT_EQ(plain.path(), "models/braid-replicas");
  EXPECT_FALSE(plain.ports);
  EXPECT_FALSE(plain.terminating);
  const KubernetesService full = Service("models/braid:9:8:7?terminating=true");
  EXPECT_EQ(full.name, "braid");
  EXPECT_EQ(*full.ports, (Endpoint{"braid", 8, 9, 7}));
  EXPECT_TRUE(full.terminating);
  EXPECT_EQ(Service("braid").space, "");
  for (const char* text : {"", "/braid", "a/b/c", "models/", "Models/braid", "models/braid?x",
                           "models/braid:0", "../braid", "models/a%2f", "models/[::1]:8000"}) {
    EXPECT_THAT(ParseKubernetesService(text).status().message(),
                HasSubstr("expected kubernetes://NAMESPACE/SERVICE"))
        << text;
  }
}

TEST(EndpointSlices, HaveTheReadyReplicasByTheirNames) {
  EXPECT_THAT(*ReadEndpointSlices(kReplicas, Service("models/braid-replicas")),
              ElementsAre(Endpoint{"braid-2.braid-replicas.models.svc", 8000, 8001, 8002}));
  EXPECT_THAT(*ReadEndpointSlices(kReplicas, Service("models/braid-replicas:2:1?terminating=true")),
              ElementsAre(Endpoint{"braid-0.braid-replicas.models.svc", 1, 2, 0, true},
                          Endpoint{"braid-2.braid-replicas.models.svc", 1, 2, 0, false}));
}

TEST(EndpointSlices, WithoutNamesAreByAddressAndCountAPodOnce) {
  const std::string two_families = R"({"items": [
    {"addressType": "IPv6", "ports": [{"name": "http", "port": 80}], "endpoints": [
      {"addresses": ["fd00::1"], "targetRef": {"uid": "a"}}, {"addresses": ["fd00::2"], "conditions": {"ready": true}}]},
    {"addressType": "IPv4", "ports": [{"name": "http", "port": 80}], "endpoints": [
      {"addresses": ["10.0.0.1"], "targetRef": {"uid": "a"}, "conditions": {"serving": null}},
      {"addresses": ["10.0.0.3"], "conditions": {"ready": false}}]},
    {"addressType": "IPv4", "ports": [], "endpoints": null}]})";
  EXPECT_THAT(*ReadEndpointSlices(two_families, Service("m/s")),
              ElementsAre(Endpoint{"10.0.0.1", 80, 0, 0}, Endpoint{"fd00::2", 80, 0, 0}));
}

TEST(EndpointSlices, SayWhatIsMissing) {
  const auto fault = [](std::string_view json) {
    return ReadEndpointSlices(json, Service("m/s")).status().message();
  };
  EXPECT_EQ(fault(R"({"items": []})"), "no EndpointSlices of a Service m/s found");
  EXPECT_EQ(fault(R"({"items": [{"endpoints": [{"addresses": ["a"], "conditions": {"ready": false}}]}]})"),
            "the Service m/s has no ready endpoint; there are 1 others");
  EXPECT_EQ(fault(R"({"items": [{"ports": [{"name": "http"}], "endpoints": [{"addresses": ["a"]}]}]})"),
            "the Service m/s has no port named http; name the ports: "
            "kubernetes://m/s:8001:8000:8002");
  for (const char* json :
       {"", "[]", "{}", R"({"items": 1})", R"({"items": [1]})", R"({"items": [{"endpoints": [1]}]})",
        R"({"items": [{"ports": [{"name": "http", "port": 1}], "endpoints": [{"addresses": []}]}]})"}) {
    EXPECT_EQ(fault(json), "the Kubernetes API server returned no list of EndpointSlices") << json;
  }
}

}  // namespace
}  // namespace braid::fleet
