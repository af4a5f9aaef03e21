// Packet: an immutable value of any type with a timestamp. Copies share the value.
//
//   Packet packet = Packet::Of(std::string("text"), Timestamp(3));
//   if (const auto* text = packet.GetIf<std::string>()) ...
#pragma once

#include <memory>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include "base/check.h"
#include "graph/timestamp.h"

namespace braid::graph {

// The C++ type of a packet's value. Types are compared by name, so that they are the same in users'
// libraries.
class ValueType {
 public:
  template <class T>
  static ValueType Of() {
    return ValueType(typeid(T));
  }
  explicit ValueType(const std::type_info& type) : type_(type) {}
  bool operator==(const ValueType& other) const { return type_ == other.type_; }
  // Returns the name for messages, e.g. "bool", "std::string", "braid::PythonTensor".
  std::string name() const;

 private:
  std::type_index type_;
};

class Packet {
 public:
  // Empty: no value. A node gets it from an input without a packet.
  Packet() = default;
  template <class T>
  static Packet Of(T value, Timestamp at = Timestamp::Unset()) {
    Packet packet;
    packet.value_ = std::make_shared<const T>(std::move(value));
    packet.type_ = &typeid(T);
    packet.timestamp_ = at;
    return packet;
  }

  // Makes a packet that shares a value. REQUIRES: it is not null.
  template <class T>
  static Packet Share(std::shared_ptr<const T> value, Timestamp at) {
    Packet packet;
    packet.value_ = std::move(value);
    packet.type_ = &typeid(T);
    packet.timestamp_ = at;
    return packet;
  }

  bool empty() const { return value_ == nullptr; }
  // The address of the value; it identifies the value while a packet shares it.
  const void* identity() const { return value_.get(); }
  Timestamp timestamp() const { return timestamp_; }
  // Returns the same value at another time.
  Packet At(Timestamp timestamp) const {
    Packet packet = *this;
    packet.timestamp_ = timestamp;
    return packet;
  }

  // Returns null if the packet is empty or of another type.
  template <class T>
  const T* GetIf() const {
    return !empty() && *type_ == typeid(T) ? static_cast<const T*>(value_.get()) : nullptr;
  }
  // REQUIRES: GetIf<T>() is not null.
  template <class T>
  const T& Get() const {
    const T* value = GetIf<T>();
    BRAID_CHECK(value != nullptr);
    return *value;
  }
  // REQUIRES: !empty()
  ValueType type() const { return ValueType(*type_); }

 private:
  std::shared_ptr<const void> value_;  // shared with the packet's copies
  const std::type_info* type_ = nullptr;
  Timestamp timestamp_;
};

}  // namespace braid::graph
