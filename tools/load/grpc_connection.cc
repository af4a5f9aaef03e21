#include "load/grpc_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"

namespace braid::load {
namespace {

constexpr size_t kPrefixBytes = 5;  // of a gRPC message: a flag and the length
constexpr size_t kBlockBytes = size_t{256} * 1024;
constexpr size_t kLeastRoom = size_t{16} * 1024;  // free space that a block needs before a read
constexpr size_t kSmallPayload = size_t{4} * 1024;
constexpr size_t kStagedBytes = size_t{64} * 1024;
constexpr uint32_t kWindow = 0x7fffffff;
constexpr uint32_t kFrameBytes = (1U << 24) - 1;

StatusCode CodeOfGrpc(int grpc_status) {
  switch (grpc_status) {
    case 1:
      return StatusCode::kCancelled;
    case 3:
    case 11:
      return StatusCode::kInvalidArgument;
    case 5:
      return StatusCode::kNotFound;
    case 6:
      return StatusCode::kAlreadyExists;
    case 7:
      return StatusCode::kPermissionDenied;
    case 8:
      return StatusCode::kResourceExhausted;
    case 9:
      return StatusCode::kFailedPrecondition;
    case 10:
      return StatusCode::kAborted;
    case 12:
      return StatusCode::kUnsupported;
    case 14:
      return StatusCode::kUnavailable;
    case 16:
      return StatusCode::kUnauthenticated;
    default:
      return StatusCode::kInternal;
  }
}

// Decodes grpc-message, which encodes all but printable ASCII as %XX.
std::string DecodePercent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

nghttp2_nv Field(std::string_view name, std::string_view value) {
  // nghttp2 does not copy these views. Each is a constant or belongs to the owner, and lives until the head
  // is packed.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

}  // namespace

// An HTTP/2 stream.
struct GrpcConnection::Call {
  Exchange* exchange = nullptr;  // null: cancelled
  int32_t stream = 0;
  // The message being sent.
  std::array<char, kPrefixBytes> prefix{};
  std::string_view message;
  std::string kept;  // copy of `message` after the call was cancelled
  size_t sent = 0;   // of `prefix` and `message`
  bool stays_open = false;
  bool waits = false;  // all data was sent, and the stream stays open
  // The message being received.
  std::array<char, kPrefixBytes> head{};
  size_t head_bytes = 0;
  size_t left = 0;
  Pieces pieces;
  std::vector<std::shared_ptr<Block>> blocks;  // hold the bytes of the pieces
  // The end of the call.
  int http_status = 0;
  int grpc_status = -1;
  std::string text;
  Status fault;

  size_t to_send() const { return kPrefixBytes + message.size() - sent; }
};

struct GrpcConnection::Callbacks {
  static GrpcConnection& Self(void* data) { return *static_cast<GrpcConnection*>(data); }

  static Call* Find(nghttp2_session* session, int32_t stream) {
    return static_cast<Call*>(nghttp2_session_get_stream_user_data(session, stream));
  }

  // Tells nghttp2 the size of a call's next DATA frame.
  static ssize_t Source(nghttp2_session*, int32_t, uint8_t*, size_t length, uint32_t* flags,
                        nghttp2_data_source* source, void*) {
    Call& call = *static_cast<Call*>(source->ptr);
    const size_t size = std::min(length, call.to_send());
    if (size == 0 && call.stays_open) {
      call.waits = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (size == call.to_send() && !call.stays_open) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  static int SendData(nghttp2_session*, nghttp2_frame*, const uint8_t* frame_head, size_t length,
                      nghttp2_data_source* source, void* data) {
    GrpcConnection& self = Self(data);
    if (!self.payload_.empty()) return NGHTTP2_ERR_WOULDBLOCK;
    Call& call = *static_cast<Call*>(source->ptr);
    self.staged_.append(reinterpret_cast<const char*>(frame_head), 9);
    if (call.sent < kPrefixBytes) {
      const size_t size = std::min(length, kPrefixBytes - call.sent);
      self.staged_.append(call.prefix.data() + call.sent, size);
      call.sent += size;
      length -= size;
    }
    const std::string_view payload =
        length == 0 ? std::string_view() : call.message.substr(call.sent - kPrefixBytes, length);
    call.sent += length;
    if (length <= kSmallPayload) {
      self.staged_ += payload;
    } else {
      self.payload_ = payload;
    }
    return 0;
  }

  static ssize_t FrameBytes(nghttp2_session*, uint8_t, int32_t, int32_t connection_window,
                            int32_t stream_window, uint32_t most, void*) {
    return std::min<ssize_t>({connection_window, stream_window, static_cast<ssize_t>(most)});
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void*) {
    Call* call = Find(session, frame->hd.stream_id);
    if (call == nullptr) return 0;
    const std::string_view key(reinterpret_cast<const char*>(name), name_size);
    const std::string_view text(reinterpret_cast<const char*>(value), value_size);
    if (key == ":status") {
      std::from_chars(text.data(), text.data() + text.size(), call->http_status);
    } else if (key == "grpc-status") {
      std::from_chars(text.data(), text.data() + text.size(), call->grpc_status);
    } else if (key == "grpc-message") {
      call->text = DecodePercent(text);
    }
    return 0;
  }

  static int OnData(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* bytes, size_t size,
                    void* data) {
    if (Call* call = Find(session, stream)) {
      Self(data).TakeData(*call, {reinterpret_cast<const char*>(bytes), size});
    }
    return 0;
  }

  static int OnClose(nghttp2_session* session, int32_t stream, uint32_t error, void* data) {
    Call* call = Find(session, stream);
    if (call == nullptr) return 0;
    Status status = call->fault;
    if (status.ok() && call->grpc_status > 0) {
      status = Status(CodeOfGrpc(call->grpc_status),
                      "gRPC " + std::to_string(call->grpc_status) + ": " + call->text);
    } else if (status.ok() && call->grpc_status < 0) {
      if (call->http_status != 0 && call->http_status != 200) {
        status =
            InternalError("the server does not speak gRPC: HTTP status " + std::to_string(call->http_status));
      } else {
        status = UnavailableError("the stream was reset: HTTP/2 error " + std::to_string(error));
      }
    }
    Self(data).End(*call, status);
    return 0;
  }
};

GrpcConnection::GrpcConnection(std::unique_ptr<Socket> socket, std::string authority, bool tls,
                               const Headers& headers)
    : socket_(std::move(socket)),
      authority_(std::move(authority)),
      scheme_(tls ? "https" : "http"),
      headers_(headers) {
  nghttp2_session_callbacks* callbacks = nullptr;
  BRAID_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, Callbacks::SendData);
  nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, Callbacks::FrameBytes);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnClose);
  nghttp2_option* option = nullptr;
  BRAID_CHECK(nghttp2_option_new(&option) == 0);
  // A client does not need nghttp2's priority tree of closed streams.
  nghttp2_option_set_no_closed_streams(option, 1);
  BRAID_CHECK(nghttp2_session_client_new2(&session_, callbacks, this, option) == 0);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
                                             {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrameBytes}};
  BRAID_CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) == 0);
  BRAID_CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow) == 0);
}

GrpcConnection::~GrpcConnection() {
  if (alive_) Break(CancelledError("the connection was closed"));
  nghttp2_session_del(session_);
}

GrpcConnection::Call& GrpcConnection::NewCall() {
  if (free_calls_.empty()) {
    calls_.push_back(std::make_unique<Call>());
    free_calls_.push_back(calls_.back().get());
  }
  Call& call = *free_calls_.back();
  free_calls_.pop_back();
  return call;
}

void GrpcConnection::QueueMessage(Call& call, const OutgoingMessage& message) {
  const auto size = static_cast<uint32_t>(message.bytes.size());
  call.prefix = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                 static_cast<char>(size >> 8), static_cast<char>(size)};
  call.message = message.bytes;
  call.sent = 0;
}

void GrpcConnection::Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) {
  BRAID_CHECK(alive_);
  Call& call = NewCall();
  call.exchange = &exchange;
  call.stays_open = stays_open;
  call.waits = false;
  call.head_bytes = 0;
  call.left = 0;
  call.http_status = 0;
  call.grpc_status = -1;
  call.text.clear();
  call.fault = Status();
  QueueMessage(call, message);
  exchange.call_ = &call;
  std::vector<nghttp2_nv> fields = {
      Field(":method", "POST"),         Field(":scheme", scheme_), Field(":path", message.path),
      Field(":authority", authority_),  Field("te", "trailers"),   Field("content-type", "application/grpc"),
      Field("user-agent", "braid-load")};
  for (const auto& [name, value] : headers_) fields.push_back(Field(name, value));
  nghttp2_data_provider provider{};
  provider.source.ptr = &call;
  provider.read_callback = Callbacks::Source;
  call.stream = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &provider, &call);
  // nghttp2 fails only without memory or after 2^30 streams.
  BRAID_CHECK(call.stream > 0);
}

void GrpcConnection::Send(Exchange& exchange, const OutgoingMessage& message) {
  Call& call = *static_cast<Call*>(exchange.call_);
  QueueMessage(call, message);
  if (std::exchange(call.waits, false)) nghttp2_session_resume_data(session_, call.stream);
}

void GrpcConnection::EndSending(Exchange& exchange) {
  Call& call = *static_cast<Call*>(exchange.call_);
  call.stays_open = false;
  if (std::exchange(call.waits, false)) nghttp2_session_resume_data(session_, call.stream);
}

void GrpcConnection::Cancel(Exchange& exchange) {
  Call& call = *static_cast<Call*>(exchange.call_);
  KeepNextFrame(call);
  exchange.call_ = nullptr;
  call.exchange = nullptr;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.stream, NGHTTP2_CANCEL);
}

void GrpcConnection::TakeData(Call& call, std::string_view bytes) {
  while (!bytes.empty() && call.exchange != nullptr) {
    if (call.head_bytes < kPrefixBytes) {
      const size_t size = std::min(bytes.size(), kPrefixBytes - call.head_bytes);
      std::memcpy(call.head.data() + call.head_bytes, bytes.data(), size);
      call.head_bytes += size;
      bytes.remove_prefix(size);
      if (call.head_bytes < kPrefixBytes) return;
      if (call.head[0] != 0) call.fault = UnsupportedError("the server sent a compressed message");
      for (size_t i = 1; i < kPrefixBytes; ++i)
        call.left = call.left << 8 | static_cast<uint8_t>(call.head[i]);
    }
    const size_t size = std::min(bytes.size(), call.left);
    if (size > 0) {
      call.pieces.push_back(bytes.substr(0, size));
      if (call.blocks.empty() || call.blocks.back() != block_) call.blocks.push_back(block_);
      call.left -= size;
      bytes.remove_prefix(size);
    }
    if (call.left > 0) return;
    call.head_bytes = 0;
    if (call.fault.ok()) call.exchange->OnMessage({call.pieces});
    call.pieces.clear();
    call.blocks.clear();
  }
}

void GrpcConnection::KeepPayload(const Call& call) {
  const auto inside = [&call](const char* at) {
    return at >= call.message.data() && at < call.message.data() + call.message.size();
  };
  if (payload_.empty() || !inside(payload_.data())) return;
  kept_.assign(payload_);
  payload_ = kept_;
}

void GrpcConnection::KeepNextFrame(Call& call) {
  KeepPayload(call);
  const size_t done = call.sent > kPrefixBytes ? call.sent - kPrefixBytes : 0;
  call.kept.assign(call.message.substr(
      done, nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_FRAME_SIZE)));
  call.message = call.kept;
  call.sent -= done;
}

void GrpcConnection::End(Call& call, const Status& status) {
  KeepPayload(call);
  nghttp2_session_set_stream_user_data(session_, call.stream, nullptr);
  call.pieces.clear();
  call.blocks.clear();
  Exchange* exchange = std::exchange(call.exchange, nullptr);
  free_calls_.push_back(&call);
  if (exchange == nullptr) return;
  exchange->call_ = nullptr;
  exchange->OnEnd(status);
}

bool GrpcConnection::wants_to_write() const {
  return alive_ &&
         (staged_.size() > staged_sent_ || !payload_.empty() || nghttp2_session_want_write(session_) != 0);
}

Result<bool> GrpcConnection::WriteStaged() {
  while (staged_.size() > staged_sent_ || !payload_.empty()) {
    const std::array<iovec, 3> pieces = {{{staged_.data() + staged_sent_, staged_.size() - staged_sent_},
                                          {const_cast<char*>(payload_.data()), payload_.size()},
                                          {behind_.data(), behind_.size()}}};
    BRAID_ASSIGN_OR_RETURN(size_t written, socket_->Write(pieces));
    if (written == 0) return false;
    const size_t of_staged = std::min(written, pieces[0].iov_len);
    staged_sent_ += of_staged;
    written -= of_staged;
    const size_t of_payload = std::min(written, payload_.size());
    payload_.remove_prefix(of_payload);
    written -= of_payload;
    if (payload_.empty() && staged_sent_ == staged_.size()) {
      staged_.swap(behind_);
      behind_.clear();
      staged_sent_ = written;
    }
  }
  staged_.clear();
  staged_sent_ = 0;
  return true;
}

void GrpcConnection::Flush() {
  while (alive_) {
    const Result<bool> room = WriteStaged();
    if (!room.ok()) return Break(room.status());
    if (!*room) return;
    while (staged_.size() < kStagedBytes && payload_.empty()) {
      const uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size < 0)
        return Break(InternalError(std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(size))));
      if (size == 0) break;
      (payload_.empty() ? staged_ : behind_)
          .append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    }
    if (staged_.empty() && payload_.empty()) return;
  }
}

void GrpcConnection::PrepareBlock() {
  if (block_ != nullptr) {
    if (block_.use_count() == 1) block_->used = 0;
    if (kBlockBytes - block_->used >= kLeastRoom) return;
    blocks_.push_back(std::move(block_));
  }
  for (std::shared_ptr<Block>& block : blocks_) {
    if (block.use_count() > 1) continue;
    block_ = std::move(block);
    block = std::move(blocks_.back());
    blocks_.pop_back();
    block_->used = 0;
    return;
  }
  block_ = std::make_shared<Block>();
  block_->bytes = std::make_unique_for_overwrite<char[]>(kBlockBytes);
}

void GrpcConnection::Receive(bool wait) {
  do {
    if (!alive_) return;
    PrepareBlock();
    char* to = block_->bytes.get() + block_->used;
    const size_t room = kBlockBytes - block_->used;
    const Result<size_t> read = socket_->Read(to, room, wait);
    if (!read.ok()) return Break(read.status());
    if (*read == 0) return;
    wait = false;
    block_->used += *read;
    const ssize_t taken = nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(to), *read);
    if (taken < 0) {
      return Break(UnavailableError(std::string("the server does not speak gRPC: ") +
                                    nghttp2_strerror(static_cast<int>(taken))));
    }
    if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
      return Break(UnavailableError("the server closed the connection"));
    }
    if (*read < room && !socket_->buffered()) return;
  } while (true);
}

void GrpcConnection::Break(const Status& why) {
  alive_ = false;
  staged_.clear();
  payload_ = {};
  // End() moves calls to the free list. No new call starts on a broken connection.
  for (const std::unique_ptr<Call>& call : calls_) {
    if (call->exchange != nullptr) End(*call, why);
  }
}

}  // namespace braid::load
