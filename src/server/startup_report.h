// The startup output of the server: its models, its addresses, and a command to paste.
#pragma once

#include <string>
#include <vector>

#include "gpu/devices.h"
#include "isolation/isolation_options.h"
#include "serving/catalog.h"

namespace braid {

// The addresses of each port in the order of its option: "127.0.0.1:8000", "unix:/run/http.sock". Empty when
// the port is off.
struct ServerAddresses {
  std::vector<std::string> http;
  std::vector<std::string> grpc;
  std::vector<std::string> metrics;
  std::vector<std::string> admin;
  bool https = false;  // all except `grpc` use TLS
};

// Returns a table of name, version, kind, instances and state, with one line per index entry.
std::string ModelTable(const Catalog& catalog);

// Returns "0: NVIDIA L4 (8.9, 22.0 GiB), 1: ...": ids, compute capabilities and memory. Empty without GPUs.
std::string DescribeGpus(const std::vector<GpuDevice>& gpus);

// Returns the isolation level with the server's resources that model processes cannot reach, and the reason
// if it is not stricter: "basic (out of reach: memory and environment, signals)".
std::string DescribeIsolation(const IsolationOptions& options);

// Returns the first address of a port; empty when it is off.
std::string FirstEndpoint(const std::vector<std::string>& endpoints);

// Returns the local address of `endpoint`: "0.0.0.0:8000", on all addresses, becomes "127.0.0.1:8000".
std::string EndpointHere(const std::string& endpoint);

// Returns a curl command with a real request to the first ready model; empty without such a model or without
// HTTP.
std::string SampleRequest(const Catalog& catalog, const ServerAddresses& addresses);

// Returns a JSON object with each port's first address, for programs that let the system choose the ports.
std::string AddressesJson(const ServerAddresses& addresses);

// Returns the other addresses as a list: "http [::1]:8000, grpc unix:/run/grpc.sock". Empty if there are none.
std::string OtherAddresses(const ServerAddresses& addresses);

}  // namespace braid
