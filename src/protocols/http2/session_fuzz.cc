// Fuzzes the bytes that a client sends on an HTTP/2 connection, in pieces of any size.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "protocols/http2/session.h"

namespace braid {
namespace {

struct Stream : Http2Stream {
  void OnData(const Buffer& block, std::string_view bytes) override {
    BRAID_CHECK(!ended && !closed);
    BRAID_CHECK(bytes.data() >= block.text().data() &&
                bytes.data() + bytes.size() <= block.text().data() + block.size());
    session->Consume(id, bytes.size());
  }
  void OnEnd() override {
    BRAID_CHECK(!ended && !closed);
    ended = true;
    session->Respond(id, std::array{Http2Field{":status", "200"}});
  }
  void OnClosed(bool) override {
    BRAID_CHECK(!closed);
    closed = true;
  }
  size_t sendable() const override { return left; }
  bool complete() const override { return true; }
  void Take(size_t bytes, OutgoingBytes& to) override {
    BRAID_CHECK(bytes <= left);
    to.Append(std::string(bytes, 'x'));
    left -= bytes;
  }
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override {
    fields.push_back({"grpc-status", "0"});
  }

  Http2Session* session = nullptr;
  int32_t id = 0;
  size_t left = 1000;
  bool ended = false;
  bool closed = false;
};

class Owner final : public Http2Session::Owner {
 public:
  std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head head, const Status& fault) override {
    if (!fault.ok() || head.Find("refuse") == "1") {
      session->RespondAtOnce(id, std::array{Http2Field{":status", "200"}, Http2Field{"grpc-status", "8"}});
      return nullptr;
    }
    auto stream = std::make_shared<Stream>();
    stream->session = session;
    stream->id = id;
    streams.push_back(stream);
    return stream;
  }

  Http2Session* session = nullptr;
  std::vector<std::shared_ptr<Stream>> streams;
};

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  FuzzInput input(data, size);
  const size_t piece = input.Number(1, 4096);
  std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(input.rest());
  Owner owner;
  Http2Session session(
      owner, {.streams = 10, .stream_window = 1 << 16, .connection_window = 1 << 20, .frame_bytes = 1 << 16});
  owner.session = &session;
  for (size_t at = 0; at < sent.size(); at += piece) {
    const std::string_view part = std::string_view(sent).substr(at, piece);
    const Buffer block = CopyToHeap({reinterpret_cast<const std::byte*>(part.data()), part.size()});
    const bool good = session.Receive(block, block.text()).ok();
    OutgoingBytes outgoing;
    const bool staged = session.Stage(outgoing, 1 << 16).ok();
    if (!good || !staged || session.over()) break;
  }
  session.CloseAll();
  for (const auto& stream : owner.streams) BRAID_CHECK(stream->closed);
  return 0;
}
