// What the server prints when it is up: what it serves, where, and a line to paste.
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
  bool https = false;  // all but `grpc` speak TLS
};

// A table of name, version, kind, instances and state, a line for each entry of the index.
std::string ModelTable(const Catalog& catalog);

// "0: NVIDIA L4 (8.9, 22.0 GiB), 1: ...", by their ids, with compute capability and memory. Empty without any.
std::string DescribeGpus(const std::vector<GpuDevice>& gpus);

// What of the server the processes of models do not reach, and why not more:
// "basic (out of reach: memory and environment, signals)".
std::string DescribeIsolation(const IsolationOptions& options);

// Where a client on this machine reaches `endpoint`, which may stand for all addresses: "0.0.0.0:8000" is "127.0.0.1:8000" then.
std::string EndpointHere(const std::string& endpoint);

// A curl command that sends a real request to the first ready model; empty when there is none or HTTP is off.
std::string SampleRequest(const Catalog& catalog, const ServerAddresses& addresses);

// One JSON object with the addresses, for programs that start the server on ports which the system hands out.
std::string AddressesJson(const ServerAddresses& addresses);

}  // namespace braid
