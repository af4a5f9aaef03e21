/* The interface of calculators: what a shared library implements so that graphs can have nodes of its own.
 *
 *   #include "braid_calculator.h"
 *
 *   class Doubler final : public braid::plugin::Calculator {
 *    public:
 *     static void Describe(braid::plugin::Contract& contract) {
 *       contract.Input("", 0, BRAID_TENSOR);
 *       contract.Output("", 0, BRAID_TENSOR);
 *     }
 *     void Process(braid::plugin::Context& context) override { ... }
 *   };
 *   BRAID_CALCULATORS(braid::plugin::MakeCalculator<Doubler>("DoublerCalculator"))
 *
 *   c++ -std=c++17 -shared -fPIC -I include -o libdoubler.so doubler.cc
 *   braid serve --calculator-library ./libdoubler.so ...
 *
 * The first half is the interface itself, plain C: a library may be made by another compiler than the server.
 * The second half is what C++ sources use. docs/writing-a-calculator.md has an example and the rules.
 *
 * Threads. One object is called by one thread at a time, but by different ones; objects of several nodes and
 * of several runs of a graph are called at once.
 *
 * Version. A library tells the version that it was made for; a server refuses one that it does not know. What
 * is added to the interface goes to the end of BraidHost, with a higher version. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BRAID_CALCULATOR_INTERFACE 1u

#ifdef __cplusplus
extern "C" {
#endif

/* What a packet carries, and what a port of a node takes. */
typedef enum BraidKind {
  BRAID_EMPTY = 0,         /* no packet (never of a port) */
  BRAID_TENSOR = 1,        /* what streams without a tag and those tagged OVTENSOR carry */
  BRAID_PYTHON_TENSOR = 2, /* what Python nodes take and give */
  BRAID_BOOL = 3,
  BRAID_INT64 = 4,
  BRAID_STRING = 5,
  BRAID_OBJECT = 6,   /* a library's own, see makeObject */
  BRAID_OTHER = 7,    /* something else of the server's, which can be passed on (never of a port) */
  BRAID_REQUEST = 8,  /* what clients' streams tagged REQUEST carry: all of a message */
  BRAID_RESPONSE = 9, /* RESPONSE: all of an answer */
  BRAID_ANY = 10      /* of ports only: any of these */
} BraidKind;

/* A tensor as it lies in memory: row by row, little-endian. Elements of BYTES are a uint32 length and as many
 * bytes each. */
typedef struct BraidTensor {
  const char* name;
  const char* datatype; /* "FP32", "INT64", "BYTES", ...; of BRAID_PYTHON_TENSOR also a name of users' own */
  const int64_t* shape;
  size_t rank;
  const void* data;
  size_t size; /* bytes */
} BraidTensor;

typedef struct BraidPacket BraidPacket;     /* shared by counting; see keep and release */
typedef struct BraidContract BraidContract; /* of one node, while it is described */
typedef struct BraidContext BraidContext;   /* of one call of a node */

typedef enum BraidDirection { BRAID_INPUT = 0, BRAID_OUTPUT = 1, BRAID_INPUT_SIDE_PACKET = 2 } BraidDirection;

/* What the server does for calculators. Texts that it returns are valid during the call of the calculator, or
 * as long as the packet that they belong to. */
typedef struct BraidHost {
  uint32_t version;

  /* --- Packets */
  void (*keep)(BraidPacket* packet);
  void (*release)(BraidPacket* packet);
  BraidKind (*kind)(const BraidPacket* packet);
  int64_t (*timestamp)(const BraidPacket* packet);
  /* 0 for a packet of another kind. The bytes are those of the packet and do not change. */
  int (*getTensor)(const BraidPacket* packet, BraidTensor* tensor);
  int (*getBool)(const BraidPacket* packet, int* value);
  int (*getInt64)(const BraidPacket* packet, int64_t* value);
  int (*getString)(const BraidPacket* packet, const char** text, size_t* size);
  /* The object, when it was made under that type; else null. */
  void* (*getObject)(const BraidPacket* packet, const char* type);
  /* New packets are the caller's, who releases them; null when what is asked for is not possible. Those
   * functions that take `done` call done(owner) with the last share of the packet, on any thread; also when
   * they fail. A tensor's kind is BRAID_TENSOR, whose bytes are as its datatype and shape say, or
   * BRAID_PYTHON_TENSOR. The bytes are not copied. */
  BraidPacket* (*makeTensor)(BraidKind kind, const BraidTensor* tensor, void (*done)(void*), void* owner);
  BraidPacket* (*makeBool)(int value);
  BraidPacket* (*makeInt64)(int64_t value);
  BraidPacket* (*makeString)(const char* text, size_t size);
  BraidPacket* (*makeObject)(const char* type, void* object, void (*done)(void*));
  /* Of BRAID_REQUEST and BRAID_RESPONSE: how many tensors there are (-1 for another kind), one of them, a
   * parameter of the client's as text ("true" and "false" are booleans; null without one), and the request's
   * id. */
  int (*messageTensorCount)(const BraidPacket* packet);
  int (*getMessageTensor)(const BraidPacket* packet, int index, BraidTensor* tensor);
  const char* (*messageParameter)(const BraidPacket* packet, const char* name);
  const char* (*requestId)(const BraidPacket* packet);
  /* A response of the tensors that those packets carry, by the names that these have. */
  BraidPacket* (*makeResponse)(BraidPacket* const* tensors, size_t count);

  /* --- Describing a node */
  const char* (*nodeName)(const BraidContract* contract);
  /* How many ports of that tag the graph gives the node; "" are those without a tag. */
  int (*portCount)(const BraidContract* contract, BraidDirection direction, const char* tag);
  /* Says what a port carries. `type` is the name of an object's type, else null. A port that the node does
   * not have is a fault of the graph, which the server reports, unless it is `optional`. */
  void (*describePort)(BraidContract* contract, BraidDirection direction, const char* tag, int index,
                       BraidKind kind, const char* type, int optional);
  /* An entry of the node's options (docs/writing-a-calculator.md); null when there is none. */
  const char* (*option)(const BraidContract* contract, const char* key);
  /* Outputs without a packet at an input's time are settled up to it plus `offset`. */
  void (*setTimestampOffset)(BraidContract* contract, int64_t offset);
  /* Calls take some microseconds at most and never wait, so they need no thread of their own. */
  void (*setQuick)(BraidContract* contract);
  /* The graph is refused, with this text. */
  void (*failContract)(BraidContract* contract, const char* text);

  /* --- Calls of a node */
  const BraidContract* (*contract)(const BraidContext* context);
  int64_t (*inputTimestamp)(const BraidContext* context);
  /* The packet is the call's; keep it to have it longer. Null: there is none (at this time). */
  BraidPacket* (*input)(const BraidContext* context, const char* tag, int index);
  BraidPacket* (*inputSidePacket)(const BraidContext* context, const char* tag, int index);
  /* Sends a packet at a time, which rises from packet to packet of a stream. The caller's share stays its
   * own. */
  void (*output)(BraidContext* context, const char* tag, int index, BraidPacket* packet, int64_t timestamp);
  /* No packet before `timestamp` will come. */
  void (*setBound)(BraidContext* context, const char* tag, int index, int64_t timestamp);
  void (*closeOutput)(BraidContext* context, const char* tag, int index);
  /* A node without inputs has nothing more to give. */
  void (*stop)(BraidContext* context);
  /* The node has failed, and with it the run of the graph; the client sees the text. */
  void (*fail)(BraidContext* context, const char* text);
} BraidHost;

/* One calculator. No function may throw. */
typedef struct BraidCalculator {
  const char* name;
  void (*describe)(const BraidHost* host, BraidContract* contract);
  void* (*create)(void);
  void (*destroy)(void* calculator);
  void (*open)(void* calculator, const BraidHost* host, BraidContext* context);
  void (*process)(void* calculator, const BraidHost* host, BraidContext* context);
  void (*close)(void* calculator, const BraidHost* host, BraidContext* context);
} BraidCalculator;

typedef struct BraidCalculatorLibrary {
  uint32_t version; /* BRAID_CALCULATOR_INTERFACE */
  const BraidCalculator* calculators;
  size_t count;
} BraidCalculatorLibrary;

/* The one function that a library has; what it returns is valid as long as the library is loaded. */
#define BRAID_CALCULATOR_ENTRY "braidCalculators"
typedef const BraidCalculatorLibrary* (*BraidCalculatorEntry)(void);

#ifdef __cplusplus
} /* extern "C" */

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace braid::plugin {

/* Holds a share of a packet. */
class Packet {
 public:
  Packet() = default;
  /* Takes over a share. */
  Packet(const BraidHost* host, BraidPacket* packet) : host_(host), packet_(packet) {}
  static Packet Share(const BraidHost* host, BraidPacket* packet) {
    if (packet != nullptr) host->keep(packet);
    return Packet(host, packet);
  }
  Packet(const Packet& other) : Packet(Share(other.host_, other.packet_)) {}
  Packet(Packet&& other) noexcept : host_(other.host_), packet_(std::exchange(other.packet_, nullptr)) {}
  Packet& operator=(Packet other) noexcept {
    std::swap(host_, other.host_);
    std::swap(packet_, other.packet_);
    return *this;
  }
  ~Packet() {
    if (packet_ != nullptr) host_->release(packet_);
  }

  explicit operator bool() const { return packet_ != nullptr; }
  BraidPacket* get() const { return packet_; }
  BraidKind kind() const { return packet_ == nullptr ? BRAID_EMPTY : host_->kind(packet_); }
  /* Only of a packet that is there. */
  int64_t timestamp() const { return host_->timestamp(packet_); }
  /* False for a packet of another kind, and without one. */
  bool Get(BraidTensor& tensor) const {
    return packet_ != nullptr && host_->getTensor(packet_, &tensor) != 0;
  }
  /* Of messages; -1 for another kind. */
  int tensor_count() const { return packet_ == nullptr ? -1 : host_->messageTensorCount(packet_); }
  bool Get(int index, BraidTensor& tensor) const {
    return packet_ != nullptr && host_->getMessageTensor(packet_, index, &tensor) != 0;
  }
  std::string Parameter(const char* name, const std::string& otherwise = "") const {
    const char* text = packet_ == nullptr ? nullptr : host_->messageParameter(packet_, name);
    return text == nullptr ? otherwise : text;
  }
  bool Get(int64_t& value) const { return packet_ != nullptr && host_->getInt64(packet_, &value) != 0; }
  bool Get(bool& value) const {
    int number = 0;
    if (packet_ == nullptr || host_->getBool(packet_, &number) == 0) return false;
    value = number != 0;
    return true;
  }
  bool Get(std::string& value) const {
    const char* text = nullptr;
    size_t size = 0;
    if (packet_ == nullptr || host_->getString(packet_, &text, &size) == 0) return false;
    value.assign(text, size);
    return true;
  }

 private:
  const BraidHost* host_ = nullptr;
  BraidPacket* packet_ = nullptr;
};

/* A node, while the graph is loaded. */
class Contract {
 public:
  Contract(const BraidHost* host, BraidContract* contract) : host_(host), contract_(contract) {}

  std::string node_name() const { return host_->nodeName(contract_); }
  int input_count(const char* tag) const { return host_->portCount(contract_, BRAID_INPUT, tag); }
  int output_count(const char* tag) const { return host_->portCount(contract_, BRAID_OUTPUT, tag); }
  void Input(const char* tag, int index, BraidKind kind, const char* type = nullptr) {
    host_->describePort(contract_, BRAID_INPUT, tag, index, kind, type, 0);
  }
  void Output(const char* tag, int index, BraidKind kind, const char* type = nullptr) {
    host_->describePort(contract_, BRAID_OUTPUT, tag, index, kind, type, 0);
  }
  void InputSidePacket(const char* tag, int index, BraidKind kind, bool optional = false) {
    host_->describePort(contract_, BRAID_INPUT_SIDE_PACKET, tag, index, kind, nullptr, optional ? 1 : 0);
  }
  std::string Option(const char* key, const std::string& otherwise = "") const {
    const char* text = host_->option(contract_, key);
    return text == nullptr ? otherwise : text;
  }
  void SetTimestampOffset(int64_t offset) { host_->setTimestampOffset(contract_, offset); }
  void SetQuick() { host_->setQuick(contract_); }
  void Fail(const std::string& text) { host_->failContract(contract_, text.c_str()); }

 private:
  const BraidHost* host_;
  BraidContract* contract_;
};

/* One call of a node. */
class Context {
 public:
  Context(const BraidHost* host, BraidContext* context) : host_(host), context_(context) {}

  int64_t input_timestamp() const { return host_->inputTimestamp(context_); }
  Packet Input(const char* tag, int index = 0) const {
    return Packet::Share(host_, host_->input(context_, tag, index));
  }
  Packet InputSidePacket(const char* tag, int index = 0) const {
    return Packet::Share(host_, host_->inputSidePacket(context_, tag, index));
  }
  std::string Option(const char* key, const std::string& otherwise = "") const {
    const char* text = host_->option(host_->contract(context_), key);
    return text == nullptr ? otherwise : text;
  }
  void Output(const char* tag, int index, const Packet& packet, int64_t timestamp) {
    host_->output(context_, tag, index, packet.get(), timestamp);
  }
  void SetBound(const char* tag, int index, int64_t timestamp) {
    host_->setBound(context_, tag, index, timestamp);
  }
  void CloseOutput(const char* tag, int index) { host_->closeOutput(context_, tag, index); }
  void Stop() { host_->stop(context_); }
  void Fail(const std::string& text) { host_->fail(context_, text.c_str()); }

  /* New packets. The vector becomes the packet's memory. */
  template <class T>
  Packet MakeTensor(BraidKind kind, const std::string& name, const std::string& datatype,
                    const std::vector<int64_t>& shape, std::vector<T> elements) const {
    auto* owner = new std::vector<T>(std::move(elements));
    const BraidTensor tensor{name.c_str(), datatype.c_str(), shape.data(),
                             shape.size(), owner->data(),    owner->size() * sizeof(T)};
    return {host_,
            host_->makeTensor(
                kind, &tensor, [](void* memory) { delete static_cast<std::vector<T>*>(memory); }, owner)};
  }
  Packet MakeBool(bool value) const { return {host_, host_->makeBool(value ? 1 : 0)}; }
  Packet MakeInt64(int64_t value) const { return {host_, host_->makeInt64(value)}; }
  Packet MakeString(const std::string& text) const {
    return {host_, host_->makeString(text.data(), text.size())};
  }
  template <class T>
  Packet MakeObject(const char* type, T object) const {
    return {host_, host_->makeObject(type, new T(std::move(object)),
                                     [](void* memory) { delete static_cast<T*>(memory); })};
  }
  Packet MakeResponse(const std::vector<Packet>& tensors) const {
    std::vector<BraidPacket*> raw;
    for (const Packet& tensor : tensors) raw.push_back(tensor.get());
    return {host_, host_->makeResponse(raw.data(), raw.size())};
  }
  /* An object of that type; null without one. `T` is what it was made of. */
  template <class T>
  const T* GetObject(const Packet& packet, const char* type) const {
    return packet ? static_cast<const T*>(host_->getObject(packet.get(), type)) : nullptr;
  }

 private:
  const BraidHost* host_;
  BraidContext* context_;
};

/* What a calculator derives from. An exception that leaves a function fails the node with its text. */
class Calculator {
 public:
  virtual ~Calculator() = default;
  virtual void Open(Context&) {}
  virtual void Process(Context& context) = 0;
  virtual void Close(Context&) {}
};

/* Calls, and has `where` fail with what is thrown. */
template <class Where, class Call>
void Guard(Where where, Call call) {
  try {
    call(where);
  } catch (const std::exception& exception) {
    where.Fail(exception.what());
  } catch (...) {
    where.Fail("unknown exception");
  }
}

/* C has a static Describe(Contract&) and a constructor without arguments. */
template <class C>
BraidCalculator MakeCalculator(const char* name) {
  BraidCalculator functions{};
  functions.name = name;
  functions.describe = [](const BraidHost* host, BraidContract* contract) {
    Guard(Contract(host, contract), [](Contract& description) { C::Describe(description); });
  };
  functions.create = []() -> void* {
    try {
      return new C();
    } catch (...) {
      return nullptr;
    }
  };
  functions.destroy = [](void* calculator) { delete static_cast<C*>(calculator); };
  functions.open = [](void* calculator, const BraidHost* host, BraidContext* raw) {
    Guard(Context(host, raw), [calculator](Context& context) { static_cast<C*>(calculator)->Open(context); });
  };
  functions.process = [](void* calculator, const BraidHost* host, BraidContext* raw) {
    Guard(Context(host, raw),
          [calculator](Context& context) { static_cast<C*>(calculator)->Process(context); });
  };
  functions.close = [](void* calculator, const BraidHost* host, BraidContext* raw) {
    Guard(Context(host, raw),
          [calculator](Context& context) { static_cast<C*>(calculator)->Close(context); });
  };
  return functions;
}

}  // namespace braid::plugin

/* Once in a library: BRAID_CALCULATORS(braid::plugin::MakeCalculator<Doubler>("DoublerCalculator"), ...) */
#define BRAID_CALCULATORS(...)                                                                         \
  extern "C" __attribute__((visibility("default"))) const BraidCalculatorLibrary* braidCalculators() { \
    static const BraidCalculator calculators[] = {__VA_ARGS__};                                        \
    static const BraidCalculatorLibrary library{BRAID_CALCULATOR_INTERFACE, calculators,               \
                                                sizeof(calculators) / sizeof(calculators[0])};         \
    return &library;                                                                                   \
  }
#endif /* __cplusplus */
