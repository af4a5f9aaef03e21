#include "protocols/tfs/predict_request_builder.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/input_memory.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/tfs/data_types.h"
#include "serving/faults.h"
#include "serving/request_check_ovms.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

// The source of the bytes of one input.
struct InputSource {
  enum class Kind : unsigned char { kContent, kValues } kind = Kind::kContent;
  size_t size = 0;     // in raw form, before it is repeated
  uint64_t times = 1;  // number of repetitions
};

std::string DtypeName(uint32_t dtype) {
  const std::string& name = tensorflow::DataType_Name(static_cast<tensorflow::DataType>(dtype));
  return name.empty() ? "type " + std::to_string(dtype) : name;
}

class Builder {
 public:
  Builder(WireSegments segments, ParsedPredictRequest& parsed, Servable& servable, InferenceRequest& request)
      : segments_(segments),
        parsed_(parsed),
        servable_(servable),
        info_(servable.info()),
        request_(request) {}

  Status TakeInputs() {
    // First sets the properties of all tensors. A fault of the whole request is then reported before a fault
    // in one tensor's bytes.
    request_.inputs.reserve(parsed_.inputs.size());
    for (ParsedTensor& input : parsed_.inputs) {
      Tensor& tensor = request_.inputs.emplace_back();
      tensor.name = input.name;
      tensor.type = FromTensorFlow(input.dtype).value_or(DataType::kInvalid);
      tensor.shape = std::move(input.shape);
    }
    for (size_t i = 0; i < parsed_.inputs.size(); ++i) {
      Result<InputSource> source = FindSource(parsed_.inputs[i], request_.inputs[i]);
      if (!source.ok()) return RulesOf(info_).FirstFault(info_, request_, source.status());
      sources_.push_back(*source);
    }
    return CopyAll();
  }

 private:
  Result<InputSource> FindSource(const ParsedTensor& input, Tensor& tensor) {
    const TensorSpec* spec = info_.FindInput(tensor.name);
    if (tensor.type == DataType::kInvalid) {
      if (spec != nullptr) return OvmsPrecisionError(*spec, DtypeName(input.dtype), request_.protocol());
      return InvalidArgumentError("input '" + Shortened(tensor.name) + "' has unsupported type " +
                                  DtypeName(input.dtype));
    }
    if (input.unknown_rank) {
      return FaultError(Fault::kInvalidShape,
                        "The rank must be known; input name: " + Shortened(tensor.name));
    }
    InputSource source;
    const bool strings = tensor.type == DataType::kBytes;
    if (input.content.size > 0) {
      if (strings) {
        return FaultError(Fault::kInvalidStringInput,
                          "Strings must be in string_val; input name: " + Shortened(tensor.name));
      }
      source.size = input.content.size;
      return source;
    }
    source.kind = InputSource::Kind::kValues;
    source.size = RawValuesSize(input, tensor.type);
    const uint64_t given = input.values[ValueField(tensor.type)];
    const bool images = strings && spec != nullptr && TakesEncodedImages(*spec, info_.kind);
    if (images) {
      if (given == 0 || input.has_empty_string) {
        return FaultError(Fault::kStringValEmpty, "input name: " + Shortened(tensor.name));
      }
      // A single image may be a scalar.
      if (tensor.shape.empty()) tensor.shape.push_back(static_cast<int64_t>(given));
    }
    const std::optional<int64_t> wanted = ElementCount(tensor.shape);
    // CheckRequest() reports other faults of the shape, and missing elements.
    if (!wanted || given == static_cast<uint64_t>(*wanted) || given == 0) return source;
    if (given != 1 || images) return OvmsValueCountError(*wanted, given, tensor.name);
    source.times = static_cast<uint64_t>(*wanted);
    if (source.times > (kMaxFilledBytes - filled_) / std::max<size_t>(source.size, 1)) {
      return FaultError(Fault::kInvalidValueCount,
                        "One value can fill at most " + std::to_string(kMaxFilledBytes) +
                            " bytes of a request; input name: " + Shortened(tensor.name));
    }
    filled_ += source.times * source.size;
    return source;
  }

  Status CopyAll() {
    InputMemory memory;
    for (const InputSource& source : sources_) memory.Add(source.size * source.times);
    return memory.Fill(info_, servable_.input_allocator(), request_, [this](size_t i, std::byte* to) {
      // A single value also fits a tensor without elements.
      if (to != nullptr) Copy(parsed_.inputs[i], sources_[i], request_.inputs[i].type, to);
      return OkStatus();
    });
  }

  void Copy(const ParsedTensor& input, const InputSource& source, DataType type, std::byte* to) const {
    if (source.kind == InputSource::Kind::kContent) {
      CopyRange(segments_, input.content, to);
      return;
    }
    CopyValues(segments_, input, type, to);
    // Doubling the filled part fills large tensors at memory speed.
    const size_t size = source.size * source.times;
    for (size_t done = source.size; done < size;) {
      const size_t part = std::min(done, size - done);
      std::memcpy(to + done, to, part);
      done += part;
    }
  }

  const WireSegments segments_;
  ParsedPredictRequest& parsed_;
  Servable& servable_;
  const ServableInfo& info_;
  InferenceRequest& request_;
  boost::container::small_vector<InputSource, 8> sources_;
  size_t filled_ = 0;
};

// Removes one of the inputs that name a sequence from the request. Its value must be in the value field of
// `type`; its dtype is ignored.
std::optional<SequenceInput> TakeSequenceInput(WireSegments segments, std::string_view name, DataType type,
                                               ParsedPredictRequest& parsed) {
  const auto found = std::find_if(parsed.inputs.begin(), parsed.inputs.end(),
                                  [name](const ParsedTensor& tensor) { return tensor.name == name; });
  if (found == parsed.inputs.end()) return std::nullopt;
  SequenceInput input;
  input.has_shape = !found->shape.empty();
  if (found->values[ValueField(type)] == 1) {
    uint64_t value = 0;  // little-endian
    CopyValues(segments, *found, type, reinterpret_cast<std::byte*>(&value));
    input.value = value;
  }
  input.shape = std::move(found->shape);
  parsed.inputs.erase(found);
  return input;
}

}  // namespace

Status SetRequestedOutputs(const ServableInfo& info, std::vector<std::string> names,
                           InferenceRequest& request) {
  // A client that does not know the id cannot continue.
  if (info.stateful && !names.empty()) names.emplace_back(kSequenceIdInput);
  for (std::string& name : names) {
    const bool sequence = info.stateful && name == kSequenceIdInput;
    if (!sequence && info.FindOutput(name) == nullptr) {
      return InvalidArgumentError("unexpected inference output '" + Shortened(name) + "' for model '" +
                                  info.name + "'");
    }
    auto& outputs = request.requested_outputs;
    if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) outputs.push_back(std::move(name));
  }
  return OkStatus();
}

Status BuildPredictRequest(WireSegments segments, ParsedPredictRequest& parsed, Servable& servable,
                           std::string_view sequence_header, InferenceRequest& request) {
  request.start_ns = SteadyNowNs();
  const auto take = [&](std::string_view name, DataType type) -> Result<std::optional<SequenceInput>> {
    return TakeSequenceInput(segments, name, type, parsed);
  };
  BRAID_RETURN_IF_ERROR(NameSequenceOf(servable.info(), sequence_header, take, request));
  BRAID_RETURN_IF_ERROR(SetRequestedOutputs(servable.info(), std::move(parsed.output_filter), request));
  return Builder(segments, parsed, servable, request).TakeInputs();
}

}  // namespace braid
