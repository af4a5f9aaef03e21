#include "protocols/http2/outgoing_bytes.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <array>
#include <random>

namespace braid {
namespace {

std::string Bytes(const OutgoingBytes& outgoing) {
  std::array<iovec, 64> pieces;
  std::string bytes;
  for (size_t i = 0, count = outgoing.Gather(pieces); i < count; ++i) {
    bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  return bytes;
}

Buffer Shared(const std::string& text) { return CopyToHeap(std::as_bytes(std::span(text))); }

TEST(OutgoingBytes, PutsSmallPiecesTogetherAndReferencesTheOthers) {
  OutgoingBytes outgoing;
  outgoing.Append("head");
  outgoing.Append("+more");
  const Buffer tensor = Shared("tensor");
  outgoing.Refer(tensor);
  outgoing.Append("tail");
  EXPECT_EQ(outgoing.size(), 19u);
  std::array<iovec, 8> pieces;
  ASSERT_EQ(outgoing.Gather(pieces), 3u);
  EXPECT_EQ(pieces[1].iov_base, static_cast<const void*>(tensor.data()));
  EXPECT_EQ(Bytes(outgoing), "head+moretensortail");
}

TEST(OutgoingBytes, LetsGoOfWhatIsWritten) {
  OutgoingBytes outgoing;
  const Buffer tensor = Shared("tensor");
  outgoing.Refer(tensor);
  outgoing.Append("x");
  EXPECT_FALSE(tensor.owner()->unique());
  outgoing.Consume(5);
  EXPECT_FALSE(tensor.owner()->unique());
  outgoing.Consume(1);
  EXPECT_TRUE(tensor.owner()->unique());
  EXPECT_EQ(Bytes(outgoing), "x");
  outgoing.Consume(1);
  EXPECT_TRUE(outgoing.empty());
}

TEST(OutgoingBytes, GivesAllBytesInOrderWhateverIsWrittenAtOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    OutgoingBytes outgoing;
    std::string expected;
    std::string written;
    for (int step = 0; step < 60; ++step) {
      const std::string piece(random() % 50, static_cast<char>('a' + random() % 26));
      expected += piece;
      if (random() % 2 == 0) {
        outgoing.Append(piece);
      } else {
        outgoing.Refer(Shared(piece));
      }
      const std::string waiting = Bytes(outgoing);
      const size_t part = std::min<size_t>(random() % 60, waiting.size());
      written += waiting.substr(0, part);
      outgoing.Consume(part);
    }
    EXPECT_EQ(written + Bytes(outgoing), expected);
  }
}

}  // namespace
}  // namespace braid
