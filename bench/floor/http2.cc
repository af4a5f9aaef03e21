#include "http2.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace braid::floor {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr uint32_t kWindow = uint32_t{1} << 30;
constexpr uint32_t kFrame = uint32_t{1} << 20;
constexpr size_t kFrameHeadBytes = 9;

nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

}  // namespace

Http2Connection::Http2Connection(int socket, Calls* calls, std::vector<Connection*>* unsent)
    : Connection(socket, calls, unsent) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                    const uint8_t* value, size_t value_size, uint8_t, void* self) {
        Http2Connection* connection = static_cast<Http2Connection*>(self);
        const int32_t id = frame->hd.stream_id;
        if (std::string_view(reinterpret_cast<const char*>(name), name_size) == ":path") {
          const auto [added, ignored] = connection->streams_.try_emplace(id, connection, id);
          added->second.SetPath({reinterpret_cast<const char*>(value), value_size});
        }
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      callbacks, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* self) {
        auto& streams = static_cast<Http2Connection*>(self)->streams_;
        const auto found = streams.find(id);
        if (found == streams.end()) return int{NGHTTP2_ERR_CALLBACK_FAILURE};
        const bool valid = found->second.Feed({reinterpret_cast<const char*>(data), size});
        return valid ? 0 : int{NGHTTP2_ERR_CALLBACK_FAILURE};
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
        auto& streams = static_cast<Http2Connection*>(self)->streams_;
        const auto found = streams.find(frame->hd.stream_id);
        const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                          (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS);
        if (found != streams.end() && ends) found->second.EndRequest();
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      callbacks, [](nghttp2_session*, int32_t id, uint32_t, void* self) {
        static_cast<Http2Connection*>(self)->streams_.erase(id);
        return 0;
      });
  nghttp2_session_callbacks_set_data_source_read_length_callback(
      callbacks, [](nghttp2_session*, uint8_t, int32_t, int32_t connection_window, int32_t stream_window,
                    uint32_t frame, void*) {
        return static_cast<ssize_t>(std::min<int64_t>({connection_window, stream_window, frame}));
      });
  nghttp2_session_callbacks_set_send_data_callback(
      callbacks, [](nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t size,
                    nghttp2_data_source* source, void* self) {
        static_cast<Http2Connection*>(self)->AddText({reinterpret_cast<const char*>(head), kFrameHeadBytes});
        static_cast<Stream*>(source->ptr)->AddBody(size);
        return 0;
      });
  nghttp2_session_server_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
                                             {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrame},
                                             {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kSlots}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
  WantWrite();
}

Http2Connection::~Http2Connection() {
  streams_.clear();
  nghttp2_session_del(session_);
}

bool Http2Connection::Read() {
  static thread_local std::unique_ptr<uint8_t[]> buffer(new uint8_t[kReadBytes]);
  const ssize_t got = recv(socket(), buffer.get(), kReadBytes, 0);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  if (nghttp2_session_mem_recv(session_, buffer.get(), static_cast<size_t>(got)) != got) return false;
  if (nghttp2_session_want_write(session_) != 0) WantWrite();
  return true;
}

bool Http2Connection::Fill() {
  for (;;) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return false;
    if (size == 0) return true;
    AddText({reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)});
  }
}

Http2Connection::Stream::~Stream() {
  if (in_worker_) {
    connection_->calls().Forget(slot_);
  } else if (slot_ != kNoSlot) {
    connection_->calls().GiveBack(slot_);
  }
}

bool Http2Connection::Stream::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    // A second request in flight on a stream is refused.
    if (in_worker_) return false;
    switch (reader_.Read(&bytes, &connection_->calls(), &slot_)) {
      case MessageReader::Progress::kInvalid:
        return false;
      case MessageReader::Progress::kNeedsMore:
        return true;
      case MessageReader::Progress::kWhole:
        if (slot_ == kNoSlot) return false;
        in_worker_ = true;
        connection_->calls().Submit(slot_, this);
    }
  }
  return true;
}

void Http2Connection::Stream::EndRequest() {
  request_ended_ = true;
  if (!answered_ || in_worker_ || unary_) return;
  nghttp2_session_resume_data(connection_->session_, id_);
  connection_->WantWrite();
}

void Http2Connection::Stream::AddTextPiece() {
  size_t at = 0;
  for (const Piece& piece : pieces_) at += piece.data == nullptr ? piece.size : 0;
  if (text_.size() > at) pieces_.push_back({nullptr, at, text_.size() - at});
}

void Http2Connection::Stream::OnAnswer(uint32_t slot) {
  in_worker_ = false;
  const Call& call = connection_->calls().call(slot);
  text_.clear();
  pieces_.clear();
  piece_ = 0;
  piece_at_ = 0;
  AppendResponseHead(call, connection_->calls().model(), !unary_, &text_);
  bool refers = false;
  for (uint64_t k = 0; k < call.output_count; ++k) {
    const Tensor& output = call.outputs[k];
    const std::string_view bytes(connection_->calls().memory(slot) + output.at, output.bytes);
    AppendTensorKey(output, &text_);
    if (bytes.size() < kCopiedBelow) {
      text_ += bytes;
    } else {
      AddTextPiece();
      pieces_.push_back({bytes.data(), 0, bytes.size()});
      refers = true;
    }
  }
  AddTextPiece();
  unframed_ = 0;
  for (const Piece& piece : pieces_) unframed_ += piece.size;
  if (!refers) {
    connection_->calls().GiveBack(slot);
    slot_ = kNoSlot;
  }
  if (answered_) {
    nghttp2_session_resume_data(connection_->session_, id_);
  } else {
    const nghttp2_nv headers[] = {Header(":status", "200"), Header("content-type", "application/grpc")};
    nghttp2_data_provider provider{};
    provider.source.ptr = this;
    provider.read_callback = [](nghttp2_session*, int32_t, uint8_t*, size_t size, uint32_t* flags,
                                nghttp2_data_source* source,
                                void*) { return static_cast<Stream*>(source->ptr)->FrameSize(size, flags); };
    nghttp2_submit_response(connection_->session_, id_, headers, std::size(headers), &provider);
    answered_ = true;
  }
  connection_->WantWrite();
}

ssize_t Http2Connection::Stream::FrameSize(size_t size, uint32_t* flags) {
  const bool last = unary_ || (request_ended_ && !in_worker_);
  if (unframed_ == 0 && !last) return NGHTTP2_ERR_DEFERRED;
  size = std::min(size, unframed_);
  unframed_ -= size;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (unframed_ == 0 && last) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const nghttp2_nv trailer = Header("grpc-status", "0");
    nghttp2_submit_trailer(connection_->session_, id_, &trailer, 1);
  }
  return static_cast<ssize_t>(size);
}

void Http2Connection::Stream::AddBody(size_t size) {
  while (size > 0) {
    const Piece& piece = pieces_[piece_];
    const size_t part = std::min(size, piece.size - piece_at_);
    if (piece.data == nullptr) {
      connection_->AddText(std::string_view(text_).substr(piece.at + piece_at_, part));
    } else {
      connection_->AddReference(piece.data + piece_at_, part);
    }
    piece_at_ += part;
    size -= part;
    if (piece_at_ == piece.size) {
      ++piece_;
      piece_at_ = 0;
    }
  }
  if (piece_ == pieces_.size() && slot_ != kNoSlot && !in_worker_) {
    connection_->AddGiveBack(slot_);
    slot_ = kNoSlot;
  }
}

}  // namespace braid::floor
