#include "tracing/http_post.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

namespace braid {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

// A collector answers with little; more is not read.
constexpr uint64_t kMostAnswerBytes = 1 << 20;

// The steps of one request, each started by the end of the one before.
class Post {
 public:
  Post(const HttpUrl& url, const std::string& body) : resolver_(context_), stream_(context_) {
    request_.method(http::verb::post);
    request_.target(url.target);
    request_.version(11);
    request_.set(http::field::host, url.host + ":" + url.port);
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::user_agent, "braid");
    request_.set(http::field::connection, "close");
    request_.body() = body;
    request_.prepare_payload();
    parser_.body_limit(kMostAnswerBytes);
  }

  Status Run(const HttpUrl& url, int64_t timeout_ns) {
    stream_.expires_after(std::chrono::nanoseconds(timeout_ns));
    resolver_.async_resolve(url.host, url.port, [this](beast::error_code error, auto endpoints) {
      if (Failed(error)) return;
      stream_.async_connect(endpoints, [this](beast::error_code error, const auto&) {
        if (Failed(error)) return;
        http::async_write(stream_, request_, [this](beast::error_code error, size_t) {
          if (Failed(error)) return;
          http::async_read(stream_, buffer_, parser_, [this](beast::error_code error, size_t) {
            if (!Failed(error)) answered_ = true;
          });
        });
      });
    });
    // The resolver has no deadline of its own.
    context_.run_for(std::chrono::nanoseconds(timeout_ns));
    if (!answered_) {
      return UnavailableError(error_ ? error_.message() : "no answer in time");
    }
    const unsigned code = parser_.get().result_int();
    if (code >= 200 && code < 300) return OkStatus();
    return UnavailableError("it answered with status " + std::to_string(code));
  }

 private:
  bool Failed(beast::error_code error) {
    if (error) error_ = error;
    return static_cast<bool>(error);
  }

  asio::io_context context_;
  asio::ip::tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::error_code error_;
  bool answered_ = false;
};

}  // namespace

Result<HttpUrl> ParseCollectorUrl(std::string_view text) {
  const std::string whole(text);
  if (text.starts_with("https://")) {
    return InvalidArgumentError("'" + whole +
                                "' asks for TLS, which is not spoken; use a collector beside the server");
  }
  if (text.starts_with("http://")) text.remove_prefix(7);
  HttpUrl url;
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  url.target = slash == text.size() ? "/v1/traces" : std::string(text.substr(slash));
  size_t colon = authority.rfind(':');
  // The colons of an IPv6 address stand in brackets.
  if (colon != std::string_view::npos && authority.find(']', colon) != std::string_view::npos) {
    colon = std::string_view::npos;
  }
  url.host = authority.substr(0, colon);
  url.port = colon == std::string_view::npos ? "4318" : std::string(authority.substr(colon + 1));
  if (url.host.starts_with('[') && url.host.ends_with(']'))
    url.host = url.host.substr(1, url.host.size() - 2);
  const bool digits = !url.port.empty() && std::all_of(url.port.begin(), url.port.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  const bool clean = std::none_of(whole.begin(), whole.end(),
                                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
  if (url.host.empty() || !digits || url.port.size() > 5 || !clean) {
    return InvalidArgumentError("'" + whole + "' is not of the form http://HOST:PORT/PATH");
  }
  return url;
}

Status PostJson(const HttpUrl& url, const std::string& body, int64_t timeout_ns) {
  return Post(url, body).Run(url, timeout_ns);
}

}  // namespace braid
