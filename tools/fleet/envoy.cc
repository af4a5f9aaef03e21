#include "fleet/envoy.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "fleet/lift_sequence_id.h"

namespace braid::fleet {
namespace {

constexpr char kSequenceHeader[] = "braid-sequence-id";
constexpr char kExtensions[] = "envoy.extensions";
// Envoy gives a connection up before Braid does (http-max-connection-idle: 10 minutes): a request on one that the server is about to close
// would be lost, and whether it had begun be unknown.
constexpr char kUpstreamIdle[] = "300s";
constexpr uint32_t kNoLimit = 1'000'000;

Json Typed(const std::string& type, Json fields = Json::object()) {
  Json typed = {{"@type", "type.googleapis.com/" + type}};
  for (auto& [key, value] : fields.items()) typed[key] = value;
  return typed;
}

Json Extension(const std::string& name, const std::string& type, Json fields = Json::object()) {
  return {{"name", name}, {"typed_config", Typed(std::string(kExtensions) + "." + type, std::move(fields))}};
}

// "host:port" with the host in brackets where it has colons.
Json SocketAddress(const std::string& host, uint64_t port) {
  return {{"socket_address", {{"address", host}, {"port_value", port}}}};
}

Json SocketAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return SocketAddress(host, ReadPort(text.substr(colon + 1)).value_or(0));
}

// ---- clusters -----------------------------------------------------------------------------------------------

struct ClusterKind {
  const char* name;
  bool grpc;
  bool sequences;
};

constexpr ClusterKind kClusters[] = {{"grpc", true, false},
                                     {"http", false, false},
                                     {"grpc-sequences", true, true},
                                     {"http-sequences", false, true}};

Json Assignment(const EnvoyFleet& fleet, const ClusterKind& kind) {
  Json endpoints = Json::array();
  for (const Upstream& upstream : fleet.upstreams) {
    const Endpoint& endpoint = upstream.endpoint;
    const std::string& host = upstream.address.empty() ? endpoint.host : upstream.address;
    Json each = {{"endpoint",
                  {{"address", SocketAddress(host, kind.grpc ? endpoint.grpc : endpoint.http)},
                   {"hostname", endpoint.host}}}};
    if (upstream.draining) each["health_status"] = "DRAINING";
    // A replica has its place on the ring by its name, not by its address: the same one for gRPC and for HTTP, and when it comes back
    // elsewhere. Where one name stands for many it would put them all at one place.
    if (!fleet.by_dns) {
      each["metadata"] = {{"filter_metadata", {{"envoy.lb", {{"hash_key", endpoint.name()}}}}}};
    }
    endpoints.push_back(std::move(each));
  }
  return {{"cluster_name", kind.name}, {"endpoints", {{{"lb_endpoints", std::move(endpoints)}}}}};
}

Json HealthCheck(const ClusterKind& kind) {
  Json check = {{"timeout", "1s"},          {"interval", "1s"},       {"no_traffic_interval", "1s"},
                {"unhealthy_threshold", 2}, {"healthy_threshold", 1}, {"unhealthy_interval", "0.5s"},
                {"reuse_connection", true}};
  if (kind.grpc) {
    check["grpc_health_check"] = Json::object();
  } else {
    // Otherwise the cluster's name is the Host, which a Braid that listens for its machine alone refuses.
    check["http_health_check"] = {{"path", "/v2/health/ready"}, {"host", "localhost"}};
  }
  return check;
}

// Envoy takes of gRPC's answers UNAVAILABLE for a failure of a replica, and RESOURCE_EXHAUSTED for none. So the latter becomes the former
// on its way to Envoy's router, with a mark by which it is retried, and is itself again on the way to the client. A call that is too large
// has no grpc-retry-pushback-ms, and stays what it is.
constexpr char kRefusedMark[] = "braid-refused";
constexpr char kMarkRefused[] = R"lua(
function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("grpc-status") == "8" and headers:get("grpc-retry-pushback-ms") ~= nil then
    headers:replace("grpc-status", "14")
    headers:replace("braid-refused", "8")
  end
end
)lua";
constexpr char kUnmarkRefused[] = R"lua(
function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("braid-refused") == "8" then
    headers:replace("grpc-status", "8")
    headers:remove("braid-refused")
  end
end
)lua";

Json LuaFilter(const std::string& name, const std::string& script) {
  return Extension(name, "filters.http.lua.v3.Lua", {{"default_source_code", {{"inline_string", script}}}});
}

// What says that a replica has too much to do or is not there: 429 and 503, over gRPC RESOURCE_EXHAUSTED and UNAVAILABLE. A model's own
// error is the same at all replicas, and none to leave one for.
Json ProtocolOptions(const ClusterKind& kind) {
  Json options = {{"common_http_protocol_options", {{"idle_timeout", kUpstreamIdle}}}};
  if (kind.sequences) {
    // No answer is a reason to leave a replica at which sequences are.
  } else if (kind.grpc) {
    options["http_filters"] = Json::array(
        {LuaFilter("mark-refused", kMarkRefused),
         Extension("envoy.filters.http.upstream_codec", "filters.http.upstream_codec.v3.UpstreamCodec")});
  } else {
    Json status = {{"name", ":status"}, {"string_match", {{"safe_regex", {{"regex", "429|502|503|504"}}}}}};
    options["outlier_detection"] = {
        {"error_matcher",
         {{"http_response_headers_match", {{"headers", Json::array({std::move(status)})}}}}}};
  }
  options["explicit_http_config"] = {
      {kind.grpc ? "http2_protocol_options" : "http_protocol_options", Json::object()}};
  return Typed(std::string(kExtensions) + ".upstreams.http.v3.HttpProtocolOptions", std::move(options));
}

Json Outliers(const ClusterKind& kind) {
  return {{"consecutive_5xx", 3},
          // A sequence waits for its replica, however much that has to do: elsewhere it would not be known.
          {"enforcing_consecutive_5xx", kind.sequences ? 0 : 100},
          {"enforcing_consecutive_gateway_failure", 0},
          {"enforcing_success_rate", 0},
          {"split_external_local_origin_errors", true},
          {"consecutive_local_origin_failure", 2},
          {"enforcing_local_origin_success_rate", 0},
          {"interval", "0.5s"},
          {"base_ejection_time", "1s"},
          {"max_ejection_time", "30s"},
          // When all have too much to do, no more than half of them are taken out, and never the only one.
          {"max_ejection_percent", 50}};
}

Json UpstreamTls(const load::TlsOptions& tls, bool grpc) {
  const std::string authorities = tls.ca_file.empty() ? "/etc/ssl/certs/ca-certificates.crt" : tls.ca_file;
  Json common = {{"alpn_protocols", Json::array({grpc ? "h2" : "http/1.1"})}};
  if (tls.verify_peer) common["validation_context"] = {{"trusted_ca", {{"filename", authorities}}}};
  if (!tls.cert_file.empty()) {
    common["tls_certificates"] = {{{"certificate_chain", {{"filename", tls.cert_file}}},
                                   {"private_key", {{"filename", tls.key_file}}}}};
  }
  Json context = {{"auto_host_sni", true}, {"common_tls_context", std::move(common)}};
  if (tls.verify_peer && tls.verify_host) context["auto_sni_san_validation"] = true;
  return Extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.UpstreamTlsContext",
                   std::move(context));
}

// With so many places each replica has a share of the sequences that differs little from the others' (bench/run-fleet-model): with 256 places
// each, the fullest of 1,000 has 1.2 times the mean; with four, 3.3 times.
size_t RingSize(const EnvoyFleet& fleet) {
  constexpr size_t kPlaces = 256;
  // How many there will be is not known.
  if (fleet.by_dns) return 256 * kPlaces;
  return std::max<size_t>(4096, fleet.upstreams.size() * kPlaces);
}

Json Balancing(const EnvoyFleet& fleet, const ClusterKind& kind) {
  Json policy = kind.sequences
                    ? Extension("envoy.load_balancing_policies.ring_hash",
                                "load_balancing_policies.ring_hash.v3.RingHash",
                                {{"hash_function", "XX_HASH"}, {"minimum_ring_size", RingSize(fleet)}})
                    // Of all replicas the one that has the fewest requests, not of two that were drawn.
                    : Extension("envoy.load_balancing_policies.least_request",
                                "load_balancing_policies.least_request.v3.LeastRequest",
                                {{"selection_method", "FULL_SCAN"}});
  return {{"policies", {{{"typed_extension_config", std::move(policy)}}}}};
}

// Without the assignment.
Json Cluster(const EnvoyFleet& fleet, const EnvoyOptions& options, const ClusterKind& kind) {
  Json common = {{"healthy_panic_threshold", {{"value", 0}}}};
  if (kind.sequences && !options.session_header.empty()) {
    // A sequence stays where it is while its replica ends, which then says that it is not ready.
    common["override_host_status"] = {
        {"statuses", {"UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING", "UNHEALTHY"}}};
  }
  Json cluster = {
      {"name", kind.name},
      {"connect_timeout", "1s"},
      {"load_balancing_policy", Balancing(fleet, kind)},
      {"common_lb_config", std::move(common)},
      // One that is no longer named is left at once, also while it is well.
      {"ignore_health_on_host_removal", true},
      {"health_checks", Json::array({HealthCheck(kind)})},
      {"outlier_detection", Outliers(kind)},
      // The limits are the replicas'.
      {"circuit_breakers",
       {{"thresholds",
         {{{"max_connections", kNoLimit},
           {"max_pending_requests", kNoLimit},
           {"max_requests", kNoLimit},
           {"retry_budget", {{"budget_percent", {{"value", 50}}}, {"min_retry_concurrency", 10}}}}}}}},
      {"typed_extension_protocol_options",
       {{std::string(kExtensions) + ".upstreams.http.v3.HttpProtocolOptions", ProtocolOptions(kind)}}},
  };
  if (options.tls.enabled) cluster["transport_socket"] = UpstreamTls(options.tls, kind.grpc);
  return cluster;
}

bool AllAddresses(const EnvoyFleet& fleet) {
  for (const Upstream& upstream : fleet.upstreams) {
    if (!IsAddress(upstream.address.empty() ? upstream.endpoint.host : upstream.address)) return false;
  }
  return true;
}

// ---- routes -------------------------------------------------------------------------------------------------

// What has certainly not begun is sent again: there was no connection, the stream was refused, or the request had not left.
constexpr char kNotBegun[] = "connect-failure,refused-stream,reset-before-request";

// So is a step of a sequence that its replica had and has no more, as the store of sequences says: what that has done of it is nowhere. It
// takes the sequence over when it is asked again.
Json SequenceRetryPolicy(bool grpc) {
  if (!grpc) {
    return {{"retry_on", std::string(kNotBegun) + ",retriable-status-codes"},
            {"num_retries", 3},
            {"retriable_status_codes", Json::array({409})}};
  }
  Json text = {{"name", "grpc-message"}, {"string_match", {{"contains", "this step was not done"}}}};
  return {{"retry_on", std::string(kNotBegun) + ",retriable-headers"},
          {"num_retries", 3},
          {"retriable_headers", Json::array({std::move(text)})}};
}

Json RetryPolicy(const ClusterKind& kind) {
  if (kind.sequences) return SequenceRetryPolicy(kind.grpc);
  // The server answers 429 and RESOURCE_EXHAUSTED before it gives the request to its model. Another replica may have room.
  Json policy = {
      {"retry_on", std::string(kNotBegun) + (kind.grpc ? ",retriable-headers" : ",retriable-status-codes")},
      {"num_retries", 3},
      {"retry_host_predicate",
       Json::array({Extension("envoy.retry_host_predicates.previous_hosts",
                              "retry.host.previous_hosts.v3.PreviousHostsPredicate")})},
      {"host_selection_retry_max_attempts", 5},
      {"retry_back_off", {{"base_interval", "0.005s"}, {"max_interval", "0.050s"}}}};
  if (kind.grpc) {
    policy["retriable_headers"] = Json::array({Json{{"name", kRefusedMark}, {"present_match", true}}});
  } else {
    policy["retriable_status_codes"] = Json::array({429});
  }
  return policy;
}

Json RouteTo(const ClusterKind& kind, const EnvoyOptions& options, Json match) {
  // Nothing ends a request but its client and the server.
  Json action = {{"cluster", kind.name}, {"timeout", "0s"}, {"retry_policy", RetryPolicy(kind)}};
  Json route = {{"match", std::move(match)}};
  if (kind.sequences) {
    Json hashes = {{{"header", {{"header_name", kSequenceHeader}}}, {"terminal", true}}};
    for (const std::string& header : options.hash_headers) {
      hashes.push_back({{"header", {{"header_name", header}}}, {"terminal", true}});
    }
    action["hash_policy"] = std::move(hashes);
  }
  route["route"] = std::move(action);
  if (!kind.sequences && !options.session_header.empty()) {
    route["typed_per_filter_config"] = {
        {"envoy.filters.http.stateful_session",
         Typed(std::string(kExtensions) + ".filters.http.stateful_session.v3.StatefulSessionPerRoute",
               {{"disabled", true}})}};
  }
  return route;
}

Json Answer(Json match, int status, const std::string& text, bool grpc) {
  Json answer = {{"status", status}};
  answer["body"] = {{"inline_string", grpc ? text : DumpJson(Json{{"error", text}})}};
  Json route = {{"match", std::move(match)}, {"direct_response", std::move(answer)}};
  if (!grpc) {
    route["response_headers_to_add"] = {{{"header", {{"key", "content-type"}, {"value", "application/json"}}},
                                         {"append_action", "OVERWRITE_IF_EXISTS_OR_ADD"}}};
  }
  return route;
}

// The name of a model as it stands in a path.
std::string PathText(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.' || c == '~';
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

// What is about one server, and cannot be meant for whichever the front would choose.
constexpr char kOneServer[] = "this is about one server: ask that itself, not the front of its fleet";
constexpr const char* kOneServerPatterns[] = {
    "/v2/repository/models/[^/]+/(load|unload)", "/v2/(system|cuda)sharedmemory/.*",
    "/v2(/models/[^/]+)?/trace/setting", "/v2/logging|/v1/config/reload"};
constexpr const char* kOneServerMethods[] = {"/inference.GRPCInferenceService/RepositoryModelLoad",
                                             "/inference.GRPCInferenceService/RepositoryModelUnload",
                                             "/inference.GRPCInferenceService/LogSettings",
                                             "/inference.GRPCInferenceService/TraceSetting",
                                             "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
                                             "/inference.GRPCInferenceService/SystemSharedMemoryRegister",
                                             "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
                                             "/inference.GRPCInferenceService/CudaSharedMemoryStatus",
                                             "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
                                             "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
                                             "/tensorflow.serving.ModelService/HandleReloadConfigRequest"};

Json RouteConfiguration(const EnvoyFleet& fleet, const EnvoyOptions& options, bool grpc) {
  const ClusterKind& plain = kClusters[grpc ? 0 : 1];
  const ClusterKind& sequences = kClusters[grpc ? 2 : 3];
  Json routes = Json::array();
  if (grpc) {
    for (const char* method : kOneServerMethods)
      routes.push_back(Answer({{"path", method}}, 403, kOneServer, grpc));
  } else {
    for (const char* pattern : kOneServerPatterns)
      routes.push_back(Answer({{"safe_regex", {{"regex", pattern}}}}, 403, kOneServer, grpc));
  }
  std::vector<std::string> headers = {kSequenceHeader};
  headers.insert(headers.end(), options.hash_headers.begin(), options.hash_headers.end());
  if (!options.session_header.empty()) headers.push_back(options.session_header);
  for (const std::string& header : headers) {
    routes.push_back(RouteTo(sequences, options,
                             {{"prefix", "/"}, {"headers", {{{"name", header}, {"present_match", true}}}}}));
  }
  for (const std::string& model : grpc ? std::vector<std::string>() : fleet.sequence_models) {
    const std::string name = PathText(model);
    for (const auto& [kind, path] : {std::pair("path_separated_prefix", "/v2/models/" + name),
                                     std::pair("path_separated_prefix", "/v1/models/" + name),
                                     std::pair("prefix", "/v1/models/" + name + ":")}) {
      Json post = {{"name", ":method"}, {"string_match", {{"exact", "POST"}}}};
      routes.push_back(
          Answer({{kind, path}, {"headers", Json::array({std::move(post)})}}, 400,
                 fmt::format("'{}' has sequences: its requests name theirs in the header {}, so that "
                             "they all reach one server",
                             model, kSequenceHeader),
                 grpc));
    }
  }
  routes.push_back(RouteTo(plain, options, {{"prefix", "/"}}));
  return {
      {"name", plain.name},
      {"virtual_hosts", {{{"name", "all"}, {"domains", Json::array({"*"})}, {"routes", std::move(routes)}}}}};
}

// ---- listeners ----------------------------------------------------------------------------------------------

Json Filters(const EnvoyFleet& fleet, const EnvoyOptions& options, bool grpc) {
  Json filters = Json::array();
  if (grpc) filters.push_back(LuaFilter("unmark-refused", kUnmarkRefused));
  if (options.lift_sequence_ids && !fleet.sequence_models.empty())
    filters.push_back(LuaFilter("lift-sequence-id", LiftSequenceIdScript(fleet.sequence_models)));
  if (!options.session_header.empty()) {
    filters.push_back(
        Extension("envoy.filters.http.stateful_session", "filters.http.stateful_session.v3.StatefulSession",
                  {{"session_state", Extension("envoy.http.stateful_session.header",
                                               "http.stateful_session.header.v3.HeaderBasedSessionState",
                                               {{"name", options.session_header}})}}));
  }
  filters.push_back(Extension("envoy.filters.http.router", "filters.http.router.v3.Router"));
  return filters;
}

Json Listener(const EnvoyFleet& fleet, const EnvoyOptions& options, bool grpc, Json route_source) {
  const char* name = grpc ? "grpc" : "http";
  Json manager = {{"stat_prefix", name},
                  {"codec_type", "AUTO"},
                  {"stream_idle_timeout", "0s"},
                  {"http_filters", Filters(fleet, options, grpc)}};
  for (auto& [key, value] : route_source.items()) manager[key] = value;
  Json chain = {
      {"filters", Json::array({Extension("envoy.filters.network.http_connection_manager",
                                         "filters.network.http_connection_manager.v3.HttpConnectionManager",
                                         std::move(manager))})}};
  if (!options.cert_file.empty()) {
    Json common = {{"tls_certificates",
                    {{{"certificate_chain", {{"filename", options.cert_file}}},
                      {"private_key", {{"filename", options.key_file}}}}}},
                   {"alpn_protocols", Json::array({"h2", "http/1.1"})}};
    chain["transport_socket"] =
        Extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.DownstreamTlsContext",
                  {{"common_tls_context", std::move(common)}});
  }
  return {{"name", name},
          {"address", SocketAddress(grpc ? options.listen_grpc : options.listen_http)},
          {"per_connection_buffer_limit_bytes", options.buffer_bytes},
          {"filter_chains", Json::array({std::move(chain)})}};
}

Json PathSource(const std::string& path) {
  return {{"path_config_source", {{"path", path}}}, {"resource_api_version", "V3"}};
}

Json Resources(const std::string& type, std::vector<Json> resources) {
  Json list = Json::array();
  for (Json& each : resources) list.push_back(Typed("envoy.config." + type, std::move(each)));
  return {{"resources", std::move(list)}};
}

Json Bootstrap(const EnvoyOptions& options) {
  return {{"node", {{"id", "braid-front"}, {"cluster", "braid"}}},
          {"admin", {{"address", SocketAddress(options.admin)}}}};
}

}  // namespace

Json EnvoyConfiguration(const EnvoyFleet& fleet, const EnvoyOptions& options) {
  Json listeners = Json::array();
  for (const bool grpc : {true, false}) {
    listeners.push_back(
        Listener(fleet, options, grpc, {{"route_config", RouteConfiguration(fleet, options, grpc)}}));
  }
  Json clusters = Json::array();
  for (const ClusterKind& kind : kClusters) {
    Json cluster = Cluster(fleet, options, kind);
    cluster["type"] = AllAddresses(fleet) ? "STATIC" : "STRICT_DNS";
    if (!AllAddresses(fleet)) {
      cluster["dns_refresh_rate"] = "1s";
      cluster["dns_lookup_family"] = "V4_PREFERRED";
    }
    cluster["load_assignment"] = Assignment(fleet, kind);
    clusters.push_back(std::move(cluster));
  }
  Json whole = Bootstrap(options);
  whole["static_resources"] = {{"listeners", std::move(listeners)}, {"clusters", std::move(clusters)}};
  return whole;
}

std::vector<std::pair<std::string, Json>> EnvoyFiles(const EnvoyFleet& fleet, const EnvoyOptions& options,
                                                     const std::string& folder) {
  const auto path = [&](const std::string& name) { return folder + "/" + name; };
  Json listeners = Json::array();
  std::vector<std::pair<std::string, Json>> files(1);
  for (const bool grpc : {true, false}) {
    const std::string name = grpc ? "routes-grpc.json" : "routes-http.json";
    listeners.push_back(Listener(
        fleet, options, grpc,
        {{"rds",
          {{"route_config_name", grpc ? "grpc" : "http"}, {"config_source", PathSource(path(name))}}}}));
    files.emplace_back(name,
                       Resources("route.v3.RouteConfiguration", {RouteConfiguration(fleet, options, grpc)}));
  }
  std::vector<Json> clusters;
  for (const ClusterKind& kind : kClusters) {
    const std::string name = fmt::format("endpoints-{}.json", kind.name);
    clusters.push_back(Cluster(fleet, options, kind));
    clusters.back()["type"] = "EDS";
    clusters.back()["eds_cluster_config"] = {{"eds_config", PathSource(path(name))}};
    files.emplace_back(name, Resources("endpoint.v3.ClusterLoadAssignment", {Assignment(fleet, kind)}));
  }
  files.emplace_back("clusters.json", Resources("cluster.v3.Cluster", std::move(clusters)));
  Json bootstrap = Bootstrap(options);
  bootstrap["static_resources"] = {{"listeners", std::move(listeners)}};
  bootstrap["dynamic_resources"] = {{"cds_config", PathSource(path("clusters.json"))}};
  files.front() = {"envoy.json", std::move(bootstrap)};
  return files;
}

}  // namespace braid::fleet
