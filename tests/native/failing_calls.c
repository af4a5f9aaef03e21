// System calls that fail, preloaded into a server under test (LD_PRELOAD), and a wall clock that jumps.
//
// On average one of N calls of the server's own code fails, or does only part of its work, as the kernel
// permits. The failures are ENOMEM, EMFILE, ENOSPC, EINTR, EAGAIN, and short reads and writes. A seed and the
// number of earlier calls of the same kind decide which calls fail. So the same calls in the same order fail
// again. Calls of libraries do not fail, except those of libstdc++, because the server uses its streams and
// threads. Processes other than `braid` are not affected.
//
// BRAID_FAILING_CALLS names a file, which the server maps as a struct Control; the first process to open the
// file creates it. The test writes to it. No call fails while `one_in` is 0, the initial value.
//
// Only plausible failures are made. After a made-up EAGAIN or a short transfer, epoll reports the socket
// again, as if the rest had arrived later, because the server uses edge-triggered events (EPOLLET). Only
// stream sockets and files are read and written in parts; messages stay whole.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// clang-format off
#define CALLS(X) \
  X(read) X(pread) X(readv) X(recv) X(recvmsg) X(write) X(pwrite) X(writev) X(send) X(sendmsg) \
  X(accept4) X(socket) X(socketpair) X(eventfd) X(epoll_create1) X(epoll_ctl) X(epoll_wait) \
  X(timerfd_create) X(pipe2) X(memfd_create) X(dup) X(poll) X(open) X(openat) X(opendir) \
  X(fdopendir) X(mmap) X(ftruncate) X(fallocate) X(fsync) X(mkdir) X(mkdtemp) X(rename) X(link) \
  X(symlink) X(fork) X(spawn) X(thread) X(futex) X(pidfd_open)
// clang-format on

enum Call {
#define X(name) kCall_##name,
  CALLS(X)
#undef X
      kCalls
};

#define NAME_BYTES 16

struct Control {
  _Atomic uint32_t one_in;
  uint32_t calls;  // number of kinds
  _Atomic uint64_t seed;
  _Atomic int64_t wall_offset_ns;
  char names[kCalls][NAME_BYTES];
  _Atomic uint64_t seen[kCalls];    // calls while one_in was not 0
  _Atomic uint64_t failed[kCalls];  // failed calls
};

static struct Control* control;
static uintptr_t text_begin[2], text_end[2];  // of the program, and of libstdc++

// The events that an epoll instance reports for a descriptor.
#define DESCRIPTORS 65536
static struct {
  _Atomic int epoll;  // 0: none
  struct epoll_event event;
} watched[DESCRIPTORS];

static void* Next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

// The wrapped functions. They are looked up at the start, because a forked child must not do it, or at the
// first call of a library that starts earlier.
// clang-format off
#define FUNCTIONS(X) \
  X(read) X(pread) X(readv) X(recv) X(recvmsg) X(write) X(pwrite) X(writev) X(send) X(sendmsg) \
  X(accept4) X(socket) X(socketpair) X(eventfd) X(epoll_create1) X(epoll_ctl) X(epoll_wait) \
  X(timerfd_create) X(pipe2) X(memfd_create) X(fcntl) X(poll) X(open) X(openat) X(opendir) \
  X(fdopendir) X(mmap) X(ftruncate) X(posix_fallocate) X(fsync) X(mkdir) X(mkdirat) X(mkdtemp) \
  X(renameat) X(renameat2) X(linkat) X(symlinkat) X(fork) X(posix_spawn) X(pthread_create) \
  X(syscall) X(clock_gettime) X(gettimeofday)
// clang-format on

#define X(name) static __typeof__(name)* real_##name;
FUNCTIONS(X)
#undef X

#define REAL(name)                                                       \
  if (real_##name == NULL) real_##name = (__typeof__(name)*)Next(#name); \
  __typeof__(name)* const real = real_##name

static int FindText(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  int* objects = data;
  const int place = (*objects)++ == 0 ? 0 : strstr(info->dlpi_name, "libstdc++.so") != NULL ? 1 : -1;
  if (place < 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
    text_begin[place] = info->dlpi_addr + header->p_vaddr;
    text_end[place] = text_begin[place] + header->p_memsz;
  }
  return 0;
}

__attribute__((constructor)) static void Prepare(void) {
  const char* path = getenv("BRAID_FAILING_CALLS");
  if (path == NULL || strcmp(program_invocation_short_name, "braid") != 0) return;
  static const char* const kNames[] = {
#define X(name) #name,
      CALLS(X)
#undef X
  };
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || syscall(SYS_ftruncate, fd, (long)sizeof(struct Control)) != 0) abort();
  struct Control* mapped = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  close(fd);
  for (int i = 0; i < kCalls; ++i) strncpy(mapped->names[i], kNames[i], NAME_BYTES - 1);
  mapped->calls = kCalls;
  int objects = 0;
  dl_iterate_phdr(&FindText, &objects);
#define X(name) real_##name = (__typeof__(name)*)Next(#name);
  FUNCTIONS(X)
#undef X
  control = mapped;
}

static uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Whether this call must fail. If so, `*draw` is a random number.
static int Drawn(enum Call call, const void* caller, uint64_t* draw) {
  if (control == NULL) return 0;
  const uint32_t one_in = atomic_load_explicit(&control->one_in, memory_order_relaxed);
  if (one_in == 0) return 0;
  const uintptr_t from = (uintptr_t)caller;
  const int ours =
      (from >= text_begin[0] && from < text_end[0]) || (from >= text_begin[1] && from < text_end[1]);
  if (!ours) return 0;
  const uint64_t number = atomic_fetch_add_explicit(&control->seen[call], 1, memory_order_relaxed);
  *draw = Mix(Mix(control->seed * kCalls + call) + number);
  if (*draw % one_in != 0) return 0;
  *draw = Mix(*draw);
  return 1;
}

static void Count(enum Call call) {
  atomic_fetch_add_explicit(&control->failed[call], 1, memory_order_relaxed);
}

static int Set(enum Call call, int error) {
  Count(call);
  errno = error;
  return -1;
}

// Sets errno to one of `errors`, a list that ends with 0, and returns true; false if the call must not fail.
static int Fails(enum Call call, const void* caller, const int* errors) {
  uint64_t draw = 0;
  if (!Drawn(call, caller, &draw)) return 0;
  int count = 0;
  while (errors[count] != 0) ++count;
  Set(call, errors[draw % (uint64_t)count]);
  return 1;
}

#define CALLER __builtin_return_address(0)
#define ERRORS(...) ((const int[]){__VA_ARGS__, 0})
#define NO_DESCRIPTOR EMFILE, ENFILE, ENOMEM

// ---- Reading and writing ---------------------------------------------------------------------------

enum Way { kNotAtAll, kWhole, kPart };

static void TellAgain(int fd) {
  if (fd < 0 || fd >= DESCRIPTORS) return;
  const int epoll = atomic_load(&watched[fd].epoll);
  if (epoll == 0) return;
  struct epoll_event event = watched[fd].event;
  const int before = errno;
  syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_MOD, fd, &event);
  errno = before;
}

// Decides the outcome of a transfer of `size` bytes. For kNotAtAll, errno is set; for kPart, `*size` is
// smaller.
static enum Way Transfer(enum Call call, const void* caller, int fd, int flags, int writes, size_t* size) {
  uint64_t draw = 0;
  if (!Drawn(call, caller, &draw)) return kWhole;
  const int before = errno;
  struct stat status;
  int type = 0;
  socklen_t length = sizeof(type);
  const int is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const int is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
  const int is_stream = is_socket && type == SOCK_STREAM;
  const int may_wait = (flags & MSG_DONTWAIT) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  // A call that does not block is not interrupted, nor is a write to an eventfd.
  const int waits = may_wait && (!writes || is_file || is_socket || S_ISFIFO(status.st_mode));
  errno = before;
  enum { kPartly, kInterrupted, kAgain, kNoMemory, kNoSpace };
  int ways[5];
  int count = 0;
  if ((is_stream || is_file) && *size > 1 && (flags & (MSG_PEEK | MSG_WAITALL)) == 0) {
    ways[count++] = kPartly;
    ways[count++] = kPartly;
  }
  if (waits) ways[count++] = kInterrupted;
  if (is_socket && !may_wait) ways[count++] = kAgain;
  if (is_socket) ways[count++] = kNoMemory;
  if (is_file && writes) ways[count++] = kNoSpace;
  if (count == 0) return kWhole;
  switch (ways[draw % (uint64_t)count]) {
    case kPartly:
      Count(call);
      *size = 1 + Mix(draw) % (*size - 1);
      return kPart;
    case kInterrupted:
      Set(call, EINTR);
      return kNotAtAll;
    case kAgain:
      Set(call, EAGAIN);
      TellAgain(fd);
      return kNotAtAll;
    case kNoMemory:
      Set(call, writes ? ENOBUFS : ENOMEM);
      return kNotAtAll;
    default:
      Set(call, ENOSPC);
      return kNotAtAll;
  }
}

#define TRANSFER(call, fd, flags, writes, size, expression)                          \
  do {                                                                               \
    const enum Way way = Transfer(kCall_##call, CALLER, fd, flags, writes, &(size)); \
    if (way == kNotAtAll) return -1;                                                 \
    const ssize_t done = (expression);                                               \
    if (way == kPart) TellAgain(fd);                                                 \
    return done;                                                                     \
  } while (0)

ssize_t read(int fd, void* buffer, size_t size) {
  REAL(read);
  TRANSFER(read, fd, 0, 0, size, real(fd, buffer, size));
}

ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  REAL(read);
  if (size > room) abort();
  TRANSFER(read, fd, 0, 0, size, real(fd, buffer, size));
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  REAL(pread);
  TRANSFER(pread, fd, 0, 0, size, real(fd, buffer, size, offset));
}

ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t offset, size_t room) {
  REAL(pread);
  if (size > room) abort();
  TRANSFER(pread, fd, 0, 0, size, real(fd, buffer, size, offset));
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  REAL(recv);
  TRANSFER(recv, fd, flags, 0, size, real(fd, buffer, size, flags));
}

ssize_t __recv_chk(int fd, void* buffer, size_t size, size_t room, int flags) {
  REAL(recv);
  if (size > room) abort();
  TRANSFER(recv, fd, flags, 0, size, real(fd, buffer, size, flags));
}

ssize_t write(int fd, const void* buffer, size_t size) {
  REAL(write);
  TRANSFER(write, fd, 0, 1, size, real(fd, buffer, size));
}

ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  REAL(pwrite);
  TRANSFER(pwrite, fd, 0, 1, size, real(fd, buffer, size, offset));
}

ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  REAL(send);
  TRANSFER(send, fd, flags, 1, size, real(fd, buffer, size, flags));
}

#define PARTS 1024

// Copies the first `size` bytes' parts to `first`; returns their number.
static int FirstParts(const struct iovec* parts, size_t count, size_t size, struct iovec* first) {
  size_t used = 0;
  for (; used < count && used < PARTS && size > 0; ++used) {
    first[used] = parts[used];
    if (first[used].iov_len > size) first[used].iov_len = size;
    size -= first[used].iov_len;
  }
  return (int)used;
}

static size_t SizeOf(const struct iovec* parts, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

ssize_t readv(int fd, const struct iovec* parts, int count) {
  REAL(readv);
  size_t size = SizeOf(parts, (size_t)count);
  struct iovec first[PARTS];
  TRANSFER(
      readv, fd, 0, 0, size,
      way == kPart ? real(fd, first, FirstParts(parts, (size_t)count, size, first)) : real(fd, parts, count));
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(writev);
  size_t size = SizeOf(parts, (size_t)count);
  struct iovec first[PARTS];
  TRANSFER(
      writev, fd, 0, 1, size,
      way == kPart ? real(fd, first, FirstParts(parts, (size_t)count, size, first)) : real(fd, parts, count));
}

// Returns a message with only the first `size` bytes; `first` has room for its parts.
static struct msghdr Shortened(const struct msghdr* message, size_t size, struct iovec* first) {
  struct msghdr shortened = *message;
  shortened.msg_iovlen = (size_t)FirstParts(message->msg_iov, message->msg_iovlen, size, first);
  shortened.msg_iov = first;
  return shortened;
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  REAL(sendmsg);
  size_t size = SizeOf(message->msg_iov, message->msg_iovlen);
  struct iovec first[PARTS];
  struct msghdr shortened;
  TRANSFER(sendmsg, fd, flags, 1, size,
           way == kPart ? (shortened = Shortened(message, size, first), real(fd, &shortened, flags))
                        : real(fd, message, flags));
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  REAL(recvmsg);
  size_t size = 0;  // messages stay whole
  TRANSFER(recvmsg, fd, flags, 0, size, real(fd, message, flags));
}

// ---- Descriptors -----------------------------------------------------------------------------------

int accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
  REAL(accept4);
  if (Fails(kCall_accept4, CALLER, ERRORS(NO_DESCRIPTOR, ENOBUFS, ECONNABORTED, EINTR))) {
    TellAgain(fd);
    return -1;
  }
  return real(fd, address, length, flags);
}

int socket(int domain, int type, int protocol) {
  REAL(socket);
  return Fails(kCall_socket, CALLER, ERRORS(NO_DESCRIPTOR, ENOBUFS)) ? -1 : real(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
  REAL(socketpair);
  return Fails(kCall_socketpair, CALLER, ERRORS(NO_DESCRIPTOR)) ? -1 : real(domain, type, protocol, ends);
}

int eventfd(unsigned int value, int flags) {
  REAL(eventfd);
  return Fails(kCall_eventfd, CALLER, ERRORS(NO_DESCRIPTOR)) ? -1 : real(value, flags);
}

int epoll_create1(int flags) {
  REAL(epoll_create1);
  return Fails(kCall_epoll_create1, CALLER, ERRORS(NO_DESCRIPTOR)) ? -1 : real(flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event* event) {
  REAL(epoll_ctl);
  if (operation == EPOLL_CTL_ADD && Fails(kCall_epoll_ctl, CALLER, ERRORS(ENOMEM, ENOSPC))) return -1;
  if (control != NULL && fd >= 0 && fd < DESCRIPTORS) {
    atomic_store(&watched[fd].epoll, 0);
    if (operation != EPOLL_CTL_DEL) {
      watched[fd].event = *event;
      atomic_store(&watched[fd].epoll, epoll);
    }
  }
  return real(epoll, operation, fd, event);
}

int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout) {
  REAL(epoll_wait);
  return timeout != 0 && Fails(kCall_epoll_wait, CALLER, ERRORS(EINTR)) ? -1
                                                                        : real(epoll, events, most, timeout);
}

int timerfd_create(int clock, int flags) {
  REAL(timerfd_create);
  return Fails(kCall_timerfd_create, CALLER, ERRORS(NO_DESCRIPTOR)) ? -1 : real(clock, flags);
}

int pipe2(int ends[2], int flags) {
  REAL(pipe2);
  return Fails(kCall_pipe2, CALLER, ERRORS(EMFILE, ENFILE)) ? -1 : real(ends, flags);
}

int memfd_create(const char* name, unsigned int flags) {
  REAL(memfd_create);
  return Fails(kCall_memfd_create, CALLER, ERRORS(NO_DESCRIPTOR)) ? -1 : real(name, flags);
}

int fcntl(int fd, int command, ...) {
  REAL(fcntl);
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const int copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return copies && Fails(kCall_dup, CALLER, ERRORS(EMFILE)) ? -1 : real(fd, command, argument);
}

int poll(struct pollfd* descriptors, nfds_t count, int timeout) {
  REAL(poll);
  return timeout != 0 && Fails(kCall_poll, CALLER, ERRORS(EINTR)) ? -1 : real(descriptors, count, timeout);
}

int __poll_chk(struct pollfd* descriptors, nfds_t count, int timeout, size_t room) {
  REAL(poll);
  if (count > room / sizeof(*descriptors)) abort();
  return timeout != 0 && Fails(kCall_poll, CALLER, ERRORS(EINTR)) ? -1 : real(descriptors, count, timeout);
}

// ---- Files and memory ------------------------------------------------------------------------------

static const int* OpenErrors(int flags) {
  static const int kOpened[] = {NO_DESCRIPTOR, EINTR, 0};
  static const int kMade[] = {NO_DESCRIPTOR, EINTR, ENOSPC, 0};
  return (flags & O_CREAT) != 0 ? kMade : kOpened;
}

#define MODE(flags)                                                     \
  mode_t mode = 0;                                                      \
  if (((flags)&O_CREAT) != 0 || ((flags)&__O_TMPFILE) == __O_TMPFILE) { \
    va_list arguments;                                                  \
    va_start(arguments, flags);                                         \
    mode = va_arg(arguments, mode_t);                                   \
    va_end(arguments);                                                  \
  }

int open(const char* path, int flags, ...) {
  REAL(open);
  MODE(flags)
  return Fails(kCall_open, CALLER, OpenErrors(flags)) ? -1 : real(path, flags, mode);
}

int __open_2(const char* path, int flags) {
  REAL(open);
  return Fails(kCall_open, CALLER, OpenErrors(flags)) ? -1 : real(path, flags);
}

int openat(int folder, const char* path, int flags, ...) {
  REAL(openat);
  MODE(flags)
  return Fails(kCall_openat, CALLER, OpenErrors(flags)) ? -1 : real(folder, path, flags, mode);
}

int __openat_2(int folder, const char* path, int flags) {
  REAL(openat);
  return Fails(kCall_openat, CALLER, OpenErrors(flags)) ? -1 : real(folder, path, flags);
}

DIR* opendir(const char* path) {
  REAL(opendir);
  return Fails(kCall_opendir, CALLER, ERRORS(NO_DESCRIPTOR)) ? NULL : real(path);
}

DIR* fdopendir(int fd) {
  REAL(fdopendir);
  return Fails(kCall_fdopendir, CALLER, ERRORS(ENOMEM)) ? NULL : real(fd);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  REAL(mmap);
  if (Fails(kCall_mmap, CALLER, ERRORS(ENOMEM))) return MAP_FAILED;
  return real(address, size, protection, flags, fd, offset);
}

int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  return Fails(kCall_ftruncate, CALLER, ERRORS(ENOSPC, EINTR)) ? -1 : real(fd, size);
}

// Returns the error itself.
int posix_fallocate(int fd, off_t offset, off_t size) {
  REAL(posix_fallocate);
  return Fails(kCall_fallocate, CALLER, ERRORS(ENOSPC, EINTR)) ? errno : real(fd, offset, size);
}

int fsync(int fd) {
  REAL(fsync);
  return Fails(kCall_fsync, CALLER, ERRORS(ENOSPC, EINTR)) ? -1 : real(fd);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return Fails(kCall_mkdir, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1 : real(path, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  REAL(mkdirat);
  return Fails(kCall_mkdir, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1 : real(folder, path, mode);
}

char* mkdtemp(char* path) {
  REAL(mkdtemp);
  return Fails(kCall_mkdtemp, CALLER, ERRORS(ENOSPC, ENOMEM)) ? NULL : real(path);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  REAL(renameat);
  return Fails(kCall_rename, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1 : real(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) {
  REAL(renameat2);
  return Fails(kCall_rename, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1
                                                             : real(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  REAL(linkat);
  return Fails(kCall_link, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1
                                                           : real(from_folder, from, to_folder, to, flags);
}

int symlinkat(const char* target, int folder, const char* path) {
  REAL(symlinkat);
  return Fails(kCall_symlink, CALLER, ERRORS(ENOSPC, ENOMEM)) ? -1 : real(target, folder, path);
}

// ---- Processes, threads, waiting -------------------------------------------------------------------

pid_t fork(void) {
  REAL(fork);
  return Fails(kCall_fork, CALLER, ERRORS(EAGAIN, ENOMEM)) ? -1 : real();
}

// Returns the error itself, like pthread_create.
int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) {
  REAL(posix_spawn);
  if (Fails(kCall_spawn, CALLER, ERRORS(EAGAIN, ENOMEM))) return errno;
  return real(pid, path, actions, attributes, arguments, environment);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  REAL(pthread_create);
  return Fails(kCall_thread, CALLER, ERRORS(EAGAIN)) ? EAGAIN : real(thread, attributes, run, argument);
}

long syscall(long number, ...) {
  REAL(syscall);
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  const int waits = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
  if (waits && Fails(kCall_futex, CALLER, ERRORS(EINTR, EAGAIN))) return -1;
  if (number == SYS_pidfd_open && Fails(kCall_pidfd_open, CALLER, ERRORS(NO_DESCRIPTOR))) return -1;
  if (number == SYS_openat2 && Fails(kCall_openat, CALLER, ERRORS(NO_DESCRIPTOR, EINTR))) return -1;
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// ---- The wall clock --------------------------------------------------------------------------------

static int64_t WallOffsetNs(void) {
  return control == NULL ? 0 : atomic_load_explicit(&control->wall_offset_ns, memory_order_relaxed);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  REAL(clock_gettime);
  const int result = real(clock, now);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + WallOffsetNs();
  now->tv_sec = ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  REAL(gettimeofday);
  const int result = real(now, zone);
  if (result != 0) return result;
  const int64_t us = now->tv_sec * INT64_C(1000000) + now->tv_usec + WallOffsetNs() / 1000;
  now->tv_sec = us / 1000000;
  now->tv_usec = us % 1000000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != NULL) *now = exact.tv_sec;
  return exact.tv_sec;
}
