// Templates: JSON values with placeholders.
//
//   "$name"           the value of that name; "${name}" the same within a text
//   "@name"           the template of that name
//   "[a !b] key"      the key exists if a is set and b is not; false, "" and null count as not set
//   "[*list] ..."     as the only key of a list element: repeats the element for each item of `list`. The fields
//                     of the item are values in it ("item", if the item is not an object). If the result is a
//                     list, its elements are inserted.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace braid::fleet {

class Templates {
 public:
  // `text` is an object: templates by name, which are values, too. REQUIRES: it parses.
  explicit Templates(std::string_view text) : parts_(ParseJson(text)) {}

  const Json& operator[](const std::string& name) const { return parts_.at(name); }
  // Fills in a template. Fields of `item` take precedence over `values`.
  Json Fill(const std::string& name, const Json& values, const Json& item = Json::object()) const;

 private:
  struct Scope;
  struct Head;
  const Json& Find(const std::string& name, const Scope& scope) const;
  Head ReadHead(const std::string& key, const Scope& scope) const;
  Json Filled(const Json& part, const Scope& scope) const;
  Json FilledText(const std::string& text, const Scope& scope) const;
  Json FilledList(const Json& part, const Scope& scope) const;

  const Json parts_;
};

}  // namespace braid::fleet
