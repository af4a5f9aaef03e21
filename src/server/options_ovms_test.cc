#include "server/options_ovms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <algorithm>
#include <vector>

#include "server/memory_size.h"
#include "server/options.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

CommandLine Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"braid", "serve"});
  return ParseServe(static_cast<int>(arguments.size()), arguments.data());
}

ServerOptions Options(std::vector<const char*> arguments) {
  CommandLine line = Parse(std::move(arguments));
  EXPECT_FALSE(line.exit_code) << line.err;
  return std::move(line.options);
}

TEST(OvmsOptions, AConfigTakesItsPlaceBesideNoModelRepository) {
  const ServerOptions options =
      Options({"--config_path", "/etc/config.json", "--port", "9178", "--rest_port", "8000"});
  EXPECT_EQ(options.config.config_path, "/etc/config.json");
  EXPECT_TRUE(options.serves_config());
  EXPECT_THAT(options.folders.model_repositories, IsEmpty());
  EXPECT_EQ(options.grpc.port, 9178);
  EXPECT_EQ(options.http.port, 8000);
  EXPECT_TRUE(options.allow_grpc);
  EXPECT_TRUE(options.allow_http);
  EXPECT_FALSE(options.allow_metrics);
  EXPECT_EQ(options.id, "OpenVINO Model Server");
}

TEST(OvmsOptions, APortAloneIsTheOnlyProtocol) {
  ServerOptions options = Options({"--config_path=c.json", "--port=9000"});
  EXPECT_TRUE(options.allow_grpc);
  EXPECT_FALSE(options.allow_http);
  options = Options({"--config_path=c.json", "--rest_port=9000"});
  EXPECT_FALSE(options.allow_grpc);
  EXPECT_TRUE(options.allow_http);
  options = Options({"--config_path=c.json", "--port=9000", "--rest_port=0"});
  EXPECT_TRUE(options.allow_grpc);
  EXPECT_FALSE(options.allow_http);
  // The other names of the same ports.
  options = Options({"--config_path=c.json", "--port=9000", "--http-port=0"});
  EXPECT_TRUE(options.allow_http);
  EXPECT_EQ(options.http.port, 0);
  options = Options({"--config_path=c.json"});
  EXPECT_TRUE(options.allow_http);
  EXPECT_TRUE(options.allow_grpc);
  EXPECT_EQ(options.http.port, 8000);
}

TEST(OvmsOptions, OneModelHasItsSettings) {
  const ServerOptions options = Options(
      {"--model_name", "resnet", "--model_path", "/models/resnet", "--shape", "(1,3,224,224)", "--nireq=4",
       "--plugin_config", R"({"NUM_STREAMS": 1})", "--target_device=CPU", "--port=9000", "--stateful=false"});
  EXPECT_TRUE(options.serves_config());
  EXPECT_EQ(options.model_settings.at("model_name"), "resnet");
  EXPECT_EQ(options.model_settings.at("shape"), "(1,3,224,224)");
  EXPECT_EQ(options.model_settings.at("plugin_config"), R"({"NUM_STREAMS": 1})");
  EXPECT_EQ(options.model_settings.at("stateful"), "false");
}

TEST(OvmsOptions, BothWaysToStartGoTogether) {
  const ServerOptions options = Options({"models", "--config_path=c.json"});
  EXPECT_THAT(options.folders.model_repositories, ElementsAre("models"));
  EXPECT_TRUE(options.serves_config());
  EXPECT_TRUE(options.allow_metrics);
  EXPECT_EQ(options.id, "triton");
}

TEST(OvmsOptions, LogLevelsAreTritonsSwitches) {
  EXPECT_EQ(Options({"--config_path=c", "--log_level=TRACE"}).log_verbose, 2);
  EXPECT_EQ(Options({"--config_path=c", "--log_level=DEBUG"}).log_verbose, 1);
  const ServerOptions warning = Options({"--config_path=c", "--log_level", "WARNING"});
  EXPECT_FALSE(warning.log_info);
  EXPECT_TRUE(warning.log_warning);
  EXPECT_FALSE(Options({"--config_path=c", "--log_level=ERROR"}).log_warning);
}

TEST(OvmsOptions, ListsAreTakenApart) {
  const ServerOptions options =
      Options({"--config_path=c", "--rest_port=1", "--metrics_enable", "--metrics_list=a,b",
               "--grpc_channel_arguments=grpc.max_connection_age_ms=2000,grpc.max_concurrent_streams=7"});
  EXPECT_TRUE(options.metrics_enable);
  EXPECT_THAT(options.metrics_list, ElementsAre("a", "b"));
  EXPECT_EQ(options.grpc.max_connection_age_ms, 2000);
  EXPECT_EQ(options.grpc.max_concurrent_streams, 7);
}

TEST(OvmsOptions, ChannelArgumentsAreOptionsByTheirOtherNames) {
  const ServerOptions options = Options({"--config_path=c",
                                         "--grpc_channel_arguments=grpc.so_reuseport=1,"
                                         "grpc.max_receive_message_length=77"});
  EXPECT_TRUE(options.grpc.reuse_port);
  EXPECT_EQ(options.grpc.max_input_bytes, 77u);
  EXPECT_THAT(
      Parse({"--config_path=c", "--grpc_channel_arguments=x=y"}).err,
      HasSubstr("'x' is not a channel argument of this server; it has: grpc.max_receive_message_length, "));
  EXPECT_THAT(Parse({"--config_path=c", "--grpc_channel_arguments=grpc.keepalive_time_ms=soon"}).err,
              HasSubstr("grpc.keepalive_time_ms: 'soon' is not a whole number"));
}

TEST(OvmsOptions, SaysWhatIsWrongAndExitsAsAUsageError) {
  const struct {
    std::vector<const char*> arguments;
    const char* text;
  } cases[] = {
      {{"--config_path=c", "--model_name=m"}, "--model_name is a setting of a single model"},
      {{"--config_path=c", "--port=0", "--rest_port=0"}, "--port and --rest_port are both off"},
      {{"--config_path=c", "--rest_port=8000", "--metrics_list=a"}, "required when metrics_list is provided"},
      {{"--config_path=c", "--port=9000", "--metrics_enable"}, "Missing rest_port parameter in server CLI"},
      {{"--model_name=m"}, "--model_name needs --model_path"},
      {{"--model_path=p"}, "--model_path needs --model_name"},
      {{"--model_name=m", "--model_path=p", "--nireq=many"}, "nireq"},
      {{"--model_name=m", "--model_path=p", "--shape=(1,x)"}, "shape"},
  };
  for (const auto& [arguments, text] : cases) {
    const CommandLine line = Parse(arguments);
    EXPECT_EQ(line.exit_code, EX_USAGE) << text;
    EXPECT_THAT(line.err, HasSubstr(text));
  }
}

TEST(OvmsOptions, WhatIsForGraphsNeedsSome) {
  const std::string needs = " is for graphs, and needs --config_path, or --model_name with --model_path";
  EXPECT_THAT(Parse({"models", "--calculator-library=libx.so"}).err,
              HasSubstr("--calculator-library" + needs));
  EXPECT_THAT(Parse({"models", "--watch-graph-files"}).err, HasSubstr("--watch-graph-files" + needs));
  const ServerOptions options = Options({"--config_path=c.json", "--calculator-library=a.so",
                                         "--calculator-library=b.so", "--watch-graph-files", "true"});
  EXPECT_THAT(options.calculator_libraries, ElementsAre("a.so", "b.so"));
  EXPECT_TRUE(options.config.watch_graph_files);
}

TEST(OvmsOptions, CleanerOfSequencesByMinutesOrSeconds) {
  EXPECT_EQ(Options({"--config_path=c"}).sequence_cleaner_poll_wait_seconds, 300);
  EXPECT_EQ(Options({"--config_path=c", "--sequence_cleaner_poll_wait_minutes=2"})
                .sequence_cleaner_poll_wait_seconds,
            120);
  EXPECT_EQ(Options({"--config_path=c", "--sequence_cleaner_poll_wait_seconds=2"})
                .sequence_cleaner_poll_wait_seconds,
            2);
  EXPECT_THAT(Parse({"--config_path=c", "--sequence_cleaner_poll_wait_seconds=2",
                     "--sequence_cleaner_poll_wait_minutes=2"})
                  .err,
              HasSubstr("are the same setting; give one of them"));
  EXPECT_THAT(Parse({"models", "--sequence_cleaner_poll_wait_seconds=2"}).err,
              HasSubstr("--sequence_cleaner_poll_wait_seconds is for stateful models"));
}

TEST(OvmsOptions, TakesTheRequestSizesOfAConfigJson) {
  EXPECT_EQ(Parse({"--config_path=c"}).options.http.max_input_bytes, DefaultConfigInputSize());
  EXPECT_EQ(Parse({"--model_name=m", "--model_path=p"}).options.http.max_input_bytes,
            DefaultConfigInputSize());
  EXPECT_EQ(Parse({"--config_path=c", "--http-max-input-size=5"}).options.http.max_input_bytes, 5U);
  EXPECT_EQ(Parse({"models"}).options.http.max_input_bytes, 64U << 20);
  EXPECT_EQ(DefaultConfigInputSize(), std::min(uint64_t{1} << 30, MemorySize() / 4));
}

TEST(OvmsOptions, RefusesWhatItDoesNotDo) {
  EXPECT_THAT(Parse({"--config_path=c", "--allowed_origins=http://a"}).err,
              HasSubstr("add the headers in a proxy"));
  EXPECT_FALSE(Parse({"--config_path=c", "--allowed_origins=*"}).exit_code);
  EXPECT_THAT(Parse({"--model_repository_path=d", "--list_models"}).err, HasSubstr("is refused"));
  EXPECT_THAT(Parse({"--config_path=c", "--log_level=LOUD"}).err, HasSubstr("'LOUD' is not one of ERROR"));
}

TEST(OvmsOptions, NotesWhatMeansNothing) {
  const CommandLine line = Parse({"--config_path=c", "--grpc_workers=2", "--grpc_max_threads=8"});
  ASSERT_FALSE(line.exit_code);
  EXPECT_EQ(line.notes.size(), 2U);
}

}  // namespace
}  // namespace braid
