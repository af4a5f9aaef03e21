#include "protocols/http/message.h"

#include <gtest/gtest.h>

#include "protocols/net/compression.h"

#if !defined(_GLIBCXX_TSAN)
// The thread sanitizer has its own operator new.
#include "base/testing/failing_allocation.h"
#endif

namespace braid {
namespace {

TEST(PercentDecode, RefusesWhatIsNoEscape) {
  EXPECT_EQ(PercentDecode("a%20b%2Fc"), "a b/c");
  EXPECT_EQ(PercentDecode("plain"), "plain");
  EXPECT_EQ(PercentDecode("caf%C3%A9"), "caf\xc3\xa9");
  for (auto* text : {"%", "%2", "%zz", "a%", "%00", "m%FF", "caf%e9", "caf\xe9"})
    EXPECT_FALSE(PercentDecode(text)) << text;
}

TEST(AppendJsonString, EscapesWhatMustBe) {
  std::string out;
  AppendJsonString(out, std::string_view("a\"\\\n\x01\xff\0z", 8));
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\xff\\u0000z\"");
}

TEST(ErrorResponse, MapsEveryCode) {
  EXPECT_EQ(ErrorResponse(NotFoundError("x")).status, 404u);
  EXPECT_EQ(ErrorResponse(InternalError("x")).status, 500u);
  EXPECT_EQ(ErrorResponse(UnavailableError("x")).status, 503u);
  EXPECT_EQ(ErrorResponse(UnsupportedError("x")).status, 501u);
  for (auto code : {StatusCode::kUnknown, StatusCode::kInvalidArgument, StatusCode::kAlreadyExists,
                    StatusCode::kCancelled}) {
    EXPECT_EQ(ErrorResponse(Status(code, "x")).status, 400u);
  }
  EXPECT_EQ(ErrorResponse(405, "a \"b\"").body, R"({"error":"a \"b\""})");
}

TEST(ContentCoding, IsChosenByTheClient) {
  EXPECT_EQ(ChooseContentCoding("gzip, deflate"), ContentCoding::kGzip);
  EXPECT_EQ(ChooseContentCoding("deflate"), ContentCoding::kDeflate);
  EXPECT_EQ(ChooseContentCoding("br;q=1, GZIP;q=0.5"), ContentCoding::kGzip);
  EXPECT_EQ(ChooseContentCoding("gzip;q=0, deflate;q=0.0"), ContentCoding::kIdentity);
  EXPECT_EQ(ChooseContentCoding(""), ContentCoding::kIdentity);
  EXPECT_EQ(ChooseContentCoding(",,;,"), ContentCoding::kIdentity);
  EXPECT_EQ(ParseContentCoding(" Deflate "), ContentCoding::kDeflate);
  EXPECT_EQ(ParseContentCoding("identity"), ContentCoding::kIdentity);
  EXPECT_EQ(ParseContentCoding("gzip, gzip"), std::nullopt);
}

TEST(Decompressor, TakesAnyPieces) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  for (auto coding : {ContentCoding::kGzip, ContentCoding::kDeflate}) {
    const std::string_view parts[] = {std::string_view(text).substr(0, 10),
                                      std::string_view(text).substr(10)};
    const std::string compressed = *Compress(coding, parts);
    for (size_t piece : {size_t{1}, size_t{17}, compressed.size()}) {
      Decompressor decompressor;
      std::string out;
      for (size_t at = 0; at < compressed.size(); at += piece) {
        ASSERT_TRUE(
            decompressor.Append(std::string_view(compressed).substr(at, piece), out, text.size()).ok());
      }
      EXPECT_TRUE(decompressor.finished());
      EXPECT_TRUE(out == text);
    }
    Decompressor limited;
    std::string out;
    EXPECT_FALSE(limited.Append(compressed, out, text.size() - 1).ok());
    EXPECT_TRUE(limited.too_large());
    EXPECT_LE(out.size(), text.size() - 1);
  }
}

#if !defined(_GLIBCXX_TSAN)
TEST(MakeResponse, AFailedAllocationLeavesItsText) {
  const std::string made(100, 'x');
  int failures = 0;
  for (int before = 0, failed = 1; failed > 0; ++before) {
    FailingAllocation failing(before, 2);
    const HttpResponse response = MakeResponse([&] { return Result<HttpResponse>(JsonResponse(made)); });
    failed = failing.Stop();
    if (failed == 0) break;
    ++failures;
    EXPECT_EQ(response.status, 429U) << before;
    EXPECT_EQ(response.body, R"({"error":"out of memory"})") << before;
    EXPECT_EQ(response.headers.size(), 1U) << before;
  }
  EXPECT_GT(failures, 0);
}
#endif

}  // namespace
}  // namespace braid
