#include "config/config_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"

namespace braid {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Far deeper than any configuration; limits the parser and the reader below.
constexpr size_t kMaxDepth = 32;

// ---- writing ----

void AppendString(const std::string& text, std::string& out) { out += DumpJson(Json(text)); }

std::string EnumName(const FieldDescriptor* field, int number) {
  const EnumValueDescriptor* value = field->enum_type()->FindValueByNumber(number);
  return value != nullptr ? "\"" + value->name() + "\"" : std::to_string(number);
}

void AppendMessage(const Message& message, std::string& out);

// Appends one value: the field's own if `index` is negative, else that element of the repeated field.
void AppendValue(const Message& message, const FieldDescriptor* field, int index, std::string& out) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      out +=
          (repeated ? reflection.GetRepeatedBool(message, field, index) : reflection.GetBool(message, field))
              ? "true"
              : "false";
      return;
    case FieldDescriptor::CPPTYPE_INT32:
      out += std::to_string(repeated ? reflection.GetRepeatedInt32(message, field, index)
                                     : reflection.GetInt32(message, field));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      out += std::to_string(repeated ? reflection.GetRepeatedInt64(message, field, index)
                                     : reflection.GetInt64(message, field));
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      out += std::to_string(repeated ? reflection.GetRepeatedUInt32(message, field, index)
                                     : reflection.GetUInt32(message, field));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      out += std::to_string(repeated ? reflection.GetRepeatedUInt64(message, field, index)
                                     : reflection.GetUInt64(message, field));
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      out += DumpJson(Json(repeated ? reflection.GetRepeatedFloat(message, field, index)
                                    : reflection.GetFloat(message, field)));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out += DumpJson(Json(repeated ? reflection.GetRepeatedDouble(message, field, index)
                                    : reflection.GetDouble(message, field)));
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      out += EnumName(field, repeated ? reflection.GetRepeatedEnumValue(message, field, index)
                                      : reflection.GetEnumValue(message, field));
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      AppendString(repeated ? reflection.GetRepeatedString(message, field, index)
                            : reflection.GetString(message, field),
                   out);
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      AppendMessage(repeated ? reflection.GetRepeatedMessage(message, field, index)
                             : reflection.GetMessage(message, field),
                    out);
      return;
  }
}

// All map keys here are strings or unsigned integers.
void AppendMap(const Message& message, const FieldDescriptor* field, std::string& out) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::vector<std::pair<std::string, int>> order;
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    const Reflection& of_entry = *entry.GetReflection();
    order.emplace_back(key->cpp_type() == FieldDescriptor::CPPTYPE_STRING
                           ? of_entry.GetString(entry, key)
                           : std::to_string(of_entry.GetUInt64(entry, key)),
                       i);
  }
  std::sort(order.begin(), order.end());
  out += '{';
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0) out += ',';
    AppendString(order[i].first, out);
    out += ':';
    AppendValue(reflection.GetRepeatedMessage(message, field, order[i].second), value, -1, out);
  }
  out += '}';
}

// Recursion is bounded, because the message type does not contain itself.
void AppendMessage(const Message& message, std::string& out) {
  const Descriptor* descriptor = message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  out += '{';
  bool first = true;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->has_presence() && !reflection.HasField(message, field)) continue;
    if (!first) out += ',';
    first = false;
    out += '"' + field->name() + "\":";
    if (field->is_map()) {
      AppendMap(message, field, out);
    } else if (field->is_repeated()) {
      out += '[';
      for (int k = 0; k < reflection.FieldSize(message, field); ++k) {
        if (k > 0) out += ',';
        AppendValue(message, field, k, out);
      }
      out += ']';
    } else {
      AppendValue(message, field, -1, out);
    }
  }
  out += '}';
}

// ---- reading ----

// Checks the text before a value is built from it: nesting and repeated keys.
class TextCheck : public JsonEvents {
 public:
  const std::string& error() const { return error_; }

  bool start_object(std::size_t) override { return Push(); }
  bool end_object() override { return Pop(); }
  bool start_array(std::size_t) override { return Push(); }
  bool end_array() override { return Pop(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    error_ = "duplicate key '" + name + "'";
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    error_ = fault.what();
    return false;
  }

 private:
  bool Push() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) return true;
    error_ = "the JSON is nested too deeply";
    return false;
  }
  bool Pop() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;
  std::string error_;
};

// Fills messages from JSON values; `path_` is the current place, for errors.
class Reader {
 public:
  Status ReadMessage(const Json& value, Message& message) {
    if (!value.is_object()) return Expected("an object");
    const Reflection& reflection = *message.GetReflection();
    std::set<int> seen;
    for (const auto& [name, element] : value.items()) {
      const Place place(*this, path_.empty() ? name : "." + name);
      const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
      if (field == nullptr) field = message.GetDescriptor()->FindFieldByCamelcaseName(name);
      if (field == nullptr) return Fault("unknown field");
      if (!seen.insert(field->number()).second) return Fault("duplicate field");
      if (element.is_null()) continue;
      const auto* oneof = field->real_containing_oneof();
      if (oneof != nullptr && reflection.HasOneof(message, oneof)) {
        return Fault("only one field of '" + oneof->name() + "' can be set");
      }
      BRAID_RETURN_IF_ERROR(ReadField(element, message, field));
    }
    return OkStatus();
  }

 private:
  // Adds a part to the path during its lifetime.
  class Place {
   public:
    Place(Reader& reader, const std::string& part) : reader_(reader), length_(reader.path_.size()) {
      reader.path_ += part;
    }
    ~Place() { reader_.path_.resize(length_); }

   private:
    Reader& reader_;
    size_t length_;
  };

  Status Fault(const std::string& what) const {
    return InvalidArgumentError((path_.empty() ? "" : path_ + ": ") + what);
  }
  Status Expected(const std::string& what) const { return Fault("expected " + what); }

  Status UnknownChoice(const Json& value, const EnumDescriptor& type) const {
    std::string what = "a value of " + type.name() + ", got " + Shortened(DumpJson(value));
    if (!value.is_string()) return Expected(what);
    for (const char* head : {"TYPE_", "KIND_", "FORMAT_"}) {
      const std::string whole = head + value.get_ref<const std::string&>();
      if (type.FindValueByName(whole) != nullptr) what += "; did you mean \"" + whole + "\"?";
    }
    return Expected(what);
  }

  Status ReadField(const Json& value, Message& message, const FieldDescriptor* field) {
    if (field->is_map()) return ReadMap(value, message, field);
    if (!field->is_repeated()) return ReadValue(value, message, field);
    if (!value.is_array()) return Expected("a list");
    for (size_t i = 0; i < value.size(); ++i) {
      const Place place(*this, "[" + std::to_string(i) + "]");
      BRAID_RETURN_IF_ERROR(ReadValue(value[i], message, field));
    }
    return OkStatus();
  }

  Status ReadMap(const Json& value, Message& message, const FieldDescriptor* field) {
    if (!value.is_object()) return Expected("an object");
    const FieldDescriptor* key = field->message_type()->map_key();
    for (const auto& [name, element] : value.items()) {
      const Place place(*this, "['" + name + "']");
      Message& entry = *message.GetReflection()->AddMessage(&message, field);
      if (key->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        entry.GetReflection()->SetString(&entry, key, name);
      } else {
        uint64_t number = 0;
        if (!ParseInteger(name, number)) return Expected("an integer key");
        entry.GetReflection()->SetUInt64(&entry, key, number);
      }
      BRAID_RETURN_IF_ERROR(ReadValue(element, entry, field->message_type()->map_value()));
    }
    return OkStatus();
  }

  // Sets the field, or appends to it if it is repeated.
  Status ReadValue(const Json& value, Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    const bool repeated = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL: {
        if (!value.is_boolean()) return Expected("true or false");
        const bool b = value.get<bool>();
        repeated ? reflection.AddBool(&message, field, b) : reflection.SetBool(&message, field, b);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        int32_t number = 0;
        if (!ReadInteger(value, number)) return Expected("a 32-bit integer");
        repeated ? reflection.AddInt32(&message, field, number)
                 : reflection.SetInt32(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t number = 0;
        if (!ReadInteger(value, number)) return Expected("an integer");
        repeated ? reflection.AddInt64(&message, field, number)
                 : reflection.SetInt64(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        uint32_t number = 0;
        if (!ReadInteger(value, number)) return Expected("a non-negative 32-bit integer");
        repeated ? reflection.AddUInt32(&message, field, number)
                 : reflection.SetUInt32(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        uint64_t number = 0;
        if (!ReadInteger(value, number)) return Expected("a non-negative integer");
        repeated ? reflection.AddUInt64(&message, field, number)
                 : reflection.SetUInt64(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        if (!value.is_number()) return Expected("a number");
        const auto number = value.get<float>();
        repeated ? reflection.AddFloat(&message, field, number)
                 : reflection.SetFloat(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        if (!value.is_number()) return Expected("a number");
        const auto number = value.get<double>();
        repeated ? reflection.AddDouble(&message, field, number)
                 : reflection.SetDouble(&message, field, number);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const EnumValueDescriptor* choice = nullptr;
        int32_t number = 0;
        if (value.is_string()) {
          choice = field->enum_type()->FindValueByName(value.get_ref<const std::string&>());
        } else if (value.is_number() && ReadInteger(value, number)) {
          choice = field->enum_type()->FindValueByNumber(number);
        }
        if (choice == nullptr) return UnknownChoice(value, *field->enum_type());
        repeated ? reflection.AddEnum(&message, field, choice) : reflection.SetEnum(&message, field, choice);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        if (!value.is_string()) return Expected("a string");
        const auto& text = value.get_ref<const std::string&>();
        repeated ? reflection.AddString(&message, field, text) : reflection.SetString(&message, field, text);
        return OkStatus();
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ReadMessage(value, repeated ? *reflection.AddMessage(&message, field)
                                           : *reflection.MutableMessage(&message, field));
    }
    return Fault("the field has an unknown type");
  }

  template <class Integer>
  static bool ParseInteger(const std::string& text, Integer& number) {
    const char* end = text.data() + text.size();
    auto [stop, fault] = std::from_chars(text.data(), end, number);
    return fault == std::errc() && stop == end;
  }

  // Reads a number without a fraction, or its text.
  template <class Integer>
  static bool ReadInteger(const Json& value, Integer& number) {
    if (value.is_string()) return ParseInteger(value.get_ref<const std::string&>(), number);
    if (value.is_number_unsigned()) return Narrow(value.get<uint64_t>(), number);
    if (value.is_number_integer()) return Narrow(value.get<int64_t>(), number);
    if (!value.is_number_float()) return false;
    const auto real = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // above this, a double may stand for several integers
    return std::trunc(real) == real && std::abs(real) <= kExact && Narrow(static_cast<int64_t>(real), number);
  }

  template <class From, class To>
  static bool Narrow(From from, To& to) {
    if (!std::in_range<To>(from)) return false;
    to = static_cast<To>(from);
    return true;
  }

  std::string path_;
};

}  // namespace

std::string ConfigToJson(const inference::ModelConfig& config) {
  std::string out;
  AppendMessage(config, out);
  return out;
}

Result<inference::ModelConfig> ConfigFromJson(std::string_view text) {
  TextCheck check;
  if (!ReadJson(text, check)) return InvalidArgumentError(check.error());
  // The text was checked above; the parser returns null on failure and does not throw.
  const Json value = ParseJson(text);
  if (value.is_discarded()) return InvalidArgumentError("the text is not JSON");
  inference::ModelConfig config;
  Reader reader;
  BRAID_RETURN_IF_ERROR(reader.ReadMessage(value, config));
  return config;
}

}  // namespace braid
