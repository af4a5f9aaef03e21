#include "fleet/envoy.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "fleet/envoy_files.h"
#include "fleet/templates.h"
#include "load/messages.h"

namespace braid::fleet {
namespace {

constexpr char kSequenceHeader[] = "braid-sequence-id";

const Templates& EnvoyTemplates() {
  static const Templates templates(templates_json);
  return templates;
}

// Parses "host:port"; a host with colons stands in brackets.
Json SocketAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {
      {"socket_address", {{"address", host}, {"port_value", ReadPort(text.substr(colon + 1)).value_or(0)}}}};
}

// With this many places the replicas' shares of sequences are nearly equal (bench/run-fleet-model). With 256
// places each, the fullest of 1,000 replicas has 1.2 times the mean; with four, 3.3 times.
size_t RingSize(const EnvoyFleet& fleet) {
  constexpr size_t kPlaces = 256;
  // DNS decides the number of replicas.
  if (fleet.by_dns) return 256 * kPlaces;
  return std::max<size_t>(4096, fleet.upstreams.size() * kPlaces);
}

// A Lua string literal: letters, digits and a few signs are literal, other bytes are escaped as numbers.
std::string LuaText(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    quoted += plain ? std::string(1, c) : fmt::format("\\{:03}", static_cast<unsigned char>(c));
  }
  return quoted + "\"";
}

std::string HostOf(const Upstream& upstream) {
  return upstream.address.empty() ? upstream.endpoint.host : upstream.address;
}

Json UpstreamValues(const Upstream& upstream) {
  const Endpoint& endpoint = upstream.endpoint;
  return {{"host", HostOf(upstream)},   {"hostname", endpoint.host},     {"grpc_port", endpoint.grpc},
          {"http_port", endpoint.http}, {"draining", upstream.draining}, {"hash_key", endpoint.name()}};
}

Json SequenceModelValues(const std::string& model) {
  const std::string refusal =
      fmt::format("'{}' has sequences: requests must name theirs in the header {}, to reach one server",
                  model, kSequenceHeader);
  return {{"path", load::PathPart(model)}, {"refusal", DumpJson(Json{{"error", refusal}})}};
}

// The values for the templates.
Json ValuesOf(const EnvoyFleet& fleet, const EnvoyOptions& options, const std::string& folder) {
  const load::TlsOptions& tls = options.tls;
  const bool lifts = options.lift_sequence_ids && !fleet.sequence_models.empty();
  Json values = {
      {"folder", folder},
      {"admin", SocketAddress(options.admin)},
      {"listen_grpc", SocketAddress(options.listen_grpc)},
      {"listen_http", SocketAddress(options.listen_http)},
      {"buffer_bytes", options.buffer_bytes},
      {"cert_file", options.cert_file},
      {"key_file", options.key_file},
      {"session_header", options.session_header},
      {"hash_headers", options.hash_headers},
      {"mark_refused", mark_refused_lua},
      {"unmark_refused", unmark_refused_lua},
      {"lift_sequence_id", lifts ? LiftSequenceIdScript(fleet.sequence_models) : ""},
      {"by_dns", fleet.by_dns},
      {"ring_size", RingSize(fleet)},
      {"addresses",
       std::ranges::all_of(fleet.upstreams, [](const Upstream& each) { return IsAddress(HostOf(each)); })},
      {"tls", tls.enabled},
      {"tls_verify_peer", tls.verify_peer},
      {"tls_verify_host", tls.verify_host},
      {"tls_ca_file", tls.ca_file.empty() ? "/etc/ssl/certs/ca-certificates.crt" : tls.ca_file},
      {"tls_cert_file", tls.cert_file},
      {"tls_key_file", tls.key_file},
      {"upstreams", Json::array()},
      {"sequence_headers", Json::array()},
      {"sequence_models", Json::array()},
  };
  for (const Upstream& upstream : fleet.upstreams) values["upstreams"].push_back(UpstreamValues(upstream));
  for (const std::string& model : fleet.sequence_models)
    values["sequence_models"].push_back(SequenceModelValues(model));
  std::vector<std::string> headers = {kSequenceHeader};
  headers.insert(headers.end(), options.hash_headers.begin(), options.hash_headers.end());
  if (!options.session_header.empty()) headers.push_back(options.session_header);
  for (const std::string& header : headers)
    values["sequence_headers"].push_back({{"header", header}, {"sequences", true}});
  return values;
}

Json Resources(const std::string& type, const std::vector<Json>& resources) {
  Json list = Json::array();
  for (const Json& each : resources) {
    Json typed = {{"@type", "type.googleapis.com/envoy.config." + type}};
    typed.update(each);
    list.push_back(std::move(typed));
  }
  return {{"resources", std::move(list)}};
}

}  // namespace

// In KServe's JSON the id is among the request's parameters, in TensorFlow Serving's among the inputs, as a
// number or a text. Within a JSON text a quote has a backslash before it, so the quoted key cannot be part of
// a tensor's text.
//
// In protobuf, ModelInferRequest has the model's name as field 1 and the parameters as field 4. Parameters
// are map entries from a text (1) to a message (2), whose field 2 is an integer, 3 a text and 5 an unsigned
// integer. The script skips all other fields by their length.
std::string LiftSequenceIdScript(const std::vector<std::string>& models) {
  std::string table = "local models = {";
  for (const std::string& model : models) table += fmt::format("[{}] = true, ", LuaText(model));
  return table + "}\n" + lift_sequence_id_lua;
}

Json EnvoyConfiguration(const EnvoyFleet& fleet, const EnvoyOptions& options) {
  return EnvoyTemplates().Fill("bootstrap", ValuesOf(fleet, options, ""));
}

std::vector<std::pair<std::string, Json>> EnvoyFiles(const EnvoyFleet& fleet, const EnvoyOptions& options,
                                                     const std::string& folder) {
  const Templates& templates = EnvoyTemplates();
  const Json values = ValuesOf(fleet, options, folder);
  std::vector<std::pair<std::string, Json>> files;
  const auto add = [&](const std::string& name, const std::string& type, std::vector<Json> resources) {
    files.emplace_back(name, Resources(type, resources));
  };
  files.emplace_back("envoy.json", templates.Fill("bootstrap", values));
  for (const Json& port : templates["ports"]) {
    add(fmt::format("routes-{}.json", port["port"].get<std::string>()), "route.v3.RouteConfiguration",
        {templates.Fill("routes", values, port)});
  }
  std::vector<Json> clusters;
  for (const Json& kind : templates["kinds"]) {
    clusters.push_back(templates.Fill("cluster", values, kind));
    add(fmt::format("endpoints-{}.json", kind["cluster"].get<std::string>()),
        "endpoint.v3.ClusterLoadAssignment", {templates.Fill("assignment", values, kind)});
  }
  add("clusters.json", "cluster.v3.Cluster", std::move(clusters));
  return files;
}

}  // namespace braid::fleet
