#include "protocols/openai/stop_cutter.h"

#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace {

std::string Cut(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopCutter cutter(std::move(stops));
  std::string text;
  for (const std::string& piece : pieces) text += cutter.Add(piece) + "|";
  return text + cutter.Rest() + (cutter.stopped() ? "!" : "");
}

TEST(StopCutter, CutsAtTheFirstStopText) {
  EXPECT_EQ(Cut({}, {"a", "b"}), "a|b|");
  EXPECT_EQ(Cut({"stop"}, {"a st", "op b", "c"}), "a |||!");
  EXPECT_EQ(Cut({"stop"}, {"a st", "ay"}), "a |stay|");
  EXPECT_EQ(Cut({"bc", "b"}, {"abc"}), "a|!");
  EXPECT_EQ(Cut({"\n\n"}, {"a\n", "b\n", "\nc"}), "a|\nb||!");
  EXPECT_EQ(Cut({"xx"}, {"ax"}), "a|x");
  EXPECT_EQ(Cut({"aab"}, {"aa", "ab"}), "|a|!");
}

TEST(StopCutter, KeepsCharactersTogether) {
  EXPECT_EQ(Cut({}, {"\xc3", "\xa9"}), "|\xc3\xa9|");
  EXPECT_EQ(Cut({}, {"a\xf0\x9f", "\x98", "\x80"}), "a||\xf0\x9f\x98\x80|");
  EXPECT_EQ(Cut({}, {"\xf0\x9f"}), "|\xf0\x9f");
  // Bytes outside of UTF-8 are not held back.
  EXPECT_EQ(Cut({}, {"\x80\x80\x80\x80"}), "\x80\x80\x80\x80|");
}

// However a text is cut into pieces, the same text comes out.
TEST(StopCutter, DoesNotDependOnThePieces) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "abc"[random() % 3];
    const std::vector<std::string> stops = {"abca", "cc"};
    const size_t end = std::min(text.find(stops[0]), text.find(stops[1]));
    StopCutter cutter(stops);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 5;
      out += cutter.Add(text.substr(at, size));
      at += size;
    }
    out += cutter.Rest();
    EXPECT_EQ(out, text.substr(0, end)) << text;
  }
}

}  // namespace
}  // namespace braid
