#include "commands/fleet_view.h"

#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "fleet/replica.h"
#include "fleet/status_report.h"

namespace braid {
namespace {

// The console polls a few seconds after each response, so it need not wait for a slow replica.
constexpr double kReplicaTimeoutS = 2;
constexpr int64_t kFleetLookNs = 5 * kSecondNs;

Status CheckFleet(std::string_view where) { return fleet::ParseEndpointSource(where).status(); }

// Sends no client certificate of this server: that would lend the server's rights to the viewer.
Result<std::string> LookAtFleet(const FleetQuestion& question) {
  BRAID_ASSIGN_OR_RETURN(const fleet::EndpointSource where, fleet::ParseEndpointSource(question.where));
  BRAID_ASSIGN_OR_RETURN(const std::vector<fleet::Endpoint> endpoints, fleet::FindReplicas(where));
  fleet::Asking asking;
  if (!question.authorization.empty()) asking.headers = {{"authorization", question.authorization}};
  asking.tls.enabled = question.tls;
  asking.tls.ca_file = question.ca_file;
  asking.timeout_s = kReplicaTimeoutS;
  asking.deadline_ns = SteadyNowNs() + kFleetLookNs;
  return DumpJson(fleet::StatusJson(fleet::LookAtAll(endpoints, asking)));
}

}  // namespace

const FleetView kFleetView = {CheckFleet, LookAtFleet};

}  // namespace braid
