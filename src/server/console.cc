#include "server/console.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "config/config_json.h"
#ifdef BRAID_CONSOLE_ASSETS
#include "console_assets.h"
#endif
#include "fleet/replica.h"
#include "fleet/status_report.h"
#include "server/memory_size.h"
#include "server/startup_report.h"

namespace braid {
namespace {

std::span<const ConsoleAsset> Assets() {
#ifdef BRAID_CONSOLE_ASSETS
  return ConsoleAssets();
#else
  return {};
#endif
}

ManageHow ManageHowOf(const ServerOptions& options) {
  if (options.serves_config()) return ManageHow::kReload;
  return options.folders.control_mode == ControlMode::kExplicit ? ManageHow::kLoad : ManageHow::kNone;
}

// A page asks again a few seconds after each answer, so that what is late is not waited for.
constexpr double kReplicaTimeoutS = 2;
constexpr int64_t kFleetLookNs = 5 * kSecondNs;

// The replicas are asked with what the viewer has shown, so that each of them says what it would say to the viewer. They speak TLS where
// this server does. No certificate of this server's is shown: it would lend its rights to who looks.
Result<std::string> FleetJson(const ServerOptions& options, const std::string& authorization) {
  BRAID_ASSIGN_OR_RETURN(const fleet::Whereabouts where, fleet::ParseWhereabouts(options.fleet_endpoints));
  BRAID_ASSIGN_OR_RETURN(const std::vector<fleet::Endpoint> endpoints, fleet::FindReplicas(where));
  fleet::Asking asking;
  if (!authorization.empty()) asking.headers = {{"authorization", authorization}};
  asking.tls.enabled = options.http_tls.use;
  asking.tls.ca_file = options.fleet_ca_file;
  asking.timeout_s = kReplicaTimeoutS;
  asking.deadline_ns = SteadyNowNs() + kFleetLookNs;
  return DumpJson(fleet::StatusJson(fleet::LookAtAll(endpoints, asking)));
}

}  // namespace

Console::Console(Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      addresses_(std::make_shared<const ServerAddresses>()),
      context_{.server = surroundings_.context,
               .limits = surroundings_.limits,
               .memory = surroundings_.memory,
               .assets = Assets(),
               .manage_how = ManageHowOf(surroundings_.options),
               .started_ms = WallNowMs(),
               .memory_bytes = MemorySize(),
               .ports =
                   [this] {
                     const auto now = addresses_.Get();
                     return ConsolePorts{EndpointHere(now->http),          EndpointHere(now->grpc),
                                         EndpointHere(now->metrics),       EndpointHere(now->admin),
                                         surroundings_.http_connections(), surroundings_.grpc_connections()};
                   },
               .history = history_,
               .log = surroundings_.log,
               .traces = surroundings_.traces,
               .fleet = surroundings_.options.fleet_endpoints.empty()
                            ? std::function<Result<std::string>(const std::string&)>()
                            : [&options = surroundings_.options](
                                  const std::string& shown) { return FleetJson(options, shown); },
               .config_to_json = ConfigToJson},
      routes_(context_) {
  Sample();
}

Console::~Console() {
  TimerId timer;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    timer = timer_;
  }
  if (timer) surroundings_.timers.Cancel(timer);
}

void Console::Sample() {
  Timers& timers = surroundings_.timers;
  const int64_t next_ns = timers.NowNs() + ConsoleHistory::kStepMs * 1'000'000;
  history_.Sample(surroundings_.context.catalog, WallNowMs());
  MutexLock lock(mutex_);
  if (!stopped_) timer_ = timers.At(next_ns, [this] { Sample(); });
}

void Console::SetAddresses(const ServerAddresses& addresses) {
  addresses_.Set(std::make_shared<const ServerAddresses>(addresses));
}

std::optional<ConsolePort> Console::Port(const ServerAddresses& addresses) const {
  if (context_.assets.empty()) return std::nullopt;
  const bool admin = surroundings_.options.console_place() == ConsolePlace::kAdminPort;
  return ConsolePort{addresses.https ? "https" : "http", admin ? addresses.admin : addresses.metrics};
}

std::string Console::Url(const ServerAddresses& addresses) const {
  const auto port = Port(addresses);
  return port ? ConsoleUrl({port->scheme, EndpointHere(port->endpoint)}, "") : "";
}

ApiSet Console::Apis() {
  return ApiSet::Of({Api::kHealth, Api::kMetrics, Api::kMetadata, Api::kInference, Api::kModelConfig,
                     Api::kModelRepository, Api::kStatistics, Api::kTrace, Api::kLogging});
}

}  // namespace braid
