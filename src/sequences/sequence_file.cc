#include "sequences/sequence_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <variant>

#include "base/content_hash.h"
#include "sequences/sequence_record.h"

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
class Writer final : public RecordWriter {
 public:
  Writer(int fd, const std::function<bool()>& give_up) : fd_(fd), give_up_(give_up) {
    buffer_.reserve(kBufferBytes);
  }

  void Bytes(const void* data, size_t size) override {
    checksum_.Add(data, size);
    Put(data, size);
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

void WriteSequence(Writer& writer, const SavedSequence& sequence) {
  if (const auto* text = std::get_if<std::string>(&sequence.id)) {
    writer.Number(kText);
    writer.Text(*text);
  } else {
    writer.Number(kNumber);
    writer.Number(std::get<uint64_t>(sequence.id));
  }
  WriteStates(writer, sequence.states);
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

class Reader final : public RecordReader {
 public:
  // `size` is that of the whole file. left() excludes its checksum.
  Reader(int fd, uint64_t size)
      : RecordReader(size < kChecksumBytes ? 0 : size - kChecksumBytes), fd_(fd), buffer_(kBufferBytes) {}

  // REQUIRES: left() == 0
  Status CheckSum() {
    ContentHash::Bytes found;
    BRAID_RETURN_IF_ERROR(Fetch(found.data(), found.size(), "its checksum"));
    return found == checksum_.bytes() ? OkStatus() : DamagedRecord("its checksum does not match");
  }

 private:
  Status Get(void* to, uint64_t size, std::string_view what) override {
    BRAID_RETURN_IF_ERROR(Fetch(to, size, what));
    checksum_.Add(to, size);
    return OkStatus();
  }
  Status Fetch(void* to, uint64_t size, std::string_view what) {
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
      if (got == 0) return DamagedRecord("it ends within " + std::string(what));
      if (errno != EINTR) return ErrnoError("read", errno);
    }
  }

  const int fd_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of the unread bytes in the buffer
  size_t end_ = 0;
  ContentHash checksum_;
};

Status ReadId(Reader& reader, CorrelationId& id) {
  uint8_t kind = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(kind, "the id of a sequence"));
  if (kind == kText) {
    std::string text;
    BRAID_RETURN_IF_ERROR(reader.Text(text, "the id of a sequence"));
    if (text.empty()) return DamagedRecord("a sequence has no id");
    id = std::move(text);
    return OkStatus();
  }
  if (kind != kNumber) return DamagedRecord("a sequence has an id of unknown kind " + std::to_string(kind));
  uint64_t number = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(number, "the id of a sequence"));
  if (number == 0) return DamagedRecord("a sequence has no id");
  id = number;
  return OkStatus();
}

Status ReadSequence(Reader& reader, SavedSequence& sequence) {
  BRAID_RETURN_IF_ERROR(ReadId(reader, sequence.id));
  return ReadStates(reader, sequence.states);
}

// Reads the format first, so that a file of a later server is reported as such.
Status ReadHead(Reader& reader) {
  std::string magic(kMagic.size(), '\0');
  BRAID_RETURN_IF_ERROR(reader.Bytes(magic.data(), magic.size(), "its head"));
  if (magic != kMagic) return DamagedRecord("it is not a sequence file");
  uint32_t format = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(format, "its head"));
  if (format == kSequenceFileFormat) return OkStatus();
  return UnsupportedError("it has format " + std::to_string(format) + ", but this server reads format " +
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
  if (reader.left() > 0) return DamagedRecord("it has data after its last sequence");
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
  if (!S_ISREG(info.st_mode)) return DamagedRecord("it is not a regular file");
  return ReadContent(file.get(), static_cast<uint64_t>(info.st_size));
}

}  // namespace braid
