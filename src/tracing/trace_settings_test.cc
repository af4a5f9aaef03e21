#include "tracing/trace_settings.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using Values = std::vector<std::string>;

TraceSettings On(uint32_t rate, int64_t count = -1) {
  TraceSettings settings;
  settings.timestamps = true;
  settings.rate = rate;
  settings.count = count;
  settings.file = "f";
  return settings;
}

Status Change(TraceSettingBook& book, const std::string& model, const TraceChanges& changes) {
  return book.Change(model, changes, nullptr);
}

int Sampled(TraceSettingBook& book, std::string_view model, int requests) {
  int sampled = 0;
  for (int i = 0; i < requests; ++i) sampled += book.Sample(model, {}) ? 1 : 0;
  return sampled;
}

TEST(TraceSettings, EveryNthRequestIsSampled) {
  TraceSettingBook book(On(3));
  EXPECT_FALSE(book.Sample("a", {}));
  EXPECT_FALSE(book.Sample("b", {}));
  EXPECT_TRUE(book.Sample("a", {}));
  EXPECT_EQ(Sampled(book, "a", 30), 10);
}

TEST(TraceSettings, TheCountIsWhatIsLeft) {
  TraceSettingBook book(On(1, 3));
  EXPECT_FALSE(book.Sample("a", {})->last);
  EXPECT_EQ(book.Get("a").count, 2);
  book.Sample("a", {});
  EXPECT_TRUE(book.Sample("a", {})->last);
  EXPECT_EQ(Sampled(book, "a", 10), 0);
  EXPECT_EQ(book.Get("").count, 0);
  ASSERT_TRUE(Change(book, "", {{"trace_count", Values{"2"}}}).ok());
  EXPECT_EQ(Sampled(book, "a", 10), 2);
  ASSERT_TRUE(Change(book, "", {{"trace_count", std::nullopt}}).ok());
  EXPECT_EQ(book.Get("").count, 3);
}

TEST(TraceSettings, AModelsOwnSettingsCoverTheGlobalOnesUntilTheyAreReset) {
  TraceSettingBook book(On(1));
  ASSERT_TRUE(Change(book, "m", {{"trace_level", Values{"TENSORS"}}, {"trace_rate", Values{"2"}}}).ok());
  EXPECT_EQ(book.Get("m").levels(), Values{"TENSORS"});
  EXPECT_EQ(book.Get("m").rate, 2u);
  EXPECT_EQ(book.Get("other").levels(), Values{"TIMESTAMPS"});
  EXPECT_EQ(Sampled(book, "m", 10), 5);
  EXPECT_EQ(Sampled(book, "other", 10), 10);
  ASSERT_TRUE(Change(book, "", {{"log_frequency", Values{"7"}}}).ok());
  EXPECT_EQ(book.Get("m").log_frequency, 7u);
  ASSERT_TRUE(Change(book, "", {{"trace_count", Values{"9"}}}).ok());
  EXPECT_EQ(book.Get("m").count, 9);
  ASSERT_TRUE(Change(book, "m", {{"trace_level", std::nullopt}}).ok());
  EXPECT_EQ(book.Get("m").levels(), Values{"TIMESTAMPS"});
  EXPECT_EQ(book.Get("m").rate, 2u);
  ASSERT_TRUE(Change(book, "m", {{"trace_rate", Values{}}, {"trace_level", Values{}}}).code() ==
              StatusCode::kInvalidArgument);
  ASSERT_TRUE(Change(book, "m", {{"trace_rate", std::nullopt}}).ok());
  EXPECT_EQ(book.Get("m").rate, 1u);
}

TEST(TraceSettings, AnybodyOnMakesTracingOn) {
  TraceSettings off;
  off.file = "f";
  TraceSettingBook book(off);
  EXPECT_FALSE(book.any_on());
  EXPECT_FALSE(book.Sample("m", true));
  ASSERT_TRUE(Change(book, "m", {{"trace_level", Values{"TIMESTAMPS"}}}).ok());
  EXPECT_TRUE(book.any_on());
  ASSERT_TRUE(Change(book, "m", {{"trace_level", Values{"OFF"}}}).ok());
  EXPECT_FALSE(book.any_on());
}

TEST(TraceSettings, AClientThatTracesDecides) {
  TraceSettingBook book(On(0));
  EXPECT_EQ(Sampled(book, "m", 5), 0);
  EXPECT_TRUE(book.Sample("m", true));
  TraceSettingBook all(On(1));
  EXPECT_FALSE(all.Sample("m", false));
}

TEST(TraceSettings, RefuseWhatTheyMust) {
  TraceSettingBook book(On(5));
  const auto text = [&](const std::string& key, Values values) {
    return Change(book, "", {{"trace_rate", Values{"9"}}, {key, std::move(values)}}).message();
  };
  EXPECT_EQ(text("trace_file", {"x"}), "trace file location can not be updated through network protocol");
  EXPECT_EQ(text("trace_count", {"1", "2"}), "expect only 1 value for 'trace_count'");
  EXPECT_EQ(text("trace_count", {"x"}), "Unable to parse 'trace_count', got: x");
  EXPECT_NE(text("trace_count", {"-2"}).find("value is out of range [ -1, "), std::string::npos);
  EXPECT_NE(text("log_frequency", {"-1"}), "");
  EXPECT_NE(text("trace_level", {"MUCH"}), "");
  EXPECT_NE(text("trace_level", {"OFF", "TENSORS"}), "");
  EXPECT_NE(text("trace_mode", {"triton"}), "");
  EXPECT_EQ(text("colour", {"red"}), "unknown trace setting 'colour'");
  // None of them has changed anything.
  EXPECT_EQ(book.Get("").rate, 5u);
  TraceSettings no_file;
  TraceSettingBook nowhere(no_file);
  EXPECT_FALSE(Change(nowhere, "m", {{"trace_level", Values{"TIMESTAMPS"}}}).ok());
}

}  // namespace
}  // namespace braid
