#include "base/machine_paths.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid {
namespace {

const std::vector<std::string> kRoots = {"/srv/my models", "/srv/other/", "/"};

std::string Told(std::string_view text) { return WithoutMachinePaths(text, kRoots); }

TEST(MachinePaths, AreToldRelativeToWhatIsKnown) {
  EXPECT_EQ(Told("/srv/my models/m/1/model.py(7): execute"), "m/1/model.py(7): execute");
  EXPECT_EQ(Told("'/srv/other//m/1/x.so': cannot open"), "'m/1/x.so': cannot open");
  EXPECT_EQ(Told("a:/srv/other/a b:/srv/other/b"), "a:a b:b");
}

TEST(MachinePaths, AreToldByTheirLastPartElsewhere) {
  EXPECT_EQ(Told("cannot start '/usr/bin/python3'"), "cannot start 'python3'");
  EXPECT_EQ(Told("(/usr/lib/x/y.py:12)"), "(y.py:12)");
  EXPECT_EQ(Told("look in /usr/lib/ and /proc//self/"), "look in lib and self");
  EXPECT_EQ(Told("/usr/other/m"), "m");
  // A folder whose name is only a prefix of the path's folder does not contain it.
  EXPECT_EQ(WithoutMachinePaths("/usr/libexec/x", std::vector<std::string>{"/usr/lib"}), "x");
  EXPECT_EQ(WithoutMachinePaths("/usr/lib", std::vector<std::string>{"/usr/lib"}), "lib");
}

TEST(MachinePaths, OtherTextStays) {
  for (const char* text :
       {"", "/", "a / b", "and/or", "1/2", "/no_such_folder_here/0/shape: must be a list",
        "/encoder/layer.0/Add", "http://localhost:8000/v2/models", "m/1/model.py(7): execute", "//", "'/'"}) {
    EXPECT_EQ(Told(text), text);
  }
}

}  // namespace
}  // namespace braid
