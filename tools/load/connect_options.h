// The options by which `braid bench` and `braid try` are told where a server is, as perf_analyzer has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "load/connection.h"

namespace CLI {
class App;
}  // namespace CLI

namespace braid::load {

struct ConnectOptions {
  std::string url;                   // -u; "": the protocol's usual port on this machine
  std::string protocol = "http";     // -i, in lower case
  std::vector<std::string> headers;  // "Name: value"
  double timeout_s = 60;             // of one request
  TlsOptions tls;

  // Adds them to a command.
  void AddTo(CLI::App& app);
  // Those but for where and by which protocol: headers, time, TLS.
  void AddManner(CLI::App& app);

  Protocol protocol_kind() const { return protocol == "grpc" ? Protocol::kGrpc : Protocol::kHttp; }
  // Errors: one that cannot be used.
  Result<std::shared_ptr<const Dialer>> MakeDialer() const { return MakeDialer(url); }
  Result<std::shared_ptr<const Dialer>> MakeDialer(const std::string& url) const;
  Result<Connection::Headers> ParseHeaders() const;
};

// Reads NAME=VALUE with a whole number, a fraction, true, false, or text; NAME:VALUE:TYPE, as perf_analyzer has it, too.
Result<std::pair<std::string, std::variant<bool, int64_t, double, std::string>>> ParseParameter(
    const std::string& text);

}  // namespace braid::load
