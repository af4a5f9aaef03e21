#include "server/startup_report.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/json.h"
#include "base/unix_address.h"
#include "base/utf8.h"
#include "isolation/confinement.h"
#include "model_config.pb.h"

namespace braid {
namespace {

using Row = std::array<std::string, 5>;

// Returns a plausible value for each element, only for small shapes.
Json SampleInput(const TensorSpec& spec, bool& possible) {
  constexpr int64_t kMostElements = 16;
  Json shape = Json::array();
  int64_t count = 1;
  for (int64_t dim : spec.shape) {
    const int64_t size = dim < 0 ? 1 : dim;
    shape.push_back(size);
    count *= size;
    if (count > kMostElements) possible = false;
  }
  // JSON cannot carry 16-bit floats, and a graph's nodes define its inputs.
  if (spec.type == DataType::kFp16 || spec.type == DataType::kBf16 || spec.type == DataType::kInvalid) {
    possible = false;
  }
  Json data = Json::array();
  for (int64_t i = 0; possible && i < count; ++i) {
    if (spec.type == DataType::kBytes) {
      data.push_back("hello");
    } else if (spec.type == DataType::kBool) {
      data.push_back(true);
    } else {
      data.push_back(i + 1);
    }
  }
  return {
      {"name", spec.name}, {"shape", shape}, {"datatype", std::string(WireName(spec.type))}, {"data", data}};
}

// Returns " (GPU 0, 1)": the GPUs of the instances.
std::string DevicesOf(const ServableInfo& info) {
  std::set<int> gpus;
  if (info.config != nullptr) {
    for (const auto& group : info.config->instance_group()) {
      if (group.kind() == inference::ModelInstanceGroup::KIND_GPU)
        gpus.insert(group.gpus().begin(), group.gpus().end());
    }
  }
  return gpus.empty() ? "" : fmt::format(" (GPU {})", fmt::join(gpus, ", "));
}

using NamedEndpoints = std::pair<const char*, const std::vector<std::string>*>;

std::array<NamedEndpoints, 4> ByName(const ServerAddresses& addresses) {
  return {NamedEndpoints{"http", &addresses.http}, NamedEndpoints{"grpc", &addresses.grpc},
          NamedEndpoints{"metrics", &addresses.metrics}, NamedEndpoints{"admin", &addresses.admin}};
}

}  // namespace

std::string ModelTable(const Catalog& catalog) {
  std::vector<Row> rows = {{"MODEL", "VERSION", "KIND", "INSTANCES", "STATE"}};
  const auto ready = catalog.All();
  for (const IndexEntry& entry : catalog.Index(false)) {
    Row row = {entry.name, entry.version ? std::to_string(*entry.version) : "-", "-", "-",
               std::string(VersionStateName(entry.state))};
    if (!entry.version) row[4] = "not loaded";
    if (!entry.reason.empty()) row[4] += ": " + entry.reason.substr(0, entry.reason.find('\n'));
    auto servable = std::find_if(ready.begin(), ready.end(), [&entry](const auto& candidate) {
      return candidate->info().name == entry.name && candidate->info().version == entry.version;
    });
    if (servable != ready.end()) {
      const ServableInfo& info = (*servable)->info();
      row[2] = std::string(ServableKindName(info.kind)) +
               // For servables made of models, the platform says nothing about their execution.
               (info.platform.empty() || info.kind != ServableKind::kModel ? "" : " (" + info.platform + ")");
      row[3] = std::to_string(info.instance_count) + DevicesOf(info);
    }
    rows.push_back(std::move(row));
  }
  std::array<size_t, 5> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string DescribeGpus(const std::vector<GpuDevice>& gpus) {
  std::vector<std::string> texts;
  for (const GpuDevice& gpu : gpus) {
    texts.push_back(fmt::format("{}: {} ({}.{}, {:.1f} GiB)", gpu.id, gpu.name, gpu.capability_major,
                                gpu.capability_minor, static_cast<double>(gpu.memory_bytes) / (1 << 30)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string DescribeIsolation(const IsolationOptions& options) {
  const IsolationReport report = ReportIsolation(options.level);
  std::string text(IsolationLevelName(options.level));
  text += report.kept_out.empty() ? " (nothing is out of reach" : " (out of reach: ";
  text += fmt::format("{}", fmt::join(report.kept_out, ", "));
  for (const std::string& missing : report.missing) text += "; not " + missing;
  text += ')';
  for (const auto& [model, level] : options.models) {
    text += fmt::format(", {}={}", model, IsolationLevelName(level));
  }
  return text;
}

std::string FirstEndpoint(const std::vector<std::string>& endpoints) {
  return endpoints.empty() ? "" : endpoints.front();
}

std::string EndpointHere(const std::string& endpoint) {
  for (const auto& [all, here] : {std::pair("0.0.0.0:", "127.0.0.1:"), std::pair("[::]:", "[::1]:")}) {
    if (endpoint.starts_with(all)) return here + endpoint.substr(std::string_view(all).size());
  }
  return endpoint;
}

std::string SampleRequest(const Catalog& catalog, const ServerAddresses& addresses) {
  if (addresses.http.empty()) return "";
  for (const auto& servable : catalog.All()) {
    const ServableInfo& info = servable->info();
    bool possible = !info.decoupled;
    Json inputs = Json::array();
    for (const TensorSpec& input : info.inputs) inputs.push_back(SampleInput(input, possible));
    if (!possible) continue;
    const std::string scheme = addresses.https ? "https://" : "http://";
    const auto path = UnixPath(addresses.http.front());
    const std::string server = path.ok() ? "--unix-socket " + ShellQuoted(*path) + " " + scheme + "localhost"
                                         : scheme + EndpointHere(addresses.http.front());
    return "curl -s " + server + "/v2/models/" + info.name + "/infer -d '" +
           DumpJson(Json{{"inputs", inputs}}) + "'";
  }
  return "";
}

std::string AddressesJson(const ServerAddresses& addresses) {
  Json json = Json::object();
  for (const auto& [name, endpoints] : ByName(addresses))
    if (!endpoints->empty()) json[name] = endpoints->front();
  return DumpJson(json);
}

std::string OtherAddresses(const ServerAddresses& addresses) {
  std::vector<std::string> others;
  for (const auto& [name, endpoints] : ByName(addresses)) {
    for (size_t i = 1; i < endpoints->size(); ++i)
      others.push_back(fmt::format("{} {}", name, (*endpoints)[i]));
  }
  return fmt::format("{}", fmt::join(others, ", "));
}

}  // namespace braid
