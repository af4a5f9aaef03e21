#include "load/wire.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::load {
namespace {

// Cuts a message into pieces of `size` bytes, with an empty piece between each two.
Pieces Cut(const std::string& message, size_t size) {
  Pieces pieces;
  for (size_t at = 0; at < message.size(); at += size) {
    pieces.push_back(std::string_view(message).substr(at, size));
    pieces.emplace_back();
  }
  return pieces;
}

std::string Sample() {
  WireWriter inner;
  inner.Bytes(1, "name");
  inner.Varint(3, 300);
  WireWriter outer;
  outer.Varint(9, ~uint64_t{0});
  outer.Bytes(5, inner.Take());
  outer.Bytes(6, std::string(200, 'x'));
  return outer.Take();
}

TEST(WireReader, ReadsFieldsWhateverThePieces) {
  const std::string message = Sample();
  for (size_t size = 1; size <= message.size(); ++size) {
    const Pieces pieces = Cut(message, size);
    WireReader reader(pieces);
    std::string name;
    std::string data;
    while (reader.Next()) {
      if (reader.IsBytes(5)) {
        WireReader inner = reader.TakeMessage();
        while (inner.Next()) {
          if (inner.IsBytes(1)) name = JoinPieces(inner.TakeBytes());
        }
        EXPECT_TRUE(inner.ok());
      } else if (reader.IsBytes(6)) {
        data = JoinPieces(reader.TakeBytes());
      }
    }
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(name, "name");
    EXPECT_EQ(data, std::string(200, 'x'));
  }
}

TEST(WireReader, StopsAtEveryTruncation) {
  const std::string message = Sample();
  const size_t ends_of_fields[] = {0, 11, 11 + 11, message.size()};
  for (size_t length = 0; length <= message.size(); ++length) {
    const std::string part = message.substr(0, length);
    const Pieces views = Cut(part, 3);
    WireReader reader(views);
    while (reader.Next()) {
    }
    const bool whole =
        std::find(std::begin(ends_of_fields), std::end(ends_of_fields), length) != std::end(ends_of_fields);
    EXPECT_EQ(reader.ok(), whole) << length;
  }
}

TEST(WireReader, RefusesLengthBeyondEnd) {
  const std::string message("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  const Pieces pieces{message};
  WireReader reader(pieces);
  ASSERT_TRUE(reader.Next());
  EXPECT_TRUE(reader.TakeBytes().empty());
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.Next());
}

TEST(WireReader, RefusesEndlessVarint) {
  const std::string message(20, '\xff');
  const Pieces pieces{message};
  WireReader reader(pieces);
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace braid::load
