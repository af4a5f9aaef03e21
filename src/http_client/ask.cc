#include "http_client/ask.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "http_client/http_head.h"

namespace braid::client {
namespace {

std::string Head(const Dialer& dialer, const HttpQuestion& question) {
  std::string head;
  head.append(question.method).append(" ").append(question.target).append(" HTTP/1.1\r\n");
  head.append("Host: ").append(dialer.address().http_host()).append("\r\n");
  head.append("User-Agent: braid\r\nConnection: close\r\n");
  if (!question.content_type.empty()) {
    head.append("Content-Type: ").append(question.content_type).append("\r\n");
    head.append("Content-Length: ").append(std::to_string(question.body.size())).append("\r\n");
  }
  return head + "\r\n";
}

// Returns when everything is sent, the connection is over, or the time is up.
void Send(Socket& socket, std::string_view head, std::string_view body, int64_t deadline_ns) {
  while (!head.empty() || !body.empty()) {
    const std::array<iovec, 2> rest{iovec{const_cast<char*>(head.data()), head.size()},
                                    iovec{const_cast<char*>(body.data()), body.size()}};
    const Result<size_t> written = socket.Write(rest);
    if (!written.ok()) return;
    if (*written == 0 && !WaitFor(socket.fd(), POLLOUT, deadline_ns)) return;
    const size_t of_head = std::min(*written, head.size());
    head.remove_prefix(of_head);
    body.remove_prefix(*written - of_head);
  }
}

}  // namespace

Result<int> AskHttp(const Dialer& dialer, const HttpQuestion& question, int64_t timeout_ns) {
  const int64_t deadline_ns = SteadyNowNs() + timeout_ns;
  BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket,
                         Socket::Dial(dialer, false, static_cast<double>(timeout_ns) * 1e-9));
  // A server that refuses a body may respond and close before it has received all of it.
  Send(*socket, Head(dialer, question), question.body, deadline_ns);
  std::string answer;
  std::array<char, 4096> piece;
  while (SteadyNowNs() < deadline_ns) {
    BRAID_ASSIGN_OR_RETURN(const size_t size, socket->Read(piece.data(), piece.size(), true));
    answer.append(piece.data(), size);
    const Result<std::optional<HttpHead>> head = DecodeHttpHead(answer);
    if (!head.ok()) return UnavailableError(head.status().message());
    if (*head) return (*head)->status;
  }
  return UnavailableError("no answer in time");
}

}  // namespace braid::client
