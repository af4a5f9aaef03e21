// The options of `braid bench` and `braid try` for reaching a server, named as in perf_analyzer.
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
  std::string url;                   // -u; "": this machine, the protocol's usual port
  std::string protocol = "http";     // -i, in lower case; "openai" is sent over HTTP
  std::vector<std::string> headers;  // "Name: value"
  double timeout_s = 60;             // for one request
  TlsOptions tls;

  // Adds all options to a command. `chat`: OpenAI's API is a protocol too.
  void AddTo(CLI::App& app, bool chat = false);
  // Adds only headers, timeout and TLS, without URL and protocol.
  void AddManner(CLI::App& app);

  Protocol protocol_kind() const { return protocol == "grpc" ? Protocol::kGrpc : Protocol::kHttp; }
  // Errors: an option has an unusable value.
  Result<std::shared_ptr<const Dialer>> MakeDialer() const { return MakeDialer(url); }
  Result<std::shared_ptr<const Dialer>> MakeDialer(const std::string& url) const;
  Result<Connection::Headers> ParseHeaders() const;
};

// Parses NAME=VALUE, where the value is an integer, a float, true, false, or text. Also parses
// perf_analyzer's form NAME:VALUE:TYPE.
Result<std::pair<std::string, std::variant<bool, int64_t, double, std::string>>> ParseParameter(
    const std::string& text);

}  // namespace braid::load
