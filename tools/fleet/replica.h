// What the servers of a fleet say of themselves, asked over HTTP.
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

// How replicas are asked.
struct Asking {
  load::Connection::Headers headers;
  load::TlsOptions tls;
  double timeout_s = 5;             // for each answer; after one that is late a replica is asked nothing more
  int64_t deadline_ns = INT64_MAX;  // SteadyNowNs() time, after which nothing more is asked
};

struct VersionView {
  std::string version;  // "": none has ever been
  std::string state;    // "READY", "UNAVAILABLE", ...
  std::string reason;
  bool operator==(const VersionView&) const = default;
};

struct ModelView {
  std::string name;
  std::vector<VersionView> versions;
  // As the server prints it; discarded where it has none: what comes from a config.json, and what is not ready.
  Json config = Json(Json::value_t::discarded);
  // Its requests belong together, so that all of a sequence have to reach one replica. Of what comes from a config.json this is known by
  // its metrics alone.
  bool sequences = false;
  // Since its start, over its versions.
  uint64_t requests = 0;  // that succeeded
  uint64_t failures = 0;
  uint64_t queue_ns = 0;
  // By the metrics, where there are some.
  std::optional<uint64_t> live_sequences;
  std::optional<uint64_t> waiting;

  bool ready() const;
};

struct Replica {
  Endpoint endpoint;
  Status
      answer;  // not OK: it did not answer, or not as a server of KServe v2 does; what is below is then empty
  std::string server;                 // "braid 0.1.0"
  int64_t at_ms = 0;                  // when its counters were read, since 1970
  std::optional<int64_t> started_ms;  // since 1970; by the metrics, where there are some
  bool ready = false;
  std::vector<ModelView> models;  // by name
  // Why there are no figures of metrics; OK where there are.
  Status metrics;

  const ModelView* Find(const std::string& model) const;
};

// A client of the replica's HTTP port. Errors: files of TLS that cannot be used.
Result<load::Client> ClientOf(const Endpoint& endpoint, uint16_t port, const Asking& asking);

// Asks one. Blocks.
Replica LookAt(const Endpoint& endpoint, const Asking& asking);
// Asks all, up to 64 at the same time; the answers are in the given order.
std::vector<Replica> LookAtAll(const std::vector<Endpoint>& endpoints, const Asking& asking);

// Reads Prometheus' text: the figures of models go into the replica's models of the same name.
void ReadMetrics(std::string_view text, Replica& replica);

// Marks ensembles with a step of a model with sequences: their requests belong together as that model's do.
void MarkEnsembles(std::vector<ModelView>& models);

// Something that is not the same at all replicas that have answered.
struct Difference {
  std::string model;  // "": it is about the servers
  std::string text;   // one sentence, which names the replicas
};

// Servers, models, versions, states, configurations.
std::vector<Difference> Differences(const std::vector<Replica>& replicas);

}  // namespace braid::fleet
