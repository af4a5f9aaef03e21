#include "protocols/tfs/rest_predict_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "protocols/inference/sequence_naming.h"
#include "protocols/json/json.h"
#include "protocols/tfs/json_tensor.h"
#include "protocols/tfs/rest_sequence_inputs.h"
#include "serving/faults.h"
#include "serving/request_check_ovms.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// Limit on unknown inputs that are read, so that CheckRequest() can name them.
constexpr size_t kMostUnexpected = 2;

struct NamedSource {
  std::string name;
  JsonTensorSource source;
};

bool IsNamed(element value) { return value.type() == element_type::OBJECT && !IsBase64Object(value); }

class BodyReader {
 public:
  BodyReader(size_t json_bytes, std::string_view sequence_header, Servable& servable,
             InferenceRequest& request)
      : json_bytes_(json_bytes),
        sequence_header_(sequence_header),
        servable_(servable),
        info_(servable.info()),
        request_(request) {}

  Result<TfsFormat> Read(element root) {
    if (root.type() != element_type::OBJECT) return FaultError(Fault::kRestBodyNotAnObject);
    BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("request", root, kMaxJsonKeys));
    std::optional<element> instances;
    std::optional<element> inputs;
    for (auto field : object) {
      if (field.key == "instances") instances = field.value;
      if (field.key == "inputs") inputs = field.value;
    }
    if (instances.has_value() == inputs.has_value()) return FaultError(Fault::kRestPredictUnknownOrder);
    const TfsFormat format = instances ? TfsFormat::kRow : TfsFormat::kColumn;
    BRAID_RETURN_IF_ERROR(instances ? ReadRows(*instances) : ReadColumns(*inputs));
    const auto take = [&](std::string_view name, DataType) { return TakeSequenceInput(name, format); };
    BRAID_RETURN_IF_ERROR(NameSequenceOf(info_, sequence_header_, take, request_));
    if (refused_count_) return WrongCount(*refused_count_);
    BRAID_RETURN_IF_ERROR(FillTensors(format));
    return format;
  }

 private:
  Status ReadRows(element value) {
    simdjson::dom::array rows;
    if (value.get_array().get(rows)) return FaultError(Fault::kRestInstancesNotAnArray);
    if (rows.begin() == rows.end()) return FaultError(Fault::kRestNoInstancesFound);
    if (IsNamed(*rows.begin())) return ReadNamedRows(rows);
    NamedSource* const only = TheOnlyInput();
    if (only == nullptr) return OkStatus();
    only->source.rows = true;
    for (element row : rows) {
      if (IsNamed(row)) return FaultError(Fault::kRestInstancesNotNamedOrNonamed);
      only->source.values.push_back(row);
    }
    return OkStatus();
  }

  // Each row is an object with the same inputs, in any order.
  Status ReadNamedRows(simdjson::dom::array rows) {
    size_t count = 0;
    for (element row : rows) {
      if (!IsNamed(row)) return FaultError(Fault::kRestNamedInstanceNotAnObject);
      BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("instances", row, kMaxJsonKeys));
      if (count == 0) {
        AddSources(object);
        for (NamedSource& source : sources_) source.source.rows = true;
      }
      size_t place = 0;
      for (auto field : object) {
        NamedSource* source = FindSource(field.key, place);
        if (source == nullptr && refused_count_) continue;
        // An object has no key twice. So the wrong count of an input shows in another row.
        if (source == nullptr) return FaultError(Fault::kRestInstancesBatchSizeDiffer);
        source->source.values.push_back(field.value);
        ++place;
      }
      if (refused_count_) return OkStatus();
      if (place != sources_.size()) return FaultError(Fault::kRestInstancesBatchSizeDiffer);
      ++count;
    }
    return OkStatus();
  }

  Status ReadColumns(element value) {
    if (IsNamed(value)) {
      BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("inputs", value, kMaxJsonKeys));
      AddSources(object);
      size_t place = 0;
      for (auto field : object) {
        NamedSource* source = FindSource(field.key, place++);
        if (source != nullptr) source->source.values.push_back(field.value);
      }
      return sources_.empty() ? FaultError(Fault::kRestNoInputsFound) : OkStatus();
    }
    if (value.is_null()) return FaultError(Fault::kRestInputsNotAnObject);
    NamedSource* const only = TheOnlyInput();
    if (only != nullptr) only->source.values.push_back(value);
    return OkStatus();
  }

  bool NamesSequence(std::string_view input) const {
    return info_.stateful && (input == kSequenceIdInput || input == kSequenceControlInput);
  }

  // Adds one input for each key. If the request has far too many inputs, their data is not read and the
  // request is refused.
  void AddSources(simdjson::dom::object object) {
    size_t own = 0;
    for (auto field : object) {
      if (!NamesSequence(field.key) && own++ == info_.inputs.size() + kMostUnexpected) {
        refused_count_ = object.size();
      }
      if (NamesSequence(field.key) || !refused_count_) sources_.push_back({std::string(field.key), {}});
    }
  }

  // Values without a name need a servable with one input; returns null for others.
  NamedSource* TheOnlyInput() {
    if (info_.inputs.size() == 1) return &sources_.emplace_back(NamedSource{info_.inputs.front().name, {}});
    refused_count_ = 1;
    return nullptr;
  }

  Status WrongCount(size_t given) const {
    return FaultError(Fault::kInvalidNoOfInputs,
                      "Expected: " + std::to_string(info_.inputs.size() + request_.sequence_inputs) +
                          "; Actual: " + std::to_string(given));
  }

  // Returns the input; nullopt if the request does not have it.
  Result<std::optional<SequenceInput>> TakeSequenceInput(std::string_view name, TfsFormat format) {
    const auto found = std::find_if(sources_.begin(), sources_.end(),
                                    [name](const NamedSource& source) { return source.name == name; });
    if (found == sources_.end()) return std::optional<SequenceInput>();
    const auto& values = found->source.values;
    std::optional<SequenceInput> input;
    BRAID_ASSIGN_OR_RETURN(input, format == TfsFormat::kRow
                                      ? ReadSequenceRows(name, {values.data(), values.size()})
                                      : ReadSequenceColumn(name, values.front()));
    sources_.erase(found);
    return input;
  }

  // Rows usually name their inputs in the same order, so the search begins there.
  NamedSource* FindSource(std::string_view name, size_t hint) {
    if (hint < sources_.size() && sources_[hint].name == name) return &sources_[hint];
    for (NamedSource& source : sources_) {
      if (source.name == name) return &source;
    }
    return nullptr;
  }

  Status FillTensors(TfsFormat format) {
    const Fault fault =
        format == TfsFormat::kRow ? Fault::kRestCouldNotParseInstance : Fault::kRestCouldNotParseInput;
    for (NamedSource& source : sources_) {
      Tensor& tensor = request_.inputs.emplace_back();
      tensor.name = std::move(source.name);
      const TensorSpec* spec = info_.FindInput(tensor.name);
      if (spec == nullptr) continue;
      const JsonTensorType wanted = {spec->type, TakesEncodedImages(*spec, info_.kind)};
      BRAID_RETURN_IF_ERROR(
          ReadJsonTensor(source.source, wanted, json_bytes_, fault, servable_.input_allocator(), tensor));
      // A single image may come without an array.
      const bool image = wanted.images && tensor.type == DataType::kBytes;
      if (image && tensor.shape.empty()) tensor.shape.push_back(1);
    }
    return OkStatus();
  }

  const size_t json_bytes_;
  const std::string_view sequence_header_;
  Servable& servable_;
  const ServableInfo& info_;
  InferenceRequest& request_;
  std::vector<NamedSource> sources_;
  // The number of inputs if the request is refused for it: too many, or values without the name that they
  // need.
  std::optional<size_t> refused_count_;
};

}  // namespace

Result<TfsFormat> ReadRestPredictRequest(std::string_view body, std::string_view sequence_header,
                                         Servable& servable, simdjson::dom::parser& parser,
                                         InferenceRequest& request) {
  element root;
  if (const auto error = parser.parse(body.data(), body.size(), false).get(root)) {
    return FaultError(Fault::kJsonInvalid, simdjson::error_message(error));
  }
  return BodyReader(body.size(), sequence_header, servable, request).Read(root);
}

}  // namespace braid
