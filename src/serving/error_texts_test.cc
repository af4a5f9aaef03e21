#include "serving/error_texts.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(ErrorTexts, ClientsAreToldWhatIsRelative) {
  ErrorTexts texts({"/srv/models"});
  EXPECT_EQ(texts.ForClients("'/srv/models/m/1' is missing; see /usr/lib/x"), "'m/1' is missing; see x");
  EXPECT_EQ(texts.ForClients("/no_such_root/m: not a folder"), "/no_such_root/m: not a folder");
  texts.AddRoot("/no_such_root");
  texts.AddRoot("/no_such_root");
  EXPECT_EQ(texts.ForClients("/no_such_root/m: not a folder"), "m: not a folder");
  EXPECT_FALSE(texts.verbose());
}

TEST(ErrorTexts, OrEverything) {
  const ErrorTexts texts({"/srv/models"}, true);
  EXPECT_EQ(texts.ForClients("/srv/models/m and /usr/lib/x"), "/srv/models/m and /usr/lib/x");
  EXPECT_TRUE(texts.verbose());
}

}  // namespace
}  // namespace braid
