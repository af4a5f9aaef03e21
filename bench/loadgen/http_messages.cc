#include "http_messages.h"

#include <strings.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace braid::bench {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxHeadBytes = size_t{64} * 1024;
constexpr size_t kMaxBodyBytes = size_t{1} << 31;

bool EqualsIgnoringCase(std::string_view left, std::string_view right) {
  return left.size() == right.size() && strncasecmp(left.data(), right.data(), left.size()) == 0;
}

bool ParseSize(std::string_view text, size_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value <= kMaxBodyBytes;
}

std::string EncodeJson(const Options& options, bool binary) {
  std::string json = "{";
  std::string parameters;
  if (binary) parameters = "\"binary_data_output\":true";
  for (const auto& [name, value] : options.parameters) {
    if (!parameters.empty()) parameters += ',';
    const bool text = KindOfParameter(value) == ParameterKind::kText;
    parameters += Json(name).dump() + ":" + (text ? Json(value).dump() : value);
  }
  if (!parameters.empty()) json += "\"parameters\":{" + parameters + "},";
  json += "\"inputs\":[";
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const InputTensor& input = options.inputs[i];
    if (i != 0) json += ',';
    json += "{\"name\":" + Json(input.name).dump() + ",\"datatype\":\"" + input.datatype +
            "\",\"shape\":" + Json(input.shape).dump();
    if (binary) {
      json += ",\"parameters\":{\"binary_data_size\":" + std::to_string(input.data.size()) + "}}";
    } else {
      json += ",\"data\":[" + JsonElements(input) + "]}";
    }
  }
  return json + "]}";
}

template <class T>
void AppendNumber(const Json& value, std::string* data) {
  const T number = value.get<T>();
  data->append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendElements(const Json& value, const std::string& datatype, std::string* data) {
  if (value.is_array()) {
    for (const Json& element : value) AppendElements(element, datatype, data);
  } else if (datatype == "FP32") {
    AppendNumber<float>(value, data);
  } else if (datatype == "FP64") {
    AppendNumber<double>(value, data);
  } else if (datatype == "INT32") {
    AppendNumber<int32_t>(value, data);
  } else if (datatype == "INT64") {
    AppendNumber<int64_t>(value, data);
  } else if (datatype == "UINT8") {
    AppendNumber<uint8_t>(value, data);
  } else if (datatype == "BYTES") {
    const std::string& text = value.get_ref<const std::string&>();
    const uint32_t length = static_cast<uint32_t>(text.size());
    data->append(reinterpret_cast<const char*>(&length), sizeof length);
    *data += text;
  }
}

}  // namespace

std::string EncodeHttpInfer(const Options& options) {
  const bool binary = options.protocol == Protocol::kHttp;
  const std::string json = EncodeJson(options, binary);
  size_t body_bytes = json.size();
  std::string message = "POST /v2/models/" + options.model() + "/infer HTTP/1.1\r\nHost: " + options.host +
                        ":" + options.port + "\r\n";
  if (binary) {
    for (const InputTensor& input : options.inputs) body_bytes += input.data.size();
    message += "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
               std::to_string(json.size()) + "\r\n";
  } else {
    message += "Content-Type: application/json\r\n";
  }
  message += "Content-Length: " + std::to_string(body_bytes) + "\r\n\r\n" + json;
  if (binary) {
    for (const InputTensor& input : options.inputs) message += input.data;
  }
  return message;
}

Result<std::optional<HttpHead>> DecodeHttpHead(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() > kMaxHeadBytes) return InternalError("the head of the HTTP response is too long");
    return std::optional<HttpHead>();
  }
  const std::string_view lines = bytes.substr(0, end + 2);
  HttpHead head;
  head.head_bytes = end + 4;
  if (!lines.starts_with("HTTP/1.") || lines.size() < 12) return InternalError("malformed HTTP response");
  std::from_chars(lines.data() + 9, lines.data() + 12, head.status);
  bool has_length = false;
  for (size_t at = lines.find("\r\n") + 2; at < lines.size();) {
    const size_t line_end = lines.find("\r\n", at);
    const std::string_view line = lines.substr(at, line_end - at);
    at = line_end + 2;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return InternalError("malformed HTTP header");
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    if (EqualsIgnoringCase(name, "Content-Length")) {
      has_length = ParseSize(value, &head.body_bytes);
    } else if (EqualsIgnoringCase(name, "Inference-Header-Content-Length")) {
      if (!ParseSize(value, &head.json_bytes))
        return InternalError("malformed Inference-Header-Content-Length");
    } else if (EqualsIgnoringCase(name, "Connection")) {
      head.close = EqualsIgnoringCase(value, "close");
    }
  }
  if (!has_length) return InternalError("HTTP response without a usable Content-Length");
  if (head.json_bytes > head.body_bytes)
    return InternalError("Inference-Header-Content-Length exceeds the body");
  return std::optional<HttpHead>(head);
}

Result<std::vector<HttpOutputDecoder::Layout>> HttpOutputDecoder::ParseJson(std::string_view json) {
  try {
    std::vector<Layout> layout;
    size_t offset = 0;
    const Json response = Json::parse(json);
    for (const Json& output : response.at("outputs")) {
      Layout entry;
      entry.name = output.at("name").get<std::string>();
      if (const auto data = output.find("data"); data != output.end()) {
        AppendElements(*data, output.at("datatype").get<std::string>(), &entry.data);
      } else {
        entry.binary = true;
        entry.offset = offset;
        const Json& size = output.at("parameters").at("binary_data_size");
        if (!size.is_number_unsigned() || size.get<uint64_t>() > kMaxBodyBytes) {
          return InternalError("unusable binary_data_size");
        }
        entry.size = size.get<size_t>();
        offset += entry.size;
      }
      layout.push_back(std::move(entry));
    }
    return layout;
  } catch (const Json::exception& error) {
    return InternalError(std::string("unexpected JSON in the response: ") + error.what());
  }
}

Result<std::vector<OutputView>> HttpOutputDecoder::Decode(std::string_view body, size_t json_bytes) {
  const std::string_view json = body.substr(0, json_bytes == 0 ? body.size() : json_bytes);
  if (json != json_ || json_.empty()) {
    BRAID_ASSIGN_OR_RETURN(layout_, ParseJson(json));
    json_ = json;
  }
  const std::string_view binary = body.substr(json.size());
  std::vector<OutputView> outputs;
  outputs.reserve(layout_.size());
  for (const Layout& entry : layout_) {
    OutputView output{entry.name, {}};
    if (!entry.binary) {
      output.data.emplace_back(entry.data);
    } else if (entry.offset > binary.size() || entry.size > binary.size() - entry.offset) {
      return InternalError("binary data of output " + entry.name + " is cut short");
    } else {
      output.data.push_back(binary.substr(entry.offset, entry.size));
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace braid::bench
