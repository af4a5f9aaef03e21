// A redis-server for one test, on a Unix socket in a temporary folder. It writes no data to the disk.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "sequences/redis_client.h"

extern char** environ;

namespace braid {

class RealRedis {
 public:
  explicit RealRedis(std::string password = "") : password_(std::move(password)) {
    std::string name = std::filesystem::temp_directory_path() / "braid-redis-XXXXXX";
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "secret") << password_ << '\n';
    Start();
  }
  ~RealRedis() {
    Kill();
    std::filesystem::remove_all(folder_);
  }
  RealRedis(const RealRedis&) = delete;
  RealRedis& operator=(const RealRedis&) = delete;

  void Start() {
    std::vector<std::string> words = {"redis-server",   "--port",     "0",      "--unixsocket",
                                      socket(),         "--save",     "",       "--dir",
                                      folder_.string(), "--loglevel", "warning"};
    if (!password_.empty()) words.insert(words.end(), {"--requirepass", password_});
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ASSERT_EQ(posix_spawnp(&pid_, "redis-server", nullptr, nullptr, pointers.data(), environ), 0)
        << "redis-server is missing: scripts/install-system-packages test";
    for (int i = 0; !Listens() && i < 2000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    std::filesystem::remove(socket());
  }
  void Signal(int number) const { ::kill(pid_, number); }

  std::string socket() const { return (folder_ / "s").string(); }
  RedisClient::Options options() const {
    RedisClient::Options options;
    options.url.addresses = {{socket(), ""}};
    // On a busy machine a slow answer must not count as none.
    options.connect_timeout_ns = options.command_timeout_ns = 10 * kSecondNs;
    if (!password_.empty()) options.password_file = folder_ / "secret";
    return options;
  }
  std::filesystem::path folder() const { return folder_; }

 private:
  // The socket file exists before the server listens.
  bool Listens() const {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    socket().copy(name.sun_path, sizeof name.sun_path - 1);
    const UniqueFd tried(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(tried.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  }

  const std::string password_;
  std::filesystem::path folder_;
  pid_t pid_ = 0;
};

}  // namespace braid
