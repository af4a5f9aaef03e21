#include "protocols/grpc/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>

namespace braid {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ProtobufLogRoute, WritesOneEscapedLineForEachMessage) {
  const std::string path = ::testing::TempDir() + "/protobuf_log_test.log";
  std::remove(path.c_str());
  Logger::Options options;
  options.file = path;
  auto log = Logger::Create(options);
  ASSERT_TRUE(log.ok());
  {
    const ProtobufLogRoute route(**log);
    GOOGLE_LOG(ERROR) << "bad value=x\nE1122 forged\x1b[31m\xff";
    GOOGLE_LOG(ERROR) << "two\nlines";
  }
  (*log)->Flush();
  const std::string text = Contents(path);
  EXPECT_NE(text.find("] bad value=x\\nE1122 forged\\x1b[31m\\xff\n"), std::string::npos) << text;
  EXPECT_NE(text.find("] two\\nlines\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace braid
