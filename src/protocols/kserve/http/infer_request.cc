#include "protocols/kserve/http/infer_request.h"

#include <boost/container/small_vector.hpp>
#include <limits>

#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/graph_inputs.h"
#include "protocols/inference/input_memory.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/json/json.h"
#include "protocols/json/tensor_data.h"
#include "protocols/kserve/http/infer_ovms.h"
#include "protocols/kserve/http/parameters.h"
#include "serving/request_check_ovms.h"

namespace braid {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr size_t kMaxDims = 64;

Status MissingMember(std::string_view name) {
  return InvalidArgumentError("Unable to parse '" + std::string(name) +
                              "': attempt to access non-existing object member '" + std::string(name) + "'");
}

// One input, parsed from JSON and not yet copied to its memory.
struct PlannedInput {
  // kNone: there are no bytes, or their number does not match the shape.
  enum class Source : unsigned char { kNone, kJson, kBinary, kRegion } source = Source::kNone;
  bool has_data = false;
  element data;
  size_t elements = 0;
  size_t part = 0;  // for kBinary: the index of the binary part after the JSON part
};

class RequestReader {
 public:
  RequestReader(std::string_view json, size_t binary_bytes, bool has_binary_header,
                const HttpInferTarget& target, HttpInferRequest& out)
      : json_(json),
        binary_left_(binary_bytes),
        has_binary_header_(has_binary_header),
        target_(target),
        rules_(RulesOf(target.info)),
        graph_(target.info.kind == ServableKind::kGraph),
        out_(out) {
    out_.format.plan.batching = target.info.max_batch_size > 0;
    out_.format.rules = &rules_;
  }

  Status Read(element root) {
    const auto request = JsonObject("request", root, kMaxJsonKeys);
    if (!request.ok()) return rules_.WithDetails(Fault::kRestBodyNotAnObject, request.status());
    element inputs;
    element outputs;
    bool has_inputs = false;
    bool has_outputs = false;
    for (auto field : *request) {
      if (field.key == "id") {
        const auto id = JsonString("id", field.value);
        if (!id.ok()) return rules_.WithDetails(Fault::kRestCouldNotParseParameters, id.status());
        out_.request.id = *id;
      } else if (field.key == "parameters") {
        BRAID_RETURN_IF_ERROR(
            rules_.WithDetails(Fault::kRestCouldNotParseParameters, ReadParameters(field.value)));
      } else if (field.key == "inputs") {
        inputs = field.value;
        has_inputs = true;
      } else if (field.key == "outputs") {
        outputs = field.value;
        has_outputs = true;
      }
    }
    if (!has_inputs) return rules_.Word(Fault::kRestNoInputsFound, MissingMember("inputs"));
    // The outputs' defaults come from the parameters, which may follow later in the body.
    if (has_outputs) {
      BRAID_RETURN_IF_ERROR(rules_.WithDetails(Fault::kRestCouldNotParseOutput, ReadOutputs(outputs)));
    }
    BRAID_RETURN_IF_ERROR(rules_.WithDetails(Fault::kRestCouldNotParseInput, ReadInputs(inputs)));
    BRAID_RETURN_IF_ERROR(CheckSizes());
    BRAID_RETURN_IF_ERROR(NameRequest());
    BRAID_RETURN_IF_ERROR(rules_.WithDetails(Fault::kRestCouldNotParseInput, CheckNothingIsLeft()));
    return rules_.WithDetails(Fault::kRestCouldNotParseInput, FillInputs());
  }

 private:
  Status ReadParameters(element value) {
    BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("parameters", value, kMaxJsonKeys));
    for (auto field : object) {
      const std::string_view name = field.key;
      if (name == "binary_data_output") {
        BRAID_ASSIGN_OR_RETURN(out_.format.binary_default, JsonBool(name, field.value));
      } else if (graph_) {
        BRAID_RETURN_IF_ERROR(ReadGraphParameter(name, field.value, out_.request.parameters));
      } else {
        BRAID_RETURN_IF_ERROR(ReadRequestParameter(name, field.value, out_.request));
      }
    }
    return OkStatus();
  }

  Status ReadOutputs(element value) {
    BRAID_ASSIGN_OR_RETURN(auto array, JsonArray("outputs", value, kMaxJsonTensors));
    for (element item : array) {
      BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("outputs", item, kMaxJsonKeys));
      OutputRequest choice;
      choice.binary = out_.format.binary_default;
      bool has_name = false;
      bool has_binary = false;
      RegionRequest asked;
      for (auto field : object) {
        if (field.key == "name") {
          BRAID_ASSIGN_OR_RETURN(choice.name, JsonString("name", field.value));
          has_name = true;
        } else if (field.key == "parameters") {
          BRAID_ASSIGN_OR_RETURN(auto parameters, JsonObject("parameters", field.value, kMaxJsonKeys));
          for (auto parameter : parameters) {
            if (parameter.key == "binary_data") {
              BRAID_ASSIGN_OR_RETURN(choice.binary, JsonBool("binary_data", parameter.value));
              has_binary = choice.binary;
            } else if (parameter.key == "classification") {
              BRAID_ASSIGN_OR_RETURN(uint64_t k, JsonUnsigned("classification", parameter.value));
              choice.classes =
                  static_cast<uint32_t>(std::min<uint64_t>(k, std::numeric_limits<uint32_t>::max()));
            } else {
              BRAID_RETURN_IF_ERROR(ReadRegionParameter(parameter, asked));
            }
          }
        }
      }
      if (!has_name) return MissingMember("name");
      if (asked.region && choice.classes == 0 && has_binary) {
        return InvalidArgumentError("Output can't set both 'shared_memory_region' and 'binary_data'");
      }
      // A graph returns its own outputs.
      if (!graph_) out_.request.requested_outputs.push_back(choice.name);
      BRAID_RETURN_IF_ERROR(out_.format.plan.Add(target_.info, target_.regions, asked, std::move(choice)));
    }
    AskForSequenceId(target_.info, out_.request);
    return out_.format.plan.Prepare(target_.info, out_.request);
  }

  Status ReadInputs(element value) {
    BRAID_ASSIGN_OR_RETURN(auto array, JsonArray("inputs", value, kMaxJsonTensors));
    only_input_ = array.size() == 1;
    for (element item : array) BRAID_RETURN_IF_ERROR(ReadInput(item));
    return OkStatus();
  }

  // Checks inputs in the body.
  Status CheckSizes() const {
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (plans_[i].source == PlannedInput::Source::kRegion || memory_.bytes(i) <= target_.max_input_bytes)
        continue;
      return InvalidArgumentError("byte size " + std::to_string(memory_.bytes(i)) + " of input '" +
                                  Shortened(out_.request.inputs[i].name) +
                                  "' exceeds the maximum allowed input size of " +
                                  std::to_string(target_.max_input_bytes) +
                                  " bytes. Use --http-max-input-size to increase the limit.");
    }
    return OkStatus();
  }

  Status CheckNothingIsLeft() const {
    if (binary_left_ == 0) return OkStatus();
    const std::string text = "unexpected additional input data for model '" + target_.info.name + "'";
    const Status fault =
        rules_.Choose(InvalidArgumentError(text), FaultError(Fault::kInvalidContentSize, text));
    // A wrong shape is the likely cause.
    return graph_ ? fault : rules_.FirstFault(target_.info, out_.request, fault);
  }

  Status ReadInput(element item) {
    const auto object = JsonObject("inputs", item, kMaxJsonKeys);
    if (!object.ok()) return rules_.WithDetails(Fault::kRestInputsNotAnObject, object.status());
    Tensor tensor;
    PlannedInput plan;
    std::optional<std::string_view> datatype;
    std::optional<uint64_t> binary_size;
    bool has_name = false;
    bool has_shape = false;
    bool has_data = false;
    RegionRequest asked;
    std::optional<uint64_t> too_large;
    for (auto field : *object) {
      if (field.key == "name") {
        BRAID_ASSIGN_OR_RETURN(tensor.name, JsonString("name", field.value));
        has_name = true;
      } else if (field.key == "datatype") {
        BRAID_ASSIGN_OR_RETURN(datatype, JsonString("datatype", field.value));
      } else if (field.key == "shape") {
        BRAID_RETURN_IF_ERROR(ReadShape(field.value, tensor.shape, too_large));
        has_shape = true;
      } else if (field.key == "data") {
        plan.data = field.value;
        has_data = true;
      } else if (field.key == "parameters") {
        BRAID_ASSIGN_OR_RETURN(auto parameters, JsonObject("parameters", field.value, kMaxJsonKeys));
        for (auto parameter : parameters) {
          if (parameter.key == "binary_data_size") {
            const auto size = JsonUnsigned("binary_data_size", parameter.value);
            if (!size.ok()) return rules_.WithDetails(Fault::kRestBinaryDataSizeInvalid, size.status());
            binary_size = *size;
          } else {
            BRAID_RETURN_IF_ERROR(ReadRegionParameter(parameter, asked));
          }
        }
      }
    }
    if (!has_name) return MissingMember("name");
    if (!has_shape) return MissingMember("shape");
    if (!datatype) return MissingMember("datatype");
    if (too_large) return Overflow(tensor.name, ExceedsCount("dimension " + std::to_string(*too_large)));
    tensor.type = DataTypeFromWireName(*datatype).value_or(DataType::kInvalid);
    if (graph_) {
      BRAID_RETURN_IF_ERROR(SetGraphType(*datatype, tensor.name, tensor));
    } else if (tensor.type == DataType::kInvalid) {
      return rules_.WithDetails(Fault::kRestUnsupportedPrecision,
                                InvalidArgumentError("invalid datatype for input " + Shortened(tensor.name)));
    }
    plan.has_data = has_data;

    if (rules_.data_may_be_missing && !has_data && !binary_size && !asked.region) {
      BRAID_ASSIGN_OR_RETURN(binary_size, ImpliedBinarySize(tensor, binary_left_, only_input_));
    }
    const int sources = int{has_data} + int{binary_size.has_value()} + int{asked.region.has_value()};
    if (sources > 1 || (sources == 0 && !rules_.data_may_be_missing)) {
      std::string text =
          "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
          "'shared_memory_region' in 'parameters'. But ";
      if (sources == 0) {
        text += "no field is set";
      } else {
        text += "both ";
        text += has_data ? "'data'" : "'binary_data_size'";
        text += " and ";
        text += has_data && binary_size ? "'binary_data_size'" : "'shared_memory_region'";
        text += " are set";
      }
      return rules_.WithDetails(Fault::kRestContentsFieldNotEmpty, InvalidArgumentError(std::move(text)));
    }
    if (asked.region) {
      plan.source = PlannedInput::Source::kRegion;
      BRAID_ASSIGN_OR_RETURN(RegionPart part, target_.regions.Find(asked, tensor.name));
      memory_.AddRegion(std::move(part));
    } else {
      size_t bytes = 0;
      if (binary_size) {
        BRAID_RETURN_IF_ERROR(PlanBinary(tensor.name, *binary_size, plan));
        bytes = static_cast<size_t>(*binary_size);
      } else if (has_data) {
        BRAID_RETURN_IF_ERROR(PlanJson(tensor, plan, bytes));
      }
      memory_.Add(bytes);
    }
    out_.request.inputs.push_back(std::move(tensor));
    plans_.push_back(std::move(plan));
    return OkStatus();
  }

  // Reads a tensor's parameters for shared memory regions.
  static Status ReadRegionParameter(const simdjson::dom::key_value_pair& parameter, RegionRequest& asked) {
    if (parameter.key == "shared_memory_region") {
      BRAID_ASSIGN_OR_RETURN(std::string_view name, JsonString(parameter.key, parameter.value));
      asked.region.emplace(name);
    } else if (parameter.key == "shared_memory_offset") {
      BRAID_ASSIGN_OR_RETURN(asked.offset, JsonUnsigned(parameter.key, parameter.value));
    } else if (parameter.key == "shared_memory_byte_size") {
      BRAID_ASSIGN_OR_RETURN(asked.byte_size, JsonUnsigned(parameter.key, parameter.value));
    }
    return OkStatus();
  }

  // `too_large` gets a dimension beyond the range of shapes.
  static Status ReadShape(element value, Shape& shape, std::optional<uint64_t>& too_large) {
    BRAID_ASSIGN_OR_RETURN(auto array, JsonArray("shape", value, kMaxDims));
    for (element dim : array) {
      BRAID_ASSIGN_OR_RETURN(uint64_t size, JsonUnsigned("shape", dim));
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) too_large = size;
      shape.push_back(static_cast<int64_t>(size));
    }
    return OkStatus();
  }

  static Status Overflow(const std::string& input, const std::string& what) {
    return InvalidArgumentError("byte size overflow for input '" + Shortened(input) + "': " + what);
  }
  static std::string ExceedsCount(const std::string& what) {
    return what + " causes total element count to exceed maximum size of " +
           std::to_string(std::numeric_limits<int64_t>::max());
  }

  Status PlanBinary(const std::string& name, uint64_t size, PlannedInput& plan) {
    if (!has_binary_header_ && !rules_.data_may_be_missing) {
      return InvalidArgumentError(
          "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when "
          "passing inputs in "
          "binary data format");
    }
    if (size > binary_left_) {
      return rules_.Choose(
          InvalidArgumentError("unexpected size for input '" + Shortened(name) + "', expecting " +
                               std::to_string(size - binary_left_) + " additional bytes for model '" +
                               target_.info.name + "'"),
          FaultError(Fault::kRestBinaryBufferExceeded, "Expected: " + std::to_string(size) +
                                                           " bytes; Actual: " + std::to_string(binary_left_) +
                                                           " bytes; input name: " + Shortened(name)));
    }
    binary_left_ -= static_cast<size_t>(size);
    plan.source = PlannedInput::Source::kBinary;
    plan.part = binary_parts_++;
    return OkStatus();
  }

  // If the number of values does not match the shape and CheckValues() reports that, the input gets no bytes.
  Status PlanJson(const Tensor& tensor, PlannedInput& plan, size_t& bytes) {
    const Status measured = MeasureJson(tensor, plan, bytes);
    if (measured.ok()) plan.source = PlannedInput::Source::kJson;
    if (!rules_.contents_as_a_whole || measured != JsonCountError(JsonForm::kNested)) return measured;
    bytes = 0;
    return OkStatus();
  }

  Status MeasureJson(const Tensor& tensor, PlannedInput& plan, size_t& bytes) {
    if (tensor.type == DataType::kFp16 || tensor.type == DataType::kBf16 ||
        tensor.type == DataType::kCustom) {
      return rules_.WithDetails(
          Fault::kRestUnsupportedPrecision,
          InvalidArgumentError(
              "receiving " + std::string(TypeName(tensor)) +
              " data via JSON is not supported. Please use the binary data format for input " +
              Shortened(tensor.name)));
    }
    const auto count = ElementCount(tensor.shape);
    if (!count) return Overflow(tensor.name, ExceedsCount("shape " + ShapeToString(tensor.shape)));
    plan.elements = static_cast<size_t>(*count);
    // A string is prefixed with its length.
    const size_t element = tensor.type == DataType::kBytes ? sizeof(uint32_t) : ElementSize(tensor.type);
    if (plan.elements > static_cast<size_t>(std::numeric_limits<int64_t>::max()) / element) {
      return Overflow(tensor.name, "shape " + ShapeToString(tensor.shape) + " of datatype " +
                                       std::string(WireName(tensor.type)));
    }
    // Each value needs at least one character, so an impossible count allocates no memory.
    if (plan.elements > json_.size()) return JsonCountError(JsonForm::kNested);
    if (tensor.type == DataType::kBytes)
      return MeasureJsonStrings(plan.data, JsonForm::kNested, plan.elements, &bytes);
    bytes = plan.elements * element;
    return OkStatus();
  }

  // Sets the request's sequence before any other check of the tensors.
  Status NameRequest() {
    InferenceRequest& request = out_.request;
    const std::string_view header = target_.sequence_header;
    if (!target_.info.stateful) return NameSequenceOf(target_.info, header, request);
    BRAID_ASSIGN_OR_RETURN(HttpSequenceInput id, TakeSequenceInput(kSequenceIdInput, DataType::kUint64));
    BRAID_ASSIGN_OR_RETURN(HttpSequenceInput control,
                           TakeSequenceInput(kSequenceControlInput, DataType::kUint32));
    if (!id.part && !control.part) return NameSequence(id.input, control.input, header, false, request);
    request.sequence_inputs = static_cast<uint8_t>((id.input ? 1 : 0) + (control.input ? 1 : 0));
    out_.sequence = std::make_unique<HttpBinarySequence>(std::move(id), std::move(control));
    return out_.sequence->Check();
  }

  // Removes one of the inputs that name the sequence from the inputs.
  Result<HttpSequenceInput> TakeSequenceInput(std::string_view name, DataType type) {
    std::vector<Tensor>& inputs = out_.request.inputs;
    const auto is_it = [name](const Tensor& input) { return input.name == name; };
    const auto found = std::find_if(inputs.begin(), inputs.end(), is_it);
    HttpSequenceInput taken;
    if (found == inputs.end()) return taken;
    if (std::any_of(found + 1, inputs.end(), is_it)) return RepeatedSequenceInput(name);
    const auto index = static_cast<size_t>(found - inputs.begin());
    const PlannedInput& plan = plans_[index];
    taken.input.emplace();
    taken.input->has_shape = !found->shape.empty();
    taken.input->shape = std::move(found->shape);
    if (found->type == type && memory_.bytes(index) == ElementSize(type)) {
      if (plan.source == PlannedInput::Source::kBinary) {
        taken.part = plan.part;
        taken.input->value = 0;
      } else {
        const auto value = ReadSequenceValue(index, type);
        if (!value.ok()) return rules_.WithDetails(Fault::kRestCouldNotParseInput, value.status());
        taken.input->value = *value;
      }
    }
    inputs.erase(found);
    plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(index));
    memory_.Erase(index);
    return taken;
  }

  // Returns the value; nullopt unless there is exactly one.
  Result<std::optional<uint64_t>> ReadSequenceValue(size_t index, DataType type) const {
    uint64_t value = 0;  // little-endian
    Buffer to(reinterpret_cast<std::byte*>(&value), ElementSize(type), nullptr);
    const RegionPart& part = memory_.region(index);
    if (part.region && part.region->copies() != nullptr)
      return UnsupportedError("the sequence input cannot use CUDA shared memory");
    const Status read = part.region
                            ? part.region->Read(part.offset, to)
                            : FillFromJson(plans_[index].data, JsonForm::kNested, type, 1, to.mutable_data());
    if (read == JsonCountError(JsonForm::kNested)) return std::optional<uint64_t>();
    BRAID_RETURN_IF_ERROR(read);
    return std::optional<uint64_t>(value);
  }

  // Allocates memory for all inputs, writes those given as JSON, and sets the destinations of the others.
  Status FillInputs() {
    for (size_t i = 0; rules_.contents_as_a_whole && i < plans_.size(); ++i) {
      if (plans_[i].source == PlannedInput::Source::kNone) BRAID_RETURN_IF_ERROR(CheckValues(i));
    }
    out_.destinations.resize(binary_parts_);
    if (out_.sequence) out_.sequence->SetDestinations(out_.destinations);
    return memory_.Fill(target_.info, target_.allocator, out_.request,
                        [this](size_t i, std::byte* to) { return FillInput(i, to); });
  }

  Status FillInput(size_t i, std::byte* to) {
    const PlannedInput& plan = plans_[i];
    if (plan.source == PlannedInput::Source::kBinary) {
      out_.destinations[plan.part] = {to, memory_.bytes(i)};
    }
    if (plan.source != PlannedInput::Source::kJson) return OkStatus();
    const Status filled =
        FillFromJson(plan.data, JsonForm::kNested, out_.request.inputs[i].type, plan.elements, to);
    if (rules_.contents_as_a_whole && filled == JsonCountError(JsonForm::kNested)) {
      BRAID_RETURN_IF_ERROR(CheckValues(i));
    }
    return filled;
  }

  Status CheckValues(size_t i) const {
    return CheckJsonValueCount(target_.info, out_.request, i, plans_[i].has_data ? &plans_[i].data : nullptr);
  }

  const std::string_view json_;
  size_t binary_left_;
  const bool has_binary_header_;
  const HttpInferTarget& target_;
  const DialectRules& rules_;
  const bool graph_;
  bool only_input_ = false;
  size_t binary_parts_ = 0;
  HttpInferRequest& out_;
  boost::container::small_vector<PlannedInput, 8> plans_;
  InputMemory memory_;  // of the same inputs
};

}  // namespace

Status ReadInferRequest(std::string_view json, size_t binary_bytes, bool has_binary_header,
                        const HttpInferTarget& target, simdjson::dom::parser& parser,
                        HttpInferRequest& read) {
  const auto root = ParseJson(parser, json);
  if (root.ok()) return RequestReader(json, binary_bytes, has_binary_header, target, read).Read(*root);
  return RulesOf(target.info).WithDetails(Fault::kJsonInvalid, root.status());
}

}  // namespace braid
