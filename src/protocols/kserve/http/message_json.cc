#include "protocols/kserve/http/message_json.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace braid {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Returns the value of a field; `index` is the position in a repeated field, and -1 for other fields.
Json ValueJson(const Message& message, const FieldDescriptor& field, int index, bool all) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return index < 0 ? reflection.GetInt64(message, &field)
                       : reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return index < 0 ? reflection.GetUInt64(message, &field)
                       : reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(index < 0 ? reflection.GetMessage(message, &field)
                                   : reflection.GetRepeatedMessage(message, &field, index),
                         all);
    default:  // the messages that are written have no other fields
      return index < 0 ? reflection.GetString(message, &field)
                       : reflection.GetRepeatedString(message, &field, index);
  }
}

// Makes an object from entries {key, value}.
Json MapJson(Json entries) {
  const auto number = [](const Json& entry) {
    const auto& key = entry["key"].get_ref<const std::string&>();
    return std::pair(key.size(), std::string_view(key));
  };
  std::ranges::sort(entries.get_ref<Json::array_t&>(), {}, number);
  Json map = Json::object();
  for (Json& entry : entries) map[entry["key"].get<std::string>()] = std::move(entry["value"]);
  return map;
}

}  // namespace

Json MessageJson(const Message& message, bool all) {
  const auto& descriptor = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!field.is_repeated()) {
      if (all || reflection.HasField(message, &field))
        json[field.name()] = ValueJson(message, field, -1, all);
      continue;
    }
    Json values = Json::array();
    for (int at = 0; at < reflection.FieldSize(message, &field); ++at) {
      values.push_back(ValueJson(message, field, at, all));
    }
    json[field.name()] = field.is_map() ? MapJson(std::move(values)) : std::move(values);
  }
  return json;
}

}  // namespace braid
