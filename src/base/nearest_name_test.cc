#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

std::string Nearest(std::string_view wanted, const std::vector<std::string>& known) {
  NearestName nearest(wanted);
  for (const std::string& name : known) nearest.Offer(name);
  return nearest.name();
}

TEST(NearestName, IsTheOneWithTheFewestChanges) {
  EXPECT_EQ(Nearest("imgae", {"images", "image", "mask"}), "image");
  EXPECT_EQ(Nearest("kind_cpu", {"KIND_CPU"}), "KIND_CPU");
  EXPECT_EQ(Nearest("imgae", {"mask"}), "");
}

TEST(NearestName, ANameThatIsKnownHasNone) {
  EXPECT_EQ(Nearest("words", {"word", "words", "swords"}), "");
  EXPECT_EQ(Nearest("words", {"words"}), "");
}

}  // namespace
}  // namespace braid
