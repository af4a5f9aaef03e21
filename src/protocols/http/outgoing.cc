#include "protocols/http/outgoing.h"

#include <sys/uio.h>

#include <cerrno>
#include <charconv>

namespace braid {
namespace {

constexpr size_t kMaxParts = 64;  // in one system call

void AppendNumber(std::string& out, size_t number) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, end);
}

}  // namespace

void AppendResponseHead(std::string& out, const HttpResponse& response, std::string_view length_field,
                        std::string_view connection) {
  out += "HTTP/1.1 ";
  AppendNumber(out, response.status);
  out += ' ';
  out += HttpReason(response.status);
  if (!response.content_type.empty()) {
    out += "\r\nContent-Type: ";
    out += response.content_type;
  }
  for (const auto& [name, value] : response.headers) {
    out += "\r\n";
    out += name;
    out += ": ";
    out += value;
  }
  if (!length_field.empty()) {
    out += "\r\n";
    out += length_field;
  }
  if (!connection.empty()) {
    out += "\r\nConnection: ";
    out += connection;
  }
  out += "\r\n\r\n";
}

void Outgoing::Set(HttpResponse response, std::string_view connection, bool omit_body) {
  head_.clear();
  std::string length;
  if (response.status != 204 && response.status != 304) {
    length = "Content-Length: ";
    AppendNumber(length, response.size());
  }
  AppendResponseHead(head_, response, length, connection);
  if (!omit_body) {
    body_ = std::move(response.body);
    tail_ = std::move(response.tail);
  }
  sent_ = 0;
  part_ = 0;
}

Outgoing::Progress Outgoing::Send(ClientSocket& socket) {
  const size_t parts = 2 + tail_.size();
  const auto part = [this](size_t i) -> iovec {
    if (i == 0) return {head_.data(), head_.size()};
    if (i == 1) return {body_.data(), body_.size()};
    return {tail_[i - 2].mutable_data(),
            tail_[i - 2].size()};  // writev() only reads, but takes non-const pointers
  };
  while (part_ < parts) {
    iovec vectors[kMaxParts];
    size_t count = 0;
    for (size_t i = part_; i < parts && count < kMaxParts; ++i) {
      iovec v = part(i);
      if (i == part_) {
        v.iov_base = static_cast<char*>(v.iov_base) + sent_;
        v.iov_len -= sent_;
      }
      if (v.iov_len != 0 || count == 0) vectors[count++] = v;
    }
    const ssize_t written = socket.Send({vectors, count});
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return Progress::kFailed;
      size_t waiting = 0;
      for (size_t i = part_; i < parts; ++i) waiting += part(i).iov_len;
      charge_.Set(static_cast<int64_t>(waiting));
      return Progress::kBlocked;
    }
    auto left = static_cast<size_t>(written);
    while (part_ < parts) {
      const size_t rest = part(part_).iov_len - sent_;
      if (left < rest) break;
      left -= rest;
      ++part_;
      sent_ = 0;
    }
    sent_ += left;
  }
  return Progress::kDone;
}

void Outgoing::Clear() {
  FreeText(body_);
  tail_.clear();
  charge_.Set(0);
}

}  // namespace braid
