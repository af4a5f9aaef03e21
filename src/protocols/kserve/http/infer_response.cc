#include "protocols/kserve/http/infer_response.h"

#include "protocols/json/values.h"

namespace braid {
namespace {

void AppendInteger(std::string& out, int64_t value) { AppendParameterValue(out, ParameterValue(value)); }

void AppendParameters(std::string& out, const Parameters& parameters) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : parameters) {
    if (!first) out += ',';
    first = false;
    AppendJsonString(out, name);
    out += ':';
    AppendParameterValue(out, value);
  }
  out += '}';
}

}  // namespace

size_t JsonOutputBytes(const InferenceResponse& response, const HttpOutputFormat& format) {
  size_t bytes = 0;
  for (const Tensor& output : response.outputs) {
    if (!format.IsBinary(output.name)) bytes += output.data.size();
  }
  return bytes;
}

Result<HttpResponse> WriteInferResponse(std::string_view id, InferenceResponse response,
                                        const HttpOutputFormat& format) {
  HttpResponse out;
  std::string& json = out.body;
  json.reserve(256);
  out.tail.reserve(response.outputs.size());
  json += '{';
  if (!id.empty()) {
    json += "\"id\":";
    AppendJsonString(json, id);
    json += ',';
  }
  json += "\"model_name\":";
  AppendJsonString(json, response.model_name);
  json += ",\"model_version\":\"";
  AppendInteger(json, response.model_version);
  json += '"';
  if (!response.parameters.empty()) {
    json += ",\"parameters\":";
    AppendParameters(json, response.parameters);
  }
  json += ",\"outputs\":[";
  bool has_binary = false;
  bool first = true;
  for (Tensor& output : response.outputs) {
    const OutputRequest* choice = format.plan.Find(output.name);
    Tensor tensor = std::move(output);
    if (!first) json += ',';
    first = false;
    json += "{\"name\":";
    AppendJsonString(json, tensor.name);
    json += ",\"datatype\":";
    AppendJsonString(json, TypeName(tensor));
    json += ",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i != 0) json += ',';
      AppendInteger(json, tensor.shape[i]);
    }
    if (choice != nullptr && choice->part.region) {
      json += "],\"parameters\":{\"shared_memory_region\":";
      AppendJsonString(json, choice->part.region->info().name);
      json += ",\"shared_memory_byte_size\":";
      AppendInteger(json, choice->part.byte_size);
      if (choice->part.offset != 0) {
        json += ",\"shared_memory_offset\":";
        AppendInteger(json, choice->part.offset);
      }
      json += "}}";
    } else if (choice != nullptr ? choice->binary : format.binary_default) {
      has_binary = true;
      json += "],\"parameters\":{\"binary_data_size\":";
      AppendInteger(json, tensor.data.size());
      json += "}}";
      if (!tensor.data.empty()) out.tail.push_back(std::move(tensor.data));
    } else {
      json += "],\"data\":[";
      const Status appended = AppendTensorValues(json, tensor);
      if (appended.code() == StatusCode::kInvalidArgument) {
        return format.rules->Choose(
            appended, FaultError(Fault::kRestUnsupportedPrecision, appended.message() + " " + tensor.name));
      }
      if (!appended.ok()) {
        return format.rules->Choose(appended, FaultError(Fault::kInternalError, appended.message()));
      }
      json += "]}";
    }
  }
  json += "]}";
  if (has_binary) {
    out.content_type = "application/octet-stream";
    out.headers.emplace_back("Inference-Header-Content-Length", std::to_string(json.size()));
  } else {
    out.content_type = kJsonType;
  }
  return out;
}

}  // namespace braid
