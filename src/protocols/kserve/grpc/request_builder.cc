#include "protocols/kserve/grpc/request_builder.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/graph_inputs.h"
#include "protocols/inference/input_memory.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/kserve/grpc/request_graph.h"
#include "protocols/kserve/grpc/request_ovms.h"
#include "protocols/kserve/grpc/request_sequence.h"

namespace braid {
namespace {

constexpr std::string_view kEmptyFinalResponse = "triton_enable_empty_final_response";
constexpr std::string_view kReservedPrefix = "triton_";

Status WrongType(std::string_view key, std::string_view expected) {
  return InvalidArgumentError("invalid value type for '" + Shortened(key) + "' parameter, expected " +
                              std::string(expected) + ".");
}

Status Negative(std::string_view key) {
  return InvalidArgumentError("invalid value for '" + Shortened(key) + "' parameter, expected value >= 0.");
}

Status ReadBool(std::string_view key, const WireParameter& value, bool& to) {
  const bool* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return WrongType(key, "bool_param");
  to = *flag;
  return OkStatus();
}

// Sets the request's reserved parameters in its fields and adds the others to request.parameters.
Status TakeParameter(std::string& key, WireParameter& value, InferenceRequest& request,
                     AnswerOptions& answer) {
  if (key == "sequence_id") {
    if (const auto* number = std::get_if<int64_t>(&value)) {
      request.correlation_id = static_cast<uint64_t>(*number);
    } else if (auto* text = std::get_if<std::string>(&value)) {
      request.correlation_id = std::move(*text);
    } else {
      return WrongType(key, "int64_param or string_param");
    }
    return OkStatus();
  }
  if (key == "sequence_start") return ReadBool(key, value, request.sequence_start);
  if (key == "sequence_end") return ReadBool(key, value, request.sequence_end);
  if (key == "priority") {
    if (const auto* number = std::get_if<int64_t>(&value)) {
      if (*number < 0) return Negative(key);
      request.priority = static_cast<uint64_t>(*number);
    } else if (const auto* unsigned_number = std::get_if<uint64_t>(&value)) {
      request.priority = *unsigned_number;
    } else {
      return WrongType(key, "int64_param or uint64_param");
    }
    return OkStatus();
  }
  if (key == "timeout") {
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr) return WrongType(key, "int64_param");
    if (*number < 0) return Negative(key);
    request.timeout_us = static_cast<uint64_t>(*number);
    return OkStatus();
  }
  if (key == kEmptyFinalResponse) return ReadBool(key, value, answer.empty_final_response);
  if (key.starts_with(kReservedPrefix)) {
    return InvalidArgumentError(
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "
        "starting with "
        "'triton_' are allowed: " +
        std::string(kEmptyFinalResponse));
  }
  // A parameter of HTTP clients. It has no effect here and is not passed to the model.
  if (key == "binary_data_output") return OkStatus();
  if (auto* flag = std::get_if<bool>(&value)) {
    request.parameters.emplace_back(std::move(key), *flag);
  } else if (auto* number = std::get_if<int64_t>(&value)) {
    request.parameters.emplace_back(std::move(key), *number);
  } else if (auto* text = std::get_if<std::string>(&value)) {
    request.parameters.emplace_back(std::move(key), std::move(*text));
  } else if (auto* real = std::get_if<double>(&value)) {
    request.parameters.emplace_back(std::move(key), *real);
  } else {
    return WrongType(key, "bool_param, int64_param, double_param or string_param");
  }
  return OkStatus();
}

DataType WidestType(ContentsField field) {
  switch (field) {
    case ContentsField::kBool:
      return DataType::kBool;
    case ContentsField::kInt:
      return DataType::kInt32;
    case ContentsField::kInt64:
      return DataType::kInt64;
    case ContentsField::kUint:
      return DataType::kUint32;
    case ContentsField::kUint64:
      return DataType::kUint64;
    case ContentsField::kFp32:
      return DataType::kFp32;
    case ContentsField::kFp64:
      return DataType::kFp64;
    case ContentsField::kBytes:
      return DataType::kBytes;
  }
  return DataType::kInvalid;
}

// The place of one input's bytes in the message.
struct InputSource {
  const WireRange* raw = nullptr;              // or
  const ParsedContents* contents = nullptr;    // of which
  ContentsField field = ContentsField::kBool;  // this kind
  size_t element_size = 0;
};

class InputBuilder {
 public:
  InputBuilder(WireSegments segments, ParsedRequest& parsed, Servable& servable, const ClientRegions& regions,
               InferenceRequest& request)
      : segments_(segments),
        parsed_(parsed),
        servable_(servable),
        info_(servable.info()),
        rules_(RulesOf(info_)),
        regions_(regions),
        request_(request) {}

  Status Build() {
    request_.inputs.reserve(parsed_.inputs.size());
    for (ParsedInput& input : parsed_.inputs) {
      Tensor& tensor = request_.inputs.emplace_back();
      tensor.type = DataTypeFromWireName(input.datatype).value_or(DataType::kInvalid);
      tensor.shape = std::move(input.shape);
    }
    if (info_.kind == ServableKind::kGraph) {
      BRAID_RETURN_IF_ERROR(CheckGraphContents(parsed_, request_.inputs));
    } else if (rules_.contents_as_a_whole) {
      BRAID_RETURN_IF_ERROR(CheckOvmsContents(info_, parsed_, request_));
    }
    for (size_t i = 0; i < parsed_.inputs.size(); ++i) {
      BRAID_RETURN_IF_ERROR(FindBytes(parsed_.inputs[i], request_.inputs[i], sources_.emplace_back()));
    }
    if (next_raw_ < parsed_.raw.size()) {
      return InvalidArgumentError("unexpected additional input data for model '" + parsed_.model_name + "'");
    }
    for (size_t i = 0; i < parsed_.inputs.size(); ++i) {
      request_.inputs[i].name = std::move(parsed_.inputs[i].name);
    }
    return memory_.Fill(info_, servable_.input_allocator(), request_, [this](size_t i, std::byte* to) {
      const InputSource& source = sources_[i];
      if (source.raw != nullptr) {
        CopyRange(segments_, *source.raw, to);
      } else if (source.contents != nullptr) {
        CopyContents(segments_, *source.contents, source.field, source.element_size, to);
      }
      return OkStatus();
    });
  }

 private:
  // Raw contents have the order of the inputs, without inputs in shared memory regions.
  Status FindBytes(const ParsedInput& input, Tensor& tensor, InputSource& source) {
    if (info_.kind == ServableKind::kGraph) {
      BRAID_RETURN_IF_ERROR(SetGraphType(input.datatype, input.name, tensor));
    } else if (tensor.type == DataType::kInvalid) {
      return InvalidArgumentError("invalid datatype for input " + Shortened(input.name));
    }
    BRAID_ASSIGN_OR_RETURN(const RegionRequest asked, FindRegionRequest(input.parameters));
    if (asked.region) {
      if (input.contents.present()) return NoContents("shared memory", input);
      BRAID_ASSIGN_OR_RETURN(RegionPart part, regions_.Find(asked, input.name));
      memory_.AddRegion(std::move(part));
      return OkStatus();
    }
    if (!parsed_.raw.empty() && input.contents.present()) return NoContents("raw_input_contents", input);
    if (next_raw_ < parsed_.raw.size()) {
      source.raw = &parsed_.raw[next_raw_++];
      memory_.Add(source.raw->size);
      return OkStatus();
    }
    if (input.contents.present()) return FindContents(input, tensor.type, source);
    if (!rules_.data_may_be_missing) {
      return InvalidArgumentError("unable to find data for input tensor '" + Shortened(input.name) +
                                  "' for model '" + parsed_.model_name + "' in request.");
    }
    memory_.Add(0);
    return OkStatus();
  }

  Status FindContents(const ParsedInput& input, DataType type, InputSource& source) {
    const std::optional<ContentsField> expected = ContentsFieldFor(type);
    for (int i = 1; i <= kContentsFieldCount; ++i) {
      const auto field = static_cast<ContentsField>(i);
      if (input.contents.count(field) > 0 && expected != field) {
        return InvalidArgumentError("unexpected explicit tensor data for input tensor '" +
                                    Shortened(input.name) + "' for model '" + parsed_.model_name +
                                    "' of type '" + std::string(WireName(WidestType(field))) +
                                    "', expected datatype '" + Shortened(input.datatype) + "'");
      }
    }
    source.contents = &input.contents;
    source.field = expected.value_or(ContentsField::kBool);
    source.element_size = ElementSize(type);
    memory_.Add(ContentsRawSize(input.contents, source.field, source.element_size));
    return OkStatus();
  }

  Status NoContents(std::string_view when, const ParsedInput& input) const {
    return InvalidArgumentError("contents field must not be specified when using " + std::string(when) +
                                " for '" + Shortened(input.name) + "' for model '" + parsed_.model_name +
                                "'");
  }

  const WireSegments segments_;
  ParsedRequest& parsed_;
  Servable& servable_;
  const ServableInfo& info_;
  const DialectRules& rules_;
  const ClientRegions& regions_;
  InferenceRequest& request_;
  boost::container::small_vector<InputSource, 8> sources_;
  InputMemory memory_;
  size_t next_raw_ = 0;
};

Status TakeOutputs(ParsedRequest& parsed, const ServableInfo& info, const ClientRegions& regions,
                   InferenceRequest& request, AnswerOptions& answer) {
  request.requested_outputs.reserve(parsed.outputs.size());
  for (ParsedOutput& output : parsed.outputs) {
    BRAID_ASSIGN_OR_RETURN(const RegionRequest region, FindRegionRequest(output.parameters));
    int64_t classes = 0;
    if (const WireParameter* value = FindParameter(output.parameters, "classification")) {
      const auto* k = std::get_if<int64_t>(value);
      if (k == nullptr) return WrongType("classification", "int64_param");
      if (*k < 0) return Negative("classification");
      classes = std::min<int64_t>(*k, std::numeric_limits<uint32_t>::max());
    }
    if (region.region || classes > 0) {
      OutputRequest asked{.name = output.name, .classes = static_cast<uint32_t>(classes)};
      BRAID_RETURN_IF_ERROR(answer.outputs.Add(info, regions, region, std::move(asked)));
    }
    // A graph returns its own outputs.
    if (info.kind != ServableKind::kGraph) request.requested_outputs.push_back(std::move(output.name));
  }
  AskForSequenceId(info, request);
  return OkStatus();
}

}  // namespace

Result<int64_t> ParseModelVersion(std::string_view text, const DialectRules& rules) {
  if (text.empty()) return -1;
  int64_t version = 0;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (digits && error == std::errc() && end == text.data() + text.size()) return version;
  return rules.Word(
      Fault::kModelVersionInvalidFormat,
      InvalidArgumentError("failed to get model version from specified version string '" + Shortened(text) +
                           "' (details: not a number), version should be an integral value > 0"));
}

Result<RegionRequest> FindRegionRequest(const WireParameters& parameters) {
  RegionRequest asked;
  const auto number = [&](std::string_view key) -> Result<std::optional<uint64_t>> {
    const WireParameter* value = FindParameter(parameters, key);
    if (value == nullptr) return std::optional<uint64_t>();
    if (const auto* size = std::get_if<uint64_t>(value)) return std::optional<uint64_t>(*size);
    const auto* size = std::get_if<int64_t>(value);
    if (size == nullptr) return WrongType(key, "int64_param");
    if (*size < 0) return Negative(key);
    return std::optional<uint64_t>(static_cast<uint64_t>(*size));
  };
  const WireParameter* region = FindParameter(parameters, "shared_memory_region");
  if (region == nullptr) return asked;
  const auto* name = std::get_if<std::string>(region);
  if (name == nullptr) return WrongType("shared_memory_region", "string_param");
  asked.region = *name;
  BRAID_ASSIGN_OR_RETURN(const auto offset, number("shared_memory_offset"));
  asked.offset = offset.value_or(0);
  BRAID_ASSIGN_OR_RETURN(asked.byte_size, number("shared_memory_byte_size"));
  return asked;
}

Status BuildInferenceRequest(WireSegments segments, ParsedRequest& parsed, Servable& servable,
                             const RequestHeaders& headers, const ClientRegions& regions,
                             InferenceRequest& request, AnswerOptions& answer) {
  const ServableInfo& info = servable.info();
  request.start_ns = SteadyNowNs();
  answer.request_id = parsed.id;
  request.id = std::move(parsed.id);
  for (auto& [key, value] : parsed.parameters) {
    BRAID_RETURN_IF_ERROR(info.kind == ServableKind::kGraph
                              ? TakeGraphParameter(key, value, request.parameters)
                              : TakeParameter(key, value, request, answer));
  }
  BRAID_RETURN_IF_ERROR(TakeSequence(segments, info, headers.sequence, regions, parsed, request));
  // Parameters in the request take precedence over headers.
  const size_t own = request.parameters.size();
  for (const auto& header : headers.forwarded) {
    const auto end = request.parameters.begin() + static_cast<std::ptrdiff_t>(own);
    if (std::none_of(request.parameters.begin(), end,
                     [&](const auto& p) { return p.first == header.first; })) {
      request.parameters.push_back(header);
    }
  }
  answer.outputs.batching = info.max_batch_size > 0;
  BRAID_RETURN_IF_ERROR(TakeOutputs(parsed, info, regions, request, answer));
  BRAID_RETURN_IF_ERROR(answer.outputs.Prepare(info, request));
  BRAID_RETURN_IF_ERROR(InputBuilder(segments, parsed, servable, regions, request).Build());
  request.model_name = std::move(parsed.model_name);
  return OkStatus();
}

}  // namespace braid
