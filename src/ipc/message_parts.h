// What the encodings of all messages begin, end and are made of. For messages.cc and node_messages.cc alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ipc/messages.h"
#include "ipc/wire.h"

namespace braid::message_parts {

// Starts a message: `out` is emptied, its type written.
inline WireWriter Begin(std::vector<std::byte>& out, MessageType type) {
  out.clear();
  WireWriter writer(out);
  writer.Put(type);
  return writer;
}

// A reader behind the type, or a failed one when the type is another.
inline WireReader Open(std::span<const std::byte> in, MessageType type) {
  WireReader reader(in);
  if (reader.Get<MessageType>() != type) reader.Fail();
  return reader;
}

inline bool Complete(const WireReader& reader) { return reader.ok() && reader.at_end(); }

inline void PutFlag(WireWriter& out, bool flag) { out.Put(static_cast<uint8_t>(flag ? 1 : 0)); }

inline bool GetFlag(WireReader& in) {
  const auto flag = in.Get<uint8_t>();
  if (flag > 1) in.Fail();
  return flag == 1;
}

}  // namespace braid::message_parts
