#include "tracing/slow_trace_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "base/temporary_folder.h"
#include "tracing/trace_manager.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kUs = 1'000;

TraceRecord Record(uint64_t id, const std::string& model, uint64_t parent = 0) {
  TraceRecord record;
  record.id = id;
  record.parent_id = parent;
  record.model = model;
  record.version = 3;
  return record;
}
void Set(TraceRecord& record, TraceActivity activity, int64_t us) {
  record.times[static_cast<size_t>(activity)] = us * kUs;
}
// A trace that ran from `begin` to `end`.
FinishedTrace Ran(const std::string& model, int64_t begin_us, int64_t end_us, uint64_t id = 1) {
  FinishedTrace trace;
  trace.records.push_back(Record(id, model));
  Set(trace.records[0], TraceActivity::kRequestStart, begin_us);
  Set(trace.records[0], TraceActivity::kRequestEnd, end_us);
  return trace;
}
// Sets all times that a model's execution records.
void SetExecution(TraceRecord& record, int64_t begin_us) {
  Set(record, TraceActivity::kRequestStart, begin_us);
  Set(record, TraceActivity::kQueueStart, begin_us + 1);
  Set(record, TraceActivity::kComputeStart, begin_us + 5);
  Set(record, TraceActivity::kComputeInputEnd, begin_us + 10);
  Set(record, TraceActivity::kComputeOutputStart, begin_us + 40);
  Set(record, TraceActivity::kComputeEnd, begin_us + 42);
  Set(record, TraceActivity::kRequestEnd, begin_us + 50);
}
// "1:queue<0 +1 4": number, name, parent, start and duration.
std::vector<std::string> Texts(const SlowTrace& trace) {
  std::vector<std::string> texts;
  for (const TraceSpan& span : trace.spans) {
    std::ostringstream text;
    text << texts.size() << ":" << span.name << "<" << span.parent << " +" << span.start_us << " "
         << span.duration_us;
    texts.push_back(text.str());
  }
  return texts;
}

TEST(SlowTraceTest, TheSpansOfARequest) {
  FinishedTrace trace = Ran("m", 0, 0);
  TraceRecord& record = trace.records[0];
  record.request_id = "r";
  SetExecution(record, 1000);
  Set(record, TraceActivity::kReceiveStart, 990);
  Set(record, TraceActivity::kReceiveEnd, 1000);
  Set(record, TraceActivity::kSendStart, 1051);
  Set(record, TraceActivity::kSendEnd, 1060);
  trace.wall_offset_ns = 7 * kSecond;
  const SlowTrace slow = MakeSlowTrace(trace);
  EXPECT_EQ(slow.id, "1");
  EXPECT_EQ(slow.model, "m");
  EXPECT_EQ(slow.version, 3);
  EXPECT_EQ(slow.request_id, "r");
  EXPECT_EQ(slow.start_ms, 7000);
  EXPECT_EQ(slow.duration_us, 70);
  EXPECT_THAT(Texts(slow),
              ElementsAre("0:m<-1 +0 70", "1:receive<0 +0 10", "2:queue<0 +11 4", "3:compute_input<0 +15 5",
                          "4:compute_infer<0 +20 30", "5:compute_output<0 +50 2", "6:send<0 +61 9"));
}

TEST(SlowTraceTest, StepsAndCallsAreWithinTheirCallers) {
  FinishedTrace trace = Ran("ensemble", 100, 400);
  trace.records.push_back(Record(2, "first", 1));
  SetExecution(trace.records[1], 110);
  // One call by user code during its execution, and one by a thread that it has left running.
  trace.records.push_back(Record(3, "called", 2));
  Set(trace.records[2], TraceActivity::kRequestStart, 125);
  Set(trace.records[2], TraceActivity::kRequestEnd, 135);
  trace.records.push_back(Record(4, "late", 2));
  Set(trace.records[3], TraceActivity::kRequestStart, 155);
  Set(trace.records[3], TraceActivity::kRequestEnd, 158);
  trace.records.push_back(Record(5, "second", 1));
  Set(trace.records[4], TraceActivity::kRequestStart, 200);
  Set(trace.records[4], TraceActivity::kRequestEnd, 390);
  EXPECT_THAT(Texts(MakeSlowTrace(trace)),
              ElementsAre("0:ensemble<-1 +0 300", "1:first<0 +10 50", "2:queue<1 +11 4",
                          "3:compute_input<1 +15 5", "4:compute_infer<1 +20 30", "5:compute_output<1 +50 2",
                          "6:called<4 +25 10", "7:late<1 +55 3", "8:second<0 +100 190"));
}

// A model that calls others in a loop.
TEST(SlowTraceTest, SpansBeyondTheMostAreLeftOut) {
  FinishedTrace trace = Ran("m", 100, 400);
  for (uint64_t id = 2; id < 2000; ++id) {
    trace.records.push_back(Record(id, "called", 1));
    SetExecution(trace.records.back(), 110);
  }
  const SlowTrace slow = MakeSlowTrace(trace);
  EXPECT_LE(slow.spans.size(), SlowTraceBook::kMostSpans);
  EXPECT_GT(slow.spans.size(), SlowTraceBook::kMostSpans - 10);
}

class SlowTraceBookTest : public ::testing::Test {
 protected:
  std::vector<int64_t> Durations(const std::string& model) const {
    std::vector<int64_t> durations;
    for (const SlowTrace& trace : book_.Slowest(model)) durations.push_back(trace.duration_us);
    return durations;
  }

  int64_t now_ns_ = 100 * kSecond;
  SlowTraceBook book_{[this] { return now_ns_; }};
};

TEST_F(SlowTraceBookTest, KeepsTheSlowestOfEachModel) {
  ASSERT_TRUE(book_.Watch("a", 60).ok());
  ASSERT_TRUE(book_.Watch("b", 60).ok());
  for (int64_t i = 0; i < 50; ++i) book_.Add(Ran("a", 100, 100 + (i * 37) % 50));
  book_.Add(Ran("b", 100, 107));
  book_.Add(Ran("c", 100, 200));
  const std::vector<int64_t> kept = Durations("a");
  ASSERT_EQ(kept.size(), SlowTraces::kKept);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], 49 - static_cast<int64_t>(i));
  EXPECT_THAT(Durations("b"), ElementsAre(7));
  EXPECT_THAT(Durations("c"), IsEmpty());
}

TEST_F(SlowTraceBookTest, AWatchEndsByTime) {
  EXPECT_FALSE(book_.active());
  EXPECT_EQ(book_.WatchedFor("a"), 0);
  ASSERT_TRUE(book_.Watch("a", 60).ok());
  EXPECT_TRUE(book_.active());
  EXPECT_TRUE(book_.Watches("a"));
  EXPECT_FALSE(book_.Watches("b"));
  now_ns_ += 59 * kSecond + 1;
  EXPECT_EQ(book_.WatchedFor("a"), 1);
  EXPECT_TRUE(book_.Watches("a"));
  now_ns_ += kSecond;
  EXPECT_EQ(book_.WatchedFor("a"), 0);
  EXPECT_FALSE(book_.Watches("a"));
  EXPECT_FALSE(book_.active());
}

TEST_F(SlowTraceBookTest, WhatWasKeptStaysUntilTheNextWatchBegins) {
  ASSERT_TRUE(book_.Watch("a", 60).ok());
  book_.Add(Ran("a", 100, 107));
  // A longer watch of the same model goes on.
  ASSERT_TRUE(book_.Watch("a", 600).ok());
  EXPECT_EQ(book_.WatchedFor("a"), 600);
  EXPECT_THAT(Durations("a"), ElementsAre(7));
  ASSERT_TRUE(book_.Watch("a", 0).ok());
  EXPECT_FALSE(book_.active());
  EXPECT_THAT(Durations("a"), ElementsAre(7));
  ASSERT_TRUE(book_.Watch("a", 1).ok());
  EXPECT_THAT(Durations("a"), IsEmpty());
}

TEST_F(SlowTraceBookTest, TimesAndModelsAreLimited) {
  EXPECT_EQ(book_.Watch("a", 601).message(), "expected 0 to 600 seconds to watch a model, got 601");
  EXPECT_EQ(book_.Watch("a", -1).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(book_.Watch("a", 0).ok());
  for (size_t i = 0; i < SlowTraceBook::kMostModels; ++i) {
    const std::string model = "m" + std::to_string(i);
    ASSERT_TRUE(book_.Watch(model, i == 5 ? 10 : 60).ok());
    book_.Add(Ran(model, 100, 107));
  }
  EXPECT_EQ(book_.Watch("a", 10).code(), StatusCode::kResourceExhausted);
  // A model that is watched already does not count again.
  EXPECT_TRUE(book_.Watch("m3", 60).ok());
  now_ns_ += 11 * kSecond;
  EXPECT_THAT(Durations("m5"), ElementsAre(7));
  EXPECT_TRUE(book_.Watch("a", 10).ok());
  EXPECT_THAT(Durations("m5"), IsEmpty());
  EXPECT_THAT(Durations("m4"), ElementsAre(7));
}

TEST(SlowTraceBookStress, ThreadsAddWhileOthersLook) {
  SlowTraceBook book;
  ASSERT_TRUE(book.Watch("a", 60).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&book, t] {
      for (int64_t i = 0; i < 500; ++i) {
        if (book.Watches("a")) book.Add(Ran("a", 100, 100 + i * 3 + t));
        if (i % 50 == 0) {
          EXPECT_TRUE(book.Watch(i % 100 == 0 ? "a" : "b", 60).ok());
        }
        EXPECT_LE(book.Slowest("a").size(), SlowTraces::kKept);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto slowest = book.Slowest("a");
  ASSERT_EQ(slowest.size(), SlowTraces::kKept);
  for (size_t i = 0; i < slowest.size(); ++i) {
    EXPECT_EQ(slowest[i].duration_us, 1499 - static_cast<int64_t>(i));
  }
}

// ---- the manager ----

class WatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<TraceManager> Make(bool sampled) {
    TraceOptions options;
    options.settings.file = folder_->path() + "/trace.json";
    options.settings.timestamps = sampled;
    options.settings.rate = 1;
    auto made = TraceManager::Create(options, "1", log_);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(made).value();
  }
  static void Run(TraceManager& manager, const std::string& model) {
    if (!manager.enabled()) return;
    const auto trace = manager.Start(model, 1, "id", TraceOrigin());
    if (trace == nullptr) return;
    trace->Record(TraceActivity::kRequestStart, 1000 * kUs);
    const auto child = trace->StartChild("child", 2);
    ASSERT_NE(child, nullptr);
    child->Record(TraceActivity::kRequestStart, 1010 * kUs);
    child->Record(TraceActivity::kRequestEnd, 1020 * kUs);
    trace->Record(TraceActivity::kRequestEnd, 1030 * kUs);
  }
  std::string File() const {
    std::ifstream file(folder_->path() + "/trace.json");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::shared_ptr<TemporaryFolder> folder_ =
      std::move(TemporaryFolder::Create(::testing::TempDir(), "braid-trace-test-")).value();
  Logger log_;
};

TEST_F(WatchTest, RecordsWhatIsNotSampledAndWritesNoFile) {
  auto manager = Make(false);
  EXPECT_FALSE(manager->enabled());
  Run(*manager, "m");
  EXPECT_THAT(manager->Slowest("m"), IsEmpty());
  ASSERT_TRUE(manager->Watch("m", 60).ok());
  EXPECT_TRUE(manager->enabled());
  EXPECT_GT(manager->WatchedFor("m"), 0);
  Run(*manager, "m");
  Run(*manager, "other");
  const auto slowest = manager->Slowest("m");
  ASSERT_EQ(slowest.size(), 1u);
  EXPECT_THAT(Texts(slowest[0]), ElementsAre("0:m<-1 +0 30", "1:child<0 +10 10"));
  EXPECT_EQ(slowest[0].request_id, "id");
  EXPECT_NE(slowest[0].id, "");
  EXPECT_THAT(manager->Slowest("other"), IsEmpty());
  ASSERT_TRUE(manager->Watch("m", 0).ok());
  EXPECT_FALSE(manager->enabled());
  manager.reset();
  EXPECT_EQ(File(), "");
}

TEST_F(WatchTest, WhatIsSampledTooGoesToTheFileAsWell) {
  auto manager = Make(true);
  ASSERT_TRUE(manager->Watch("m", 60).ok());
  Run(*manager, "m");
  Run(*manager, "other");
  EXPECT_EQ(manager->Slowest("m").size(), 1u);
  // The watch ends and sampling goes on; then the reverse.
  ASSERT_TRUE(manager->Watch("m", 0).ok());
  EXPECT_TRUE(manager->enabled());
  ASSERT_TRUE(manager->Watch("m", 60).ok());
  ASSERT_TRUE(manager->Change("", {{"trace_level", std::vector<std::string>{"OFF"}}}).ok());
  EXPECT_TRUE(manager->enabled());
  Run(*manager, "other");
  ASSERT_TRUE(manager->Watch("m", 0).ok());
  EXPECT_FALSE(manager->enabled());
  manager.reset();
  const std::string file = File();
  EXPECT_THAT(file, HasSubstr("\"model_name\":\"m\""));
  const size_t first = file.find("\"model_name\":\"other\"");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(file.find("\"model_name\":\"other\"", first + 1), std::string::npos);
}

TEST_F(WatchTest, UserCodeHearsOfNoCollectorForAWatchAlone) {
  TraceOptions options;
  options.settings.mode = "opentelemetry";
  auto made = TraceManager::Create(options, "1", log_);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE((*made)->Watch("m", 60).ok());
  const auto trace = (*made)->Start("m", 1, "", TraceOrigin());
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->context(), "");
  EXPECT_FALSE(trace->wants_tensors());
}

TEST_F(WatchTest, ATraceMayOutliveTheManager) {
  auto manager = Make(false);
  ASSERT_TRUE(manager->Watch("m", 60).ok());
  auto trace = manager->Start("m", 1, "", TraceOrigin());
  ASSERT_NE(trace, nullptr);
  manager.reset();
  trace.reset();
}

}  // namespace
}  // namespace braid
