// The console's routes, at their own server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/temporary_folder.h"
#include "protocols/console/console_routes.h"
#include "protocols/console/static_files.h"
#include "protocols/http/server.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/net/compression.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::string_view kScript = "const answer = 42;";

class FakeTraces final : public SlowTraces {
 public:
  Status Watch(const std::string& model, int64_t seconds) override {
    if (seconds > kMostSeconds) return InvalidArgumentError("at most 600 seconds");
    watched_[model] = seconds;
    return OkStatus();
  }
  int64_t WatchedFor(const std::string& model) const override {
    const auto found = watched_.find(model);
    return found == watched_.end() ? 0 : found->second;
  }
  std::vector<SlowTrace> Slowest(const std::string& model) const override {
    return {{.id = "1",
             .model = model,
             .version = 2,
             .request_id = "r",
             .start_ms = 5,
             .duration_us = 70,
             .spans = {{"m", -1, 0, 70}, {"queue", 0, 10, 30}}}};
  }

 private:
  std::map<std::string, int64_t> watched_;
};

// A model with two workers, of which one is this process.
class Pipeline final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}
  std::vector<ServableUse> uses() const override { return {{"echo", -1}}; }
  int64_t pending_requests() const override { return 4; }
  std::vector<InstanceReport> instances() const override {
    return {{"p_0", ::getpid(), true, "", 2, 1'700'000'000'000, 9},
            {"p_1", 0, false, "it is restarted", 1, 0, 3}};
  }
  std::optional<ServableStructure> structure() const override {
    ServableStructure structure;
    structure.nodes.push_back({StructureNodeKind::kRequest, "request", "", -1, "", 1, 1, 0, 0});
    structure.nodes.push_back({StructureNodeKind::kModel, "step", "echo", 3, "demultiply 2", 5, 4, 1, 9'000});
    structure.edges.push_back({0, 1, "IN", "INPUT0", 7});
    return structure;
  }

 private:
  HeapAllocator heap_;
};

class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleTest() {
    const std::string_view page = "<!doctype html>";
    page_ = Compress(ContentCoding::kGzip, {&page, 1}).value();
    script_ = Compress(ContentCoding::kGzip, {&kScript, 1}).value();
    assets_ = {{"index.html", "text/html; charset=utf-8", page_, "\"abc\""},
               {"app.0a1b2c3d.js", "text/javascript", script_, "\"def\""}};
    echo_ = std::make_shared<FakeServable>(FakeServable::EchoInfo("echo"));
    catalog_.Publish(echo_);
    ServableInfo info = FakeServable::EchoInfo("pipe", DataType::kInt32, 2);
    info.kind = ServableKind::kPipeline;
    info.dialect = Dialect::kOvms;
    catalog_.Publish(std::make_shared<Pipeline>(std::move(info)));
    catalog_.AddModel("asleep");
    catalog_.SetState("broken", 3, VersionState::kUnavailable, "no such file");
  }

  void Start() {
    HttpServer::Options options;
    options.address = "127.0.0.1";
    options.port = 0;
    options.threads = 1;
    context_.assets = assets_;
    console_.emplace(context_);
    server_ = HttpServer::Start(access_, control_, {&*console_}, options).value();
    client_.emplace(server_->bound_port());
  }
  // Tokens for "all" and "some"; "some" may see the statistics of models whose names begin with "e".
  void StartWithRights() {
    std::ofstream(std::filesystem::path(folder_->path()) / "tokens") << "all a-token\nsome s-token\n";
    std::ofstream(std::filesystem::path(folder_->path()) / "policy") << R"({"rules": [
        {"identities": ["all"], "apis": ["*"]},
        {"identities": ["some"], "apis": ["statistics", "logging"], "models": ["e*"]}]})";
    control_of_access_ =
        AccessControl::Create({folder_->path() + "/tokens", folder_->path() + "/policy"}, log_).value();
    access_ = AccessPolicy(AccessPolicy::Wire::kHttp, control_of_access_.get());
    Start();
  }
  TestResponse Get(std::string_view target, std::string_view headers = "") {
    return client_->Request("GET", target, "", headers).value();
  }
  json Json(std::string_view target, std::string_view headers = "", int status = 200) {
    const TestResponse response = Get(target, headers);
    EXPECT_EQ(response.status, status) << target << response.body;
    EXPECT_EQ(response.header("Content-Type"), "application/json");
    return json::parse(response.body);
  }

  const std::shared_ptr<TemporaryFolder> folder_ = TemporaryFolder::Create("/tmp", "console_test").value();
  std::string page_;
  std::string script_;
  std::vector<ConsoleAsset> assets_;
  Logger log_;
  Catalog catalog_;
  FakeControl control_;
  std::unique_ptr<AccessControl> control_of_access_;
  AccessPolicy access_{AccessPolicy::Wire::kHttp};
  ProtocolContext server_context_{catalog_, control_, log_, "an-id", "1.2.3", {}};
  ClientLimits limits_{ClientLimits::Options{.connections = {}, .memory_bytes = 1'000'000}};
  ProcessMemory memory_;
  ConsoleHistory history_;
  RecentLog recent_;
  FakeTraces traces_;
  std::shared_ptr<FakeServable> echo_;
  ConsoleContext context_{.server = server_context_,
                          .limits = limits_,
                          .memory = memory_,
                          .assets = {},
                          .manage_how = ManageHow::kLoad,
                          .started_ms = 1'700'000'000'000,
                          .memory_bytes = 77,
                          .ports = [] { return ConsolePorts{"h:1", "", "m:3", "", 5, 6}; },
                          .history = history_,
                          .log = &recent_,
                          .traces = &traces_,
                          .fleet = nullptr,
                          .config_to_json = nullptr};
  std::optional<ConsoleRoutes> console_;
  std::unique_ptr<HttpServer> server_;
  std::optional<TestClient> client_;
};

TEST_F(ConsoleTest, ThePageIsThereForEverybody) {
  StartWithRights();
  TestResponse response = Get("/console");
  EXPECT_EQ(response.status, 308);
  EXPECT_EQ(response.header("Location"), "/console/");
  response = Get("/console/");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "<!doctype html>");
  EXPECT_EQ(response.header("Content-Encoding"), "");
  EXPECT_EQ(response.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(response.header("Cache-Control"), "no-cache");
  EXPECT_EQ(response.header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(response.header("Referrer-Policy"), "no-referrer");
  const std::string policy = response.header("Content-Security-Policy");
  EXPECT_TRUE(policy.starts_with("default-src 'self';")) << policy;
  EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(Get("/console/other.js").status, 404);
  EXPECT_EQ(Get("/console/../etc/passwd").status, 404);
  EXPECT_EQ(client_->Request("POST", "/console/").value().status, 405);
  EXPECT_EQ(Get("/consoles").status, 404);
}

TEST_F(ConsoleTest, FilesAreCompressedAndKept) {
  Start();
  TestResponse response = Get("/console/app.0a1b2c3d.js", "Accept-Encoding: br, gzip\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("Content-Encoding"), "gzip");
  EXPECT_EQ(response.body, script_);
  EXPECT_EQ(response.header("Cache-Control"), "public, max-age=31536000, immutable");
  EXPECT_EQ(response.header("ETag"), "W/\"def\"");
  EXPECT_EQ(Get("/console/app.0a1b2c3d.js", "Accept-Encoding: gzip;q=0\r\n").body, kScript);
  response = Get("/console/app.0a1b2c3d.js", "If-None-Match: \"x\", W/\"def\"\r\n");
  EXPECT_EQ(response.status, 304);
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(response.header("Content-Length"), "");
  EXPECT_EQ(response.header("ETag"), "W/\"def\"");
  EXPECT_EQ(Get("/console/app.0a1b2c3d.js", "If-None-Match: \"x\"\r\n").status, 200);
}

TEST(StaticFile, KnowsNamesWithAHash) {
  for (const char* name : {"app.5f3a9c02.js", "app-UX7QZ2AB.css", "a/b.c.0123456789abcdef.woff2"}) {
    EXPECT_TRUE(HasHash(name)) << name;
  }
  for (const char* name :
       {"index.html", "app.js", "app.min.js", "5f3a9c02.js", "a.b/5f3a9c02.js", "noextension", ""}) {
    EXPECT_FALSE(HasHash(name)) << name;
  }
}

TEST_F(ConsoleTest, TellsOfTheServer) {
  Start();
  const json overview = Json("/console/api/overview");
  const json& server = overview["server"];
  EXPECT_EQ(server["name"], "braid");
  EXPECT_EQ(server["id"], "an-id");
  EXPECT_EQ(server["version"], "1.2.3");
  EXPECT_EQ(server["started_ms"], 1'700'000'000'000);
  EXPECT_GT(server["now_ms"], 1'700'000'000'000);
  EXPECT_EQ(server["ready"], true);
  EXPECT_EQ(server["draining"], false);
  EXPECT_EQ(server["addresses"], (json{{"http", "h:1"}, {"metrics", "m:3"}}));
  EXPECT_EQ(overview["may"], (json{{"infer", true}, {"manage", true}, {"log", true}, {"trace", true}}));
  EXPECT_EQ(overview["manage_how"], "load");
  EXPECT_EQ(overview["process"]["pid"], ::getpid());
  EXPECT_EQ(overview["machine"]["memory_bytes"], 77);
  EXPECT_EQ(overview["connections"], (json{{"http", 5}, {"grpc", 6}}));
  EXPECT_EQ(overview["client_memory"]["budget_bytes"], 1'000'000);
  limits_.refusals.Count(Limit::kMemory, "full");
  const json after = Json("/console/api/overview");
  for (const json& refused : after["refused"]) {
    EXPECT_EQ(refused["count"], refused["limit"] == "memory-max-bytes" ? 1 : 0) << refused;
  }
}

TEST_F(ConsoleTest, IsThereWhileTheServerStarts) {
  control_.set_serving(false);
  control_.set_ready(false);
  Start();
  EXPECT_EQ(Json("/console/api/overview")["server"]["ready"], false);
  EXPECT_EQ(Json("/console/api/models")["models"].size(), 4u);
}

TEST_F(ConsoleTest, HasARowForEachVersion) {
  Start();
  const ExecutionTimes times{2'000'000, 3'000'000, 6'000'000, 10'000'000};
  echo_->statistics().RecordExecution(8, times);
  echo_->statistics().RecordSuccess(8, 0, 1'000'000, times);
  echo_->statistics().RecordFailure(FailureReason::kRejected, 0, 5);
  echo_->statistics().RecordFailure(FailureReason::kCanceled, 0, 5);
  echo_->statistics().RecordFailure(FailureReason::kBackend, 0, 5);
  const json models = Json("/console/api/models");
  EXPECT_GT(models["now_ms"], 1'700'000'000'000);
  json rows = models["models"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(
      rows[0],
      (json{
          {"name", "asleep"}, {"version", ""}, {"state", "UNAVAILABLE"}, {"reason", ""}, {"kind", "model"}}));
  EXPECT_EQ(rows[1], (json{{"name", "broken"},
                           {"version", "3"},
                           {"state", "UNAVAILABLE"},
                           {"reason", "no such file"},
                           {"kind", "model"}}));
  json& echo = rows[2];
  EXPECT_GT(echo["last_inference_ms"], 1'700'000'000'000);
  echo.erase("last_inference_ms");
  EXPECT_EQ(echo,
            (json{{"name", "echo"},       {"version", "1"},     {"state", "READY"},    {"reason", ""},
                  {"kind", "model"},      {"platform", "fake"}, {"origin", "triton"},  {"decoupled", false},
                  {"stateful", false},    {"requests", 1},      {"failures", 3},       {"rejected", 1},
                  {"canceled", 1},        {"rows", 8},          {"executions", 1},     {"pending", 0},
                  {"request_us", 10'000}, {"queue_us", 1'000},  {"compute_us", 8'000}, {"instances", 1},
                  {"instances_ready", 1}, {"restarts", 0}}));
  EXPECT_EQ(rows[3]["name"], "pipe");
  EXPECT_EQ(rows[3]["kind"], "pipeline");
  EXPECT_EQ(rows[3]["origin"], "ovms");
  EXPECT_EQ(rows[3]["pending"], 4);
  EXPECT_EQ(rows[3]["instances"], 2);
  EXPECT_EQ(rows[3]["instances_ready"], 1);
  EXPECT_EQ(rows[3]["restarts"], 3);
}

TEST_F(ConsoleTest, TellsOfOneVersion) {
  Start();
  const json pipe = Json("/console/api/models/pipe/versions/2");
  EXPECT_EQ(pipe["version"], "2");
  EXPECT_EQ(pipe["inputs"],
            json::parse(R"([{"name": "INPUT0", "datatype": "INT32", "shape": [-1], "optional": false,
                                             "labels": 0}])"));
  EXPECT_EQ(pipe["uses"], json::parse(R"([{"name": "echo", "version": -1}])"));
  EXPECT_EQ(pipe["config"], nullptr);
  ASSERT_EQ(pipe["workers"].size(), 2u);
  EXPECT_EQ(pipe["workers"][0]["pid"], ::getpid());
  EXPECT_EQ(pipe["workers"][0]["executions"], 9);
  EXPECT_EQ(pipe["workers"][0]["started_ms"], 1'700'000'000'000);
  EXPECT_EQ(pipe["workers"][1]["reason"], "it is restarted");
  EXPECT_EQ(pipe["structure"], json::parse(R"({
      "nodes": [
        {"id": 0, "kind": "request", "name": "request", "runs": "", "version": -1, "note": "", "started": 1, "ended": 1,
         "failed": 0, "total_us": 0},
        {"id": 1, "kind": "model", "name": "step", "runs": "echo", "version": 3, "note": "demultiply 2", "started": 5,
         "ended": 4, "failed": 1, "total_us": 9}],
      "edges": [{"from": 0, "to": 1, "from_port": "IN", "to_port": "INPUT0", "passed": 7}]})"));
  EXPECT_EQ(Json("/console/api/models/echo/versions/1")["used_by"], json::parse(R"(["pipe"])"));
  EXPECT_EQ(Json("/console/api/models/broken/versions/3")["reason"], "no such file");
  EXPECT_EQ(Json("/console/api/models/echo/versions/2", "", 404)["error"],
            "version 2 of model 'echo' not found");
  EXPECT_EQ(Json("/console/api/other", "", 404)["error"], "Not Found");
  EXPECT_EQ(client_->Request("POST", "/console/api/models").value().status, 405u);
  EXPECT_EQ(client_->Request("POST", "/console/api/other").value().status, 404u);
  for (const char* path : {"/console/api/models/%ff/versions/1", "/console/api/log?model=%"}) {
    EXPECT_EQ(Json(path, "", 400)["error"], "the model name must be percent-encoded UTF-8") << path;
  }
  for (const char* path : {"/console/api/models/m/versions/99999999999999999999", "/console/api/log?after=-1",
                           "/console/api/log?limit=", "/console/api/history?version=1x"}) {
    EXPECT_EQ(Json(path, "", 400)["error"],
              "expected a whole number for the version and for each number of the query")
        << path;
  }
  for (const char* path : {"/console/api/traces", "/console/api/sequences?version=1"}) {
    EXPECT_EQ(Json(path, "", 400)["error"], "expected the name of a model: ?model=NAME") << path;
  }
}

TEST_F(ConsoleTest, ShowsWhatTheSenderMaySee) {
  StartWithRights();
  EXPECT_EQ(Json("/console/api/overview", "", 401)["error"],
            "the API 'statistics' of all models requires a bearer token in the header "
            "'authorization'");
  constexpr std::string_view kAll = "Authorization: Bearer a-token\r\n";
  constexpr std::string_view kSome = "Authorization: Bearer s-token\r\n";
  EXPECT_EQ(Json("/console/api/overview", kAll)["may"],
            (json{{"infer", true}, {"manage", true}, {"log", true}, {"trace", true}}));
  const uint64_t refused = control_of_access_->refused(AccessControl::Refusal::kPermissionDenied);
  EXPECT_EQ(Json("/console/api/models", kAll)["models"].size(), 4u);
  const json some = Json("/console/api/models", kSome);
  EXPECT_EQ(some["may"], (json{{"infer", false}, {"manage", false}, {"log", true}, {"trace", false}}));
  EXPECT_EQ(some["manage_how"], "load");
  const json rows = some["models"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["name"], "echo");
  EXPECT_EQ(Json("/console/api/models/echo/versions/1", kSome)["inputs"], json::array());
  EXPECT_EQ(Json("/console/api/models/echo/versions/1", kAll)["inputs"].size(), 1u);
  // None of these requests counts as a refusal.
  EXPECT_EQ(control_of_access_->refused(AccessControl::Refusal::kPermissionDenied), refused);
  EXPECT_EQ(Json("/console/api/models/pipe/versions/2", kSome, 403)["error"],
            "'some' may not use the API 'statistics' of model 'pipe'");
  EXPECT_EQ(Json("/console/api/traces?model=echo", kSome, 403)["error"],
            "'some' may not use the API 'trace' of model 'echo'");

  recent_.OnLine({1, LogLevel::kInfo, "", "of the server"});
  recent_.OnLine({2, LogLevel::kError, "echo", "of echo"});
  recent_.OnLine({3, std::nullopt, "pipe", "of pipe"});
  EXPECT_EQ(Json("/console/api/log", kAll)["lines"].size(), 3u);
  const json lines = Json("/console/api/log", kSome)["lines"];
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["text"], "of echo");
  Json("/console/api/log?model=pipe", kSome, 403);
  for (const char* path : {"/console/api/overview", "/console/api/history"}) {
    EXPECT_EQ(Json(path, kSome, 403)["error"], "'some' may not use the API 'statistics' of all models");
  }
}

TEST_F(ConsoleTest, RestrictedGroupsHold) {
  ASSERT_TRUE(access_.AddRestriction("statistics,inference:x-key=secret").ok());
  access_.ServeOnly(ApiSet::Of({Api::kStatistics, Api::kInference, Api::kLogging}));
  Start();
  EXPECT_EQ(Json("/console/api/models", "", 403)["error"],
            "This API is restricted, expecting header 'x-key'");
  EXPECT_EQ(Json("/console/api/overview", "x-key: secret\r\n")["may"],
            (json{{"infer", true}, {"manage", false}, {"log", true}, {"trace", false}}));
  EXPECT_EQ(Json("/console/api/models", "x-key: secret\r\n")["models"].size(), 4u);
  EXPECT_EQ(Json("/console/api/log")["lines"], json::array());
}

TEST_F(ConsoleTest, GivesTheLog) {
  Start();
  for (const char* model : {"m", "", "m"}) {
    recent_.OnLine({1'700'000'000'000, LogLevel::kWarning, model, "text"});
  }
  recent_.OnLine({1'700'000'000'001, std::nullopt, "m", "[m_0] printed"});
  json log = Json("/console/api/log?limit=1");
  EXPECT_EQ(log, json::parse(
                     R"({"next": 4, "lost": 0, "lines": [{"seq": 4, "at_ms": 1700000000001, "level": "output",
                                 "model": "m", "text": "[m_0] printed"}]})"));
  log = Json("/console/api/log?model=m&after=1&limit=1");
  EXPECT_EQ(log["next"], 3);
  EXPECT_EQ(log["lines"][0]["seq"], 3);
  EXPECT_EQ(log["lines"][0]["level"], "warning");
  EXPECT_EQ(Json("/console/api/log?after=4")["lines"], json::array());
}

TEST_F(ConsoleTest, GivesHistory) {
  const ExecutionTimes times{2'000'000, 3'000'000, 6'000'000, 10'000'000};
  echo_->statistics().RecordSuccess(1, 0, 1'000'000, times);
  history_.Sample(catalog_, 1'700'000'000'000);
  Start();
  const json expected =
      json::parse(R"({"step_ms": 2000, "samples": [{"at_ms": 1700000000000, "requests": 1, "failures": 0,
      "request_us": 10000, "queue_us": 1000, "compute_us": 8000, "executions": 0, "pending": 0}]})");
  EXPECT_EQ(Json("/console/api/history?model=echo&version=1"), expected);
  json server = expected;
  server["samples"][0]["pending"] = 4;
  EXPECT_EQ(Json("/console/api/history"), server);
  EXPECT_EQ(Json("/console/api/history?model=none&version=1")["samples"], json::array());
  EXPECT_EQ(Json("/console/api/history?model=echo", "", 400)["error"],
            "expected the version of the model: ?model=NAME&version=N");
}

TEST_F(ConsoleTest, GivesTraces) {
  Start();
  const auto watched = client_->Request("POST", "/console/api/traces?model=echo&seconds=30").value();
  EXPECT_EQ(watched.status, 200);
  EXPECT_EQ(watched.body, R"({"watched_s":30})");
  EXPECT_EQ(Json("/console/api/traces?model=echo"), json::parse(R"({"watched_s": 30, "traces": [
      {"id": "1", "model": "echo", "version": "2", "request_id": "r", "start_ms": 5, "duration_us": 70, "spans": [
        {"name": "m", "parent": -1, "start_us": 0, "duration_us": 70},
        {"name": "queue", "parent": 0, "start_us": 10, "duration_us": 30}]}]})"));
  EXPECT_EQ(client_->Request("POST", "/console/api/traces?model=echo&seconds=601").value().status, 400);
  EXPECT_EQ(client_->Request("POST", "/console/api/traces?model=none").value().status, 404);
  EXPECT_EQ(client_->Request("POST", "/console/api/traces?model=echo", "", "Origin: http://evil.example\r\n")
                .value()
                .status,
            403);
}

TEST_F(ConsoleTest, WithoutAFleetSaysSo) {
  Start();
  EXPECT_EQ(Json("/console/api/overview")["fleet"], false);
  EXPECT_THAT(Json("/console/api/fleet", "", 404)["error"].get<std::string>(),
              HasSubstr("no other servers are configured"));
}

TEST_F(ConsoleTest, LooksAtTheFleetWithWhatTheSenderHasShown) {
  context_.fleet = [](const std::string& shown) -> Result<std::string> {
    if (shown == "Bearer b-token") return UnavailableError("no such name");
    if (shown == "Bearer c-token") throw std::bad_alloc();
    return R"({"shown":")" + shown + R"("})";
  };
  Start();
  EXPECT_EQ(Json("/console/api/overview")["fleet"], true);
  EXPECT_EQ(Json("/console/api/fleet")["shown"], "");
  EXPECT_EQ(Json("/console/api/fleet", "Authorization: Bearer a-token\r\n")["shown"], "Bearer a-token");
  EXPECT_EQ(Get("/console/api/fleet").header("Cache-Control"), "no-store");
  EXPECT_EQ(Json("/console/api/fleet", "Authorization: Bearer b-token\r\n", 503)["error"], "no such name");
  EXPECT_EQ(Get("/console/api/fleet", "Authorization: Bearer c-token\r\n").status, 429u);
  // The next request works again.
  EXPECT_EQ(Json("/console/api/fleet")["shown"], "");
}

TEST_F(ConsoleTest, TheFleetIsForThoseWhoMaySeeAllModels) {
  context_.fleet = [](const std::string&) -> Result<std::string> { return std::string("{}"); };
  StartWithRights();
  Json("/console/api/fleet", "Authorization: Bearer a-token\r\n");
  EXPECT_EQ(Json("/console/api/fleet", "Authorization: Bearer s-token\r\n", 403)["error"],
            "'some' may not use the API 'statistics' of all models");
  Json("/console/api/fleet", "", 401);
}

// The fleet is queried once at a time, and all waiting requests with the same header share a query.
TEST_F(ConsoleTest, ManyShareALookAtTheFleet) {
  std::atomic<int> looks = 0;
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  std::promise<void> release;
  context_.fleet = [&, released = release.get_future().share()](const std::string&) -> Result<std::string> {
    ++looks;
    most = std::max(most.load(), ++now);
    released.wait();
    --now;
    return std::string("{}");
  };
  Start();
  std::vector<std::unique_ptr<TestClient>> viewers;
  for (int i = 0; i < 12; ++i) {
    viewers.push_back(std::make_unique<TestClient>(server_->bound_port()));
    // This answer shows that the connection is accepted, so the next request is queued at the only I/O
    // thread.
    ASSERT_EQ(viewers.back()->Request("GET", "/console/api/overview").value().status, 200);
    ASSERT_TRUE(viewers.back()->SendRequest("GET", "/console/api/fleet", "",
                                            i % 2 == 0 ? "" : "Authorization: Bearer x\r\n"));
    while (looks == 0) std::this_thread::yield();
  }
  // Other requests are answered meanwhile, since no network thread waits. The second answer belongs to a
  // later round of the I/O thread. The first one may share a round with the last viewers.
  Json("/console/api/overview");
  Json("/console/api/overview");
  release.set_value();
  for (const auto& viewer : viewers) EXPECT_EQ(viewer->Read().value().status, 200);
  EXPECT_EQ(most, 1);
  // One for the first viewer, then one for each of the two headers.
  EXPECT_EQ(looks, 3);
}

TEST_F(ConsoleTest, SequencesOfAModelWithoutAny) {
  Start();
  EXPECT_EQ(Json("/console/api/sequences?model=echo"), json::parse(R"({"total": 0, "sequences": []})"));
  Json("/console/api/sequences?model=none", "", 404);
}

}  // namespace
}  // namespace braid
