// The state of a fleet's servers, as they report it over HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "fleet/endpoint.h"
#include "load/client.h"

namespace braid::fleet {

// How replicas are queried.
struct Asking {
  load::Connection::Headers headers;
  load::TlsOptions tls;
  double timeout_s = 5;             // limit for one answer; after it, the replica gets no further queries
  int64_t deadline_ns = INT64_MAX;  // on the clock of SteadyNowNs(); no query starts after it
};

struct VersionView {
  std::string version;  // "": the model never had a version
  std::string state;    // "READY", "UNAVAILABLE", ...
  std::string reason;
  bool operator==(const VersionView&) const = default;
};

struct ModelView {
  std::string name;
  std::vector<VersionView> versions;
  // As the server prints it; discarded for servables of a config.json, which have none, and for those that
  // are not ready.
  Json config = Json(Json::value_t::discarded);
  // Its requests form sequences, so all requests of a sequence must reach one replica. For servables of a
  // config.json only the metrics show this.
  bool sequences = false;
  // Since the server's start, over all versions.
  uint64_t requests = 0;  // succeeded ones
  uint64_t failures = 0;
  uint64_t queue_ns = 0;
  // From the metrics; nullopt without them.
  std::optional<uint64_t> live_sequences;
  std::optional<uint64_t> waiting;

  bool ready() const;
};

struct Replica {
  Endpoint endpoint;
  Status answer;       // not OK: no answer, or not one of KServe v2; the other fields are then empty
  std::string server;  // "braid 0.1.0"
  int64_t at_ms = 0;   // when its counters were read, in ms since 1970
  std::optional<int64_t> started_ms;  // in ms since 1970; from the metrics, nullopt without them
  bool ready = false;
  std::vector<ModelView> models;  // by name
  // Why the metrics are missing; OK if they were read.
  Status metrics;

  const ModelView* Find(const std::string& model) const;
};

// Returns a client of a port of the replica. Errors: unusable TLS files.
Result<load::Client> ClientOf(const Endpoint& endpoint, uint16_t port, const Asking& asking);

// Queries one replica. Blocks.
Replica LookAt(const Endpoint& endpoint, const Asking& asking);
// Queries all replicas, up to 64 at the same time. The results are in the given order.
std::vector<Replica> LookAtAll(const std::vector<Endpoint>& endpoints, const Asking& asking);

// Parses Prometheus' text format, and adds the figures of each model to the replica's model of that name.
void ReadMetrics(std::string_view text, Replica& replica);

// Marks each ensemble that has a step with sequences: its requests form sequences, too.
void MarkEnsembles(std::vector<ModelView>& models);

// A property on which the replicas that have answered disagree.
struct Difference {
  std::string model;  // "": it concerns the servers
  std::string text;   // one sentence that names the replicas
};

// Compares servers, models, versions, states and configurations.
std::vector<Difference> Differences(const std::vector<Replica>& replicas);

}  // namespace braid::fleet
