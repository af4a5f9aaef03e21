// The encoding of messages, derived from their declarations: the fields in order.
//
// A message is an aggregate with a constant kType. Its fields are numbers, enums with a LastOf(), flags,
// texts, bytes, standard containers of these, and further aggregates. If a type has IsValid(), it is called
// once all fields are read.
#pragma once

#include <boost/pfr.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ipc/messages.h"
#include "ipc/wire.h"

namespace braid::message_codec {

using Bytes = std::span<const std::byte>;

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... T>
inline constexpr bool kIs<Template<T...>, Template> = true;

template <class T>
inline constexpr bool kIsText = std::is_same_v<T, std::string_view> || std::is_same_v<T, std::string>;
template <class T>
inline constexpr bool kIsList = kIs<T, std::vector> || kIs<T, std::map> || std::is_same_v<T, Shape>;
// A type that is not an aggregate, or that sends only some fields, has a function Fields(visit, value), which
// passes the fields to `visit`.
template <class T>
concept NamesItsFields = requires(T& value) {
  Fields([](auto&...) {}, value);
};

// LastOf() is the largest value of an enum that a message may have.
constexpr LoadMode LastOf(LoadMode) { return LoadMode::kForked; }
constexpr AskTopic LastOf(AskTopic) { return AskTopic::kTakesDeviceInputs; }
// User code knows only the codes of TritonError.
constexpr StatusCode LastOf(StatusCode) { return StatusCode::kCancelled; }
constexpr DataType LastOf(DataType) { return DataType::kCustom; }
constexpr Place LastOf(Place) { return Place::kSharedDeviceMemory; }

// A lower bound of the encoded size of a value.
template <class T>
constexpr size_t LeastBytes() {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return sizeof(T);
  } else if constexpr (kIsText<T> || kIsList<T> || std::is_same_v<T, Bytes>) {
    return sizeof(uint32_t);
  } else if constexpr (std::is_same_v<T, TensorMessage>) {
    return 11;  // see EncodeTensor()
  } else if constexpr (kIs<T, std::variant> || kIs<T, std::optional> || kIs<T, std::pair> ||
                       NamesItsFields<T>) {
    return 1;
  } else {
    return []<size_t... I>(std::index_sequence<I...>) {
      return (LeastBytes<boost::pfr::tuple_element_t<I, T>>() + ...);
    }
    (std::make_index_sequence<boost::pfr::tuple_size_v<T>>());
  }
}

template <class T>
void Put(WireWriter& out, const T& value) {
  const auto put = [&out](const auto&... each) { (Put(out, each), ...); };
  if constexpr (std::is_same_v<T, StatusCode>) {
    // Codes that only the server's own parts use are internal errors to user code.
    const bool unknown = value > StatusCode::kCancelled && value <= StatusCode::kPermissionDenied;
    out.Put(unknown ? StatusCode::kInternal : value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    out.Put(value);
  } else if constexpr (kIsText<T>) {
    out.PutText(value);
  } else if constexpr (std::is_same_v<T, Bytes>) {
    out.PutBytes(value);
  } else if constexpr (kIsList<T>) {
    out.Put(static_cast<uint32_t>(value.size()));
    for (const auto& each : value) Put(out, each);
  } else if constexpr (kIs<T, std::pair>) {
    put(value.first, value.second);
  } else if constexpr (kIs<T, std::optional>) {
    out.Put(value.has_value());
    if (value) Put(out, *value);
  } else if constexpr (kIs<T, std::variant>) {
    out.Put(static_cast<uint8_t>(value.index()));
    std::visit(put, value);
  } else if constexpr (std::is_same_v<T, TensorMessage>) {
    EncodeTensor(out, value);
  } else if constexpr (NamesItsFields<T>) {
    Fields(put, const_cast<T&>(value));
  } else {
    boost::pfr::for_each_field(value, put);
  }
}

template <class T>
void Get(WireReader& in, T& value);

// Decodes the alternative with this number into `value`.
template <class... T>
void GetAlternative(WireReader& in, size_t index, std::variant<T...>& value) {
  size_t at = 0;
  const bool found = ((at++ == index && (Get(in, value.template emplace<T>()), true)) || ...);
  if (!found) in.Fail();
}

template <class T>
void Get(WireReader& in, T& value) {
  const auto get = [&in](auto&... each) { (Get(in, each), ...); };
  if constexpr (std::is_same_v<T, bool>) {
    const auto flag = in.Get<uint8_t>();
    if (flag > 1) in.Fail();
    value = flag == 1;
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = in.Get<T>();
  } else if constexpr (std::is_enum_v<T>) {
    value = in.Get<T>();
    if (value > LastOf(T{})) in.Fail();
  } else if constexpr (kIsText<T>) {
    value = in.GetText();
  } else if constexpr (std::is_same_v<T, Bytes>) {
    value = in.GetBytes();
  } else if constexpr (kIs<T, std::map>) {
    const uint32_t count = in.GetCount(2);
    value.clear();
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      std::pair<typename T::key_type, typename T::mapped_type> entry;
      Get(in, entry);
      value.insert(std::move(entry));
    }
  } else if constexpr (kIsList<T>) {
    const uint32_t count = in.GetCount(LeastBytes<typename T::value_type>());
    // Elements of an earlier message keep their memory.
    value.resize(count);
    for (uint32_t i = 0; i < count && in.ok(); ++i) Get(in, value[i]);
  } else if constexpr (kIs<T, std::pair>) {
    get(value.first, value.second);
  } else if constexpr (kIs<T, std::optional>) {
    bool there = false;
    Get(in, there);
    value.reset();
    if (there) Get(in, value.emplace());
  } else if constexpr (kIs<T, std::variant>) {
    GetAlternative(in, in.Get<uint8_t>(), value);
  } else if constexpr (std::is_same_v<T, TensorMessage>) {
    value = DecodeTensor(in);
  } else if constexpr (NamesItsFields<T>) {
    Fields(get, value);
  } else {
    boost::pfr::for_each_field(value, get);
    if constexpr (requires { value.IsValid(); }) {
      if (in.ok() && !value.IsValid()) in.Fail();
    }
  }
}

}  // namespace braid::message_codec

namespace braid {

template <class M>
void Encode(std::vector<std::byte>& out, const M& message, MessageType type) {
  out.clear();
  WireWriter writer(out);
  writer.Put(type);
  message_codec::Put(writer, message);
}

template <class M>
bool Decode(std::span<const std::byte> in, M& message, MessageType type) {
  WireReader reader(in);
  if (reader.Get<MessageType>() != type) reader.Fail();
  message_codec::Get(reader, message);
  return reader.ok() && reader.at_end();
}

}  // namespace braid

// Instantiates both functions of a message, which its header declares.
#define BRAID_MESSAGE(M)                                                        \
  template void Encode<M>(std::vector<std::byte> & out, const M&, MessageType); \
  template bool Decode<M>(std::span<const std::byte> in, M&, MessageType)
