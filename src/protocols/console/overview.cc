#include "protocols/console/overview.h"

#include <unistd.h>

#include <thread>

#include "base/clock.h"
#include "base/memory_use.h"

namespace braid {
namespace {

std::string_view ManageText(ManageHow how) {
  switch (how) {
    case ManageHow::kNone:
      return "none";
    case ManageHow::kLoad:
      return "load";
    case ManageHow::kReload:
      return "reload";
  }
  return "none";
}

Json AddressesOf(const ConsolePorts& ports) {
  Json addresses = Json::object();
  if (!ports.http.empty()) addresses["http"] = ports.http;
  if (!ports.grpc.empty()) addresses["grpc"] = ports.grpc;
  if (!ports.metrics.empty()) addresses["metrics"] = ports.metrics;
  if (!ports.admin.empty()) addresses["admin"] = ports.admin;
  return addresses;
}

Json ProcessJson(const ProcessMemory& memory) {
  const OwnProcess own = ReadOwnProcess();
  Json process = {{"pid", ::getpid()}, {"resident_bytes", own.resident_bytes}};
  if (const auto bytes = memory.ProportionalBytes(::getpid())) process["proportional_bytes"] = *bytes;
  process["threads"] = own.threads;
  process["descriptors"] = own.descriptors;
  process["cpu_us"] = own.cpu_us;
  return process;
}

}  // namespace

Json RightsJson(const ConsoleContext& context, const ConsoleRights& may) {
  return {{"may", {{"infer", may.infer}, {"manage", may.manage}, {"log", may.log}, {"trace", may.trace}}},
          {"manage_how", ManageText(context.manage_how)}};
}

std::string OverviewJson(const ConsoleContext& context, const ProcessMemory& memory, const ConsoleRights& may,
                         bool exiting) {
  const ModelControl& control = context.server.control;
  const ConsolePorts ports = context.ports();
  Json refused = Json::array();
  for (size_t i = 0; i < kLimitCount; ++i) {
    const auto limit = static_cast<Limit>(i);
    refused.push_back({{"limit", LimitName(limit)}, {"count", context.limits.refusals.count(limit)}});
  }
  Json overview = RightsJson(context, may);
  overview.update(Json{
      {"server",
       {{"name", "braid"},
        {"version", context.server.server_version},
        {"id", context.server.server_name},
        {"started_ms", context.started_ms},
        {"now_ms", WallNowMs()},
        {"live", true},
        {"ready", control.server_ready() && !exiting},
        {"draining", control.draining() || exiting},
        {"addresses", AddressesOf(ports)}}},
      {"fleet", context.fleet != nullptr},
      {"process", ProcessJson(memory)},
      {"machine", {{"cores", std::thread::hardware_concurrency()}, {"memory_bytes", context.memory_bytes}}},
      {"connections", {{"http", ports.http_connections}, {"grpc", ports.grpc_connections}}},
      {"client_memory", {{"used_bytes", MemoryUse()}, {"budget_bytes", context.limits.budget.most()}}},
      {"refused", std::move(refused)}});
  return DumpJson(overview);
}

}  // namespace braid
