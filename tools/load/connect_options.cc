#include "load/connect_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <variant>

namespace braid::load {
namespace {

template <class T>
bool ParseWhole(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void ConnectOptions::AddTo(CLI::App& app, bool chat) {
  app.add_option(
         "-u,--url", url,
         "HOST:PORT or unix:PATH of the server; by default localhost:8000, with -i grpc localhost:8001")
      ->group("Server");
  std::vector<std::string> protocols = {"http", "grpc"};
  if (chat) protocols.emplace_back("openai");
  app.add_option("-i,--protocol", protocol,
                 chat ? "http, grpc, or openai: chat completions, streamed over HTTP" : "http or grpc")
      ->transform(CLI::IsMember(std::move(protocols), CLI::ignore_case))
      ->group("Server");
  AddManner(app);
}

void ConnectOptions::AddManner(CLI::App& app) {
  app.add_option("-H,--header", headers,
                 "'NAME: VALUE' to send with each request, such as 'Authorization: Bearer ...'; repeatable")
      ->group("Server");
  app.add_option("--timeout", timeout_s, "timeout of a request in seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str()
      ->group("Server");
  app.add_flag("--ssl-grpc-use-ssl,--ssl", tls.enabled, "use TLS; a URL with https:// implies it")
      ->group("TLS");
  app.add_option("--ssl-grpc-root-certifications-file,--ssl-https-ca-certificates-file,--ssl-ca", tls.ca_file,
                 "CA certificates (PEM) instead of the system's")
      ->group("TLS");
  app.add_option("--ssl-grpc-certificate-chain-file,--ssl-https-client-certificate-file,--ssl-cert",
                 tls.cert_file, "certificate of the client (PEM)")
      ->group("TLS");
  app.add_option("--ssl-grpc-private-key-file,--ssl-https-private-key-file,--ssl-key", tls.key_file,
                 "its private key (PEM)")
      ->group("TLS");
  app.add_option_function<int>(
         "--ssl-https-verify-peer", [this](int value) { tls.verify_peer = value != 0; },
         "0: trust any certificate; 1 (the default): verify it")
      ->check(CLI::Range(0, 1))
      ->group("TLS");
  app.add_option_function<int>(
         "--ssl-https-verify-host", [this](int value) { tls.verify_host = value != 0; },
         "0: accept a certificate for another host; 1 or 2 (the default): refuse it")
      ->check(CLI::Range(0, 2))
      ->group("TLS");
}

Result<std::shared_ptr<const Dialer>> ConnectOptions::MakeDialer(const std::string& where) const {
  const char* port = protocol == "grpc" ? "8001" : "8000";
  const std::string text = where.empty() ? "localhost" : where;
  BRAID_ASSIGN_OR_RETURN(Address address, ParseServerAddress(text, port));
  TlsOptions used = tls;
  used.enabled = tls.enabled || text.starts_with("https://");
  if (!used.enabled && !(tls.ca_file + tls.cert_file + tls.key_file).empty()) {
    return InvalidArgumentError("certificates need TLS: add --ssl, or use a URL with https://");
  }
  return Dialer::Make(std::move(address), used);
}

Result<Connection::Headers> ConnectOptions::ParseHeaders() const {
  Connection::Headers parsed;
  for (const std::string& header : headers) {
    const size_t colon = header.find(':');
    std::string name = header.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : header.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    const bool one_line = header.find_first_of("\r\n") == std::string::npos;
    if (colon == std::string::npos || name.empty() || !one_line || name.find(' ') != std::string::npos) {
      return InvalidArgumentError("-H '" + header + "': expected a header 'NAME: VALUE'");
    }
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    parsed.emplace_back(std::move(name), std::move(value));
  }
  return parsed;
}

Result<std::pair<std::string, std::variant<bool, int64_t, double, std::string>>> ParseParameter(
    const std::string& text) {
  using Value = std::variant<bool, int64_t, double, std::string>;
  const auto refuse = [&] {
    return InvalidArgumentError("'" + text + "' is not a parameter; expected NAME=VALUE or NAME:VALUE:TYPE");
  };
  std::string type;
  std::string name;
  std::string value;
  if (const size_t equals = text.find('='); equals != std::string::npos) {
    name = text.substr(0, equals);
    value = text.substr(equals + 1);
  } else {
    const size_t first = text.find(':');
    const size_t last = text.rfind(':');
    if (first == std::string::npos || first == last) return refuse();
    name = text.substr(0, first);
    value = text.substr(first + 1, last - first - 1);
    type = text.substr(last + 1);
  }
  if (name.empty()) return refuse();
  int64_t whole = 0;
  double fraction = 0;
  if (type.empty() || type == "bool") {
    if (value == "true" || value == "false") return std::pair(name, Value(value == "true"));
  }
  if (type.empty() || type == "int" || type == "uint") {
    if (ParseWhole(value, &whole)) return std::pair(name, Value(whole));
  }
  if (type.empty() || type == "float" || type == "double") {
    if (ParseWhole(value, &fraction)) return std::pair(name, Value(fraction));
  }
  if (type.empty() || type == "string") return std::pair(name, Value(value));
  return refuse();
}

}  // namespace braid::load
