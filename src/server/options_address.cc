#include "server/options_address.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/unix_address.h"
#include "protocols/net/listening_socket.h"
#include "server/option_lines.h"

namespace braid {

Status CheckAddresses(std::string_view text) {
  for (const std::string& address : ListedAddresses(std::string(text)))
    if (IsUnixAddress(address)) BRAID_RETURN_IF_ERROR(UnixPath(address).status());
  return OkStatus();
}

bool HasUnixSocket(const std::string& addresses) {
  return std::ranges::any_of(ListedAddresses(addresses), IsUnixAddress);
}

bool HasPort(const std::string& addresses) {
  return !std::ranges::all_of(ListedAddresses(addresses), IsUnixAddress);
}

std::string WithoutUnixSockets(const std::string& addresses) {
  std::vector<std::string> listed = ListedAddresses(addresses);
  std::erase_if(listed, IsUnixAddress);
  return fmt::format("{}", fmt::join(listed, ","));
}

Status SetHost(ServerOptions& options, std::string_view text) {
  if (text.empty()) return InvalidArgumentError("the address is empty");
  if (HasUnixSocket(std::string(text))) {
    return InvalidArgumentError(
        "a Unix socket serves one protocol; use --http-address, --grpc-address or --metrics-address");
  }
  const std::pair<const char*, std::string*> addresses[] = {{"http-address", &options.http.address},
                                                            {"grpc-address", &options.grpc.address},
                                                            {"metrics-address", &options.metrics_address}};
  for (auto [name, field] : addresses) {
    if (options.origin(name) == OptionOrigin::kCommandLine) continue;
    *field = std::string(text);
    options.origins[name] = OptionOrigin::kImplied;
  }
  return OkStatus();
}

std::string ShowHost(const ServerOptions& options) {
  return options.origin("http-address") == OptionOrigin::kImplied ? options.http.address : "";
}

Status SetAdminAddress(ServerOptions& options, std::string_view text) {
  if (IsUnixAddress(text)) {
    BRAID_RETURN_IF_ERROR(CheckAddresses(text));
    if (text.find(',') != std::string_view::npos)
      return InvalidArgumentError(fmt::format("'{}' is a list; management has one address", text));
    options.admin_address = std::string(text);
    options.admin_port = 0;
    return OkStatus();
  }
  const size_t colon = text.rfind(':');
  std::string_view address = text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  if (colon == std::string_view::npos || address.empty()) {
    return InvalidArgumentError(fmt::format("'{}' must have the form ADDRESS:PORT or unix:PATH", text));
  }
  auto port = option_lines::ToNumber<uint16_t>(text.substr(colon + 1), 0, 65535);
  if (!port.ok()) return port.status().WithPrefix("port: ");
  options.admin_address = std::string(address);
  options.admin_port = *port;
  return OkStatus();
}

std::string ShowAdminAddress(const ServerOptions& options) {
  if (options.admin_address.empty() || IsUnixAddress(options.admin_address)) return options.admin_address;
  const bool brackets = options.admin_address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", options.admin_address, brackets ? "]" : "",
                     options.admin_port);
}

Status SetUnixSocketMode(ServerOptions& options, std::string_view text) {
  uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || text.size() > 4 || text.size() < 3 ||
      mode > 0777) {
    return InvalidArgumentError(fmt::format("'{}' must be an octal mode such as 0600 or 0660", text));
  }
  if ((mode & 0222) == 0) {
    return InvalidArgumentError(
        fmt::format("no client could connect with mode '{}': connecting needs permission to write", text));
  }
  options.unix_socket_mode = mode;
  return OkStatus();
}

std::string ShowUnixSocketMode(const ServerOptions& options) {
  return fmt::format("{:04o}", options.unix_socket_mode);
}

Status CheckAddressesTogether(const ServerOptions& options) {
  const bool metrics = options.allow_metrics;
  if (metrics && options.metrics_addresses().empty()) {
    return InvalidArgumentError(
        "--http-address has Unix sockets only, so metrics have no address; use --metrics-address, or turn "
        "them off with --allow-metrics=false");
  }
  const bool any = (options.allow_http && HasUnixSocket(options.http.address)) ||
                   (options.allow_grpc && HasUnixSocket(options.grpc.address)) ||
                   (metrics && HasUnixSocket(options.metrics_addresses())) ||
                   IsUnixAddress(options.admin_address);
  if (!any && options.origin("unix-socket-mode") != OptionOrigin::kDefault) {
    return InvalidArgumentError("--unix-socket-mode needs a Unix socket, such as --http-address=unix:PATH");
  }
  const auto alone = [](bool reuses, const std::string& addresses) { return reuses && !HasPort(addresses); };
  for (const auto& [without, name] :
       {std::pair(alone(options.allow_http && options.http.reuse_port, options.http.address), "http"),
        std::pair(alone(options.allow_grpc && options.grpc.reuse_port, options.grpc.address), "grpc")}) {
    if (without) {
      return InvalidArgumentError(
          fmt::format("--reuse-{0}-port needs a port, but --{0}-address has Unix sockets only, which no two "
                      "servers share",
                      name));
    }
  }
  return OkStatus();
}

void NotePortsWithoutEffect(CommandLine& line) {
  const ServerOptions& options = line.options;
  const auto note = [&](std::string_view address, const std::string& addresses, const char* port) {
    if (HasPort(addresses) || options.origin(port) != OptionOrigin::kCommandLine) return;
    line.notes.push_back(fmt::format("--{} has no effect: --{} has Unix sockets only", port, address));
  };
  if (options.allow_http) {
    note("http-address", options.http.address, "http-port");
    note("http-address", options.http.address, "rest_port");
  }
  if (options.allow_grpc) {
    note("grpc-address", options.grpc.address, "grpc-port");
    note("grpc-address", options.grpc.address, "port");
  }
  if (options.allow_metrics) note("metrics-address", options.metrics_addresses(), "metrics-port");
}

}  // namespace braid
