#include "config/json_reader.h"

#include <algorithm>

#include "base/json.h"

namespace braid {
namespace {

// Far deeper than any configuration; limits the parser and the code that reads its result.
constexpr size_t kMaxLevels = 32;
constexpr size_t kMostFaultsTold = 100;
constexpr size_t kMostTextTold = 300;

// Returns the parser's message without its own label, shortened, because it quotes the text.
std::string SyntaxFault(const nlohmann::detail::exception& fault) {
  std::string text = fault.what();
  if (const size_t label = text.find("] "); text.starts_with('[') && label != std::string::npos) {
    text.erase(0, label + 2);
  }
  std::string_view hint;
  if (text.find("#'") != std::string::npos || text.find("/'") != std::string::npos) {
    hint = "; JSON does not allow comments";
  } else if (text.find("object key - unexpected '}'") != std::string::npos ||
             text.find("value - unexpected ']'") != std::string::npos) {
    hint = "; JSON does not allow trailing commas";
  }
  if (text.size() > kMostTextTold) text = text.substr(0, kMostTextTold) + "...";
  return text.append(hint);
}

// Checks the text before a value is built from it: syntax, nesting and repeated keys.
class DocumentCheck : public JsonEvents {
 public:
  explicit DocumentCheck(JsonFaults& faults) : faults_(faults) {}
  const std::string& error() const { return error_; }

  bool Scalar() override {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool start_object(std::size_t) override { return Push(false); }
  bool end_object() override { return Pop(); }
  bool start_array(std::size_t) override { return Push(true); }
  bool end_array() override { return Pop(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.here = name;
    if (!level.keys.insert(name).second) faults_.Add(Path(), "duplicate key");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    error_ = SyntaxFault(fault);
    return false;
  }

 private:
  struct Level {
    bool is_list = false;
    size_t index = 0;  // in a list: the current element
    std::string here;  // in an object: the current key
    std::set<std::string> keys;
  };

  bool Push(bool is_list) {
    if (levels_.size() >= kMaxLevels) {
      error_ = Path() + ": the text is nested deeper than " + std::to_string(kMaxLevels) + " levels";
      return false;
    }
    levels_.push_back({is_list, 0, {}, {}});
    return true;
  }
  bool Pop() {
    levels_.pop_back();
    return Scalar();
  }
  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      path = level.is_list ? JsonPath(path, level.index) : JsonPath(path, level.here);
    }
    return path;
  }

  JsonFaults& faults_;
  std::vector<Level> levels_;
  std::string error_;
};

std::string_view TypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

std::string Expected(std::string_view what, const Json& value) {
  return "expected " + std::string(what) + ", got " + std::string(TypeName(value));
}

}  // namespace

std::string JsonFaults::Text() const {
  std::string text;
  const size_t told = std::min(faults_.size(), kMostFaultsTold);
  for (size_t i = 0; i < told; ++i) {
    const auto& [path, what, keys] = faults_[i];
    text += (i == 0 ? "" : "; ") + (path.empty() ? "" : path + ": ") + what;
  }
  if (told < faults_.size()) text += "; and " + std::to_string(faults_.size() - told) + " more";
  return text;
}

Result<Json> ParseJsonText(std::string_view text, JsonFaults& faults) {
  DocumentCheck check(faults);
  if (!ReadJson(text, check)) return InvalidArgumentError(check.error());
  return ParseJson(text);
}

std::string JsonPath(const std::string& path, std::string_view key) {
  std::string result = path + "/";
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

std::string JsonPath(const std::string& path, size_t index) { return path + "/" + std::to_string(index); }

std::optional<std::string> ReadJsonText(const Json& value, const std::string& path, JsonFaults& faults) {
  if (value.is_string()) return value.get<std::string>();
  faults.Add(path, Expected("a string", value));
  return std::nullopt;
}

std::optional<int64_t> ReadJsonInteger(const Json& value, int64_t min, int64_t max, const std::string& path,
                                       JsonFaults& faults) {
  if (!value.is_number_integer()) {
    faults.Add(path, value.is_number() ? "expected an integer" : Expected("an integer", value));
    return std::nullopt;
  }
  const bool too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::max(max, int64_t{0}));
  const int64_t number = too_large ? 0 : value.get<int64_t>();
  if (too_large || number < min || number > max) {
    faults.Add(path, "expected an integer " +
                         (max == std::numeric_limits<int64_t>::max()
                              ? ">= " + std::to_string(min)
                              : "from " + std::to_string(min) + " to " + std::to_string(max)) +
                         ", got " + DumpJson(value));
    return std::nullopt;
  }
  return number;
}

JsonObject::JsonObject(const Json& value, std::string path, JsonFaults& faults)
    : object_(value.is_object() ? &value : nullptr), path_(std::move(path)), faults_(faults) {
  if (object_ == nullptr) faults_.Add(path_, Expected("an object", value));
}

const Json* JsonObject::Get(std::string_view key) {
  known_.emplace(key);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(std::string(key));
  return found == object_->end() ? nullptr : &*found;
}

const Json* JsonObject::Require(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr && object_ != nullptr) Fault(key, "is missing");
  return value;
}

std::optional<std::string> JsonObject::Text(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  return ReadJsonText(*value, PathOf(key), faults_);
}

std::optional<std::string> JsonObject::RequiredText(std::string_view key) {
  const Json* value = Require(key);
  if (value == nullptr) return std::nullopt;
  auto text = ReadJsonText(*value, PathOf(key), faults_);
  if (text && text->empty()) Fault(key, "must not be empty");
  return text;
}

std::optional<bool> JsonObject::Bool(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fault(key, Expected("true or false", *value));
  return std::nullopt;
}

std::optional<int64_t> JsonObject::Integer(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Get(key);
  if (value == nullptr) return std::nullopt;
  return ReadJsonInteger(*value, min, max, PathOf(key), faults_);
}

bool JsonObject::ExpectList(const Json& value, std::string_view key) {
  if (value.is_array()) return true;
  Fault(key, Expected("a list", value));
  return false;
}

void JsonObject::Finish() {
  if (object_ == nullptr) return;
  for (const auto& [key, value] : object_->items()) {
    if (!known_.contains(key)) faults_.Add(PathOf(key), "unknown key", {known_.begin(), known_.end()});
  }
}

}  // namespace braid
