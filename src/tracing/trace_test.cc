#include "tracing/trace.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tracing/http_post.h"
#include "tracing/otlp.h"
#include "tracing/trace_file.h"

namespace braid {
namespace {

// Stores the traces that it gets.
class Kept final : public TraceOutput {
 public:
  void Write(std::vector<FinishedTrace> traces) override {
    for (FinishedTrace& trace : traces) all.push_back(std::move(trace));
  }
  void Flush(uint64_t scope) override { flushed.push_back(scope); }
  void OnDropped(uint64_t count) override { dropped += count; }

  std::vector<FinishedTrace> all;
  std::vector<uint64_t> flushed;
  uint64_t dropped = 0;
};

// Returns the contents of a queue, which it closes.
Kept Drain(TraceQueue& queue) {
  queue.Close();
  Kept kept;
  queue.Run(kept);
  return kept;
}

TraceRecord Record(TraceIds& ids, const std::string& model) {
  TraceRecord record;
  record.id = ids.NextId();
  record.model = model;
  record.version = 3;
  record.request_id = "r\"1";
  return record;
}

struct Fixture {
  explicit Fixture(bool opentelemetry, TraceQueue::Limits limits = {})
      : queue(std::make_shared<TraceQueue>(limits)),
        ids(std::make_shared<TraceIds>()),
        opentelemetry(opentelemetry) {}

  std::shared_ptr<Trace> Start(bool tensors = false) {
    FinishedTrace facts;
    facts.trace_id[0] = 0x1;
    facts.trace_id[1] = 0xab;
    facts.root_span = 0xcd;
    auto tree = std::make_shared<TraceTree>(TraceTree::Goals{.queue = queue}, ids, std::move(facts), tensors,
                                            opentelemetry);
    EXPECT_TRUE(tree->Reserve());
    return std::make_shared<Trace>(tree, Record(*ids, "parent"));
  }

  std::shared_ptr<TraceQueue> queue;
  std::shared_ptr<TraceIds> ids;
  bool opentelemetry;
};

Tensor Ints(std::vector<int32_t> values) {
  Tensor tensor;
  tensor.name = "IN";
  tensor.type = DataType::kInt32;
  tensor.shape = {static_cast<int64_t>(values.size())};
  HeapAllocator heap;
  tensor.data = heap.Allocate(values.size() * 4).value();
  std::memcpy(tensor.data.mutable_data(), values.data(), values.size() * 4);
  return tensor;
}

TEST(Trace, TheWholeTreeComesWhenTheLastOfItHasEnded) {
  Fixture fixture(false);
  auto parent = fixture.Start();
  auto child = parent->StartChild("child", 7);
  auto grandchild = child->StartChild("grandchild", 1);
  child.reset();
  parent.reset();
  std::thread closer([&] { grandchild.reset(); });
  closer.join();
  const Kept kept = Drain(*fixture.queue);
  ASSERT_EQ(kept.all.size(), 1u);
  const auto& records = kept.all[0].records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].model, "parent");
  EXPECT_EQ(records[0].parent_id, 0u);
  EXPECT_EQ(records[1].model, "child");
  EXPECT_EQ(records[1].version, 7);
  EXPECT_EQ(records[1].parent_id, records[0].id);
  EXPECT_EQ(records[2].parent_id, records[1].id);
  EXPECT_NE(records[2].time(TraceActivity::kRequestEnd), 0);
}

TEST(Trace, ChildrenAreBounded) {
  Fixture fixture(false);
  auto parent = fixture.Start();
  size_t started = 1;
  while (parent->StartChild("c", 1) != nullptr) ++started;
  EXPECT_EQ(started, TraceTree::kMostRecords);
}

TEST(Trace, LargeTensorsAreCut) {
  Fixture fixture(false);
  auto trace = fixture.Start(true);
  EXPECT_TRUE(trace->wants_tensors());
  trace->RecordTensor(TraceTensorKind::kQueueInput, Ints(std::vector<int32_t>(1 << 19)), 1);
  trace.reset();
  const Kept kept = Drain(*fixture.queue);
  EXPECT_TRUE(kept.all.at(0).records.at(0).tensors.at(0).truncated);
  EXPECT_EQ(kept.all[0].records[0].tensors[0].bytes.size(), Trace::kMostTensorBytes);
}

TEST(TraceQueue, DropsWhatIsTooMuch) {
  Fixture fixture(false, {.max_traces = 2, .max_batch = 10});
  for (int i = 0; i < 5; ++i) fixture.Start();
  const Kept kept = Drain(*fixture.queue);
  EXPECT_EQ(kept.all.size(), 2u);
  EXPECT_EQ(kept.dropped, 3u);
  EXPECT_EQ(kept.flushed, std::vector<uint64_t>{0});
}

TEST(TraceJson, HasTheFormOfTheFiles) {
  Fixture fixture(false);
  auto trace = fixture.Start(true);
  trace->Record(TraceActivity::kReceiveStart, 5);
  trace->Record(TraceActivity::kRequestStart, 10);
  trace->RecordTensor(TraceTensorKind::kBackendOutput, Ints({1, -2}), 12);
  trace->Record(TraceActivity::kRequestEnd, 20);
  EXPECT_EQ(trace->context(), "");
  auto child = trace->StartChild("child", 1);
  child->Record(TraceActivity::kRequestStart, 11);
  child->Record(TraceActivity::kRequestEnd, 13);
  child.reset();
  trace.reset();
  const Kept kept = Drain(*fixture.queue);
  EXPECT_EQ(TraceAsJson(kept.all.at(0)),
            R"({"id":1,"model_name":"parent","model_version":3,"request_id":"r\"1"},)"
            R"({"id":1,"timestamps":[{"name":"HTTP_RECV_START","ns":5},{"name":"REQUEST_START","ns":10},)"
            R"({"name":"REQUEST_END","ns":20}]},)"
            R"({"id":1,"activity":"TENSOR_BACKEND_OUTPUT","tensor":)"
            R"({"name":"IN","data":"1,-2","shape":"2","dtype":"INT32"}},)"
            R"({"id":2,"model_name":"child","model_version":1,"request_id":"r\"1","parent_id":1},)"
            R"({"id":2,"timestamps":[{"name":"REQUEST_START","ns":11},{"name":"REQUEST_END","ns":13}]})");
}

TEST(TraceJson, ShowsElementsOfEachType) {
  TracedTensor tensor;
  const auto text = [&](DataType type, auto... elements) {
    tensor.type = type;
    tensor.bytes.clear();
    const auto add = [&](const auto& element) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&element);
      tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + sizeof(element));
    };
    (add(elements), ...);
    return TensorText(tensor);
  };
  EXPECT_EQ(text(DataType::kFp32, 0.5f, 3.0f), "0.5,3");
  EXPECT_EQ(text(DataType::kInt8, int8_t{-1}), "-1");
  EXPECT_EQ(text(DataType::kUint64, ~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(text(DataType::kBool, true, false), "1,0");
  EXPECT_EQ(text(DataType::kFp16, uint16_t{0x3c00}), "0x3c00");
  EXPECT_EQ(text(DataType::kBytes, uint32_t{2}, 'a', '"', uint32_t{0}), R"("a\"","")");
  EXPECT_EQ(text(DataType::kInt32, int32_t{7}, 'x'), "7");
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

FinishedTrace OfScope(uint64_t id, uint64_t scope, uint32_t log_frequency, bool last = false) {
  FinishedTrace trace;
  trace.scope = scope;
  trace.log_frequency = log_frequency;
  trace.last = last;
  trace.records.resize(1);
  trace.records[0].id = id;
  return trace;
}

TEST(TraceFile, IsACompleteArrayAfterEachTrace) {
  const std::string path = testing::TempDir() + "/braid_trace_file_test_whole";
  std::remove(path.c_str());
  Logger log;
  TraceFile file(path, log);
  for (uint64_t id = 1; id <= 3; ++id) {
    std::vector<FinishedTrace> one;
    one.push_back(OfScope(id, 1, 0));
    file.Write(std::move(one));
    const auto json = nlohmann::json::parse(Contents(path), nullptr, false);
    ASSERT_TRUE(json.is_array());
    EXPECT_EQ(json.back()["id"], id);
    EXPECT_EQ(json.size(), 2 * id);
  }
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  std::remove(path.c_str());
}

TEST(TraceFile, CountsTracesIntoIndexedFiles) {
  const std::string path = testing::TempDir() + "/braid_trace_file_test_indexed";
  Logger log;
  {
    TraceFile file(path, log);
    std::vector<FinishedTrace> traces;
    for (uint64_t id = 1; id <= 5; ++id) traces.push_back(OfScope(id, 1, 2));
    traces.push_back(OfScope(6, 2, 10, true));
    file.Write(std::move(traces));
    file.Flush(9);
    EXPECT_EQ(Contents(path + ".3"), "");
    file.Flush(0);
  }
  const auto ids = [&](const std::string& name) {
    std::string text;
    for (const auto& object : nlohmann::json::parse(Contents(name))) {
      if (object.contains("model_name")) text += object["id"].dump();
    }
    std::remove(name.c_str());
    return text;
  };
  EXPECT_EQ(ids(path + ".0"), "12");
  EXPECT_EQ(ids(path + ".1"), "34");
  EXPECT_EQ(ids(path + ".2"), "6");
  EXPECT_EQ(ids(path + ".3"), "5");
}

TEST(Traceparent, IsReadByTheRules) {
  const auto context = ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id[0], 0x0af7651916cd43ddu);
  EXPECT_EQ(context->trace_id[1], 0x8448eb211c80319cu);
  EXPECT_EQ(context->span, 0xb7ad6b7169203331u);
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->sampled);
  EXPECT_TRUE(ParseTraceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
  for (const char* wrong : {
           "",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
       }) {
    EXPECT_FALSE(ParseTraceparent(wrong)) << wrong;
  }
}

TEST(Otlp, SpansHangTogether) {
  Fixture fixture(true);
  auto trace = fixture.Start();
  trace->Record(TraceActivity::kRequestStart, 10);
  trace->Record(TraceActivity::kQueueStart, 11);
  trace->Record(TraceActivity::kComputeStart, 12);
  const std::string context = trace->context();
  auto child = trace->StartChild("child", 1);
  child.reset();
  trace->Record(TraceActivity::kComputeEnd, 15);
  trace->Record(TraceActivity::kRequestEnd, 20);
  trace.reset();
  const Kept kept = Drain(*fixture.queue);
  const auto json = nlohmann::json::parse(OtlpJson(kept.all, {{"service.name", "me"}}, "1"));
  const auto& resource = json["resourceSpans"][0];
  EXPECT_EQ(resource["resource"]["attributes"][0]["value"]["stringValue"], "me");
  std::map<std::string, nlohmann::json> spans;
  for (const auto& span : resource["scopeSpans"][0]["spans"]) spans[span["name"]] = span;
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans["InferRequest"]["spanId"], "00000000000000cd");
  EXPECT_EQ(spans["InferRequest"]["traceId"], "000000000000000100000000000000ab");
  EXPECT_FALSE(spans["InferRequest"].contains("parentSpanId"));
  EXPECT_EQ(spans["parent"]["parentSpanId"], spans["InferRequest"]["spanId"]);
  EXPECT_EQ(spans["queue"]["parentSpanId"], spans["parent"]["spanId"]);
  EXPECT_EQ(spans["compute"]["parentSpanId"], spans["parent"]["spanId"]);
  EXPECT_EQ(spans["child"]["parentSpanId"], spans["compute"]["spanId"]);
  EXPECT_EQ(nlohmann::json::parse(context)["traceparent"],
            "00-000000000000000100000000000000ab-" + spans["compute"]["spanId"].get<std::string>() + "-01");
}

TEST(CollectorUrl, IsRead) {
  const auto url = ParseCollectorUrl("http://host:99/x/y").value();
  EXPECT_EQ(url.host + "|" + url.port + "|" + url.target, "host|99|/x/y");
  const auto least = ParseCollectorUrl("[::1]").value();
  EXPECT_EQ(least.host + "|" + least.port + "|" + least.target, "::1|4318|/v1/traces");
  for (const char* wrong : {"", "https://h", "h:x", ":4318", "h:123456", "h/a b"}) {
    EXPECT_FALSE(ParseCollectorUrl(wrong).ok()) << wrong;
  }
}

TEST(PostJson, SaysThatNobodyListens) {
  // Port 1 of the loopback interface refuses connections at once.
  EXPECT_EQ(PostJson({"127.0.0.1", "1", "/"}, "{}", 5'000'000'000).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace braid
