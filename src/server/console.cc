#include "server/console.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unix_address.h"
#include "config/config_json.h"
#ifdef BRAID_CONSOLE_ASSETS
#include "console_assets.h"
#endif
#include "server/fleet_view.h"
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

// Returns an empty function if no fleet is configured.
std::function<Result<std::string>(const std::string& shown)> FleetJson(const ServerOptions& options) {
  if (options.fleet_view == nullptr || options.fleet_endpoints.empty()) return {};
  return [&options](const std::string& shown) {
    return options.fleet_view->look(
        {options.fleet_endpoints, shown, options.http_tls.use, options.fleet_ca_file});
  };
}

}  // namespace

Console::Console(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      addresses_(std::make_shared<const ServerAddresses>()),
      context_{.server = dependencies_.context,
               .limits = dependencies_.limits,
               .memory = dependencies_.seen.process_memory,
               .assets = Assets(),
               .manage_how = ManageHowOf(dependencies_.options),
               .started_ms = WallNowMs(),
               .memory_bytes = MemorySize(),
               .ports =
                   [this] {
                     const auto now = addresses_.Get();
                     return ConsolePorts{
                         EndpointHere(FirstEndpoint(now->http)),    EndpointHere(FirstEndpoint(now->grpc)),
                         EndpointHere(FirstEndpoint(now->metrics)), EndpointHere(FirstEndpoint(now->admin)),
                         dependencies_.http_connections(),          dependencies_.grpc_connections()};
                   },
               .history = history_,
               .log = dependencies_.seen.recent_log,
               .traces = dependencies_.seen.tracer.get(),
               .fleet = FleetJson(dependencies_.options),
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
  if (timer) dependencies_.timers.Cancel(timer);
}

void Console::Sample() {
  Timers& timers = dependencies_.timers;
  const int64_t next_ns = timers.NowNs() + ConsoleHistory::kStepMs * 1'000'000;
  history_.Sample(dependencies_.context.catalog, WallNowMs());
  MutexLock lock(mutex_);
  if (!stopped_) timer_ = timers.At(next_ns, [this] { Sample(); });
}

void Console::SetAddresses(const ServerAddresses& addresses) {
  addresses_.Set(std::make_shared<const ServerAddresses>(addresses));
}

std::optional<ConsolePort> Console::Port(const ServerAddresses& addresses) const {
  if (context_.assets.empty()) return std::nullopt;
  const bool admin = dependencies_.options.console_place() == ConsolePlace::kAdminPort;
  // No browser opens a page at a Unix socket.
  const std::vector<std::string>& endpoints = admin ? addresses.admin : addresses.metrics;
  const auto found = std::ranges::find_if_not(endpoints, IsUnixAddress);
  if (found == endpoints.end()) return std::nullopt;
  return ConsolePort{addresses.https ? "https" : "http", *found};
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
