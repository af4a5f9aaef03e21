#include "ipc/messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>

// The samples below name only the fields that they set.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace braid {
namespace {

using Encoded = std::vector<std::byte>;

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class M>
Encoded Encoding(const M& message) {
  Encoded out{std::byte{99}};  // the previous content is replaced
  Encode(out, message);
  return out;
}

void ExpectEqual(const TensorMessage& a, const TensorMessage& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  ASSERT_EQ(a.place, b.place);
  if (a.place == Place::kInline) {
    EXPECT_EQ(TextOf(a.bytes), TextOf(b.bytes));
  } else {
    EXPECT_EQ(a.handle.segment, b.handle.segment);
    EXPECT_EQ(a.handle.offset, b.handle.offset);
    EXPECT_EQ(a.handle.size, b.handle.size);
  }
}

void ExpectEqual(const std::vector<TensorMessage>& a, const std::vector<TensorMessage>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ExpectEqual(a[i], b[i]);
}

void ExpectEqual(const ResponseMessage& a, const ResponseMessage& b) {
  EXPECT_EQ(a.request_id, b.request_id);
  EXPECT_EQ(a.final, b.final);
  EXPECT_EQ(a.has_response, b.has_response);
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.parameters_json, b.parameters_json);
  ExpectEqual(a.outputs, b.outputs);
}

void ExpectEqual(const RequestMessage& a, const RequestMessage& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.request_id, b.request_id);
  EXPECT_EQ(a.correlation_id, b.correlation_id);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.timeout_us, b.timeout_us);
  EXPECT_EQ(a.parameters_json, b.parameters_json);
  EXPECT_EQ(a.cancel_slot, b.cancel_slot);
  EXPECT_EQ(a.trace_context, b.trace_context);
  EXPECT_EQ(a.requested_outputs, b.requested_outputs);
  EXPECT_EQ(a.device_outputs, b.device_outputs);
  ExpectEqual(a.inputs, b.inputs);
}

std::vector<TensorMessage> SomeTensors() {
  return {
      {.name = "INPUT0", .type = DataType::kFp32, .shape = {2, 2}, .bytes = BytesOf("0123456789abcdef")},
      {.name = "empty", .type = DataType::kBytes, .shape = {0}},
      {.name = "",
       .type = DataType::kBf16,
       .shape = {1, 2, 3, 4, 5, 6, 7, INT64_MAX},
       .place = Place::kSenderMemory,
       .handle = {7, UINT64_MAX, 1}},
      {.name = "scalar",
       .type = DataType::kBool,
       .place = Place::kReceiverMemory,
       .handle = {UINT32_MAX, 4096, UINT64_MAX}},
      {.name = "shared",
       .type = DataType::kInt8,
       .shape = {9},
       .place = Place::kSharedMemory,
       .handle = {1, 0, 9}},
      {.name = "device",
       .type = DataType::kFp32,
       .shape = {2},
       .place = Place::kDeviceMemory,
       .handle = {2, 0, 8}},
      {.name = "both",
       .type = DataType::kFp32,
       .shape = {2},
       .place = Place::kSharedDeviceMemory,
       .handle = {3, 0, 8}},
  };
}

LoadMessage SomeLoad() {
  return {.mode = LoadMode::kAutoComplete,
          .model_file = "/models/m/1/model.py",
          .module_name = "1.model",
          .model_path = "/models/m",
          .version_path = "/models/m/1",
          .model_config = R"({"name":"m"})",
          .model_name = "m",
          .model_version = "1",
          .instance_name = "m_0_0",
          .instance_kind = "CPU",
          .instance_device_id = "0",
          .arena_keep_bytes = UINT64_MAX,
          .device_pools = {{1, UINT64_MAX}, {3, 0}},
          .pinned_pool_bytes = 7,
          .verbose_errors = true,
          .keeps_sequences = true,
          .debugger = "5678 wait"};
}

ExecuteMessage SomeExecute() {
  ExecuteMessage message;
  message.execution_id = UINT64_MAX;
  message.requests.push_back({.id = 1,
                              .request_id = "first",
                              .correlation_id = uint64_t{UINT64_MAX},
                              .flags = 3,
                              .timeout_us = 1'000'000,
                              .parameters_json = R"({"a":1})",
                              .cancel_slot = 4095,
                              .trace_context = R"({"traceparent":"00-1-2-01"})",
                              .requested_outputs = {"OUTPUT0", "OUTPUT1"},
                              .device_outputs = {"OUTPUT1"},
                              .inputs = SomeTensors()});
  message.requests.push_back({.id = 2, .correlation_id = std::string_view("text")});
  message.requests.push_back({.id = 3, .correlation_id = std::string_view("")});
  return message;
}

ResponseMessage SomeResponse() {
  return {.request_id = 17,
          .final = false,
          .has_response = true,
          .parameters_json = R"({"p":true})",
          .outputs = SomeTensors()};
}

ResponseMessage SomeError() {
  return {.request_id = 18, .code = StatusCode::kCancelled, .error = "cancelled", .outputs = {}};
}

ExecutedMessage SomeExecuted() {
  return {.execution_id = 5,
          .input_end_ns = INT64_MIN,
          .infer_end_ns = INT64_MAX,
          .output_end_ns = -1,
          .responses = {SomeResponse(), SomeError(), {.request_id = 3, .has_response = false}},
          .rescheduled = {1, UINT64_MAX}};
}

CallMessage SomeCall() {
  return {.model_name = "callee",
          .model_version = -1,
          .blocked_execution = 9,
          .traced_request = UINT64_MAX,
          .called_ns = -7,
          .decoupled = true,
          .device_outputs = true,
          .request = SomeExecute().requests[0]};
}

AskMessage SomeAsk() {
  return {.ask_id = 4,
          .topic = AskTopic::kMetric,
          .text = R"({"model_name":"m"})",
          .attachments = {{"file:1/model.py", BytesOf("import os")}, {"", {}}}};
}

ReleaseMessage SomeRelease() { return {{{1, 2, 0}, {UINT32_MAX, UINT64_MAX, 0}, {0, 0, 0}}}; }

TEST(Messages, LoadKeepsEveryField) {
  const Encoded encoded = Encoding(SomeLoad());
  EXPECT_EQ(TypeOf(encoded), MessageType::kLoad);
  LoadMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.mode, LoadMode::kAutoComplete);
  EXPECT_EQ(m.model_file, "/models/m/1/model.py");
  EXPECT_EQ(m.module_name, "1.model");
  EXPECT_EQ(m.model_path, "/models/m");
  EXPECT_EQ(m.version_path, "/models/m/1");
  EXPECT_EQ(m.model_config, R"({"name":"m"})");
  EXPECT_EQ(m.model_name, "m");
  EXPECT_EQ(m.model_version, "1");
  EXPECT_EQ(m.instance_name, "m_0_0");
  EXPECT_EQ(m.instance_kind, "CPU");
  EXPECT_EQ(m.instance_device_id, "0");
  EXPECT_EQ(m.arena_keep_bytes, UINT64_MAX);
  ASSERT_EQ(m.device_pools.size(), 2u);
  EXPECT_EQ(m.device_pools[0].keep_bytes, UINT64_MAX);
  EXPECT_EQ(m.device_pools[1].gpu, 3);
  EXPECT_TRUE(m.verbose_errors);
  EXPECT_TRUE(m.keeps_sequences);
  EXPECT_EQ(m.debugger, "5678 wait");
}

TEST(Messages, ExecuteKeepsEveryField) {
  const ExecuteMessage sent = SomeExecute();
  const Encoded encoded = Encoding(sent);
  EXPECT_EQ(TypeOf(encoded), MessageType::kExecute);
  ExecuteMessage m;
  m.requests.resize(9);
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.execution_id, UINT64_MAX);
  ASSERT_EQ(m.requests.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    ExpectEqual(m.requests[i], sent.requests[i]);
  }
}

TEST(Messages, HelloAndLoadedKeepEveryField) {
  Encoded encoded = Encoding(HelloMessage{"3.11.2", "1.24.2"});
  EXPECT_EQ(TypeOf(encoded), MessageType::kHello);
  HelloMessage hello;
  ASSERT_TRUE(Decode(encoded, hello));
  EXPECT_EQ(hello.python_version, "3.11.2");
  EXPECT_EQ(hello.numpy_version, "1.24.2");

  encoded = Encoding(LoadedMessage{StatusCode::kInternal, "it failed", "{}", true, false, true});
  EXPECT_EQ(TypeOf(encoded), MessageType::kLoaded);
  LoadedMessage loaded;
  ASSERT_TRUE(Decode(encoded, loaded));
  EXPECT_EQ(loaded.code, StatusCode::kInternal);
  EXPECT_EQ(loaded.error, "it failed");
  EXPECT_EQ(loaded.auto_completed_config, "{}");
  EXPECT_TRUE(loaded.has_readiness_hook);
  EXPECT_FALSE(loaded.wants_sessions);
  EXPECT_TRUE(loaded.saves_sequences);

  // Codes that do not exist for user code.
  for (const StatusCode code :
       {StatusCode::kFailedPrecondition, StatusCode::kAborted, StatusCode::kResourceExhausted,
        StatusCode::kUnauthenticated, StatusCode::kPermissionDenied}) {
    ASSERT_TRUE(Decode(Encoding(LoadedMessage{code, "it failed", "{}", true}), loaded));
    EXPECT_EQ(loaded.code, StatusCode::kInternal);
  }
}

TEST(Messages, ResponseKeepsEveryField) {
  for (const ResponseMessage& sent :
       {SomeResponse(), SomeError(), ResponseMessage{.request_id = 3, .has_response = false}}) {
    const Encoded encoded = Encoding(sent);
    EXPECT_EQ(TypeOf(encoded), MessageType::kResponse);
    ResponseMessage m;
    ASSERT_TRUE(Decode(encoded, m));
    ExpectEqual(m, sent);
  }
}

TEST(Messages, ExecutedKeepsEveryField) {
  const ExecutedMessage sent = SomeExecuted();
  const Encoded encoded = Encoding(sent);
  EXPECT_EQ(TypeOf(encoded), MessageType::kExecuted);
  ExecutedMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.execution_id, 5u);
  EXPECT_EQ(m.input_end_ns, INT64_MIN);
  EXPECT_EQ(m.infer_end_ns, INT64_MAX);
  EXPECT_EQ(m.output_end_ns, -1);
  ASSERT_EQ(m.responses.size(), sent.responses.size());
  for (size_t i = 0; i < sent.responses.size(); ++i) ExpectEqual(m.responses[i], sent.responses[i]);
  EXPECT_EQ(m.rescheduled, sent.rescheduled);
}

TEST(Messages, CallAndItsCancellationKeepEveryField) {
  const CallMessage sent = SomeCall();
  Encoded encoded = Encoding(sent);
  EXPECT_EQ(TypeOf(encoded), MessageType::kCall);
  CallMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.model_name, "callee");
  EXPECT_EQ(m.model_version, -1);
  EXPECT_EQ(m.blocked_execution, 9u);
  EXPECT_EQ(m.traced_request, UINT64_MAX);
  EXPECT_EQ(m.called_ns, -7);
  EXPECT_TRUE(m.decoupled);
  EXPECT_TRUE(m.device_outputs);
  ExpectEqual(m.request, sent.request);
  // A call without an id could not be answered.
  CallMessage nameless = sent;
  nameless.request.id = 0;
  EXPECT_FALSE(Decode(Encoding(nameless), m));

  encoded = Encoding(CancelCallMessage{UINT64_MAX});
  EXPECT_EQ(TypeOf(encoded), MessageType::kCancelCall);
  CancelCallMessage cancel;
  ASSERT_TRUE(Decode(encoded, cancel));
  EXPECT_EQ(cancel.call_id, UINT64_MAX);

  Encode(encoded, SomeResponse(), MessageType::kCallResponse);
  EXPECT_EQ(TypeOf(encoded), MessageType::kCallResponse);
  ResponseMessage response;
  ASSERT_TRUE(Decode(encoded, response, MessageType::kCallResponse));
  ExpectEqual(response, SomeResponse());
}

TEST(Messages, AskAndAnswerKeepEveryField) {
  const AskMessage sent = SomeAsk();
  Encoded encoded = Encoding(sent);
  EXPECT_EQ(TypeOf(encoded), MessageType::kAsk);
  AskMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.ask_id, 4u);
  EXPECT_EQ(m.topic, AskTopic::kMetric);
  EXPECT_EQ(m.text, sent.text);
  ASSERT_EQ(m.attachments.size(), 2u);
  EXPECT_EQ(m.attachments[0].name, "file:1/model.py");
  EXPECT_EQ(TextOf(m.attachments[0].bytes), "import os");
  EXPECT_EQ(m.attachments[1].name, "");
  EXPECT_EQ(m.attachments[1].bytes.size(), 0u);

  encoded = Encoding(AnswerMessage{4, StatusCode::kNotFound, "no such model", "true"});
  EXPECT_EQ(TypeOf(encoded), MessageType::kAnswer);
  AnswerMessage answer;
  ASSERT_TRUE(Decode(encoded, answer));
  EXPECT_EQ(answer.ask_id, 4u);
  EXPECT_EQ(answer.code, StatusCode::kNotFound);
  EXPECT_EQ(answer.error, "no such model");
  EXPECT_EQ(answer.text, "true");
}

TEST(Messages, ReadinessKeepsEveryField) {
  Encoded encoded = Encoding(CheckReadyMessage{3});
  EXPECT_EQ(TypeOf(encoded), MessageType::kCheckReady);
  CheckReadyMessage check;
  ASSERT_TRUE(Decode(encoded, check));
  EXPECT_EQ(check.check_id, 3u);
  encoded = Encoding(ReadinessMessage{3, true, "why"});
  EXPECT_EQ(TypeOf(encoded), MessageType::kReadiness);
  ReadinessMessage readiness;
  ASSERT_TRUE(Decode(encoded, readiness));
  EXPECT_EQ(readiness.check_id, 3u);
  EXPECT_TRUE(readiness.ready);
  EXPECT_EQ(readiness.reason, "why");
}

TEST(Messages, LogKeepsEveryField) {
  const Encoded encoded = Encoding(LogMessage{3, "model.py", 77, "text with \0 inside"});
  EXPECT_EQ(TypeOf(encoded), MessageType::kLog);
  LogMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  EXPECT_EQ(m.level, 3);
  EXPECT_EQ(m.file, "model.py");
  EXPECT_EQ(m.line, 77u);
  EXPECT_EQ(m.text, std::string_view("text with \0 inside"));
}

TEST(Messages, ReleaseAndRetireSegmentKeepEveryField) {
  const ReleaseMessage sent = SomeRelease();
  Encoded encoded = Encoding(sent);
  EXPECT_EQ(TypeOf(encoded), MessageType::kRelease);
  ReleaseMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  ASSERT_EQ(m.handles.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.handles[i].segment, sent.handles[i].segment);
    EXPECT_EQ(m.handles[i].offset, sent.handles[i].offset);
  }
  Encode(encoded, RetireSegmentMessage{12345});
  EXPECT_EQ(TypeOf(encoded), MessageType::kRetireSegment);
  RetireSegmentMessage retired;
  ASSERT_TRUE(Decode(encoded, retired));
  EXPECT_EQ(retired.segment, 12345u);
}

TEST(Messages, BareMessagesAreTheirType) {
  Encoded encoded(5);
  EncodeBare(encoded, MessageType::kFinalize);
  EXPECT_EQ(encoded.size(), 1u);
  EXPECT_EQ(TypeOf(encoded), MessageType::kFinalize);
  EXPECT_EQ(TypeOf({}), MessageType{});
}

TEST(Messages, ViewsPointIntoTheMessage) {
  const Encoded encoded = Encoding(SomeExecute());
  ExecuteMessage m;
  ASSERT_TRUE(Decode(encoded, m));
  const std::byte* at = m.requests[0].inputs[0].bytes.data();
  EXPECT_TRUE(at > encoded.data() && at < encoded.data() + encoded.size());
}

// Decodes and encodes again; returns false if the decoder refuses.
using Recoder = std::function<bool(std::span<const std::byte>, Encoded&)>;

template <class M>
bool Recode(std::span<const std::byte> in, Encoded& out) {
  M message;
  if (!Decode(in, message)) return false;
  Encode(out, message);
  return true;
}

struct Sample {
  const char* name;
  Encoded encoded;
  Recoder recode;
};

std::vector<Sample> Samples() {
  std::vector<Sample> samples = {
      {"load", Encoding(SomeLoad()), Recode<LoadMessage>},
      {"execute", Encoding(SomeExecute()), Recode<ExecuteMessage>},
      {"hello", Encoding(HelloMessage{"3.11.2", "1.24.2"}), Recode<HelloMessage>},
      {"loaded", Encoding(LoadedMessage{StatusCode::kInternal, "it failed", "{}", true}),
       Recode<LoadedMessage>},
      {"response", Encoding(SomeResponse()), Recode<ResponseMessage>},
      {"error", Encoding(SomeError()), Recode<ResponseMessage>},
      {"executed", Encoding(SomeExecuted()), Recode<ExecutedMessage>},
      {"log", Encoding(LogMessage{3, "model.py", 77, "text"}), Recode<LogMessage>},
      {"release", Encoding(SomeRelease()), Recode<ReleaseMessage>},
      {"call", Encoding(SomeCall()), Recode<CallMessage>},
      {"cancel call", Encoding(CancelCallMessage{3}), Recode<CancelCallMessage>},
      {"ask", Encoding(SomeAsk()), Recode<AskMessage>},
      {"answer", Encoding(AnswerMessage{4, StatusCode::kOk, "", "{}"}), Recode<AnswerMessage>},
      {"check", Encoding(CheckReadyMessage{3}), Recode<CheckReadyMessage>},
      {"readiness", Encoding(ReadinessMessage{3, false, "why"}), Recode<ReadinessMessage>},
      {"retire", Encoding(RetireSegmentMessage{7}), Recode<RetireSegmentMessage>},
  };
  Encoded call_response;
  Encode(call_response, SomeResponse(), MessageType::kCallResponse);
  samples.push_back({"call response", call_response, [](std::span<const std::byte> in, Encoded& out) {
                       ResponseMessage message;
                       if (!Decode(in, message, MessageType::kCallResponse)) return false;
                       Encode(out, message, MessageType::kCallResponse);
                       return true;
                     }});
  return samples;
}

// Decodes from memory of exactly that size, so that an address sanitizer detects every read beyond it.
bool RecodeExact(const Sample& sample, const Encoded& encoded, Encoded& out) {
  auto exact = std::make_unique<std::byte[]>(encoded.size());
  std::copy(encoded.begin(), encoded.end(), exact.get());
  return sample.recode({exact.get(), encoded.size()}, out);
}

TEST(Messages, DecodedMessageEncodesToTheSameBytes) {
  for (const Sample& sample : Samples()) {
    Encoded again;
    ASSERT_TRUE(RecodeExact(sample, sample.encoded, again)) << sample.name;
    EXPECT_EQ(again, sample.encoded) << sample.name;
  }
}

TEST(Messages, EveryTruncationAndExtensionIsRefused) {
  for (const Sample& sample : Samples()) {
    Encoded out;
    for (size_t size = 0; size < sample.encoded.size(); ++size) {
      EXPECT_FALSE(RecodeExact(sample, {sample.encoded.begin(), sample.encoded.begin() + size}, out))
          << sample.name << " cut to " << size;
    }
    Encoded longer = sample.encoded;
    longer.push_back({});
    EXPECT_FALSE(RecodeExact(sample, longer, out)) << sample.name;
  }
}

TEST(Messages, EveryDecoderRefusesOtherTypes) {
  const std::vector<Sample> samples = Samples();
  for (const Sample& a : samples) {
    for (const Sample& b : samples) {
      Encoded out;
      if (a.encoded[0] == b.encoded[0]) continue;
      EXPECT_FALSE(RecodeExact(a, b.encoded, out)) << a.name << b.name;
    }
  }
}

TEST(Messages, RandomChangesAreRefusedOrDecodeToSomethingThatCanBeSent) {
  std::mt19937_64 random(20260101);
  for (const Sample& sample : Samples()) {
    int accepted = 0;
    for (int round = 0; round < 10000; ++round) {
      Encoded changed = sample.encoded;
      for (size_t n = 1 + random() % 4; n > 0; --n) {
        const size_t at = random() % changed.size();
        switch (random() % 6) {
          case 0:
            changed[at] = static_cast<std::byte>(random());
            break;
          case 1:
            changed[at] ^= static_cast<std::byte>(1 << random() % 8);
            break;
          case 2: {  // a length or count
            const auto value = static_cast<uint32_t>(random() % 2 ? random() : random() % 64);
            if (changed.size() - at >= sizeof(value)) std::memcpy(&changed[at], &value, sizeof(value));
            break;
          }
          case 3:
            changed.resize(1 + at);
            break;
          case 4:
            changed.insert(changed.begin() + at, random() % 16, static_cast<std::byte>(random()));
            break;
          case 5: {
            const size_t count = std::min<size_t>(random() % 16, changed.size() - at);
            if (count < changed.size()) changed.erase(changed.begin() + at, changed.begin() + at + count);
            break;
          }
        }
      }
      Encoded once;
      if (!RecodeExact(sample, changed, once)) continue;
      ++accepted;
      Encoded twice;
      ASSERT_TRUE(RecodeExact(sample, once, twice)) << sample.name;
      ASSERT_EQ(once, twice) << sample.name;
    }
    EXPECT_GT(accepted, 0) << sample.name;
  }
}

TEST(Messages, NoiseOfEveryTypeIsHandled) {
  std::mt19937_64 random(7);
  for (const Sample& sample : Samples()) {
    for (int round = 0; round < 3000; ++round) {
      Encoded noise(1 + random() % 300);
      // Mostly small numbers, which look like lengths.
      for (auto& byte : noise) byte = static_cast<std::byte>(random() % 3 ? random() % 4 : random());
      noise[0] = sample.encoded[0];
      Encoded out;
      (void)RecodeExact(sample, noise, out);
    }
  }
}

// The message has enough bytes for these counts, but its decoded form would be many times as large.
TEST(Messages, CountsBeyondEveryUseAreRefused) {
  Encoded encoded;
  WireWriter writer(encoded);
  writer.Put(MessageType::kRelease);
  writer.Put(uint32_t{(1 << 20) + 1});
  encoded.resize(encoded.size() + ((size_t{1} << 20) + 1) * 12);
  ReleaseMessage release;
  EXPECT_FALSE(Decode(encoded, release));
  EXPECT_EQ(release.handles.capacity(), 0u);
}

TEST(Messages, AllCountsOfAMessageAreBoundedTogether) {
  constexpr uint32_t kEach = 1 << 19;
  ExecuteMessage message;
  message.requests.resize(3);
  for (auto& request : message.requests) request.requested_outputs.resize(kEach);
  ExecuteMessage decoded;
  EXPECT_FALSE(Decode(Encoding(message), decoded));
  message.requests.pop_back();
  message.requests.back().requested_outputs.resize(kEach - 2);
  EXPECT_TRUE(Decode(Encoding(message), decoded));
}

TEST(Messages, CountWithoutTheBytesForItAllocatesNothing) {
  Encoded encoded;
  WireWriter writer(encoded);
  writer.Put(MessageType::kExecute);
  writer.Put(uint64_t{1});
  writer.Put(uint32_t{UINT32_MAX});
  encoded.resize(encoded.size() + 1000);
  ExecuteMessage message;
  EXPECT_FALSE(Decode(encoded, message));
  EXPECT_EQ(message.requests.capacity(), 0u);
}

TEST(Messages, WrongNumbersAreRefused) {
  auto refused = [](auto message) {
    Encoded out;
    Encode(out, message);
    return !Decode(out, message);
  };
  EXPECT_TRUE(refused(LoadMessage{.mode = static_cast<LoadMode>(5)}));
  EXPECT_TRUE(refused(LoadedMessage{.code = static_cast<StatusCode>(14)}));
  EXPECT_TRUE(refused(ResponseMessage{.code = static_cast<StatusCode>(14)}));
  EXPECT_TRUE(refused(ResponseMessage{.final = false, .has_response = false}));
  EXPECT_TRUE(refused(ResponseMessage{
      .outputs = {{.type = static_cast<DataType>(static_cast<int>(DataType::kCustom) + 1)}}}));
  EXPECT_TRUE(refused(ResponseMessage{.outputs = {{.place = static_cast<Place>(6)}}}));
  EXPECT_TRUE(refused(ResponseMessage{.outputs = {{.shape = Shape(65, 1)}}}));
  EXPECT_FALSE(refused(ResponseMessage{.outputs = {{.shape = Shape(64, 1)}}}));
}

TEST(WireReader, YieldsZerosAfterAFault) {
  const Encoded bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  WireReader reader(bytes);
  EXPECT_EQ(reader.Get<uint64_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Get<uint8_t>(), 0);
  EXPECT_EQ(reader.GetText(), "");
  EXPECT_EQ(reader.GetCount(1), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(WireReader, CountIsBoundedByTheBytesBehindIt) {
  Encoded bytes;
  WireWriter writer(bytes);
  writer.Put(uint32_t{3});
  bytes.resize(bytes.size() + 11);
  EXPECT_EQ(WireReader(bytes).GetCount(3), 3u);
  WireReader reader(bytes);
  EXPECT_EQ(reader.GetCount(4), 0u);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace braid
