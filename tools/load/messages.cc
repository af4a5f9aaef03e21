#include "load/messages.h"

#include <cstring>

#include "base/json.h"
#include "load/chat.h"
#include "load/elements.h"
#include "load/wire.h"

namespace braid::load {
namespace {

constexpr char kInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";
constexpr char kStreamInferMethod[] = "/inference.GRPCInferenceService/ModelStreamInfer";

std::string EncodeParameter(const std::string& name, const Parameter& value) {
  WireWriter choice;
  if (const bool* flag = std::get_if<bool>(&value)) {
    choice.Varint(1, *flag ? 1 : 0);
  } else if (const int64_t* number = std::get_if<int64_t>(&value)) {
    choice.Varint(2, static_cast<uint64_t>(*number));
  } else if (const double* fraction = std::get_if<double>(&value)) {
    choice.Double(4, *fraction);
  } else {
    choice.Bytes(3, std::get<std::string>(value));
  }
  WireWriter entry;
  entry.Bytes(1, name);
  entry.Bytes(2, choice.Take());
  return entry.Take();
}

// `field`: the number of the tensor's field `parameters`.
void EncodePlace(const SharedPlace& place, uint32_t field, WireWriter& tensor) {
  tensor.Bytes(field, EncodeParameter("shared_memory_region", place.region));
  tensor.Bytes(field, EncodeParameter("shared_memory_byte_size", static_cast<int64_t>(place.byte_size)));
  if (place.offset > 0) {
    tensor.Bytes(field, EncodeParameter("shared_memory_offset", static_cast<int64_t>(place.offset)));
  }
}

std::string EncodeGrpc(const InferRequest& request) {
  WireWriter message;
  message.Bytes(1, request.model);
  if (!request.version.empty()) message.Bytes(2, request.version);
  if (!request.id.empty()) message.Bytes(3, request.id);
  for (const auto& [name, value] : request.parameters) message.Bytes(4, EncodeParameter(name, value));
  const bool shared = !request.input_places.empty();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& input = request.inputs[i];
    WireWriter tensor;
    tensor.Bytes(1, input.name);
    tensor.Bytes(2, input.datatype);
    for (const int64_t dimension : input.shape) tensor.Varint(3, static_cast<uint64_t>(dimension));
    if (shared) EncodePlace(request.input_places[i], 4, tensor);
    message.Bytes(5, tensor.Take());
  }
  for (const RequestedOutput& output : request.outputs) {
    WireWriter tensor;
    tensor.Bytes(1, output.name);
    if (!output.place.region.empty()) EncodePlace(output.place, 2, tensor);
    message.Bytes(6, tensor.Take());
  }
  if (!shared) {
    for (const Tensor& input : request.inputs) message.Bytes(7, input.data);
  }
  return message.Take();
}

Json ToJson(const Parameter& value) {
  return std::visit([](const auto& one) { return Json(one); }, value);
}

Json PlaceJson(const SharedPlace& place) {
  Json parameters = {{"shared_memory_region", place.region}, {"shared_memory_byte_size", place.byte_size}};
  if (place.offset > 0) parameters["shared_memory_offset"] = place.offset;
  return parameters;
}

void ReadParameter(WireReader entry, Parameters& parameters) {
  std::string name;
  Parameter value = std::string();
  while (entry.Next()) {
    if (entry.IsBytes(1)) {
      name = entry.TakeString();
    } else if (entry.IsBytes(2)) {
      WireReader choice = entry.TakeMessage();
      while (choice.Next()) {
        if (choice.IsVarint(1)) {
          value = choice.TakeVarint() != 0;
        } else if (choice.IsVarint(2)) {
          value = static_cast<int64_t>(choice.TakeVarint());
        } else if (choice.IsBytes(3)) {
          value = choice.TakeString();
        }
      }
    }
  }
  parameters[std::move(name)] = std::move(value);
}

// Reads InferTensorContents; some servers send it instead of raw bytes.
void ReadContents(WireReader contents, std::string_view datatype, std::string& data) {
  std::vector<int64_t> numbers;
  size_t width = ElementBytes(datatype).ok() ? *ElementBytes(datatype) : 0;
  while (contents.Next()) {
    if (contents.IsBytes(8)) {  // bytes_contents
      AppendBytesElement(contents.TakeString(), data);
    } else if (contents.IsBytes(6) ||
               contents.IsBytes(7)) {  // fp32_contents, fp64_contents: packed, same layout as in memory
      data += contents.TakeString();
    } else {
      contents.TakeVarints(numbers);
    }
  }
  for (const int64_t number : numbers) {
    data.append(reinterpret_cast<const char*>(&number), std::min(width, sizeof number));
  }
}

}  // namespace

std::string PathPart(std::string_view text) {
  std::string path;
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char one : text) {
    if (kPlain.find(one) != std::string_view::npos) {
      path += one;
      continue;
    }
    const auto byte = static_cast<unsigned char>(one);
    path += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return path;
}

std::string ModelPath(std::string_view model, std::string_view version) {
  return "/v2/models/" + PathPart(model) + (version.empty() ? "" : "/versions/" + PathPart(version));
}

HttpBody EncodeHttpBody(const InferRequest& request, const HttpFormat& format) {
  HttpBody body;
  std::string& json = body.json;
  json = "{";
  if (!request.id.empty()) json += "\"id\":" + DumpJson(Json(request.id)) + ",";
  Json parameters = Json::object();
  for (const auto& [name, value] : request.parameters) parameters[name] = ToJson(value);
  if (format.binary_outputs && request.outputs.empty()) parameters["binary_data_output"] = true;
  if (!parameters.empty()) json += "\"parameters\":" + DumpJson(parameters) + ",";
  json += "\"inputs\":[";
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& input = request.inputs[i];
    if (i != 0) json += ',';
    json += "{\"name\":" + DumpJson(Json(input.name)) + ",\"shape\":" + ShapeText(input.shape) +
            ",\"datatype\":" + DumpJson(Json(input.datatype));
    if (!request.input_places.empty()) {
      json += ",\"parameters\":" + DumpJson(PlaceJson(request.input_places[i])) + "}";
    } else if (format.binary_inputs) {
      json += ",\"parameters\":{\"binary_data_size\":" + std::to_string(input.data.size()) + "}}";
      body.binary += input.data;
    } else {
      json += ",\"data\":" + JsonElements(input.datatype, input.data) + "}";
    }
  }
  json += "]";
  if (!request.outputs.empty()) {
    Json outputs = Json::array();
    for (const RequestedOutput& output : request.outputs) {
      outputs.push_back(
          {{"name", output.name},
           {"parameters", output.place.region.empty() ? Json{{"binary_data", format.binary_outputs}}
                                                      : PlaceJson(output.place)}});
    }
    json += ",\"outputs\":" + DumpJson(outputs);
  }
  json += "}";
  return body;
}

OutgoingMessage EncodeHttp(const Encoding& encoding, std::string_view method, std::string_view path,
                           std::string_view body, size_t json_bytes) {
  OutgoingMessage message;
  message.path = path;
  std::string& bytes = message.bytes;
  bytes.reserve(body.size() + 512);
  bytes += method;
  bytes += ' ';
  bytes += path;
  bytes += " HTTP/1.1\r\nHost: " + encoding.authority + "\r\n";
  for (const auto& [name, value] : encoding.headers) bytes += name + ": " + value + "\r\n";
  if (method == "POST") {
    if (json_bytes > 0) {
      bytes += "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
               std::to_string(json_bytes) + "\r\n";
    } else {
      bytes += "Content-Type: application/json\r\n";
    }
    bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  bytes += "\r\n";
  bytes += body;
  return message;
}

OutgoingMessage EncodeInfer(const Encoding& encoding, const InferRequest& request) {
  if (encoding.protocol == Protocol::kGrpc) {
    return {encoding.stream ? kStreamInferMethod : kInferMethod, EncodeGrpc(request)};
  }
  if (encoding.chat) return EncodeHttp(encoding, "POST", kChatPath, EncodeChat(request), 0);
  HttpBody body = EncodeHttpBody(request, encoding.http);
  const size_t json_bytes = body.binary.empty() ? 0 : body.json.size();
  return EncodeHttp(encoding, "POST", ModelPath(request.model, request.version) + "/infer",
                    body.json + body.binary, json_bytes);
}

Result<const InferResponse*> ResponseDecoder::Decode(const ReceivedMessage& message) {
  if (encoding_.protocol == Protocol::kGrpc) {
    BRAID_RETURN_IF_ERROR(DecodeGrpc(message.body));
  } else if (encoding_.chat) {
    BRAID_RETURN_IF_ERROR(DecodeChat(message.body.front()));
  } else {
    BRAID_RETURN_IF_ERROR(DecodeHttp(message.body.front(), message.json_bytes));
  }
  return &response_;
}

Status ResponseDecoder::DecodeGrpc(const Pieces& message) {
  WireReader reader(message);
  if (encoding_.stream) {
    WireReader whole(message);
    bool found = false;
    while (whole.Next()) {
      if (whole.IsBytes(1)) {
        std::string error = whole.TakeString();
        if (!error.empty()) return InternalError(std::move(error));
      } else if (whole.IsBytes(2)) {
        reader = whole.TakeMessage();
        found = true;
      }
    }
    if (!whole.ok() || !found) return InternalError("malformed message on the stream");
  }
  size_t outputs = 0;
  size_t contents = 0;
  response_.parameters.clear();
  response_.id.clear();
  places_.clear();
  while (reader.Next()) {
    if (reader.IsBytes(1)) {
      response_.model = reader.TakeString();
    } else if (reader.IsBytes(2)) {
      response_.version = reader.TakeString();
    } else if (reader.IsBytes(3)) {
      response_.id = reader.TakeString();
    } else if (reader.IsBytes(4)) {
      ReadParameter(reader.TakeMessage(), response_.parameters);
    } else if (reader.IsBytes(5)) {
      if (outputs == response_.outputs.size()) response_.outputs.emplace_back();
      OutputView& output = response_.outputs[outputs++];
      output.shape.clear();
      output.data.clear();
      places_.emplace_back();
      WireReader tensor = reader.TakeMessage();
      while (tensor.Next()) {
        if (tensor.IsBytes(1)) {
          output.name = tensor.TakeString();
        } else if (tensor.IsBytes(2)) {
          output.datatype = tensor.TakeString();
        } else if (tensor.IsBytes(3) || tensor.IsVarint(3)) {
          tensor.TakeVarints(output.shape);
        } else if (tensor.IsBytes(5)) {
          ReadContents(tensor.TakeMessage(), output.datatype, places_.back().data);
        }
      }
      if (!tensor.ok()) return InternalError("malformed output in the response");
    } else if (reader.IsBytes(6)) {
      if (contents == outputs) return InternalError("the response has more contents than outputs");
      response_.outputs[contents++].data = reader.TakeBytes();
    }
  }
  if (!reader.ok()) return InternalError("malformed response");
  response_.outputs.resize(outputs);
  for (size_t i = 0; i < outputs; ++i) {
    if (contents == 0 && !places_[i].data.empty()) response_.outputs[i].data = {places_[i].data};
  }
  return OkStatus();
}

Status ResponseDecoder::ParseJson(std::string_view json) {
  const Result<Json> read = CheckedJson(json);
  if (!read.ok())
    return InternalError("unexpected JSON in the response: " + std::string(read.status().message()));
  const Json& parsed = *read;
  try {
    InferResponse response;
    std::vector<Place> places;
    size_t offset = 0;
    response.model = parsed.value("model_name", "");
    response.version = parsed.value("model_version", "");
    response.id = parsed.value("id", "");
    const auto parameters = parsed.find("parameters");
    if (parameters != parsed.end()) {
      for (const auto& [name, value] : parameters->items()) {
        if (value.is_boolean()) {
          response.parameters[name] = value.get<bool>();
        } else if (value.is_number_integer()) {
          response.parameters[name] = value.get<int64_t>();
        } else if (value.is_number()) {
          response.parameters[name] = value.get<double>();
        } else {
          response.parameters[name] = value.is_string() ? value.get<std::string>() : DumpJson(value);
        }
      }
    }
    for (const Json& each : parsed.value("outputs", Json::array())) {
      OutputView output;
      Place place;
      output.name = each.at("name").get<std::string>();
      output.datatype = each.at("datatype").get<std::string>();
      output.shape = each.value("shape", std::vector<int64_t>());
      if (const auto data = each.find("data"); data != each.end()) {
        BRAID_RETURN_IF_ERROR(AppendJsonElements(*data, output.datatype, place.data));
      } else if (const auto size = each.value("parameters", Json::object());
                 size.contains("binary_data_size")) {
        place.binary = true;
        place.offset = offset;
        place.size = size.at("binary_data_size").get<size_t>();
        if (place.size > json.max_size() - offset) return InternalError("invalid binary_data_size");
        offset += place.size;
      }
      response.outputs.push_back(std::move(output));
      places.push_back(std::move(place));
    }
    response_ = std::move(response);
    places_ = std::move(places);
    return OkStatus();
  } catch (const Json::exception& error) {
    return InternalError(std::string("unexpected JSON in the response: ") + error.what());
  }
}

Status ResponseDecoder::DecodeChat(std::string_view data) {
  BRAID_ASSIGN_OR_RETURN(ChatEvent event, ReadChatEvent(data));
  text_ = std::move(event.text);
  response_.tokens = event.tokens;
  response_.outputs.clear();
  if (!text_.empty()) response_.outputs.push_back({"text", "BYTES", {1}, {text_}});
  return OkStatus();
}

Status ResponseDecoder::DecodeHttp(std::string_view body, size_t json_bytes) {
  const std::string_view json = body.substr(0, json_bytes == 0 ? body.size() : json_bytes);
  if (json != json_ || json_.empty()) {
    json_.clear();
    BRAID_RETURN_IF_ERROR(ParseJson(json));
    json_ = json;
  }
  const std::string_view binary = body.substr(json.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    Pieces& data = response_.outputs[i].data;
    const Place& place = places_[i];
    data.clear();
    if (!place.binary) {
      if (!place.data.empty()) data.emplace_back(place.data);
    } else if (place.offset > binary.size() || place.size > binary.size() - place.offset) {
      return InternalError("the binary data of output " + response_.outputs[i].name + " is cut short");
    } else {
      data.push_back(binary.substr(place.offset, place.size));
    }
  }
  return OkStatus();
}

}  // namespace braid::load
