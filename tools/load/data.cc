#include "load/data.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/utf8.h"

namespace braid::load {
namespace {

void Note(const DataOptions& options, const std::string& text) {
  if (options.note) options.note(text);
}

Status UnknownDatatype(const TensorInfo& info) {
  return InvalidArgumentError("the metadata has no datatype for " + info.name +
                              ": use JSON values, or set --datatype " + info.name + ":FP32");
}

// Returns a sample's shape from metadata and --shape, without a batch; -1 for dimensions that neither sets.
std::vector<int64_t> SampleShape(const ModelInfo& model, const TensorInfo& info, const DataOptions& options) {
  if (const auto given = options.shapes.find(info.name); given != options.shapes.end()) return given->second;
  std::vector<int64_t> shape = info.shape;
  if (HasBatches(model) && !shape.empty()) shape.erase(shape.begin());
  return shape;
}

std::vector<int64_t> WithBatch(const ModelInfo& model, std::vector<int64_t> sample, int64_t batch) {
  if (HasBatches(model)) sample.insert(sample.begin(), batch);
  return sample;
}

Status CheckBatch(const ModelInfo& model, const DataOptions& options) {
  if (options.batch <= 1) return OkStatus();
  if (!HasBatches(model)) {
    return InvalidArgumentError("model " + model.name + " does not support batches: -b must be 1");
  }
  if (model.max_batch_size > 0 && options.batch > model.max_batch_size) {
    return InvalidArgumentError("model " + model.name + " accepts batches of at most " +
                                std::to_string(model.max_batch_size) + ", got " +
                                std::to_string(options.batch));
  }
  return OkStatus();
}

// Replaces the only -1 in a shape by the size that `count` elements require.
Result<std::vector<int64_t>> Settle(std::vector<int64_t> shape, size_t count, const std::string& name) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& dimension : shape) {
    if (dimension >= 0) {
      known *= dimension;
    } else if (open == nullptr) {
      open = &dimension;
    } else {
      return InvalidArgumentError(name + " has the open shape " + ShapeText(shape) +
                                  ": set --shape, or \"shape\" in the data");
    }
  }
  if (open != nullptr) *open = known == 0 ? 0 : static_cast<int64_t>(count) / known;
  const Result<size_t> elements = ElementCount(shape);
  if (!elements.ok()) return elements.status();
  if (*elements != count) {
    return InvalidArgumentError(name + " of shape " + ShapeText(shape) + " needs " +
                                std::to_string(*elements) + " elements, got " + std::to_string(count));
  }
  return shape;
}

size_t CountElements(std::string_view datatype, std::string_view data) {
  const Result<size_t> width = ElementBytes(datatype);
  if (width.ok() && *width > 0) return data.size() / *width;
  size_t count = 0;
  while (data.size() >= 4) {
    uint32_t length;
    std::memcpy(&length, data.data(), sizeof length);
    if (length > data.size() - 4) break;
    data.remove_prefix(4 + size_t{length});
    ++count;
  }
  return count;
}

// Returns the shape of nested lists; a single value has an empty shape.
std::vector<int64_t> NestedShape(const Json& value) {
  std::vector<int64_t> shape;
  for (const Json* at = &value; at->is_array(); at = &at->front()) {
    shape.push_back(static_cast<int64_t>(at->size()));
    if (at->empty()) break;
  }
  return shape;
}

// Reads a sample; its shape has no batch.
Result<Tensor> ReadSample(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                          const Json& value) {
  Tensor tensor{info.name, info.datatype, SampleShape(model, info, options), {}};
  const Json* content = &value;
  bool shaped = options.shapes.contains(info.name);
  if (value.is_object()) {
    for (const auto& [key, ignored] : value.items()) {
      if (key != "content" && key != "shape" && key != "b64") {
        return InvalidArgumentError(info.name + ": \"" + key +
                                    "\" is not one of \"content\", \"b64\" and \"shape\"");
      }
    }
    if (const auto shape = value.find("shape"); shape != value.end()) {
      if (!shape->is_array() ||
          !std::ranges::all_of(*shape, [](const Json& d) { return d.is_number_integer(); })) {
        return InvalidArgumentError(info.name + ": \"shape\" must be a list of whole numbers");
      }
      tensor.shape = shape->get<std::vector<int64_t>>();
      shaped = true;
    }
    if (const auto encoded = value.find("b64"); encoded != value.end()) {
      if (!encoded->is_string()) return InvalidArgumentError(info.name + ": \"b64\" must be a base64 string");
      if (info.datatype.empty()) return UnknownDatatype(info);
      Result<std::string> bytes = DecodeBase64(encoded->get<std::string>());
      if (!bytes.ok()) return bytes.status().WithPrefix(info.name + ": ");
      tensor.data = std::move(*bytes);
      if (info.datatype == "BYTES" && CountElements("BYTES", tensor.data) == 0) {
        // One element with the raw bytes, for encoded images.
        std::string element;
        AppendBytesElement(tensor.data, element);
        tensor.data = std::move(element);
      }
    } else if (const auto list = value.find("content"); list != value.end()) {
      content = &*list;
    } else {
      return InvalidArgumentError(info.name + ": expected \"content\" or \"b64\"");
    }
  }
  if (tensor.data.empty()) {
    if (info.datatype.empty()) {
      tensor.datatype = GuessDatatype(*content);
      Note(options, info.name + " is sent as " + tensor.datatype +
                        " because of its values; change it with --datatype " + info.name + ":...");
    }
    const Status status = AppendJsonElements(*content, tensor.datatype, tensor.data);
    if (!status.ok()) return status.WithPrefix(info.name + ": ");
    // Nested lists determine the shape.
    const std::vector<int64_t> nested = NestedShape(*content);
    const bool open = std::ranges::any_of(tensor.shape, [](int64_t d) { return d < 0; });
    if (!shaped && open && nested.size() == tensor.shape.size()) tensor.shape = nested;
    if (!shaped && info.any_shape) tensor.shape = nested.empty() ? std::vector<int64_t>{1} : nested;
  } else if (!shaped && info.any_shape) {
    tensor.shape = {-1};
  }
  BRAID_ASSIGN_OR_RETURN(
      tensor.shape, Settle(std::move(tensor.shape), CountElements(tensor.datatype, tensor.data), info.name));
  return tensor;
}

const TensorInfo* Find(const std::vector<TensorInfo>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string Names(const std::vector<TensorInfo>& tensors) {
  std::string names;
  for (const TensorInfo& tensor : tensors) names += (names.empty() ? "" : ", ") + tensor.name;
  return names;
}

// A list in a data file, for inputs or for outputs.
struct DataList {
  const char* key;
  const char* kind;
  const std::vector<TensorInfo> ModelInfo::*tensors;
};
constexpr DataList kInputs = {"data", "input", &ModelInfo::inputs};
constexpr DataList kOutputs = {"validation_data", "output", &ModelInfo::outputs};

Result<std::vector<Tensor>> ReadStep(const ModelInfo& model, const DataOptions& options,
                                     const DataList& list_kind, const Json& step) {
  if (!step.is_object()) {
    return InvalidArgumentError(std::string("expected an object with a value for each ") + list_kind.kind);
  }
  const std::vector<TensorInfo>& infos = model.*list_kind.tensors;
  std::vector<Tensor> tensors;
  for (const auto& [name, value] : step.items()) {
    const TensorInfo* info = Find(infos, name);
    if (info == nullptr) {
      return InvalidArgumentError("model " + model.name + " has no " + list_kind.kind + " " + name +
                                  "; it has " + Names(infos));
    }
    BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadSample(model, *info, options, value));
    tensors.push_back(std::move(tensor));
  }
  // The samples of a batch are merged by position.
  std::ranges::sort(tensors, {}, &Tensor::name);
  if (list_kind.tensors == kInputs.tensors) {
    for (const TensorInfo& info : infos) {
      if (!info.optional && !step.contains(info.name)) {
        return InvalidArgumentError("input " + info.name + " is missing");
      }
    }
  }
  return tensors;
}

// Streams of the samples' tensors.
using Streams = std::vector<std::vector<std::vector<Tensor>>>;

Result<Streams> ReadStreams(const ModelInfo& model, const DataOptions& options, const DataList& list_kind,
                            const Json& list) {
  if (!list.is_array() || list.empty()) {
    return InvalidArgumentError(std::string("\"") + list_kind.key +
                                "\" must be a list with at least one entry");
  }
  const bool nested = list.front().is_array();
  const Json whole = nested ? list : Json::array({list});
  Streams streams;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::vector<Tensor>>& stream = streams.emplace_back();
    if (!whole[i].is_array() || whole[i].empty()) {
      return InvalidArgumentError(std::string("\"") + list_kind.key + "\"[" + std::to_string(i) +
                                  "] is not a list of steps");
    }
    for (size_t j = 0; j < whole[i].size(); ++j) {
      Result<std::vector<Tensor>> step = ReadStep(model, options, list_kind, whole[i][j]);
      if (!step.ok()) {
        return step.status().WithPrefix(std::string(list_kind.key) +
                                        (nested ? "[" + std::to_string(i) + "]" : "") + "[" +
                                        std::to_string(j) + "]: ");
      }
      stream.push_back(std::move(*step));
    }
  }
  return streams;
}

// Merges the samples `first`, `first` + 1, ... of a stream into a batch. The stream restarts at its end.
Result<std::vector<Tensor>> Batch(const ModelInfo& model, const DataOptions& options,
                                  const std::vector<std::vector<Tensor>>& samples, size_t first) {
  std::vector<Tensor> batch = samples[first % samples.size()];
  for (int64_t i = 1; i < options.batch; ++i) {
    const std::vector<Tensor>& sample = samples[(first + static_cast<size_t>(i)) % samples.size()];
    for (size_t j = 0; j < batch.size(); ++j) {
      if (j >= sample.size() || sample[j].name != batch[j].name || sample[j].shape != batch[j].shape) {
        return InvalidArgumentError("samples of one batch must have the same tensors and shapes; " +
                                    batch[j].name + " differs");
      }
      batch[j].data += sample[j].data;
    }
  }
  for (Tensor& tensor : batch) tensor.shape = WithBatch(model, std::move(tensor.shape), options.batch);
  return batch;
}

}  // namespace

std::function<void(const std::string&)> NotesOf(const std::string& program) {
  return [program, told = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (told->insert(note).second) std::cerr << program << ": " << ToUtf8(note) << '\n';
  };
}

bool HasBatches(const ModelInfo& model) {
  if (model.has_config) return model.max_batch_size > 0;
  return false;
}

Result<std::pair<std::string, std::vector<int64_t>>> ParseShape(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::vector<int64_t> shape;
  const char* at = text.data() + (colon == std::string_view::npos ? 0 : colon + 1);
  const char* const end = text.data() + text.size();
  bool good = colon != std::string_view::npos && colon > 0 && at != end;
  while (good && at != end) {
    int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    good = error == std::errc() && dimension >= 0 && (next == end || (*next == ',' && next + 1 != end));
    shape.push_back(dimension);
    at = next == end ? end : next + 1;
  }
  if (!good)
    return InvalidArgumentError("'" + std::string(text) +
                                "' is not a shape; expected the form INPUT0:3,224,224");
  return std::pair(std::string(text.substr(0, colon)), std::move(shape));
}

Status SetDatatype(std::string_view text, ModelInfo& model) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return InvalidArgumentError("'" + std::string(text) +
                                "' is not a datatype; expected the form INPUT0:FP32");
  }
  const std::string name(text.substr(0, colon));
  const std::string datatype(text.substr(colon + 1));
  BRAID_RETURN_IF_ERROR(ElementBytes(datatype).status());
  bool found = false;
  for (auto* tensors : {&model.inputs, &model.outputs}) {
    for (TensorInfo& info : *tensors) {
      if (info.name != name) continue;
      if (!info.datatype.empty() && info.datatype != datatype) {
        return InvalidArgumentError(name + " has datatype " + info.datatype + " in the metadata, not " +
                                    datatype);
      }
      info.datatype = datatype;
      found = true;
    }
  }
  if (found) return OkStatus();
  return InvalidArgumentError("model " + model.name + " has no input or output " + name + "; it has " +
                              Names(model.inputs) + ", " + Names(model.outputs));
}

std::vector<int64_t> ShapeToMake(const ModelInfo& model, const TensorInfo& info, const DataOptions& options) {
  std::vector<int64_t> shape = SampleShape(model, info, options);
  const bool any = info.any_shape && !options.shapes.contains(info.name);
  if (!any && std::ranges::none_of(shape, [](int64_t dimension) { return dimension < 0; })) return shape;
  const std::string says = "; change it with --shape " + info.name + ":...";
  if (any) {
    shape = {1};
    Note(options, info.name + " has no shape in the metadata: using [1]" + says);
    return shape;
  }
  const std::vector<int64_t> open = shape;
  std::ranges::replace_if(
      shape, [](int64_t dimension) { return dimension < 0; }, 1);
  Note(options, info.name + " has the shape " + ShapeText(open) + ": using " + ShapeText(shape) + says);
  return shape;
}

Result<DataStep> MakeStep(const ModelInfo& model, const DataOptions& options, std::mt19937_64& random) {
  BRAID_RETURN_IF_ERROR(CheckBatch(model, options));
  for (const auto& [name, shape] : options.shapes) {
    if (Find(model.inputs, name) == nullptr) {
      return InvalidArgumentError("--shape: model " + model.name + " has no input " + name + "; it has " +
                                  Names(model.inputs));
    }
  }
  DataStep step;
  for (const TensorInfo& info : model.inputs) {
    if (info.optional && !options.shapes.contains(info.name)) continue;
    if (info.datatype.empty()) return UnknownDatatype(info);
    std::vector<int64_t> shape = WithBatch(model, ShapeToMake(model, info, options), options.batch);
    Result<std::string> data = MakeElements(info.datatype, shape, options.fill, random);
    if (!data.ok()) return data.status().WithPrefix("input " + info.name + ": ");
    step.inputs.push_back({info.name, info.datatype, std::move(shape), std::move(*data)});
  }
  return step;
}

Result<Tensor> TensorFromJson(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                              const Json& value) {
  BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadSample(model, info, options, value));
  tensor.shape = WithBatch(model, std::move(tensor.shape), 1);
  return tensor;
}

Result<Tensor> TensorFromBytes(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                               std::string bytes) {
  if (info.datatype.empty()) return UnknownDatatype(info);
  Tensor tensor{info.name, info.datatype, SampleShape(model, info, options), std::move(bytes)};
  if (info.any_shape && !options.shapes.contains(info.name)) tensor.shape = {-1};
  const Result<size_t> wanted = ElementCount(tensor.shape);
  if (info.datatype == "BYTES" && wanted.ok() && *wanted == 1) {
    std::string element;
    AppendBytesElement(tensor.data, element);
    tensor.data = std::move(element);
  }
  const Result<size_t> width = ElementBytes(info.datatype);
  if (width.ok() && *width > 0 && tensor.data.size() % *width != 0) {
    return InvalidArgumentError(std::to_string(tensor.data.size()) + " bytes are not a whole number of " +
                                info.datatype);
  }
  BRAID_ASSIGN_OR_RETURN(
      tensor.shape, Settle(std::move(tensor.shape), CountElements(info.datatype, tensor.data), info.name));
  return tensor;
}

Result<DataSet> ReadDataFile(const ModelInfo& model, const DataOptions& options, const std::string& text,
                             const std::string& name) {
  BRAID_RETURN_IF_ERROR(CheckBatch(model, options));
  const auto failed = [&](const Status& status) { return status.WithPrefix(name + ": "); };
  const Result<Json> read = CheckedJson(text);
  if (!read.ok()) return failed(read.status());
  const Json& file = *read;
  if (!file.is_object() || !file.contains("data")) {
    return InvalidArgumentError(name + ": a data file must be an object with the list \"data\"");
  }
  for (const auto& [key, value] : file.items()) {
    if (key != "data" && key != "validation_data") {
      return InvalidArgumentError(name + ": \"" + key + "\" is neither \"data\" nor \"validation_data\"");
    }
  }
  Result<Streams> inputs = ReadStreams(model, options, kInputs, file["data"]);
  if (!inputs.ok()) return failed(inputs.status());
  Streams expected;
  if (file.contains("validation_data")) {
    Result<Streams> outputs = ReadStreams(model, options, kOutputs, file["validation_data"]);
    if (!outputs.ok()) return failed(outputs.status());
    expected = std::move(*outputs);
    bool alike = expected.size() == inputs->size();
    for (size_t i = 0; alike && i < expected.size(); ++i) alike = expected[i].size() == (*inputs)[i].size();
    if (!alike)
      return InvalidArgumentError(name + ": \"validation_data\" must have the same steps as \"data\"");
  }
  DataSet set;
  for (size_t i = 0; i < inputs->size(); ++i) {
    std::vector<DataStep>& stream = set.streams.emplace_back();
    for (size_t j = 0; j < (*inputs)[i].size(); ++j) {
      DataStep& step = stream.emplace_back();
      Result<std::vector<Tensor>> batch = Batch(model, options, (*inputs)[i], j);
      if (!batch.ok()) return failed(batch.status());
      step.inputs = std::move(*batch);
      if (expected.empty()) continue;
      Result<std::vector<Tensor>> outputs = Batch(model, options, expected[i], j);
      if (!outputs.ok()) return failed(outputs.status());
      step.expected = std::move(*outputs);
    }
  }
  return set;
}

Result<DataSet> ReadDataFolder(const ModelInfo& model, const DataOptions& options,
                               const std::string& folder) {
  BRAID_RETURN_IF_ERROR(CheckBatch(model, options));
  const auto read = [&](const TensorInfo& info) -> Result<Tensor> {
    const std::string path = folder + "/" + info.name;
    BRAID_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
    Result<Tensor> tensor = TensorFromBytes(model, info, options, std::move(bytes));
    if (!tensor.ok()) return tensor.status().WithPrefix(path + ": ");
    return tensor;
  };
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : model.inputs) {
    if (info.optional && !std::filesystem::exists(folder + "/" + info.name)) continue;
    BRAID_ASSIGN_OR_RETURN(Tensor tensor, read(info));
    inputs.push_back(std::move(tensor));
  }
  for (const TensorInfo& info : model.outputs) {
    if (!std::filesystem::exists(folder + "/" + info.name)) continue;
    BRAID_ASSIGN_OR_RETURN(Tensor tensor, read(info));
    outputs.push_back(std::move(tensor));
  }
  DataSet set;
  DataStep& step = set.streams.emplace_back().emplace_back();
  BRAID_ASSIGN_OR_RETURN(step.inputs, Batch(model, options, {inputs}, 0));
  BRAID_ASSIGN_OR_RETURN(step.expected, Batch(model, options, {outputs}, 0));
  return set;
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (std::filesystem::is_directory(path)) return InvalidArgumentError(path + " is a folder");
  if (!file || !(text << file.rdbuf() || file.peek() == std::ifstream::traits_type::eof())) {
    return NotFoundError("cannot read " + path);
  }
  return std::move(text).str();
}

Result<std::string> DecodeBase64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return InvalidArgumentError("the text is not base64");
    }
    bits = bits << 6 | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

}  // namespace braid::load
