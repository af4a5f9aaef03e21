#include "commands/fleet.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include <spdlog/fmt/fmt.h>

#include "base/json_lines.h"
#include "base/log.h"
#include "base/utf8.h"
#include "fleet/envoy.h"
#include "fleet/reload.h"
#include "fleet/replica.h"
#include "fleet/status_report.h"
#include "load/connect_options.h"

namespace braid {
namespace {

constexpr int kFleetFailed = 1;
constexpr int kFleetMisused = 2;
constexpr char kFleetFooter[] =
    "examples:\n"
    "  braid fleet status --endpoints braid-0,braid-1,braid-2\n"
    "  braid fleet status --dns braid.models.svc:8001:8000:8002 --format json\n"
    "  braid fleet status --endpoints kubernetes://models/braid-replicas\n"
    "  braid fleet reload --endpoints braid-0,braid-1,braid-2 --model add_sub\n"
    "  braid fleet envoy --endpoints 10.0.0.1:8001:8000,10.0.0.2:8001:8000 --output envoy.json\n"
    "  braid fleet envoy --endpoints 10.0.0.1:8001:8000,10.0.0.2:8001:8000 --xds-folder /etc/envoy/braid\n";

int RefuseFleet(const Status& status, int exit_code) {
  std::cerr << "braid fleet: " << WithoutCredentials(ToUtf8(status.message())) << '\n';
  return exit_code;
}

int RefuseFleet(const Status& status) {
  return RefuseFleet(status, status.code() == StatusCode::kInvalidArgument ? kFleetMisused : kFleetFailed);
}

// ---- replicas and how to query them
// --------------------------------------------------------------------------

struct WhereOptions {
  std::string endpoints;
  std::string dns;
  load::ConnectOptions connect;

  void AddTo(CLI::App& app) {
    app.add_option(
           "--endpoints", endpoints,
           "the servers, separated by commas: HOST, HOST:HTTP, HOST:GRPC:HTTP or HOST:GRPC:HTTP:METRICS; or "
           "dns://NAME, or kubernetes://NAMESPACE/SERVICE")
        ->type_name("WHERE");
    app.add_option(
           "--dns", dns,
           "a name in the same form whose addresses are the servers; the same as --endpoints dns://NAME")
        ->type_name("NAME")
        ->excludes("--endpoints");
    connect.timeout_s = 5;
    connect.AddManner(app);
  }

  Result<fleet::EndpointSource> Where() const {
    if (endpoints.empty() && dns.empty()) return InvalidArgumentError("--endpoints or --dns is required");
    return fleet::ParseEndpointSource(dns.empty() ? endpoints : "dns://" + dns);
  }

  // All replicas, with the addresses behind a DNS name.
  Result<std::vector<fleet::Endpoint>> Servers() const {
    BRAID_ASSIGN_OR_RETURN(const fleet::EndpointSource where, Where());
    return fleet::FindReplicas(where);
  }

  Result<fleet::Asking> Manner() const {
    fleet::Asking asking;
    BRAID_ASSIGN_OR_RETURN(asking.headers, connect.ParseHeaders());
    asking.tls = connect.tls;
    asking.timeout_s = connect.timeout_s;
    return asking;
  }
};

// ---- status -------------------------------------------------------------------------------------------------

int FleetStatus(const WhereOptions& where, bool json) {
  const Result<std::vector<fleet::Endpoint>> servers = where.Servers();
  if (!servers.ok()) return RefuseFleet(servers.status());
  const Result<fleet::Asking> asking = where.Manner();
  if (!asking.ok()) return RefuseFleet(asking.status(), kFleetMisused);
  const std::vector<fleet::Replica> replicas = fleet::LookAtAll(*servers, *asking);
  std::cout << (json ? DumpJson(fleet::StatusJson(replicas)) + "\n" : ToUtf8(fleet::StatusText(replicas)));
  const bool alike = fleet::Differences(replicas).empty();
  const bool well = std::ranges::all_of(
      replicas, [](const fleet::Replica& replica) { return replica.answer.ok() && replica.ready; });
  return alike && well ? 0 : kFleetFailed;
}

// ---- envoy --------------------------------------------------------------------------------------------------

struct EnvoyCommandOptions {
  fleet::EnvoyOptions envoy;
  std::string output;
  std::string xds_folder;
  std::vector<std::string> sequence_models;
};

Status CheckListen(const char* option, const std::string& text) {
  const Result<load::Address> address = load::ParseAddress(text, "");
  if (address.ok() && fleet::ReadPort(address->port) && fleet::IsAddress(address->host)) return OkStatus();
  return InvalidArgumentError(fmt::format("{} '{}': it looks like ADDRESS:PORT", option, text));
}

// Replaces the file atomically by a rename: a reader sees the old or the new file as a whole.
Status Replace(const std::filesystem::path& path, const std::string& text) {
  if (std::ifstream before(path, std::ios::binary); before) {
    const std::string old((std::istreambuf_iterator<char>(before)), std::istreambuf_iterator<char>());
    // Leaves an unchanged file alone, so that Envoy does not read it again.
    if (old == text) return OkStatus();
  }
  const std::string beside = fmt::format("{}.{}.new", path.string(), getpid());
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(beside.c_str());
    return ErrnoError("cannot write " + path.string(), error);
  }
  return OkStatus();
}

// Returns Envoy's view of the replicas. Prints warnings for the user to standard error.
Result<fleet::EnvoyFleet> DescribeFleet(const WhereOptions& where, const EnvoyCommandOptions& options) {
  BRAID_ASSIGN_OR_RETURN(const fleet::EndpointSource found, where.Where());
  std::vector<fleet::Endpoint> named = found.endpoints;
  if (found.kubernetes) {
    BRAID_ASSIGN_OR_RETURN(named, fleet::FindReplicas(found));
  }
  fleet::EnvoyFleet described;
  described.by_dns = found.by_dns;
  for (const fleet::Endpoint& endpoint : named) {
    if (endpoint.grpc == 0) {
      return InvalidArgumentError(fmt::format("{}: Envoy needs the gRPC port too, as {}:GRPC:{}",
                                              endpoint.name(), endpoint.host, endpoint.http));
    }
  }
  const bool resolve = !options.xds_folder.empty();
  std::vector<fleet::Endpoint> servers = named;
  if (described.by_dns && (resolve || options.sequence_models.empty())) {
    BRAID_ASSIGN_OR_RETURN(servers, fleet::FindReplicas(found));
  }
  std::vector<fleet::Replica> replicas;
  if (options.sequence_models.empty()) {
    BRAID_ASSIGN_OR_RETURN(const fleet::Asking asking, where.Manner());
    replicas = fleet::LookAtAll(servers, asking);
    std::set<std::string> models;
    size_t answered = 0;
    for (const fleet::Replica& replica : replicas) {
      if (!replica.answer.ok()) {
        std::cerr << fmt::format("{} did not answer: {}\n", replica.endpoint.name(),
                                 EscapeForLog(replica.answer.message()));
        continue;
      }
      ++answered;
      for (const fleet::ModelView& model : replica.models) {
        if (model.sequences) models.insert(model.name);
      }
    }
    if (answered == 0) {
      return UnavailableError(
          "no server reported which models have sequences; name them with --sequence-models");
    }
    for (const fleet::Difference& difference : fleet::Differences(replicas)) {
      std::cerr << "differs: " << EscapeForLog(difference.text) << '\n';
    }
    described.sequence_models.assign(models.begin(), models.end());
  } else if (options.sequence_models != std::vector<std::string>{"none"}) {
    described.sequence_models = options.sequence_models;
  }
  // In separate files Envoy gets addresses; in a single file it gets names, which it resolves itself.
  const std::vector<fleet::Endpoint>& listed = described.by_dns && resolve ? servers : named;
  for (size_t i = 0; i < listed.size(); ++i) {
    fleet::Upstream upstream;
    upstream.endpoint = listed[i];
    if (resolve && !fleet::IsAddress(listed[i].host)) {
      BRAID_ASSIGN_OR_RETURN(const std::vector<fleet::Endpoint> addresses, fleet::Resolve(listed[i]));
      upstream.address = addresses.front().host;
    }
    const bool leaves = i < replicas.size() && replicas[i].answer.ok() && !replicas[i].ready;
    upstream.draining = resolve && (leaves || listed[i].ending);
    described.upstreams.push_back(std::move(upstream));
  }
  if (described.by_dns && resolve) described.by_dns = false;
  return described;
}

int FleetEnvoy(const WhereOptions& where, EnvoyCommandOptions& options) {
  options.envoy.tls = where.connect.tls;
  for (const auto& [name, text] :
       {std::pair("--listen-grpc", options.envoy.listen_grpc),
        std::pair("--listen-http", options.envoy.listen_http), std::pair("--admin", options.envoy.admin)}) {
    if (const Status status = CheckListen(name, text); !status.ok())
      return RefuseFleet(status, kFleetMisused);
  }
  if (options.envoy.cert_file.empty() != options.envoy.key_file.empty()) {
    return RefuseFleet(InvalidArgumentError("--cert and --key must be set together"), kFleetMisused);
  }
  const Result<fleet::EnvoyFleet> described = DescribeFleet(where, options);
  if (!described.ok()) return RefuseFleet(described.status());
  if (options.xds_folder.empty()) {
    const std::string text = DumpJsonLines(fleet::EnvoyConfiguration(*described, options.envoy));
    if (options.output.empty()) {
      std::cout << text << std::flush;
      return std::cout ? 0 : kFleetFailed;
    }
    const Status written = Replace(options.output, text);
    return written.ok() ? 0 : RefuseFleet(written, kFleetFailed);
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(options.xds_folder);
  std::filesystem::create_directories(folder, error);
  if (error)
    return RefuseFleet(UnavailableError(fmt::format("{}: {}", folder.string(), error.message())),
                       kFleetFailed);
  for (const auto& [name, json] : fleet::EnvoyFiles(*described, options.envoy, folder.string())) {
    if (const Status written = Replace(folder / name, DumpJsonLines(json)); !written.ok())
      return RefuseFleet(written, kFleetFailed);
  }
  return 0;
}

// ---- reload ---------------------------------------------------------------------------------------------------

int FleetReload(const WhereOptions& where, const fleet::ReloadOptions& options) {
  const Result<std::vector<fleet::Endpoint>> servers = where.Servers();
  if (!servers.ok()) return RefuseFleet(servers.status());
  const Result<fleet::Asking> asking = where.Manner();
  if (!asking.ok()) return RefuseFleet(asking.status(), kFleetMisused);
  const Status status = fleet::RollingReload(
      *servers, *asking, options, [](const std::string& line) { std::cout << ToUtf8(line) << std::endl; });
  return status.ok() ? 0 : RefuseFleet(status, kFleetFailed);
}

// ---- the command --------------------------------------------------------------------------------------------------

// Returns the options that all subcommands share, followed by those of each.
std::string FleetHelp(const CLI::App& app) {
  // Without the explicit formatter, help() would be that of the named subcommand.
  std::string help = app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  const size_t footer = help.find(kFleetFooter);
  std::string own;
  for (const CLI::App* each : app.get_subcommands({})) {
    const std::string text = each->help();
    const size_t begin = text.find("\nOf ");
    if (begin != std::string::npos) own += text.substr(begin + 1);
  }
  return help.insert(footer == std::string::npos ? help.size() : footer, own);
}

}  // namespace

int RunFleet(int argc, const char* const* argv) {
  // OpenSSL may write to a closed connection.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Manages several running servers as one fleet.", "braid fleet");
  app.footer(kFleetFooter);
  app.require_subcommand(1);
  WhereOptions where;
  where.AddTo(app);
  const auto add = [&](const char* name, const char* help) {
    CLI::App& added = *app.add_subcommand(name, help)->fallthrough();
    added.set_help_flag("");
    added.footer("");
    added.option_defaults()->group(std::string("Of ") + name);
    return &added;
  };

  CLI::App& status = *add("status", "show the servers' models, their differences and their load");
  std::string format = "text";
  status.add_option("--format", format, "text or json")
      ->transform(CLI::IsMember({"text", "json"}, CLI::ignore_case));

  CLI::App& reload =
      *add("reload", "reload a model at one server after the other; stop and go back at an error");
  fleet::ReloadOptions renewal;
  reload.add_option("--model", renewal.model, "the model to reload")->type_name("NAME")->required();
  reload
      .add_option("--watch-seconds", renewal.watch_s,
                  "how long to watch a server after its load, before the next load [10]")
      ->check(CLI::Range(0.0, 86400.0));
  reload
      .add_option("--more-errors", renewal.more_errors,
                  "percent of requests that may fail in addition to those before [1]")
      ->check(CLI::Range(0.0, 100.0));
  reload.add_option("--load-seconds", renewal.load_s, "how long one load may take [300]")
      ->check(CLI::Range(1.0, 86400.0));

  CLI::App& envoy = *add("envoy", "write a configuration for an Envoy in front of the servers");
  EnvoyCommandOptions made;
  envoy.add_option("--output", made.output, "the file to write; without it, the configuration is printed")
      ->type_name("FILE");
  envoy
      .add_option("--xds-folder", made.xds_folder,
                  "the folder to write, as files that Envoy reloads when they change")
      ->type_name("DIR")
      ->excludes("--output");
  envoy.add_option("--listen-grpc", made.envoy.listen_grpc, "for gRPC clients [0.0.0.0:8001]")
      ->type_name("ADDRESS:PORT");
  envoy.add_option("--listen-http", made.envoy.listen_http, "for HTTP clients [0.0.0.0:8000]")
      ->type_name("ADDRESS:PORT");
  envoy.add_option("--admin", made.envoy.admin, "Envoy's own page [127.0.0.1:9901]")
      ->type_name("ADDRESS:PORT");
  envoy.add_option("--cert", made.envoy.cert_file, "the certificate for clients")->type_name("FILE");
  envoy.add_option("--key", made.envoy.key_file, "its private key")->type_name("FILE");
  envoy
      .add_option(
          "--hash-header", made.envoy.hash_headers,
          "a header whose requests all go to one server, in addition to braid-sequence-id; repeatable")
      ->type_name("NAME");
  envoy
      .add_option("--session-header", made.envoy.session_header,
                  "the header that tells clients their server, so that they stay there")
      ->type_name("NAME");
  envoy.add_flag("--lift-sequence-ids", made.envoy.lift_sequence_ids,
                 "read the sequence from the body if the header is missing");
  envoy
      .add_option("--sequence-models", made.sequence_models,
                  "the models with sequences, separated by commas, or none; the servers are then not asked")
      ->type_name("NAMES")
      ->delimiter(',');
  envoy
      .add_option("--buffer-bytes", made.envoy.buffer_bytes,
                  "bytes of a request to keep, to send it again or to read its sequence [4194304]")
      ->check(CLI::Range(uint32_t{1} << 16, uint32_t{1} << 30));
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    std::cout << FleetHelp(app);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kFleetMisused;
  }
  if (reload.parsed()) return FleetReload(where, renewal);
  if (status.parsed()) return FleetStatus(where, format == "json");
  return FleetEnvoy(where, made);
}

}  // namespace braid
