#include "protocols/tfs/rest_predict_request.h"

#include <optional>
#include <string>
#include <vector>

#include "protocols/kserve/http_json.h"
#include "protocols/tfs/json_tensor.h"
#include "serving/ovms_status.h"
#include "serving/request_check_ovms.h"

namespace braid {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// The inputs by which clients name sequences of stateful models; they are in no metadata.
constexpr std::string_view kSequenceId = "sequence_id";
constexpr std::string_view kSequenceControl = "sequence_control_input";
constexpr size_t kSequenceInputs = 2;

struct NamedSource {
  std::string name;
  JsonTensorSource source;
};

bool IsNamed(element value) { return value.type() == element_type::OBJECT && !IsBase64Object(value); }

class BodyReader {
 public:
  BodyReader(size_t json_bytes, Servable& servable, InferenceRequest& request)
      : json_bytes_(json_bytes), servable_(servable), info_(servable.info()), request_(request) {}

  Result<TfsFormat> Read(element root) {
    if (root.type() != element_type::OBJECT) return OvmsError(OvmsCode::kRestBodyNotAnObject);
    BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("request", root, kMaxJsonKeys));
    std::optional<element> instances;
    std::optional<element> inputs;
    for (auto field : object) {
      if (field.key == "instances") instances = field.value;
      if (field.key == "inputs") inputs = field.value;
    }
    if (instances.has_value() == inputs.has_value()) return OvmsError(OvmsCode::kRestPredictUnknownOrder);
    const TfsFormat format = instances ? TfsFormat::kRow : TfsFormat::kColumn;
    BRAID_RETURN_IF_ERROR(instances ? ReadRows(*instances) : ReadColumns(*inputs));
    BRAID_RETURN_IF_ERROR(FillTensors(format));
    return format;
  }

 private:
  Status ReadRows(element value) {
    simdjson::dom::array rows;
    if (value.get_array().get(rows)) return OvmsError(OvmsCode::kRestInstancesNotAnArray);
    if (rows.begin() == rows.end()) return OvmsError(OvmsCode::kRestNoInstancesFound);
    if (IsNamed(*rows.begin())) return ReadNamedRows(rows);
    BRAID_ASSIGN_OR_RETURN(auto* const only, TheOnlyInput());
    only->source.rows = true;
    for (element row : rows) {
      if (IsNamed(row)) return OvmsError(OvmsCode::kRestInstancesNotNamedOrNonamed);
      only->source.values.push_back(row);
    }
    return OkStatus();
  }

  // Each row is an object of the same inputs; their order may differ.
  Status ReadNamedRows(simdjson::dom::array rows) {
    size_t count = 0;
    for (element row : rows) {
      if (!IsNamed(row)) return OvmsError(OvmsCode::kRestNamedInstanceNotAnObject);
      BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("instances", row, kMaxJsonKeys));
      if (count == 0) {
        BRAID_RETURN_IF_ERROR(AddSources(object));
        for (NamedSource& source : sources_) source.source.rows = true;
      }
      size_t place = 0;
      for (auto field : object) {
        NamedSource* source = FindSource(field.key, place);
        // No key is in an object twice, so an input that has one value too few or too many is in another row.
        if (source == nullptr) return OvmsError(OvmsCode::kRestInstancesBatchSizeDiffer);
        source->source.values.push_back(field.value);
        ++place;
      }
      if (place != sources_.size()) return OvmsError(OvmsCode::kRestInstancesBatchSizeDiffer);
      ++count;
    }
    return OkStatus();
  }

  Status ReadColumns(element value) {
    if (IsNamed(value)) {
      BRAID_ASSIGN_OR_RETURN(const auto object, JsonObject("inputs", value, kMaxJsonKeys));
      BRAID_RETURN_IF_ERROR(AddSources(object));
      size_t place = 0;
      for (auto field : object) sources_[place++].source.values.push_back(field.value);
      return sources_.empty() ? OvmsError(OvmsCode::kRestNoInputsFound) : OkStatus();
    }
    if (value.is_null()) return OvmsError(OvmsCode::kRestInputsNotAnObject);
    BRAID_ASSIGN_OR_RETURN(auto* const only, TheOnlyInput());
    only->source.values.push_back(value);
    return OkStatus();
  }

  // One input for each key. A request with more than the servable could have is refused before its data is
  // looked at.
  Status AddSources(simdjson::dom::object object) {
    for (auto field : object) {
      if (sources_.size() == info_.inputs.size() + kSequenceInputs) return WrongCount(object.size());
      sources_.push_back({std::string(field.key), {}});
    }
    return OkStatus();
  }

  // Values without a name are for a servable with one input.
  Result<NamedSource*> TheOnlyInput() {
    if (info_.inputs.size() != 1) return WrongCount(1);
    return &sources_.emplace_back(NamedSource{info_.inputs.front().name, {}});
  }

  Status WrongCount(size_t given) const {
    return OvmsError(OvmsCode::kInvalidNoOfInputs, "Expected: " + std::to_string(info_.inputs.size()) +
                                                       "; Actual: " + std::to_string(given));
  }

  // Rows name their inputs in the same order as a rule, so the search begins there.
  NamedSource* FindSource(std::string_view name, size_t hint) {
    if (hint < sources_.size() && sources_[hint].name == name) return &sources_[hint];
    for (NamedSource& source : sources_) {
      if (source.name == name) return &source;
    }
    return nullptr;
  }

  Status FillTensors(TfsFormat format) {
    const OvmsCode fault =
        format == TfsFormat::kRow ? OvmsCode::kRestCouldNotParseInstance : OvmsCode::kRestCouldNotParseInput;
    for (NamedSource& source : sources_) {
      Tensor& tensor = request_.inputs.emplace_back();
      tensor.name = std::move(source.name);
      const TensorSpec* spec = info_.FindInput(tensor.name);
      JsonTensorType wanted;
      if (spec != nullptr) {
        wanted = {spec->type, TakesEncodedImages(*spec, info_.kind)};
      } else if (tensor.name == kSequenceId) {
        wanted.type = DataType::kUint64;
      } else if (tensor.name == kSequenceControl) {
        wanted.type = DataType::kUint32;
      } else {
        continue;
      }
      BRAID_RETURN_IF_ERROR(
          ReadJsonTensor(source.source, wanted, json_bytes_, fault, servable_.input_allocator(), tensor));
      // One image may come without an array around it.
      const bool image = wanted.images && tensor.type == DataType::kBytes;
      if (image && tensor.shape.empty()) tensor.shape.push_back(1);
    }
    return OkStatus();
  }

  const size_t json_bytes_;
  Servable& servable_;
  const ServableInfo& info_;
  InferenceRequest& request_;
  std::vector<NamedSource> sources_;
};

}  // namespace

Result<TfsFormat> ReadRestPredictRequest(std::string_view body, Servable& servable,
                                         simdjson::dom::parser& parser, InferenceRequest& request) {
  element root;
  if (const auto error = parser.parse(body.data(), body.size(), false).get(root)) {
    return OvmsError(OvmsCode::kJsonInvalid, simdjson::error_message(error));
  }
  return BodyReader(body.size(), servable, request).Read(root);
}

}  // namespace braid
