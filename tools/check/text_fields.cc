#include "check/text_fields.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <utility>

namespace braid::check {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::Tokenizer;

constexpr int kTabWidth = 8;
// At least the depth limit of the server's parsers.
constexpr int kDeepestMessage = 128;

std::vector<std::string> NamesOf(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (;;) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

int ColumnIn(std::string_view line, int wanted) {
  int column = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (column >= wanted) return static_cast<int>(i) + 1;
    column += line[i] == '\t' ? kTabWidth - column % kTabWidth : 1;
  }
  return static_cast<int>(line.size()) + 1;
}

}  // namespace

int ByteColumn(std::string_view text, int line, int column) {
  const auto lines = Lines(text);
  if (line < 0 || static_cast<size_t>(line) >= lines.size()) return 1;
  return ColumnIn(lines[static_cast<size_t>(line)], column);
}

std::string_view AroundField(std::string_view path) {
  int brackets = 0;
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i] == ']') ++brackets;
    if (path[i] == '[' && --brackets == 0) return path.substr(0, i);
    if (path[i] == '.' && brackets == 0) return path.substr(0, i);
  }
  return {};
}

class TextFields::Reader {
 public:
  Reader(std::string_view text, TextFields& out)
      : lines_(Lines(text)),
        input_(text.data(), static_cast<int>(text.size())),
        tokens_(&input_, &errors_),
        out_(out) {
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_f_after_float(true);
    tokens_.set_allow_multiline_strings(true);
    tokens_.Next();
  }

  void Read(const Descriptor& type) {
    while (!AtEnd()) {
      ReadMessage(&type, "", 0);
      if (!AtEnd()) tokens_.Next();  // a bracket that closes nothing
    }
  }

 private:
  // Ignores errors; the parser in text_file.cc reports them.
  class NoErrors final : public google::protobuf::io::ErrorCollector {
   public:
    void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  };

  bool AtEnd() { return tokens_.current().type == Tokenizer::TYPE_END; }
  bool At(std::string_view symbol) { return tokens_.current().text == symbol && !AtEnd(); }
  bool Take(std::string_view symbol) {
    if (!At(symbol)) return false;
    tokens_.Next();
    return true;
  }
  Position Here() {
    const auto& token = tokens_.current();
    const auto line = static_cast<size_t>(token.line);
    return {token.line + 1, line < lines_.size() ? ColumnIn(lines_[line], token.column) : 1};
  }

  // Reads the fields up to a closing bracket or the end. `type` is null inside an unknown field.
  void ReadMessage(const Descriptor* type, const std::string& path, int depth) {
    std::map<std::string, int> counts;
    while (!AtEnd() && !At("}") && !At(">")) {
      if (Take(";") || Take(",")) continue;
      const Position name_at = Here();
      const std::string name = ReadName();
      if (name.empty()) {
        tokens_.Next();
        continue;
      }
      const FieldDescriptor* field = nullptr;
      const Descriptor* any = nullptr;
      if (type != nullptr) {
        field = FindField(*type, name, any);
        if (field == nullptr && any == nullptr) {
          out_.unknown_.push_back({name_at, name, NamesOf(*type), type->name(), true});
        }
      }
      const std::string here = path.empty() ? name : path + "." + name;
      const bool colon = Take(":");
      const auto read_one = [&](bool has_value) {
        const bool many = field != nullptr && field->is_repeated();
        const Descriptor* inside = any != nullptr ? any : field != nullptr ? field->message_type() : nullptr;
        ReadValue(field, inside, name_at, many ? here + "[" + std::to_string(counts[name]++) + "]" : here,
                  has_value, depth);
      };
      if (!At("[")) {
        read_one(colon);
        continue;
      }
      tokens_.Next();
      while (!AtEnd() && !At("]")) {
        if (Take(",")) continue;
        if (At("}") || At(">")) break;
        const Position before = Here();
        read_one(true);
        if (Here() == before) tokens_.Next();  // no value begins with this
      }
      Take("]");
    }
  }

  // A word, or "[package.extension]", or "[type.url/type]"; "" when there is no name here.
  std::string ReadName() {
    if (tokens_.current().type == Tokenizer::TYPE_IDENTIFIER) {
      std::string name = tokens_.current().text;
      tokens_.Next();
      return name;
    }
    if (!At("[")) return {};
    std::string name;
    do {
      name += tokens_.current().text;
      tokens_.Next();
    } while (!AtEnd() && !At("]") && !At("{") && !At("}"));
    if (Take("]")) name += "]";
    return name;
  }

  static const FieldDescriptor* FindField(const Descriptor& type, const std::string& name,
                                          const Descriptor*& any) {
    if (!name.starts_with('[')) return type.FindFieldByName(name);
    const std::string inside = name.substr(1, name.size() - (name.ends_with(']') ? 2 : 1));
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    if (const size_t slash = inside.rfind('/'); slash != std::string::npos) {
      any = pool.FindMessageTypeByName(inside.substr(slash + 1));
      return nullptr;
    }
    return pool.FindExtensionByName(inside);
  }

  void ReadValue(const FieldDescriptor* field, const Descriptor* message, Position name_at,
                 const std::string& path, bool colon, int depth) {
    const size_t index = out_.fields_.size();
    out_.fields_.push_back({path, name_at, Here(), {}});
    if (At("{") || At("<")) {
      out_.fields_[index].at = name_at;
      tokens_.Next();
      if (depth < kDeepestMessage) ReadMessage(message, path, depth + 1);
      if (!Take("}")) Take(">");
      if (field != nullptr && field->is_map()) NameEntry(index, path);
      return;
    }
    std::string value;
    const Position at = Here();
    if (!colon) {
      out_.fields_[index].at = name_at;
      return;
    }
    if (Take("-")) value = "-";
    const auto& token = tokens_.current();
    switch (token.type) {
      case Tokenizer::TYPE_STRING:
        while (tokens_.current().type == Tokenizer::TYPE_STRING) {
          Tokenizer::ParseStringAppend(tokens_.current().text, &value);
          tokens_.Next();
        }
        break;
      case Tokenizer::TYPE_IDENTIFIER:
        value += token.text;
        tokens_.Next();
        break;
      case Tokenizer::TYPE_INTEGER:
      case Tokenizer::TYPE_FLOAT:
        value += token.text;
        tokens_.Next();
        break;
      default:
        return;  // a bracket: there is no value
    }
    CheckEnum(field, value, at);
    out_.fields_[index].value = std::move(value);
  }

  void CheckEnum(const FieldDescriptor* field, const std::string& value, Position at) {
    if (field == nullptr || field->enum_type() == nullptr || value.empty()) return;
    const bool number = value.find_first_not_of("-0123456789") == std::string::npos;
    if (number || field->enum_type()->FindValueByName(value) != nullptr) return;
    UnknownWord unknown{at, value, {}, field->enum_type()->name(), false};
    for (int i = 0; i < field->enum_type()->value_count(); ++i)
      unknown.known.push_back(field->enum_type()->value(i)->name());
    out_.unknown_.push_back(std::move(unknown));
  }

  // Renames "parameters[3].value" to "parameters[KEY].value" once the key is read.
  void NameEntry(size_t index, const std::string& path) {
    const auto key =
        std::find_if(out_.fields_.begin() + static_cast<std::ptrdiff_t>(index), out_.fields_.end(),
                     [&](const TextField& field) { return field.path == path + ".key"; });
    if (key == out_.fields_.end()) return;
    const std::string named = path.substr(0, path.rfind('[')) + "[" + key->value + "]";
    for (size_t i = index; i < out_.fields_.size(); ++i) out_.fields_[i].path.replace(0, path.size(), named);
  }

  const std::vector<std::string_view> lines_;
  google::protobuf::io::ArrayInputStream input_;
  NoErrors errors_;
  Tokenizer tokens_;
  TextFields& out_;
};

TextFields::TextFields(std::string_view text, const Descriptor& type) { Reader(text, *this).Read(type); }

const TextField* TextFields::Find(std::string_view path) const {
  const auto found = std::ranges::find(fields_, path, &TextField::path);
  return found == fields_.end() ? nullptr : &*found;
}

Position TextFields::PlaceOf(std::string_view path) const {
  for (std::string_view at = path; !at.empty(); at = AroundField(at)) {
    if (const TextField* field = Find(at)) return field->at;
    // The path may name a repeated field as a whole: use its first element.
    if (const TextField* first = Find(std::string(at) + "[0]")) return first->name;
  }
  return {1, 1};
}

}  // namespace braid::check
