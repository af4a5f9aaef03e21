#include "protocols/kserve/http/generate_request.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/json/json.h"
#include "protocols/json/tensor_data.h"
#include "protocols/kserve/http/parameters.h"

namespace braid {
namespace {

using simdjson::dom::element;

struct SequenceType {
  std::string_view name;
  DataType type;
};
constexpr SequenceType kSequenceTypes[] = {{kSequenceIdInput, DataType::kUint64},
                                           {kSequenceControlInput, DataType::kUint32}};

class GenerateReader {
 public:
  GenerateReader(const HttpInferTarget& target, InferenceRequest& request)
      : target_(target), request_(request), given_(target.info.inputs.size(), false) {}

  Status Read(element root) {
    simdjson::dom::object object;
    if (root.get_object().get(object)) return JsonObject("request", root, kMaxJsonKeys).status();
    size_t keys = 0;
    for (auto field : object) {
      if (++keys > kMaxJsonKeys) {
        return InvalidArgumentError("the request has more than " + std::to_string(kMaxJsonKeys) + " keys");
      }
      BRAID_RETURN_IF_ERROR(ReadField(field.key, field.value));
    }
    BRAID_RETURN_IF_ERROR(CheckParameters());
    return NameRequest();
  }

 private:
  Status ReadField(std::string_view key, element value) {
    const std::vector<TensorSpec>& inputs = target_.info.inputs;
    const auto spec = std::find_if(inputs.begin(), inputs.end(),
                                   [key](const TensorSpec& input) { return input.name == key; });
    if (spec != inputs.end()) {
      const auto index = static_cast<size_t>(spec - inputs.begin());
      if (given_[index]) {
        return InvalidArgumentError("input '" + spec->name + "' already exists in request");
      }
      given_[index] = true;
      return ReadInput(*spec, value);
    }
    if (key == "id") {
      std::string_view id;
      if (value.get_string().get(id)) {
        return JsonDataError(JsonForm::kFlat, "attempt to access JSON non-string as string");
      }
      request_.id = id;
      return OkStatus();
    }
    if (key == "parameters") return ReadParameters(value);
    if (target_.info.stateful) {
      for (const SequenceType& type : kSequenceTypes) {
        if (key == type.name) return ReadSequenceInput(type, value);
      }
    }
    return ReadParameter(key, value);
  }

  Status ReadParameters(element value) {
    simdjson::dom::object object;
    if (value.get_object().get(object)) {
      return InvalidArgumentError("Expected JSON object for keyword: 'parameters'");
    }
    size_t keys = 0;
    for (auto field : object) {
      if (++keys > kMaxJsonKeys) {
        return InvalidArgumentError("'parameters' has more than " + std::to_string(kMaxJsonKeys) + " keys");
      }
      const Status status = ReadParameter(field.key, field.value);
      if (!status.ok()) {
        return {status.code(), "Converting keyword: 'parameters': " + std::string(status.message())};
      }
    }
    return OkStatus();
  }

  // The two inputs that name the sequence of a stateful model are not in the metadata. The id is also a
  // parameter of the protocol.
  Status ReadSequenceInput(const SequenceType& type, element value) {
    std::optional<SequenceInput>& input = type.name == kSequenceIdInput ? sequence_id_ : sequence_control_;
    if (input) return RepeatedSequenceInput(type.name);
    const size_t count = CountJsonValues(value);
    input.emplace();
    input->shape = {static_cast<int64_t>(count)};
    if (count != 1) return OkStatus();
    uint64_t number = 0;  // little-endian
    const Status filled =
        FillFromJson(value, JsonForm::kFlat, type.type, 1, reinterpret_cast<std::byte*>(&number));
    if (!filled.ok()) return RulesOf(target_.info).WithDetails(Fault::kRestCouldNotParseInput, filled);
    input->value = number;
    return OkStatus();
  }

  Status NameRequest() {
    const auto take = [this](std::string_view name, DataType) -> Result<std::optional<SequenceInput>> {
      return name == kSequenceIdInput ? sequence_id_ : sequence_control_;
    };
    return NameSequenceOf(target_.info, target_.sequence_header, take, request_);
  }

  Status ReadParameter(std::string_view key, element value) {
    if (key == "binary_data_output") {
      return InvalidArgumentError("parameter 'binary_data_output' is not supported: responses are JSON");
    }
    return ReadRequestParameter(key, value, request_);
  }

  // A key may occur in the body and in "parameters", but not with two values.
  Status CheckParameters() const {
    std::vector<std::string_view> names;
    names.reserve(request_.parameters.size());
    for (const auto& [name, value] : request_.parameters) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return OkStatus();
    return InvalidArgumentError("parameter '" + Shortened(*twice) + "' already exists in request");
  }

  Status ReadInput(const TensorSpec& spec, element value) {
    if (spec.type == DataType::kFp16 || spec.type == DataType::kBf16) {
      return InvalidArgumentError(
          "receiving " + std::string(WireName(spec.type)) +
          " data via JSON is not supported. Please use the binary data format for input " + spec.name);
    }
    const size_t count = CountJsonValues(value);
    size_t bytes = count * ElementSize(spec.type);
    if (spec.type == DataType::kBytes) {
      bytes = 0;
      BRAID_RETURN_IF_ERROR(MeasureJsonStrings(value, JsonForm::kFlat, count, &bytes));
    }
    Tensor& tensor = request_.inputs.emplace_back();
    tensor.name = spec.name;
    tensor.type = spec.type;
    tensor.shape = spec.shape;
    if (!FitShape(tensor.shape, count, target_.info.max_batch_size > 0)) {
      return InvalidArgumentError("The schema can not convert input '" + spec.name +
                                  "' to tensor with proper shape");
    }
    total_bytes_ += bytes;
    if (total_bytes_ > target_.max_input_bytes) {
      return InvalidArgumentError(
          "request size of " + std::to_string(total_bytes_) + " bytes with input '" + spec.name +
          "' of size " + std::to_string(bytes) + " bytes exceeds the maximum allowed input size of " +
          std::to_string(target_.max_input_bytes) + ". Use --http-max-input-size to increase the limit.");
    }
    if (bytes > 0) {
      BRAID_ASSIGN_OR_RETURN(tensor.data, target_.allocator.Allocate(bytes));
    }
    return FillFromJson(value, JsonForm::kFlat, spec.type, count, tensor.data.mutable_data());
  }

  const HttpInferTarget& target_;
  InferenceRequest& request_;
  std::vector<bool> given_;  // by index of the model's inputs
  std::optional<SequenceInput> sequence_id_;
  std::optional<SequenceInput> sequence_control_;
  size_t total_bytes_ = 0;
};

}  // namespace

Status ReadGenerateRequest(std::string_view json, const HttpInferTarget& target,
                           simdjson::dom::parser& parser, InferenceRequest& request) {
  BRAID_ASSIGN_OR_RETURN(element root, ParseJson(parser, json));
  return GenerateReader(target, request).Read(root);
}

}  // namespace braid
