#include "base/unix_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>

namespace braid {
namespace {

using ::testing::HasSubstr;

TEST(UnixAddress, HasTheFormsOfGrpc) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(*UnixPath("unix:/run/braid/http.sock"), "/run/braid/http.sock");
  EXPECT_EQ(*UnixPath("unix:///run/braid/http.sock"), "/run/braid/http.sock");
  // A part of the path may be a symbolic link, so ".." stays.
  EXPECT_EQ(*UnixPath("unix:/run/x/../http.sock"), "/run/x/../http.sock");
  EXPECT_EQ(*UnixPath("unix:/a:8000"), "/a:8000");
  EXPECT_EQ(*UnixPath("unix:s"), here + "/s");
  EXPECT_EQ(UnixAddress(*UnixPath("unix:///a")), "unix:/a");
}

TEST(UnixAddress, OthersAreNone) {
  for (const char* text : {"", "unix", "UNIX:/a", "127.0.0.1", "::1", "/a", "unixes", "./unix:/a"})
    EXPECT_FALSE(IsUnixAddress(text)) << text;
  for (const char* text : {"unix:", "unix:/a", "unix:///a", "unix:a", "unix-abstract:a"})
    EXPECT_TRUE(IsUnixAddress(text)) << text;
}

TEST(UnixAddress, FaultsAreNamed) {
  const auto why = [](std::string_view text) { return UnixPath(text).status().message(); };
  EXPECT_EQ(why("unix://host/a"),
            "'unix://host/a' names a host; it must have the form unix:PATH or unix:///PATH");
  for (const char* text : {"unix:", "unix:///", "unix:/", "unix:/run/"})
    EXPECT_EQ(why(text), "'" + std::string(text) + "' has no file name; it must have the form unix:PATH");
  EXPECT_EQ(why("unix://"), "'unix://' names a host; it must have the form unix:PATH or unix:///PATH");
  EXPECT_EQ(why("unix-abstract:a"),
            "'unix-abstract:a' is not supported: abstract sockets have no permissions; use unix:PATH");
  EXPECT_EQ(why("127.0.0.1"), "'127.0.0.1' must have the form unix:PATH");
  EXPECT_THAT(why(std::string_view("unix:/a\0b", 9)), HasSubstr("has a NUL byte"));
}

TEST(UnixAddress, ThePathFitsTheSystemsName) {
  const std::string longest = "/" + std::string(106, 'a');
  EXPECT_EQ(*UnixPath("unix:" + longest), longest);
  const sockaddr_un name = UnixName(longest);
  EXPECT_EQ(name.sun_family, AF_UNIX);
  EXPECT_EQ(std::string(name.sun_path), longest);
  EXPECT_EQ(UnixPath("unix:" + longest + "b").status().message(),
            "'unix:" + longest + "b' has a path of 108 bytes; a Unix socket's path has at most 107");
}

}  // namespace
}  // namespace braid
