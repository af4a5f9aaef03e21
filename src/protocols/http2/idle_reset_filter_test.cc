#include "protocols/http2/idle_reset_filter.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>

namespace braid {
namespace {

std::string Frame(uint8_t type, uint32_t stream, const std::string& payload) {
  const auto byte = [](size_t value) { return static_cast<char>(value & 0xff); };
  return std::string{byte(payload.size() >> 16),
                     byte(payload.size() >> 8),
                     byte(payload.size()),
                     static_cast<char>(type),
                     '\0',
                     byte(stream >> 24),
                     byte(stream >> 16),
                     byte(stream >> 8),
                     byte(stream)} +
         payload;
}

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kCancel("\0\0\0\x08", 4);

// Returns the bytes of `sent` that pass the filter, in pieces of `size`.
std::string Passed(const std::string& sent, size_t size) {
  IdleResetFilter filter;
  std::string passed;
  for (size_t at = 0; at < sent.size(); at += size) {
    filter.Pass(std::string_view(sent).substr(at, size), [&](std::string_view piece) {
      EXPECT_FALSE(piece.empty());
      passed += piece;
      return true;
    });
  }
  return passed;
}

TEST(IdleResetFilter, DropsResetsOfStreamsThatWereNeverOpenedHoweverTheyCome) {
  const std::string first = kPreface + Frame(NGHTTP2_SETTINGS, 0, "") + Frame(NGHTTP2_HEADERS, 3, "abc");
  const std::string dropped = Frame(NGHTTP2_RST_STREAM, 5, kCancel) + Frame(NGHTTP2_RST_STREAM, 7, kCancel);
  const std::string last = Frame(NGHTTP2_DATA, 3, std::string(1000, 'd')) +
                           Frame(NGHTTP2_RST_STREAM, 3, kCancel) + Frame(NGHTTP2_HEADERS, 9, "") +
                           Frame(NGHTTP2_RST_STREAM, 5, kCancel);
  const std::string sent = first + dropped + last;
  for (size_t size = 1; size <= sent.size(); ++size) EXPECT_EQ(Passed(sent, size), first + last) << size;
}

TEST(IdleResetFilter, PassesOnWhatIsWrongInAnotherWay) {
  const std::string sent = kPreface + Frame(NGHTTP2_RST_STREAM, 0, kCancel) +
                           Frame(NGHTTP2_RST_STREAM, 2, kCancel) + Frame(NGHTTP2_RST_STREAM, 1, "12345") +
                           Frame(NGHTTP2_DATA, 11, "x");
  for (size_t size = 1; size <= sent.size(); ++size) EXPECT_EQ(Passed(sent, size), sent) << size;
}

TEST(IdleResetFilter, EndsWithTheFirstPieceThatIsNotTaken) {
  IdleResetFilter filter;
  int fed = 0;
  const std::string sent = kPreface + Frame(NGHTTP2_RST_STREAM, 1, kCancel) + Frame(NGHTTP2_HEADERS, 1, "");
  filter.Pass(sent, [&](std::string_view) {
    ++fed;
    return false;
  });
  EXPECT_EQ(fed, 1);
}

}  // namespace
}  // namespace braid
