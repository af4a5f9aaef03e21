#include "protocols/grpc/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
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

TEST(GrpcLogRoute, WritesOneEscapedLineForEachMessage) {
  grpc_init();  // which reads how much gRPC is to log
  const std::string path = ::testing::TempDir() + "/grpc_log_test.log";
  std::remove(path.c_str());
  Logger::Options options;
  options.file = path;
  auto log = Logger::Create(options);
  ASSERT_TRUE(log.ok());
  {
    const GrpcLogRoute route(**log);
    gpr_log("some/folder/parser.cc", 7, GPR_LOG_SEVERITY_ERROR, "bad value=%s",
            "x\nE1122 forged\x1b[31m\xff");
    GOOGLE_LOG(ERROR) << "two\nlines";
  }
  (*log)->Flush();
  const std::string text = Contents(path);
  EXPECT_NE(text.find(" parser.cc:7] bad value=x\\nE1122 forged\\x1b[31m\\xff\n"), std::string::npos) << text;
  EXPECT_NE(text.find("] two\\nlines\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  std::remove(path.c_str());
  grpc_shutdown();
}

}  // namespace
}  // namespace braid
