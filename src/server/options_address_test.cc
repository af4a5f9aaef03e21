#include "server/options_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/options.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandLine Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"braid", "serve", "models"});
  return ParseServe(static_cast<int>(arguments.size()), arguments.data());
}

ServerOptions Options(std::vector<const char*> arguments) {
  CommandLine line = Parse(std::move(arguments));
  EXPECT_FALSE(line.exit_code) << line.err;
  return std::move(line.options);
}

TEST(AddressOptions, AUnixSocketIsOneOfAList) {
  EXPECT_TRUE(HasUnixSocket("127.0.0.1, unix:/x"));
  EXPECT_TRUE(HasPort("127.0.0.1,unix:/x"));
  EXPECT_FALSE(HasUnixSocket("127.0.0.1,::1"));
  EXPECT_FALSE(HasPort("unix:/x, unix:///y"));
  EXPECT_EQ(WithoutUnixSockets("unix:/x, 127.0.0.1 ,unix:/y,::1"), "127.0.0.1,::1");
  EXPECT_EQ(WithoutUnixSockets("unix:/x"), "");
}

TEST(AddressOptions, EachNameOfAnOptionTakesLists) {
  const ServerOptions options = Options(
      {"--http-address=127.0.0.1,unix:/h", "--grpc_bind_address=unix:///g,::1", "--metrics-address=unix:/m"});
  EXPECT_EQ(options.http.address, "127.0.0.1,unix:/h");
  EXPECT_EQ(options.grpc.address, "unix:///g,::1");
  EXPECT_EQ(options.metrics_addresses(), "unix:/m");
  EXPECT_EQ(Options({"--rest_bind_address=unix:/h,127.0.0.1"}).http.address, "unix:/h,127.0.0.1");
  for (const char* option : {"--http-address", "--grpc-address", "--metrics-address", "--grpc_bind_address",
                             "--rest_bind_address"}) {
    const std::string given = std::string(option) + "=127.0.0.1,unix://host/x";
    EXPECT_THAT(Parse({given.c_str()}).err,
                HasSubstr(std::string(option) + ": 'unix://host/x' names a host"));
  }
}

TEST(AddressOptions, MetricsDoNotShareASocketWithHttp) {
  EXPECT_EQ(Options({"--http-address=unix:/h,127.0.0.1"}).metrics_addresses(), "127.0.0.1");
  EXPECT_EQ(Options({}).metrics_addresses(), "0.0.0.0");
  EXPECT_THAT(Parse({"--http-address=unix:/h"}).err,
              HasSubstr("so metrics have no address; use --metrics-address"));
  EXPECT_FALSE(Options({"--http-address=unix:/h", "--allow-metrics=false"}).allow_metrics);
  EXPECT_EQ(Options({"--http-address=unix:/h", "--host=127.0.0.1"}).metrics_addresses(), "127.0.0.1");
}

TEST(AddressOptions, OnlyThisMachineReachesASocket) {
  EXPECT_TRUE(Options({"--host=127.0.0.1", "--grpc-address=unix:/g"}).loopback_only());
  const ServerOptions options =
      Options({"--http-address=unix:/h", "--grpc-address=unix:/g", "--metrics-address=unix:/m"});
  EXPECT_TRUE(options.loopback_only());
  EXPECT_TRUE(options.takes_client_shm());
  EXPECT_FALSE(Options({"--http-address=0.0.0.0,unix:/h", "--grpc-address=unix:/g"}).loopback_only());
}

TEST(AddressOptions, TheConsoleOpensNoSocketOfMetrics) {
  const auto place = [](std::vector<const char*> arguments) {
    return Options(std::move(arguments)).console_place();
  };
  EXPECT_EQ(place({"--http-address=127.0.0.1,unix:/h"}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--http-address=127.0.0.1,unix:/h", "--metrics-address=127.0.0.1"}),
            ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--http-address=127.0.0.1", "--metrics-address=127.0.0.1,unix:/m"}), ConsolePlace::kNone);
  EXPECT_EQ(place({"--http-address=unix:/h", "--metrics-address=unix:/m"}), ConsolePlace::kNone);
  EXPECT_EQ(place({"--http-address=unix:/h", "--metrics-address=127.0.0.1"}), ConsolePlace::kNone);
}

TEST(AddressOptions, TheModeIsOctal) {
  const auto mode = [](const char* text) {
    ServerOptions options;
    const Status set = SetUnixSocketMode(options, text);
    return set.ok() ? ShowUnixSocketMode(options) : set.message();
  };
  EXPECT_EQ(ShowUnixSocketMode(ServerOptions()), "0600");
  EXPECT_EQ(mode("0660"), "0660");
  EXPECT_EQ(mode("666"), "0666");
  for (const char* text : {"", "0", "66", "06600", "1777", "0680", "u=rw", "-660", "0x66", " 660"})
    EXPECT_EQ(mode(text), "'" + std::string(text) + "' must be an octal mode such as 0600 or 0660");
  EXPECT_EQ(mode("0555"), "no client could connect with mode '0555': connecting needs permission to write");
}

TEST(AddressOptions, ManagementHasOneAddress) {
  EXPECT_EQ(Options({"--admin-address=unix:///run/admin.sock"}).admin_address, "unix:///run/admin.sock");
  EXPECT_EQ(ShowAdminAddress(Options({"--admin-address=unix:/a"})), "unix:/a");
  EXPECT_EQ(ShowAdminAddress(Options({"--admin-address=[::1]:9"})), "[::1]:9");
  EXPECT_THAT(Parse({"--admin-address=unix:/a,unix:/b"}).err,
              HasSubstr("is a list; management has one address"));
  EXPECT_THAT(Parse({"--admin-address=9000"}).err, HasSubstr("must have the form ADDRESS:PORT or unix:PATH"));
}

TEST(AddressOptions, ThatHaveNoEffectAreRefusedOrNoted) {
  EXPECT_THAT(Parse({"--unix-socket-mode=0660"}).err, HasSubstr("--unix-socket-mode needs a Unix socket"));
  EXPECT_THAT(Parse({"--grpc-address=unix:/g", "--allow-grpc=false", "--unix-socket-mode=0660"}).err,
              HasSubstr("--unix-socket-mode needs a Unix socket"));
  EXPECT_EQ(Options({"--admin-address=unix:/a", "--unix-socket-mode=0660"}).unix_socket_mode, 0660u);
  EXPECT_THAT(Parse({"--host=unix:/x"}).err, HasSubstr("a Unix socket serves one protocol"));
  EXPECT_THAT(Parse({"--grpc-address=unix:/g", "--reuse-grpc-port"}).err,
              HasSubstr("--reuse-grpc-port needs a port"));
  EXPECT_THAT(Parse({"--grpc-address=unix:/g,127.0.0.1", "--grpc-port=1"}).notes, IsEmpty());
  EXPECT_THAT(Parse({"--grpc-address=unix:/g", "--grpc-port=1"}).notes,
              ElementsAre("--grpc-port has no effect: --grpc-address has Unix sockets only"));
}

TEST(AddressOptions, ASocketTurnsItsProtocolOn) {
  const auto parse = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"braid", "serve", "--config_path=c.json", "--port=9000"});
    return ParseServe(static_cast<int>(arguments.size()), arguments.data()).options;
  };
  EXPECT_FALSE(parse({}).allow_http);
  EXPECT_TRUE(parse({"--rest_bind_address=unix:/r"}).allow_http);
  EXPECT_FALSE(parse({"--rest_bind_address=unix:/r", "--rest_port=0"}).allow_http);
}

}  // namespace
}  // namespace braid
