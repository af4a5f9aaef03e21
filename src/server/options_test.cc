#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "server/options_python.h"
#include "server/options_table.h"
#include "server/options_text.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

CommandLine Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"braid", "serve"});
  return ParseServe(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, FolderAloneGivesTheDefaults) {
  CommandLine line = Parse({"models"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("models"));
  EXPECT_EQ(line.options.http.port, 8000);
  EXPECT_EQ(line.options.grpc.port, 8001);
  EXPECT_EQ(line.options.metrics_port, 8002);
  EXPECT_EQ(line.options.http.address, "0.0.0.0");
  EXPECT_EQ(line.options.exit_timeout_secs, 30);
  EXPECT_EQ(line.options.exit_notice_secs, 0);
  EXPECT_EQ(line.options.workers.memory_keep_bytes, 64u << 20);
  EXPECT_EQ(line.options.image_max_pixels, 1 << 30);
  EXPECT_EQ(line.options.workers.worker_start, WorkerStart::kFork);
  EXPECT_TRUE(line.options.folders.auto_complete);
  EXPECT_EQ(line.options.origin("http-port"), OptionOrigin::kDefault);
  EXPECT_THAT(line.notes, IsEmpty());
}

TEST(Options, WatchingKeepsAServerWithBrokenModels) {
  CommandLine line = Parse({"models"});
  EXPECT_FALSE(line.options.watch);
  EXPECT_TRUE(line.options.exit_on_error);
  line = Parse({"--watch", "models"});
  EXPECT_TRUE(line.options.watch);
  EXPECT_FALSE(line.options.exit_on_error);
  EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("models"));
  EXPECT_TRUE(Parse({"--watch", "--exit-on-error", "models"}).options.exit_on_error);
  EXPECT_TRUE(Parse({"--watch=false", "models"}).options.exit_on_error);
  EXPECT_THAT(Parse({"--watch", "--model-control-mode=poll", "models"}).err, HasSubstr("give one of them"));
  EXPECT_THAT(Parse({"--watch", "s3://bucket/models"}).err,
              HasSubstr("--watch needs model repositories in local"));
}

TEST(Options, TheConsoleIsWhereNobodyElseCanReachMoreByIt) {
  const auto place = [](std::vector<const char*> arguments) {
    arguments.push_back("models");
    const CommandLine line = Parse(std::move(arguments));
    EXPECT_FALSE(line.exit_code) << line.err;
    return line.options.console_place();
  };
  EXPECT_EQ(place({}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--host=127.0.0.1"}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--http-address=127.0.0.1"}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--http-address=127.0.0.1", "--metrics-address=127.0.0.1"}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--http-address=127.0.0.1", "--metrics-address=0.0.0.0"}), ConsolePlace::kNone);
  EXPECT_EQ(place({"--metrics-address=127.0.0.1", "--allow-console=true"}), ConsolePlace::kMetricsPort);
  EXPECT_EQ(place({"--allow-http=false"}), ConsolePlace::kNone);
  EXPECT_EQ(place({"--allow-metrics=false"}), ConsolePlace::kNone);
  EXPECT_EQ(place({"--allow-metrics=false", "--admin-address=127.0.0.1:8003"}), ConsolePlace::kAdminPort);
  EXPECT_EQ(place({"--admin-address=127.0.0.1:8003"}), ConsolePlace::kAdminPort);
  EXPECT_EQ(place({"--admin-address=127.0.0.1:8003", "--allow-console=false"}), ConsolePlace::kNone);
  const CommandLine line = Parse({"models", "--allow-metrics=false", "--allow-console=true"});
  EXPECT_TRUE(line.exit_code);
  EXPECT_THAT(line.err, HasSubstr("--allow-console needs a port: "));
}

TEST(Options, ClientsShareMemoryByDefaultWhereAllOfThemAreOnThisMachine) {
  const auto takes = [](std::vector<const char*> arguments) {
    arguments.push_back("models");
    const CommandLine line = Parse(std::move(arguments));
    EXPECT_FALSE(line.exit_code) << line.err;
    return line.options.takes_client_shm();
  };
  EXPECT_FALSE(takes({}));
  EXPECT_TRUE(takes({"--allow-client-shm"}));
  EXPECT_TRUE(takes({"--host=127.0.0.1"}));
  EXPECT_TRUE(takes({"--host=::1"}));
  EXPECT_FALSE(takes({"--host=127.0.0.1", "--allow-client-shm=false"}));
  for (const char* open : {"--http-address=0.0.0.0", "--grpc-address=0.0.0.0",
                           "--metrics-address=::", "--admin-address=0.0.0.0:1"})
    EXPECT_FALSE(takes({"--host=127.0.0.1", open})) << open;
  EXPECT_TRUE(takes({"--host=127.0.0.1", "--grpc-address=0.0.0.0", "--allow-grpc=false"}));
}

TEST(Options, AFleetIsShownByTheConsole) {
  EXPECT_EQ(Parse({"--fleet-endpoints=a:2:1:3,b:2:1:3", "models"}).options.fleet_endpoints,
            "a:2:1:3,b:2:1:3");
  EXPECT_EQ(Parse({"--fleet-endpoints=dns://braid", "models"}).options.fleet_endpoints, "dns://braid");
  const std::pair<std::vector<const char*>, const char*> wrong[] = {
      {{"--fleet-endpoints=a", "--allow-console=false"}, "needs the console, which is off"},
      {{"--fleet-endpoints=a", "--fleet-ca-file=ca.pem"}, "--fleet-ca-file needs"},
      {{"--fleet-ca-file=ca.pem"}, "--fleet-ca-file needs --fleet-endpoints and --http-use-ssl"}};
  for (const auto& [arguments, text] : wrong) {
    std::vector<const char*> all = arguments;
    all.push_back("models");
    EXPECT_THAT(Parse(std::move(all)).err, HasSubstr(text));
  }
}

TEST(Options, TakesBothFormsOfAValue) {
  CommandLine line = Parse({"--http-port", "9000", "--grpc-port=9001", "--trace-count", "-1", "models"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.http.port, 9000);
  EXPECT_EQ(line.options.grpc.port, 9001);
  EXPECT_EQ(line.options.origin("http-port"), OptionOrigin::kCommandLine);
}

TEST(Options, BooleanTakesNothingAWordOrADigit) {
  for (std::vector<const char*> given : std::vector<std::vector<const char*>>{
           {"--exit-on-error=false"}, {"--exit-on-error", "0"}, {"--exit-on-error", "false"}}) {
    given.push_back("models");
    CommandLine line = Parse(given);
    ASSERT_FALSE(line.exit_code) << line.err;
    EXPECT_FALSE(line.options.exit_on_error);
    EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("models"));
  }
}

TEST(Options, BooleanLeavesTheFolderThatFollows) {
  CommandLine line = Parse({"--disable-auto-complete-config", "models"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_FALSE(line.options.folders.auto_complete);
  EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("models"));
}

TEST(Options, StrictModelConfigIsTheOlderNameOfDisableAutoComplete) {
  EXPECT_TRUE(Parse({"models", "--strict-model-config=false"}).options.folders.auto_complete);
  EXPECT_FALSE(Parse({"models", "--strict-model-config=true"}).options.folders.auto_complete);
}

TEST(Options, NativeCodeIsIsolatedByParts) {
  EXPECT_FALSE(Parse({"models"}).options.isolate.openvino);
  EXPECT_TRUE(Parse({"models", "--isolate=openvino"}).options.isolate.openvino);
  EXPECT_TRUE(Parse({"models", "--isolate", "openvino,calculators"}).options.isolate.calculators);
  EXPECT_THAT(Parse({"models", "--isolate", "openvino,python"}).err,
              StartsWith("braid serve: --isolate: cannot isolate 'python'; expected any of openvino,"));
}

TEST(Options, StatesOfSequencesAreKeptWhereAFolderIsNamed) {
  EXPECT_EQ(Parse({"models"}).options.sequence_state_path, "");
  EXPECT_EQ(Parse({"models"}).options.sequence_state_interval_seconds, 60);
  for (const std::vector<const char*>& given : std::vector<std::vector<const char*>>{
           {"models", "--sequence_state_path=states", "--sequence_state_interval_seconds=5"},
           {"models", "--sequence-state-path", "states", "--sequence-state-interval-seconds", "5"},
           {"--config_path", "c.json", "--sequence_state_path", "states", "--sequence_state_interval_seconds",
            "5"}}) {
    CommandLine line = Parse(given);
    ASSERT_FALSE(line.exit_code) << line.err;
    EXPECT_EQ(line.options.sequence_state_path, "states");
    EXPECT_EQ(line.options.sequence_state_interval_seconds, 5);
  }
  EXPECT_EQ(Parse({"models"}).options.sequence_store.url, "");
  const CommandLine shared =
      Parse({"models", "--sequence-state-store=redis://h:1/2", "--sequence_state_store_mode", "behind",
             "--sequence-state-store-lag-ms", "5", "--sequence_state_store_unavailable=continue",
             "--sequence_state_store_password_file=p"});
  EXPECT_EQ(shared.err, "");
  EXPECT_EQ(shared.options.sequence_store.url, "redis://h:1/2");
  EXPECT_EQ(shared.options.sequence_store.mode, StoreMode::kBehind);
  EXPECT_EQ(shared.options.sequence_store.unavailable, StoreAway::kContinue);
  EXPECT_EQ(shared.options.sequence_store.lag_ms, 5);
  EXPECT_EQ(shared.options.sequence_store.password_file, "p");
  EXPECT_THAT(Parse({"models", "--sequence_state_store=redis://:secret@h"}).err,
              AllOf(StartsWith("braid serve: --sequence_state_store: the URL must not have a password"),
                    Not(HasSubstr("secret"))));
  EXPECT_THAT(Parse({"models", "--sequence_state_store=redis://h", "--sequence_state_path=s"}).err,
              HasSubstr("cannot be set together"));
  EXPECT_THAT(Parse({"models", "--sequence_state_store_ttl_seconds=5"}).err,
              HasSubstr("--sequence_state_store_ttl_seconds needs --sequence_state_store"));
  EXPECT_THAT(Parse({"models", "--sequence_state_store=redis://h", "--sequence_state_store_cert_file=c"}).err,
              HasSubstr("need TLS"));
  EXPECT_THAT(
      Parse({"models", "--sequence_state_store=rediss://h", "--sequence_state_store_cert_file=c"}).err,
      HasSubstr("must be set together"));
  EXPECT_EQ(Parse({"models"}).options.sequence_drain_seconds, 0);
  EXPECT_EQ(Parse({"models", "--sequence-drain-seconds", "9"}).options.sequence_drain_seconds, 9);
  EXPECT_THAT(Parse({"models", "--sequence_state_path="}).err,
              StartsWith("braid serve: --sequence_state_path must not be empty"));
  EXPECT_THAT(Parse({"models", "--sequence_state_interval_seconds=5"}).err,
              StartsWith("braid serve: --sequence_state_interval_seconds needs --sequence_state_path"));
  EXPECT_THAT(
      Parse({"models", "--sequence_state_path=s", "--sequence_state_interval_seconds=-1"}).err,
      StartsWith("braid serve: --sequence_state_interval_seconds: -1 is out of range 0 to 1000000000"));
}

TEST(Options, LimitsOfUserCodeAreOffUnlessGiven) {
  const ModelBounds none = Parse({"models"}).options.workers.bounds;
  EXPECT_EQ(none.execute_timeout_ms, 0);
  EXPECT_EQ(none.initialize_timeout_ms, 0);
  EXPECT_EQ(none.finalize_timeout_ms, 0);
  EXPECT_EQ(none.memory_max_bytes, 0U);
  const ModelBounds given = Parse({"models", "--execute-timeout-ms=1500", "--initialize-timeout-ms", "60000",
                                   "--finalize-timeout-ms=5000", "--worker-memory-max-bytes=4000000000"})
                                .options.workers.bounds;
  EXPECT_EQ(given.execute_timeout_ms, 1500);
  EXPECT_EQ(given.initialize_timeout_ms, 60000);
  EXPECT_EQ(given.finalize_timeout_ms, 5000);
  EXPECT_EQ(given.memory_max_bytes, 4'000'000'000U);
  EXPECT_THAT(Parse({"models", "--execute-timeout-ms=2s"}).err,
              StartsWith("braid serve: --execute-timeout-ms: '2s' is not a whole number"));
}

TEST(Options, RepeatableOptionsCollectInOrder) {
  CommandLine line = Parse({"a", "--model-repository=b", "--model-store", "c",
                            "--http-restricted-api=health:k=v", "--http-restricted-api", "[a-z]:k=v"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("a", "b", "c"));
  EXPECT_THAT(line.options.http_restricted_apis, ElementsAre("health:k=v", "[a-z]:k=v"));
}

TEST(Options, LastValueOfASingleOptionCounts) {
  EXPECT_EQ(Parse({"m", "--http-port=1", "--http-port=2"}).options.http.port, 2);
}

TEST(Options, EmptyValueIsAValue) {
  CommandLine line = Parse({"--log-file=", "models"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.log_file, "");
  EXPECT_THAT(line.options.folders.model_repositories, ElementsAre("models"));
}

TEST(Options, HostSetsAllAddressesButThoseGiven) {
  CommandLine line = Parse({"models", "--grpc-address=::1", "--host", "127.0.0.1"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.http.address, "127.0.0.1");
  EXPECT_EQ(line.options.grpc.address, "::1");
  EXPECT_EQ(line.options.metrics_address, "127.0.0.1");
  EXPECT_EQ(line.options.origin("http-address"), OptionOrigin::kImplied);
  EXPECT_EQ(Parse({"models", "--host=127.0.0.1", "--grpc-address=::1"}).options.grpc.address, "::1");
}

struct BadCase {
  std::vector<const char*> arguments;
  const char* text;
};

TEST(Options, SaysWhatIsWrong) {
  const BadCase cases[] = {
      {{}, "no model repository given"},
      {{"m", "--http-port=x"}, "--http-port: 'x' is not a whole number"},
      {{"m", "--http-port=70000"}, "--http-port: 70000 is out of range 0 to 65535"},
      {{"m", "--http-port=99999999999999999999"}, "--http-port: 99999999999999999999 is out of range"},
      {{"m", "--http-thread-count=-1"}, "out of range"},
      {{"m", "--allow-http=maybe"}, "--allow-http: 'maybe' is not a boolean"},
      {{"m", "--model-control-mode=all"}, "'all' is not one of none, poll, explicit"},
      {{"m", "--worker-start=spawn"}, "'spawn' is not one of fork, fresh"},
      {{"m", "--spin-us=5us"}, "'5us' is neither auto nor a number of microseconds from 0 to 1000"},
      {{"m", "--http-prot=1"}, "unknown option '--http-prot'; did you mean --http-port?"},
      {{"--pull", "--source_model=a/b", "--model_repository_path=m"},
       "--pull of OpenVINO Model Server is not supported: pulling and converting models is not supported"},
      {{"m", "--tool_parser", "hermes3"},
       "--tool_parser of OpenVINO Model Server is not supported: it configures the generative engine"},
      {{"m", "--api_key_file=keys"},
       "--api_key_file of OpenVINO Model Server is not supported: use --token-file"},
      {{"m", "--frobnicate"}, "unknown option '--frobnicate'"},
      {{"hdfs://bucket/models"},
       "--model-repository: 'hdfs://bucket/models': expected a folder, or a URL with s3://, gs://, as:// or "
       "az://"},
      {{"s3://key:secret@host:1/bucket"},
       "--model-repository: 's3://***@host:1/bucket': expected s3://BUCKET/PATH or "
       "s3://HOST:PORT/BUCKET/PATH "
       "without credentials"},
      {{"s3://bucket", "--model-cache-directory=/nothing"},
       "--model-cache-directory: '/nothing' is not a folder"},
      {{"m", "-x"}, "unknown option '-x'"},
      {{"m", "--http-port"}, "--http-port needs a value"},
      {{"m", "--load-model=a"}, "--load-model needs --model-control-mode=explicit"},
      {{"m", "--debug-port=5679"}, "--debug-port needs --debug-model"},
      {{"m", "--debug-wait"}, "--debug-wait needs --debug-model"},
      {{"m", "--model-control-mode=explicit", "--load-model=*", "--load-model=a"},
       "Wildcard model name '*' must be the ONLY startup model if specified at all."},
      {{"m", "--grpc-use-ssl"}, "--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key"},
      {{"m", "--http-use-ssl", "--http-server-cert=c"},
       "--http-use-ssl needs --http-server-cert and --http-server-key"},
      {{"m", "--http-use-ssl-mutual", "--http-server-cert=c", "--http-server-key=k"},
       "--http-use-ssl-mutual needs --http-root-cert"},
      {{"m", "--http-server-cert=c", "--http-server-key=k"},
       "--http-server-cert, --http-server-key and --http-root-cert need --http-use-ssl"},
      {{"m", "--allow-http=0", "--allow-grpc=0"}, "at least one is needed"},
      {{"m", "--backend-config=python"}, "must have the form"},
      {{"m", "--backend-config=python,stub-timeout-seconds=0"}, "stub-timeout-seconds: 0 is out of range"},
      {{"m", "--backend-config=python,stub-timeout-seconds=9999999999"}, "9999999999 is out of range"},
      {{"m", "--worker-rlimit=cpu=1"},
       "--worker-rlimit: 'cpu=1' must have the form NAME=N, with NAME one of as, core"},
      {{"m", "--worker-rlimit=nofile"}, "must have the form NAME=N"},
      {{"m", "--worker-rlimit=nofile=-1"}, "'-1' of nofile is not a whole number"},
      {{"m", "--metrics-config=foo=1"}, "'foo' is not one of"},
      {{"m", "--host="}, "the address is empty"},
      {{"m", "--allow-origin=ui.example"}, "'ui.example' must have the form SCHEME://HOST[:PORT]"},
      {{"m", "--allow-origin=http://ui.example/"}, "must have the form"},
      {{"m", "--allow-host=braid:8000"}, "'braid:8000' must be a host name without a port"},
  };
  for (const BadCase& bad : cases) {
    CommandLine line = Parse(bad.arguments);
    EXPECT_EQ(line.exit_code, 1) << bad.text;
    EXPECT_THAT(line.err, HasSubstr(bad.text));
    EXPECT_THAT(line.err, HasSubstr("usage: braid serve"));
    EXPECT_EQ(line.out, "");
  }
}

TEST(Options, EachProtocolHasItsOwnTls) {
  const CommandLine line = Parse(
      {"m", "--http-use-ssl-mutual", "--http-server-cert=c", "--http-server-key=k", "--http-root-cert=r"});
  ASSERT_FALSE(line.exit_code) << line.err;
  const TlsOptions& http = line.options.http_tls;
  EXPECT_TRUE(http.use);
  EXPECT_TRUE(http.mutual);
  EXPECT_EQ(http.certificate_file, "c");
  EXPECT_EQ(http.key_file, "k");
  EXPECT_EQ(http.root_file, "r");
  EXPECT_FALSE(line.options.grpc_tls.use);

  const CommandLine other = Parse({"m", "--grpc-use-ssl", "--grpc-server-cert=c", "--grpc-server-key=k"});
  ASSERT_FALSE(other.exit_code) << other.err;
  EXPECT_TRUE(other.options.grpc_tls.use);
  EXPECT_FALSE(other.options.grpc_tls.mutual);
  EXPECT_FALSE(other.options.http_tls.use);
}

TEST(Options, MaxInputSizeHasTheTextOfTheContract) {
  EXPECT_THAT(Parse({"m", "--http-max-input-size=0"}).err,
              StartsWith("Error: --http-max-input-size must be greater than 0.\n"));
  EXPECT_THAT(Parse({"m", "--http-max-input-size", "-5"}).err,
              StartsWith("Error: --http-max-input-size must be greater than 0.\n"));
}

TEST(Options, RefusesWhatIsNotThereWithAReason) {
  for (std::vector<const char*> given : std::vector<std::vector<const char*>>{
           {"--model-namespacing"}, {"--repoagent-directory=/x"}, {"--allow-sagemaker=1"}}) {
    given.push_back("models");
    CommandLine line = Parse(given);
    EXPECT_EQ(line.exit_code, 1) << given[0];
    EXPECT_THAT(line.err, HasSubstr(" is refused: ")) << given[0];
  }
}

TEST(Options, ReadsCacheAndRateLimit) {
  CommandLine line = Parse({"models", "--cache-config=local,size=1048576", "--rate-limit=execution_count",
                            "--rate-limit-resource=R1:10", "--rate-limit-resource=R2:5:1"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.response_cache_bytes, 1048576u);
  EXPECT_EQ(line.options.rate_limit, RateLimitMode::kExecutionCount);
  EXPECT_EQ(line.options.rate_limit_resources, (std::vector<ResourceLimit>{{"R1", 10, -1}, {"R2", 5, 1}}));
  EXPECT_THAT(Parse({"models", "--cache-config=redis,host=x"}).err,
              HasSubstr("unknown cache 'redis'; expected 'local'"));
  EXPECT_THAT(Parse({"models", "--cache-config=local,size=x"}).err, HasSubstr("'x' is not a whole number"));
  EXPECT_THAT(Parse({"models", "--cache-config=local,depth=1"}).err, HasSubstr("unknown setting 'depth'"));
  for (const char* wrong : {"R1", "R1:x", ":1", "R1:1:-1", "R1:1:2:3"}) {
    EXPECT_THAT(Parse({"models", "--rate-limit-resource", wrong}).err,
                HasSubstr("must have the form RESOURCE:COUNT or RESOURCE:COUNT:DEVICE"))
        << wrong;
  }
}

TEST(Options, AcceptsRefusedOptionsThatAskForNothing) {
  CommandLine line =
      Parse({"models", "--rate-limit=off", "--model-namespacing=0", "--trace-level=OFF", "--trace-rate=1000",
             "--response-cache-byte-size=0", "--metrics-config=histogram_latencies=false"});
  EXPECT_FALSE(line.exit_code) << line.err;
  EXPECT_THAT(line.notes, IsEmpty());
}

TEST(Options, TracingIsPutTogether) {
  CommandLine line = Parse({"models", "--trace-config=level=TIMESTAMPS", "--trace-config", "level=TENSORS",
                            "--trace-config=triton,file=/x/t", "--trace-config=triton,log-frequency=7",
                            "--trace-rate=5", "--trace-config=count=9"});
  ASSERT_FALSE(line.exit_code) << line.err;
  const TraceSettings& trace = line.options.trace.settings;
  EXPECT_THAT(trace.levels(), ElementsAre("TIMESTAMPS", "TENSORS"));
  EXPECT_EQ(trace.file, "/x/t");
  EXPECT_EQ(trace.log_frequency, 7u);
  EXPECT_EQ(trace.rate, 5u);
  EXPECT_EQ(trace.count, 9);
  line = Parse({"models", "--trace-config=mode=opentelemetry", "--trace-config=opentelemetry,url=h:1/p",
                "--trace-config=opentelemetry,resource=a=b=c", "--trace-config=level=TIMESTAMPS",
                "--trace-config=opentelemetry,bsp_schedule_delay=20"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.trace.settings.mode, "opentelemetry");
  EXPECT_EQ(line.options.trace.url, "h:1/p");
  EXPECT_THAT(line.options.trace.resource, ElementsAre(std::pair<std::string, std::string>("a", "b=c")));
  EXPECT_EQ(line.options.trace.schedule_delay_ms, 20);
  for (const char* wrong :
       {"--trace-config=level", "--trace-config=level=MUCH", "--trace-config=rate=-1",
        "--trace-config=other,file=x", "--trace-config=triton,url=x",
        "--trace-config=opentelemetry,url=https://x", "--trace-config=mode=x", "--trace-count=-2",
        "--trace-level=TIMESTAMPS", "--trace-config=opentelemetry,resource=x",
        "--trace-config=opentelemetry,bsp_max_queue_size=0"}) {
    EXPECT_EQ(Parse({"models", wrong}).exit_code, 1) << wrong;
  }
}

TEST(Options, MetricsAreConfigured) {
  CommandLine line =
      Parse({"models", "--metrics-config=summary_latencies=true", "--metrics-config",
             "summary_quantiles=0.5:0.05, 0.9:0.01", "--metrics-config=histogram_latencies=true"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_TRUE(line.options.summary_latencies);
  EXPECT_TRUE(line.options.histogram_latencies);
  EXPECT_THAT(line.options.summary_quantiles,
              ElementsAre(std::pair<double, double>(0.5, 0.05), std::pair<double, double>(0.9, 0.01)));
  for (const char* wrong :
       {"--metrics-config=summary_quantiles=", "--metrics-config=summary_quantiles=0.5",
        "--metrics-config=summary_quantiles=2:0.1", "--metrics-config=summary_quantiles=x:0.1"}) {
    EXPECT_EQ(Parse({"models", wrong}).exit_code, 1) << wrong;
  }
}

TEST(Options, NotesWhatMeansNothingHereOnce) {
  CommandLine line = Parse({"models", "--cuda-virtual-address-size=0:1", "--cuda-virtual-address-size=1:1",
                            "--backend-config=python,shm-default-byte-size=1048576",
                            "--backend-config=python,stub-timeout-seconds=7"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_THAT(line.notes,
              ElementsAre("--cuda-virtual-address-size has no effect: address space is allocated on demand",
                          HasSubstr("shm-default-byte-size")));
  EXPECT_EQ(line.options.workers.stub_timeout_seconds, 7);
}

TEST(Options, OfGpus) {
  CommandLine line = Parse({"models", "--gpu-fallback=cpu", "--model-load-gpu-limit", "0:0.5",
                            "--model-load-gpu-limit=2:1", "--min-supported-compute-capability=8.6",
                            "--gpu-timeout-ms=500", "--cuda-memory-pool-byte-size=0:1",
                            "--cuda-memory-pool-byte-size=1:0", "--pinned-memory-pool-byte-size=1000"});
  ASSERT_FALSE(line.exit_code) << line.err;
  EXPECT_EQ(line.options.gpu_fallback, GpuFallback::kCpu);
  EXPECT_EQ(line.options.model_load_gpu_limit, (std::map<int, double>{{0, 0.5}, {2, 1.0}}));
  EXPECT_DOUBLE_EQ(line.options.min_supported_compute_capability, 8.6);
  EXPECT_EQ(line.options.gpu_timeout_ms, 500);
  EXPECT_EQ(line.options.workers.cuda_pool_bytes, (std::map<int, uint64_t>{{0, 1}, {1, 0}}));
  EXPECT_EQ(line.options.workers.pinned_pool_bytes, 1000);
  EXPECT_TRUE(line.notes.empty());
  for (const char* wrong :
       {"--gpu-fallback=gpu", "--model-load-gpu-limit=0.5", "--model-load-gpu-limit=-1:0.5",
        "--model-load-gpu-limit=0:1.5", "--model-load-gpu-limit=0:", "--model-load-gpu-limit=0:x",
        "--min-supported-compute-capability=new", "--min-supported-compute-capability=-1",
        "--min-supported-compute-capability=8.6x", "--gpu-timeout-ms=0", "--cuda-memory-pool-byte-size=1",
        "--cuda-memory-pool-byte-size=0:x", "--cuda-memory-pool-byte-size=x:1"}) {
    EXPECT_EQ(Parse({"models", wrong}).exit_code, 1) << wrong;
  }
  line = Parse({"models", "--print-config", "--model-load-gpu-limit=0:0.5"});
  EXPECT_THAT(line.out, ::testing::ContainsRegex("model-load-gpu-limit +0:0.5 .*command line\n"));
  EXPECT_THAT(line.out, ::testing::ContainsRegex("min-supported-compute-capability +6.0 +6.0 +default\n"));
  EXPECT_THAT(line.out, ::testing::ContainsRegex("gpu-fallback +none +none +default\n"));
}

TEST(Options, PrintConfigShowsValueDefaultAndOrigin) {
  CommandLine line = Parse({"models", "--print-config", "--http-port=9000", "--host=127.0.0.1"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_THAT(line.out, ::testing::ContainsRegex("http-port +9000 +8000 +command line\n"));
  EXPECT_THAT(line.out, ::testing::ContainsRegex("http-address +127.0.0.1 +0.0.0.0 +other options\n"));
  EXPECT_THAT(line.out, ::testing::ContainsRegex("grpc-port +8001 +8001 +default\n"));
  EXPECT_THAT(line.out, ::testing::ContainsRegex("model-repository +models +- +command line\n"));
}

TEST(Options, HelpNamesEveryOptionAndFitsTheWindow) {
  CommandLine line = Parse({"--help-all"});
  EXPECT_EQ(line.exit_code, 0);
  for (const OptionSpec& spec : OptionTable()) {
    EXPECT_THAT(line.out, HasSubstr("--" + std::string(spec.name))) << spec.name;
  }
  std::istringstream lines(line.out);
  for (std::string text; std::getline(lines, text);) EXPECT_LE(text.size(), 100u) << text;
}

TEST(Options, ShortHelpHasTwentyOneOptionsAndNamesTheLongOne) {
  CommandLine line = Parse({"--help"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_THAT(line.out, HasSubstr("--help-all"));
  size_t named = 0;
  for (const OptionSpec& spec : OptionTable()) {
    const std::string name = "\n  --" + std::string(spec.name);
    named += line.out.find(name + " ") != std::string::npos || line.out.find(name + "[") != std::string::npos;
  }
  EXPECT_EQ(named, 21u);
}

TEST(Options, EveryUnsupportedOptionHasAReasonAndNamesAreUnique) {
  std::set<std::string_view> names;
  for (const OptionSpec& spec : OptionTable()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(spec.reason.empty(), spec.support == OptionSupport::kWorks) << spec.name;
    EXPECT_EQ(spec.show == nullptr, spec.support != OptionSupport::kWorks) << spec.name;
  }
}

// The text shown for a default is accepted as a value.
TEST(Options, DefaultsSurviveTheWayThroughText) {
  for (const OptionSpec& spec : OptionTable()) {
    std::string text = spec.DefaultText();
    if (text.empty()) continue;
    ServerOptions options;
    EXPECT_TRUE(spec.set(options, text).ok()) << spec.name << " " << text;
    if (spec.show) {
      EXPECT_EQ(spec.show(options), text) << spec.name;
    }
  }
}

class PythonChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "brd-python-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Program(const std::string& name) {
    std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  }
  std::filesystem::path folder_;
};

TEST_F(PythonChoiceTest, OptionBeatsEnvironmentBeatsPath) {
  std::string chosen = Program("chosen/python3.12");
  std::string env = Program("env/bin/python3");
  std::string path = Program("path/python3");
  ServerOptions options;
  options.environment.path = "/nowhere:" + (folder_ / "path").string();
  EXPECT_EQ(ResolvePython(options).value().path, path);
  options.environment.virtual_env = folder_ / "env";
  EXPECT_EQ(ResolvePython(options).value().path, env);
  options.workers.python = chosen;
  EXPECT_EQ(ResolvePython(options).value().path, chosen);
  options.workers.python = "python3";
  EXPECT_EQ(ResolvePython(options).value().path, path);
}

TEST_F(PythonChoiceTest, SaysWhatToDoWhenThereIsNone) {
  ServerOptions options;
  EXPECT_THAT(ResolvePython(options).status().message(), HasSubstr("--python"));
  options.environment.virtual_env = "/nowhere";
  EXPECT_THAT(ResolvePython(options).status().message(), HasSubstr("activate"));
  options.workers.python = "/nowhere/python3";
  EXPECT_THAT(ResolvePython(options).status().message(), HasSubstr("/nowhere/python3 is not a program"));
}

}  // namespace
}  // namespace braid
