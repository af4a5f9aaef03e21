#include "commands/health.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iostream>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "base/unix_address.h"
#include "base/utf8.h"
#include "http_client/ask.h"
#include "load/client.h"

namespace braid {
namespace {

constexpr std::string_view kReadyPath = "/v2/health/ready";
constexpr std::string_view kLivePath = "/v2/health/live";
constexpr int64_t kDefaultTimeoutSeconds = 5;
constexpr int64_t kMostTimeoutSeconds = 3600;

constexpr std::string_view kHealthHelp =
    "usage: braid health [OPTION...] [URL]\n"
    "\n"
    "Asks a running server whether it is ready. URL is http://HOST:PORT, https://HOST:PORT or unix:PATH, of\n"
    "HTTP or metrics [http://127.0.0.1:8000]. The exit code is 0 if it is ready, and 1 otherwise.\n"
    "\n"
    "  --live                          Ask whether it is alive, not whether its models are ready\n"
    "  --ssl                           Use TLS; https:// implies it\n"
    "  --timeout SECONDS               How long the answer may take [5]\n"
    "  --help                          Print this\n";

int Misused(std::string_view message) {
  std::cerr << "braid health: " << WithoutCredentials(message) << '\n'
            << kHealthHelp.substr(0, kHealthHelp.find('\n') + 1);
  return 1;
}

}  // namespace

Result<ServerUrl> ParseServerUrl(std::string_view text) {
  const auto refused = [whole = std::string(text)] {
    return InvalidArgumentError(fmt::format("'{}' must have the form http://HOST:PORT", whole));
  };
  ServerUrl url;
  if (IsUnixAddress(text)) {
    BRAID_ASSIGN_OR_RETURN(url.host, UnixPath(text));
    return url;
  }
  url.tls = text.starts_with("https://");
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    if (!url.tls && text.substr(0, scheme) != "http") return refused();
    text.remove_prefix(scheme + 3);
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  std::string_view host = text;
  std::string_view port = "8000";
  // An IPv6 address has its colons in brackets.
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refused();
  }
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool clean = std::ranges::none_of(host, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '/' || c == '@';
  });
  if (host.empty() || !clean || error != std::errc() || end != port.data() + port.size() || number == 0) {
    return refused();
  }
  url.host = host;
  url.port = port;
  return url;
}

Status AskHealth(const ServerUrl& url, std::string_view path, int64_t timeout_ns) {
  client::TlsOptions tls;
  tls.enabled = url.tls;
  tls.verify_peer = false;
  BRAID_ASSIGN_OR_RETURN(const auto dialer, client::Dialer::Make({url.host, url.port}, tls));
  BRAID_ASSIGN_OR_RETURN(const int code,
                         client::AskHttp(*dialer, {.method = "GET", .target = path}, timeout_ns));
  if (code == 200) return OkStatus();
  return UnavailableError(fmt::format("it answered with status {}", code));
}

std::string WhatIsNotReady(const ServerUrl& url, int64_t timeout_ns) {
  client::TlsOptions tls;
  tls.enabled = url.tls;
  tls.verify_peer = false;
  auto dialer = client::Dialer::Make({url.host, url.port}, tls);
  if (!dialer.ok()) return "";
  load::Client client(load::Protocol::kHttp, *std::move(dialer), {}, static_cast<double>(timeout_ns) * 1e-9);
  const Result<std::string> index = client.AskHttp("POST", "/v2/repository/index", "{}");
  if (!index.ok()) return "";
  std::string lines;
  try {
    for (const Json& model : ParseJson(*index)) {
      const std::string state = model.value("state", "");
      const std::string reason = model.value("reason", "");
      if (state == "READY" || reason == "unloaded" || reason == "on demand" ||
          (state != "LOADING" && reason.empty()))
        continue;
      const std::string version = model.value("version", "");
      lines += fmt::format("  {}{} is {}{}\n", EscapeForLog(model.value("name", "")),
                           version.empty() ? "" : " version " + EscapeForLog(version), EscapeForLog(state),
                           reason.empty() ? "" : ": " + EscapeForLog(reason.substr(0, reason.find('\n'))));
    }
  } catch (const Json::exception&) {
    return "";  // not Braid: its index has another format
  }
  return lines;
}

int RunHealth(int argc, const char* const* argv) {
  // OpenSSL may write to a closed connection.
  std::signal(SIGPIPE, SIG_IGN);
  std::string_view path = kReadyPath;
  int64_t seconds = kDefaultTimeoutSeconds;
  bool tls = false;
  std::optional<std::string_view> given;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      std::cout << kHealthHelp;
      return 0;
    }
    if (word == "--live") {
      path = kLivePath;
    } else if (word == "--ssl") {
      tls = true;
    } else if (word == "--timeout" || word.starts_with("--timeout=")) {
      if (word == "--timeout" && ++i == argc) return Misused("--timeout needs a number of seconds");
      const std::string_view value = word == "--timeout" ? argv[i] : word.substr(word.find('=') + 1);
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
      if (error != std::errc() || end != value.data() + value.size() || seconds < 1 ||
          seconds > kMostTimeoutSeconds) {
        return Misused(
            fmt::format("--timeout: '{}' is not a whole number from 1 to {}", value, kMostTimeoutSeconds));
      }
    } else if (word.starts_with('-')) {
      return Misused(fmt::format("unknown option '{}'", word));
    } else if (given) {
      return Misused(fmt::format("only one URL is allowed; '{}' is a second one", word));
    } else {
      given = word;
    }
  }
  const std::string_view text = given.value_or("http://127.0.0.1:8000");
  Result<ServerUrl> url = ParseServerUrl(text);
  if (!url.ok()) return Misused(url.status().message());
  url->tls = url->tls || tls;
  const std::string_view asked = path == kReadyPath ? "ready" : "live";
  if (const Status status = AskHealth(*url, path, seconds * 1'000'000'000); !status.ok()) {
    std::cerr << fmt::format("{} is not {}: {}\n", text, asked, status.message());
    if (path == kReadyPath) std::cerr << WhatIsNotReady(*url, seconds * 1'000'000'000);
    return 1;
  }
  std::cout << fmt::format("{} is {}\n", text, asked);
  return 0;
}

}  // namespace braid
