// The startup output of the server: its models, its addresses, and a command to paste.
#pragma once

#include <string>
#include <vector>

#include "gpu/devices.h"
#include "isolation/isolation_options.h"
#include "serving/catalog.h"

namespace braid {

struct ServerAddresses {
  std::string http;  // "127.0.0.1:8000"; empty when off
  std::string grpc;
  std::string metrics;
  std::string admin;
  bool https = false;  // all except `grpc` use TLS
};

// Returns a table of name, version, kind, instances and state, with one line per index entry.
std::string ModelTable(const Catalog& catalog);

// Returns "0: NVIDIA L4 (8.9, 22.0 GiB), 1: ...": ids, compute capabilities and memory. Empty without GPUs.
std::string DescribeGpus(const std::vector<GpuDevice>& gpus);

// Returns the isolation level with the server's resources that model processes cannot reach, and the reason
// if it is not stricter: "basic (out of reach: memory and environment, signals)".
std::string DescribeIsolation(const IsolationOptions& options);

// Returns the local address of `endpoint`: "0.0.0.0:8000", on all addresses, becomes "127.0.0.1:8000".
std::string EndpointHere(const std::string& endpoint);

// Returns a curl command with a real request to the first ready model; empty without such a model or without
// HTTP.
std::string SampleRequest(const Catalog& catalog, const ServerAddresses& addresses);

// Returns a JSON object with the addresses, for programs that let the system choose the ports.
std::string AddressesJson(const ServerAddresses& addresses);

}  // namespace braid
