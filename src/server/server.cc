#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "sequences/sequence_drain.h"
#include "server/memory_size.h"

namespace braid {
namespace {

// Time after the exit timeout for the last answers, before the ports close.
constexpr int64_t kProtocolGraceNs = 2 * kSecondNs;

ClientLimits::Options LimitsOf(const ServerOptions& options) {
  ClientLimits::Options limits = options.limits;
  if (limits.memory_bytes == 0) limits.memory_bytes = MemorySize() / 2;
  return limits;
}

}  // namespace

Server::Server(const ServerOptions& options, Logger& log, const RecentLog* recent_log)
    : options_(options),
      log_(log),
      heap_trimmer_(options.workers.memory_keep_bytes),
      spin_control_(options.spin_us),
      seen_(options_, log, recent_log),
      limits_(std::make_shared<ClientLimits>(LimitsOf(options), &log)),
      loading_(options_, log, *limits_, seen_) {}

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Logger& log,
                                              const RecentLog* recent_log) {
  std::unique_ptr<Server> server(new Server(options, log, recent_log));
  Status opened = Guarded([&] { return server->Open(); });
  if (opened.ok()) return server;
  // The parts end in order, even if memory is short for a while.
  const RetryingAllocation retrying;
  server.reset();
  return opened;
}

Status Server::Open() {
  BRAID_RETURN_IF_ERROR(loading_.Prepare());
  BRAID_RETURN_IF_ERROR(seen_.OpenTraces());
  control_.emplace(loading_.manager());
  fronts_ = std::make_unique<Fronts>(options_, log_, loading_, seen_, limits_, *control_);
  return fronts_->Listen();
}

Status Server::Load(Status& load_status) {
  BRAID_RETURN_IF_ERROR(Guarded([&] { return LoadModels(load_status); }));
  control_->EndStart();
  return OkStatus();
}

Status Server::Stop() {
  GiveNotice();
  DrainSequences();
  const int64_t deadline = SteadyNowNs() + options_.exit_timeout_secs * kSecondNs;
  // The ports refuse new work first. Then the models end and answer the requests in flight. The protocols end
  // last, so that every answer still reaches its client.
  control_->BeginExit();
  fronts_->Drain();
  Status stopped = loading_.Stop(deadline);
  fronts_->Shutdown(std::max(deadline, SteadyNowNs()) + kProtocolGraceNs);
  return stopped;
}

Status Server::LoadModels(Status& load_status) {
  BRAID_RETURN_IF_ERROR(loading_.manager().Start(load_status));
  const auto metrics = options_.serves_config() ? loading_.OvmsMetricsWanted() : std::nullopt;
  if (!metrics) return OkStatus();
  if (!options_.allow_http) return InvalidArgumentError("Missing rest_port parameter in server CLI");
  BRAID_RETURN_IF_ERROR(seen_.CollectOvms(loading_.catalog(), metrics->list));
  return fronts_->DescribeOvmsMetrics();
}

// Reports "not ready" while still serving. A load balancer notices this late and must not be refused until
// then.
void Server::GiveNotice() {
  if (options_.exit_notice_secs == 0) return;
  BRAID_LOG_INFO(log_, "reporting not ready; serving for {} s so that load balancers notice",
                 options_.exit_notice_secs);
  control_->BeginDrain();
  std::this_thread::sleep_for(std::chrono::seconds(options_.exit_notice_secs));
}

// Waits for existing sequences to end. A load balancer sends no new work to a server that is not ready.
void Server::DrainSequences() {
  const uint64_t live = LiveSequences(loading_.catalog());
  if (options_.sequence_drain_seconds == 0 || live == 0) return;
  BRAID_LOG_INFO(log_, "sequences that have not ended: {}; serving them for at most {} s", live,
                 options_.sequence_drain_seconds);
  control_->BeginDrain();
  const uint64_t left =
      WaitForSequences(loading_.catalog(), SteadyNowNs() + options_.sequence_drain_seconds * kSecondNs);
  if (left > 0)
    BRAID_LOG_WARNING(log_, "sequences that have not ended: {}; no longer waiting for them", left);
}

}  // namespace braid
