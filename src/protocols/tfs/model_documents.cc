#include "protocols/tfs/model_documents.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <set>

#include "protocols/http/message.h"
#include "protocols/tfs/data_types.h"

namespace braid {
namespace {

using tensorflow::serving::GetModelMetadataResponse;
using tensorflow::serving::GetModelStatusResponse;
using tensorflow::serving::ModelVersionStatus;

constexpr char kSignature[] = "serving_default";

void SetState(ModelVersionStatus& status, ModelVersionStatus::State state, tensorflow::error::Code code) {
  status.set_state(state);
  status.mutable_status()->set_error_code(code);
  status.mutable_status()->set_error_message(tensorflow::error::Code_Name(code));
}

bool HasVersions(ServableKind kind) {
  return kind == ServableKind::kModel || kind == ServableKind::kEnsemble;
}

// `published`: the version is served, and only temporarily not ready.
void Describe(const IndexEntry& entry, bool published, ModelVersionStatus& status) {
  using tensorflow::error::Code;
  status.set_version(entry.version.value_or(0));
  switch (entry.state) {
    case VersionState::kReady:
      return SetState(status, ModelVersionStatus::AVAILABLE, Code::OK);
    case VersionState::kLoading:
      return SetState(status, ModelVersionStatus::LOADING, Code::OK);
    case VersionState::kUnloading:
      return SetState(status, ModelVersionStatus::UNLOADING, Code::OK);
    case VersionState::kUnavailable:
      break;
  }
  if (published) return SetState(status, ModelVersionStatus::LOADING, Code::UNAVAILABLE);
  switch (entry.failure) {
    case StatusCode::kOk:
      return SetState(status, ModelVersionStatus::END, Code::OK);
    case StatusCode::kFailedPrecondition:
      return SetState(status, ModelVersionStatus::LOADING, Code::FAILED_PRECONDITION);
    default:
      // Any failure of a pipeline or graph is a fault of its definition.
      return SetState(status, ModelVersionStatus::LOADING,
                      HasVersions(entry.kind) ? Code::UNKNOWN : Code::FAILED_PRECONDITION);
  }
}

// Returns the versions of a model that the catalog serves.
std::set<int64_t> PublishedVersions(const Catalog& catalog, const std::string& name) {
  std::set<int64_t> versions;
  if (auto servables = catalog.Versions(name, -1); servables.ok()) {
    for (const auto& servable : *servables) versions.insert(servable->info().version);
  }
  return versions;
}

void AddTensors(const std::vector<TensorSpec>& specs,
                google::protobuf::Map<std::string, tensorflow::TensorInfo>& to) {
  for (const TensorSpec& spec : specs) {
    tensorflow::TensorInfo& info = to[spec.name];
    info.set_name(spec.name);
    info.set_dtype(ToTensorFlow(spec.type));
    auto& shape = *info.mutable_tensor_shape();
    for (int64_t size : spec.shape) shape.add_dim()->set_size(size);
  }
}

}  // namespace

Result<GetModelStatusResponse> ModelStatus(const Catalog& catalog, const std::string& name, int64_t version) {
  GetModelStatusResponse response;
  const std::set<int64_t> published = PublishedVersions(catalog, name);
  for (const IndexEntry& entry : catalog.Index(false)) {
    if (entry.name != name || !entry.version) continue;
    if (version > 0 && *entry.version != version && HasVersions(entry.kind)) continue;
    Describe(entry, published.contains(*entry.version), *response.add_model_version_status());
  }
  if (response.model_version_status_size() == 0) {
    return catalog.WhyNotFound(name, version > 0 ? version : -1);
  }
  return response;
}

Result<std::string> AllModelStatusesJson(const Catalog& catalog) {
  std::map<std::string, GetModelStatusResponse> models;
  for (const IndexEntry& entry : catalog.Index(false)) {
    GetModelStatusResponse& model = models[entry.name];
    if (!entry.version) continue;
    const bool published = entry.state == VersionState::kUnavailable &&
                           PublishedVersions(catalog, entry.name).contains(*entry.version);
    Describe(entry, published, *model.add_model_version_status());
  }
  if (models.empty()) return std::string("{}\n");
  std::string json = "{";
  for (const auto& [name, model] : models) {
    json += json.size() == 1 ? "\n" : ",\n";
    AppendJsonString(json, name);
    json += " : ";
    BRAID_ASSIGN_OR_RETURN(std::string text, ToPrettyJson(model));
    text.erase(text.find_last_not_of('\n') + 1);
    json += text;
  }
  json += "\n}\n";
  return json;
}

GetModelMetadataResponse ModelMetadata(const ServableInfo& info) {
  GetModelMetadataResponse response;
  response.mutable_model_spec()->set_name(info.name);
  response.mutable_model_spec()->mutable_version()->set_value(info.version);
  tensorflow::serving::SignatureDefMap signatures;
  tensorflow::SignatureDef& signature = (*signatures.mutable_signature_def())[kSignature];
  AddTensors(info.inputs, *signature.mutable_inputs());
  AddTensors(info.outputs, *signature.mutable_outputs());
  (*response.mutable_metadata())["signature_def"].PackFrom(signatures);
  return response;
}

Result<std::string> ToPrettyJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return InternalError("Response parsing to JSON error: " + std::string(status.message()));
  return json;
}

}  // namespace braid
