#include "sequences/sequence_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/content_hash.h"
#include "tensor/buffer.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::string_view kMagic = "BRAIDSEQ";
constexpr size_t kChecksumBytes = sizeof(ContentHash::Bytes);
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kBufferBytes = size_t{64} << 10;
enum IdKind : uint8_t { kNumber = 0, kText = 1 };

// ---- writing ----

// Buffers small pieces. After the first fault, further calls have no effect.
class Writer {
 public:
  Writer(int fd, const std::function<bool()>& give_up) : fd_(fd), give_up_(give_up) {
    buffer_.reserve(kBufferBytes);
  }

  void Bytes(const void* data, size_t size) {
    checksum_.Add(data, size);
    Put(data, size);
  }
  template <class T>
  void Number(T number) {
    Bytes(&number, sizeof(number));
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    Bytes(text.data(), text.size());
  }
  // Writes the end of the file.
  Status Finish() {
    const ContentHash::Bytes checksum = checksum_.bytes();
    Put(checksum.data(), checksum.size());
    Flush();
    return fault_;
  }

 private:
  void Put(const void* data, size_t size) {
    if (buffer_.size() + size > kBufferBytes) Flush();
    if (size >= kBufferBytes) {
      WriteOut(static_cast<const char*>(data), size);
    } else {
      buffer_.append(static_cast<const char*>(data), size);
    }
  }
  void Flush() {
    WriteOut(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  void WriteOut(const char* data, size_t size) {
    while (size > 0 && fault_.ok()) {
      if (give_up_()) {
        fault_ = UnavailableError("it took too long");
        return;
      }
      const ssize_t written = ::write(fd_, data, std::min(size, kPieceBytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        fault_ = ErrnoError("write", errno);
        return;
      }
      data += written;
      size -= static_cast<size_t>(written);
    }
  }

  const int fd_;
  const std::function<bool()>& give_up_;
  std::string buffer_;
  ContentHash checksum_;
  Status fault_;
};

void WriteTensor(Writer& writer, const Tensor& tensor) {
  writer.Text(tensor.name);
  writer.Number(static_cast<uint8_t>(tensor.type));
  writer.Number(static_cast<uint32_t>(tensor.shape.size()));
  for (const int64_t dimension : tensor.shape) writer.Number(dimension);
  writer.Number(uint64_t{tensor.data.size()});
  writer.Bytes(tensor.data.data(), tensor.data.size());
}

void WriteSequence(Writer& writer, const SavedSequence& sequence) {
  if (const auto* text = std::get_if<std::string>(&sequence.id)) {
    writer.Number(kText);
    writer.Text(*text);
  } else {
    writer.Number(kNumber);
    writer.Number(std::get<uint64_t>(sequence.id));
  }
  writer.Number(static_cast<uint32_t>(sequence.states.size()));
  for (const Tensor& state : sequence.states) WriteTensor(writer, state);
}

Status WriteContent(int fd, const SequenceFile& content, const std::function<bool()>& give_up) {
  Writer writer(fd, give_up);
  writer.Bytes(kMagic.data(), kMagic.size());
  writer.Number(kSequenceFileFormat);
  writer.Text(content.identity);
  writer.Number(content.written_ms);
  writer.Number(uint64_t{content.sequences.size()});
  for (const SavedSequence& sequence : content.sequences) WriteSequence(writer, sequence);
  return writer.Finish();
}

// ---- reading ----

Status Damaged(const std::string& what) { return InvalidArgumentError("it is damaged: " + what); }

class Reader {
 public:
  // `size` is that of the whole file.
  Reader(int fd, uint64_t size)
      : fd_(fd), left_(size < kChecksumBytes ? 0 : size - kChecksumBytes), buffer_(kBufferBytes) {}

  // The remaining bytes of the file, without its checksum.
  uint64_t left() const { return left_; }

  // `what` names the field for the text of an error.
  Status Bytes(void* to, uint64_t size, std::string_view what) {
    BRAID_RETURN_IF_ERROR(CheckLeft(size, what));
    BRAID_RETURN_IF_ERROR(Get(to, size, what));
    checksum_.Add(to, size);
    left_ -= size;
    return OkStatus();
  }
  template <class T>
  Status Number(T& number, std::string_view what) {
    return Bytes(&number, sizeof(number), what);
  }
  Status Text(std::string& text, std::string_view what) {
    uint32_t size = 0;
    BRAID_RETURN_IF_ERROR(Number(size, what));
    BRAID_RETURN_IF_ERROR(CheckLeft(size, what));
    text.resize(size);
    return Bytes(text.data(), size, what);
  }
  Status CheckLeft(uint64_t size, std::string_view what) const {
    return size <= left_ ? OkStatus() : Damaged("it ends within " + std::string(what));
  }
  // REQUIRES: left() == 0
  Status CheckSum() {
    ContentHash::Bytes found;
    BRAID_RETURN_IF_ERROR(Get(found.data(), found.size(), "its checksum"));
    return found == checksum_.bytes() ? OkStatus() : Damaged("its checksum is another one");
  }

 private:
  Status Get(void* to, uint64_t size, std::string_view what) {
    auto* at = static_cast<char*>(to);
    while (size > 0) {
      if (begin_ == end_ && size < buffer_.size()) {
        begin_ = 0;
        BRAID_ASSIGN_OR_RETURN(end_, ReadSome(buffer_.data(), buffer_.size(), what));
      }
      size_t got = 0;
      if (begin_ < end_) {
        got = std::min<size_t>(size, end_ - begin_);
        std::memcpy(at, buffer_.data() + begin_, got);
        begin_ += got;
      } else {
        BRAID_ASSIGN_OR_RETURN(got, ReadSome(at, size, what));
      }
      at += got;
      size -= got;
    }
    return OkStatus();
  }
  // Reads at least one byte.
  Result<size_t> ReadSome(char* to, size_t size, std::string_view what) const {
    for (;;) {
      const ssize_t got = ::read(fd_, to, std::min(size, kPieceBytes));
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0) return Damaged("it ends within " + std::string(what));
      if (errno != EINTR) return ErrnoError("read", errno);
    }
  }

  const int fd_;
  uint64_t left_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of the unread bytes in the buffer
  size_t end_ = 0;
  ContentHash checksum_;
};

// Checks that the bytes match type and shape, since they go to models unchanged.
Status CheckTensor(const Tensor& tensor) {
  const std::optional<int64_t> elements = ElementCount(tensor.shape);
  if (!elements) return Damaged("a state has an impossible shape");
  if (tensor.type != DataType::kBytes) {
    return ByteSize(tensor.type, tensor.shape) == tensor.data.size()
               ? OkStatus()
               : Damaged("a state has not the bytes of its shape");
  }
  int64_t found = 0;
  BytesElements walk(tensor.data.text());
  while (walk.Next()) ++found;
  return !walk.truncated() && found == *elements ? OkStatus()
                                                 : Damaged("a state has not the strings of its shape");
}

Status ReadTensor(Reader& reader, Tensor& tensor) {
  BRAID_RETURN_IF_ERROR(reader.Text(tensor.name, "the name of a state"));
  uint8_t type = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(type, "the type of a state"));
  if (type == 0 || type >= kDataTypeCount) {
    return Damaged("a state has the unknown type " + std::to_string(type));
  }
  tensor.type = static_cast<DataType>(type);
  uint32_t rank = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(rank, "the shape of a state"));
  BRAID_RETURN_IF_ERROR(reader.CheckLeft(uint64_t{rank} * sizeof(int64_t), "the shape of a state"));
  tensor.shape.resize(rank);
  for (int64_t& dimension : tensor.shape) {
    BRAID_RETURN_IF_ERROR(reader.Number(dimension, "the shape of a state"));
  }
  uint64_t size = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(size, "the bytes of a state"));
  BRAID_RETURN_IF_ERROR(reader.CheckLeft(size, "the bytes of a state"));
  HeapAllocator heap;
  BRAID_ASSIGN_OR_RETURN(tensor.data, heap.Allocate(size));
  BRAID_RETURN_IF_ERROR(reader.Bytes(tensor.data.mutable_data(), size, "the bytes of a state"));
  return CheckTensor(tensor);
}

Status ReadId(Reader& reader, CorrelationId& id) {
  uint8_t kind = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(kind, "the id of a sequence"));
  if (kind == kText) {
    std::string text;
    BRAID_RETURN_IF_ERROR(reader.Text(text, "the id of a sequence"));
    if (text.empty()) return Damaged("a sequence has no id");
    id = std::move(text);
    return OkStatus();
  }
  if (kind != kNumber) return Damaged("a sequence has an id of the unknown kind " + std::to_string(kind));
  uint64_t number = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(number, "the id of a sequence"));
  if (number == 0) return Damaged("a sequence has no id");
  id = number;
  return OkStatus();
}

Status ReadSequence(Reader& reader, SavedSequence& sequence) {
  BRAID_RETURN_IF_ERROR(ReadId(reader, sequence.id));
  uint32_t states = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(states, "a sequence"));
  // A large count allocates nothing by itself: each state takes bytes of the file, or is an error.
  for (uint32_t i = 0; i < states; ++i) {
    Tensor tensor;
    BRAID_RETURN_IF_ERROR(ReadTensor(reader, tensor));
    sequence.states.push_back(std::move(tensor));
  }
  return OkStatus();
}

// Reads the format first, so that a file of a later server is reported as such.
Status ReadHead(Reader& reader) {
  std::string magic(kMagic.size(), '\0');
  BRAID_RETURN_IF_ERROR(reader.Bytes(magic.data(), magic.size(), "its head"));
  if (magic != kMagic) return Damaged("it is not a file of sequences");
  uint32_t format = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(format, "its head"));
  if (format == kSequenceFileFormat) return OkStatus();
  return UnsupportedError("it has format " + std::to_string(format) + ", this server reads format " +
                          std::to_string(kSequenceFileFormat));
}

Result<SequenceFile> ReadContent(int fd, uint64_t size) {
  Reader reader(fd, size);
  BRAID_RETURN_IF_ERROR(ReadHead(reader));
  SequenceFile content;
  BRAID_RETURN_IF_ERROR(reader.Text(content.identity, "the model's identity"));
  BRAID_RETURN_IF_ERROR(reader.Number(content.written_ms, "its head"));
  uint64_t sequences = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(sequences, "its head"));
  for (uint64_t i = 0; i < sequences; ++i) {
    SavedSequence sequence;
    BRAID_RETURN_IF_ERROR(ReadSequence(reader, sequence));
    content.sequences.push_back(std::move(sequence));
  }
  if (reader.left() > 0) return Damaged("it goes on behind its last sequence");
  BRAID_RETURN_IF_ERROR(reader.CheckSum());
  return content;
}

}  // namespace

Status WriteSequenceFile(const UniqueFd& folder, const std::string& name, const SequenceFile& content,
                         const std::function<bool()>& give_up) {
  const std::string temporary = "." + name + ".tmp";
  // Left behind by a server that was killed.
  ::unlinkat(folder.get(), temporary.c_str(), 0);
  UniqueFd file(
      ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoError("create", errno);
  Status written = WriteContent(file.get(), content, give_up);
  if (written.ok() && ::fsync(file.get()) != 0) written = ErrnoError("fsync", errno);
  if (written.ok() && ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0) {
    written = ErrnoError("rename", errno);
  }
  if (!written.ok()) {
    ::unlinkat(folder.get(), temporary.c_str(), 0);
    return written;
  }
  return ::fsync(folder.get()) == 0 ? OkStatus() : ErrnoError("fsync of the folder", errno);
}

Result<SequenceFile> ReadSequenceFile(const UniqueFd& folder, const std::string& name) {
  // Without O_NONBLOCK a pipe would block the caller.
  const UniqueFd file(::openat(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? NotFoundError("there is no such file") : ErrnoError("open", errno);
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return ErrnoError("fstat", errno);
  if (!S_ISREG(info.st_mode)) return Damaged("it is not a regular file");
  return ReadContent(file.get(), static_cast<uint64_t>(info.st_size));
}

}  // namespace braid
