// Counts locks and allocations by caller in the process into which it is preloaded; see bench/run-walk.
//
// The table is a file named by BRAID_WALK, which the reader of the counts maps as well. It has a long that
// enables counting, and slots of {key, count, kind, frames}. Kind is 1 for pthread_mutex_lock, and 2 for
// malloc and related functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kFrames = 9, kOwnFrames = 2, kSlots = 4096, kLock = 1, kAllocation = 2 };

struct slot {
  atomic_ulong key;  // a hash of kind and frames; 0: free
  atomic_long count;
  long kind;
  void* frames[kFrames];
};

struct table {
  atomic_long on;
  struct slot slots[kSlots];
};

static struct table* table;
static __thread int counting;  // set during a count, because backtrace() allocates and locks
static int (*real_lock)(pthread_mutex_t*);

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);

__attribute__((constructor)) static void begin(void) {
  real_lock = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  // The first call loads libgcc.
  void* frames[1];
  backtrace(frames, 1);
  const char* path = getenv("BRAID_WALK");
  char program[4096] = {0};
  // Only the given program counts, because workers inherit the environment.
  if (path == NULL || readlink("/proc/self/exe", program, sizeof(program) - 1) < 0) return;
  const char* name = strrchr(program, '/');
  if (name == NULL || strcmp(name, "/braid") != 0) return;
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct table)) != 0) return;
  void* mapped = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) table = mapped;
}

static void count(long kind) {
  if (table == NULL || counting || !atomic_load(&table->on)) return;
  counting = 1;
  void* frames[kFrames + kOwnFrames];
  const int depth = backtrace(frames, kFrames + kOwnFrames);
  unsigned long key = 14695981039346656037UL + (unsigned long)kind;  // FNV-1a
  for (int i = kOwnFrames; i < depth; ++i) key = (key ^ (unsigned long)frames[i]) * 1099511628211UL;
  for (unsigned probe = 0; probe < kSlots; ++probe) {
    struct slot* slot = &table->slots[(key + probe) % kSlots];
    unsigned long found = 0;
    if (!atomic_compare_exchange_strong(&slot->key, &found, key) && found != key) continue;
    if (atomic_fetch_add(&slot->count, 1) == 0) {
      slot->kind = kind;
      for (int i = kOwnFrames; i < depth; ++i) slot->frames[i - kOwnFrames] = frames[i];
    }
    break;
  }
  counting = 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (real_lock == NULL) real_lock = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  count(kLock);
  return real_lock(mutex);
}

void* malloc(size_t size) {
  count(kAllocation);
  return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
  count(kAllocation);
  return __libc_calloc(number, size);
}

void* realloc(void* old, size_t size) {
  count(kAllocation);
  return __libc_realloc(old, size);
}
