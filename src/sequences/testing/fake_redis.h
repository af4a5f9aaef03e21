// A Redis that answers as a test says, on a port of the loopback interface.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "http_client/socket.h"

namespace braid {

class FakeRedis {
 public:
  using Words = std::vector<std::string>;
  // Returns the answer in the Redis protocol; "": none, and no further answers to this client. Called on the
  // fake's thread.
  using Answer = std::function<std::string(const Words&)>;

  explicit FakeRedis(Answer answer) : answer_(std::move(answer)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);
    port_ = ntohs(here.sin_port);
    end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeRedis() {
    const uint64_t one = 1;
    (void)!::write(end_.get(), &one, sizeof one);
    thread_.join();
  }
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  uint16_t port() const { return port_; }
  client::Address address() const { return {"127.0.0.1", std::to_string(port_)}; }
  // The commands received, except CLUSTER SLOTS; words are joined by blanks.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  static std::string Text(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  static std::string Error(const std::string& text) { return "-" + text + "\r\n"; }

 private:
  struct Peer {
    UniqueFd fd;
    std::string come;
    bool silent = false;
  };

  // Takes the first complete command from the input.
  static std::optional<Words> Take(std::string& come) {
    size_t at = 0;
    const auto number = [&]() -> std::optional<size_t> {
      const size_t end = come.find("\r\n", at);
      if (end == std::string::npos) return std::nullopt;
      size_t value = 0;
      std::from_chars(come.data() + at + 1, come.data() + end, value);
      at = end + 2;
      return value;
    };
    const auto count = number();
    if (!count) return std::nullopt;
    Words words;
    for (size_t i = 0; i < *count; ++i) {
      const auto size = number();
      if (!size || come.size() < at + *size + 2) return std::nullopt;
      words.push_back(come.substr(at, *size));
      at += *size + 2;
    }
    come.erase(0, at);
    return words;
  }

  void Serve() {
    std::list<Peer> peers;
    while (true) {
      std::vector<pollfd> ends = {{end_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Peer& peer : peers) ends.push_back({peer.fd.get(), POLLIN, 0});
      ::poll(ends.data(), ends.size(), -1);
      if (ends[0].revents != 0) return;
      size_t at = 2;
      for (auto peer = peers.begin(); peer != peers.end(); ++at) {
        const bool alive = ends[at].revents == 0 || Read(*peer);
        peer = alive ? std::next(peer) : peers.erase(peer);
      }
      if (ends[1].revents != 0) peers.push_back({UniqueFd(::accept(listener_.get(), nullptr, nullptr)), ""});
    }
  }
  bool Read(Peer& peer) {
    char piece[4096];
    const ssize_t size = ::recv(peer.fd.get(), piece, sizeof piece, 0);
    if (size <= 0) return false;
    peer.come.append(piece, static_cast<size_t>(size));
    while (const auto words = Take(peer.come)) {
      std::string all;
      for (const std::string& word : *words) all += (all.empty() ? "" : " ") + word;
      if (all != "CLUSTER SLOTS") {
        const std::lock_guard lock(mutex_);
        asked_.push_back(all);
      }
      const std::string told = peer.silent ? "" : answer_(*words);
      peer.silent = told.empty();
      (void)!::send(peer.fd.get(), told.data(), told.size(), MSG_NOSIGNAL);
    }
    return true;
  }

  const Answer answer_;
  UniqueFd listener_;
  UniqueFd end_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

}  // namespace braid
