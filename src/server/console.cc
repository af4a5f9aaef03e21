#include "server/console.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "config/config_json.h"
#ifdef BRAID_CONSOLE_ASSETS
#include "console_assets.h"
#endif
#include "server/memory_size.h"

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

}  // namespace

Console::Console(const ServerOptions& options, const ProtocolContext& context, const ClientLimits& limits,
                 std::function<size_t()> http_connections, std::function<size_t()> grpc_connections)
    : options_(options),
      addresses_(std::make_shared<const ServerAddresses>()),
      context_{.server = context,
               .limits = limits,
               .assets = Assets(),
               .manage_how = ManageHowOf(options),
               .started_ms = WallNowMs(),
               .memory_bytes = MemorySize(),
               .ports =
                   [this, http = std::move(http_connections), grpc = std::move(grpc_connections)] {
                     const auto now = addresses_.Get();
                     return ConsolePorts{now->http, now->grpc, now->metrics, now->admin, http(), grpc()};
                   },
               .config_to_json = ConfigToJson},
      routes_(context_) {}

void Console::SetAddresses(const ServerAddresses& addresses) {
  addresses_.Set(std::make_shared<const ServerAddresses>(addresses));
}

std::string Console::Url(const ServerAddresses& addresses) const {
  const bool admin = options_.console_place() == ConsolePlace::kAdminPort;
  return (addresses.https ? "https://" : "http://") + (admin ? addresses.admin : addresses.metrics) +
         "/console/";
}

ApiSet Console::Apis() {
  return ApiSet::Of({Api::kHealth, Api::kMetrics, Api::kMetadata, Api::kInference, Api::kModelConfig,
                     Api::kModelRepository, Api::kStatistics, Api::kTrace, Api::kLogging});
}

}  // namespace braid
