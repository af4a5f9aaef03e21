#include "protocols/kserve/grpc/graph_stream.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/clock.h"
#include "grpc_service.grpc.pb.h"
#include "protocols/inference/testing/fake_graph.h"
#include "protocols/inference/testing/fake_servable.h"
#include "protocols/kserve/testing/kserve_servers.h"
#include "serving/faults.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

using grpc::ClientContext;
using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;
using testing::ElementsAre;
using ClientStream = grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>;

constexpr int64_t kSecond = 1'000'000'000;
constexpr ApiCall kCall{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInferStream};

ModelInferRequest Message(const std::string& id, const std::string& bytes,
                          const std::string& datatype = "UINT8") {
  ModelInferRequest request;
  request.set_model_name("graph");
  request.set_id(id);
  auto& input = *request.add_inputs();
  input.set_name("in");
  input.set_datatype(datatype);
  input.add_shape(static_cast<int64_t>(bytes.size()));
  request.add_raw_input_contents(bytes);
  return request;
}

class GraphStreamTest : public testing::Test {
 protected:
  explicit GraphStreamTest(Dialect dialect = Dialect::kOvms) : catalog_(dialect) {
    graph_ = std::make_shared<FakeGraph>("graph");
    graph_->statistics().Configure(
        {.first_response_bounds_ms = {}, .quantiles = {}, .ovms_bounds_us = {1e9}});
    catalog_.Publish(graph_);
    KserveGrpcServer::Options options;
    options.address = "127.0.0.1";
    options.port = 0;
    server_ = KserveGrpcServer::Start(context_, options).value();
    stub_ = GRPCInferenceService::NewStub(Connect());
  }
  ~GraphStreamTest() override {
    if (server_) server_->Shutdown(SteadyNowNs());
  }

  std::shared_ptr<grpc::Channel> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->bound_port()),
                                     grpc::InsecureChannelCredentials(), arguments);
  }
  std::unique_ptr<ClientStream> Open(ClientContext& context) { return stub_->ModelStreamInfer(&context); }
  // Returns the end of a call with exactly these messages: "{code}: {text}".
  std::string EndOf(const std::vector<ModelInferRequest>& messages) {
    ClientContext context;
    auto stream = Open(context);
    for (const ModelInferRequest& message : messages) stream->Write(message);
    if (messages.empty()) stream->WritesDone();
    ModelStreamInferResponse response;
    EXPECT_FALSE(stream->Read(&response)) << response.ShortDebugString();
    return Text(stream->Finish());
  }
  static std::string Text(const grpc::Status& status) {
    return std::to_string(status.error_code()) + ": " + status.error_message();
  }
  // Returns the next error in the stream; "" for an answer without one.
  static std::string Fault(ClientStream& stream) {
    ModelStreamInferResponse response;
    if (!stream.Read(&response)) return "the stream has ended";
    return response.error_message();
  }
  // Sends until the server's output stops: the connection's windows grow for a while.
  static void Fill(FakeGraph::Stream& conversation) {
    do {
      while (!conversation.paused()) conversation.Send(FakeGraph::Text(std::string(1 << 20, 'x')));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (!conversation.paused());
  }
  // Returns the bytes of the only output of the next response.
  static std::string Output(ClientStream& stream) {
    ModelStreamInferResponse response;
    if (!stream.Read(&response)) return "the stream has ended";
    if (response.infer_response().raw_output_contents_size() != 1) return response.ShortDebugString();
    return response.infer_response().raw_output_contents(0);
  }

  Catalog catalog_;
  FakeControl control_;
  Logger log_;
  ProtocolContext context_{
      .catalog = catalog_, .control = control_, .log = log_, .server_version = "1", .extensions = {}};
  std::shared_ptr<FakeGraph> graph_;
  std::unique_ptr<KserveGrpcServer> server_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

TEST_F(GraphStreamTest, SendsEachOutputAsItComes) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ModelInferRequest first = Message("a", "abc");
  (*first.mutable_parameters())["OVMS_MP_TIMESTAMP"].set_int64_param(7);
  (*first.mutable_parameters())["side"].set_string_param("packet");
  (*first.mutable_parameters())["sequence_id"].set_int64_param(3);
  (*first.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  ASSERT_TRUE(stream->Write(first));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForMessages(1));
  Parameters parameters = graph_->first_parameters();
  std::sort(parameters.begin(), parameters.end());
  EXPECT_EQ(parameters, (Parameters{{"OVMS_MP_TIMESTAMP", int64_t{7}},
                                    {"sequence_id", int64_t{3}},
                                    {"side", std::string("packet")}}));
  const FakeGraph::Message message = conversation->messages().front();
  EXPECT_EQ(message.id, "a");
  ASSERT_EQ(message.inputs.size(), 1u);
  EXPECT_EQ(message.inputs[0].name, "in");
  EXPECT_EQ(message.inputs[0].data.text(), "abc");

  Tensor own = FakeGraph::Text("12345");
  own.type = DataType::kCustom;
  own.custom_type = "my type";
  own.shape = {2, 9};
  conversation->Send(own, "a", {{"OVMS_MP_TIMESTAMP", int64_t{1} << 40}});
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  const auto& answer = response.infer_response();
  EXPECT_EQ(answer.model_name(), "graph");
  EXPECT_EQ(answer.model_version(), "1");
  EXPECT_EQ(answer.id(), "a");
  ASSERT_EQ(answer.parameters().size(), 1u);
  EXPECT_EQ(answer.parameters().at("OVMS_MP_TIMESTAMP").int64_param(), int64_t{1} << 40);
  ASSERT_EQ(answer.outputs_size(), 1);
  EXPECT_EQ(answer.outputs(0).name(), "out");
  EXPECT_EQ(answer.outputs(0).datatype(), "my type");
  EXPECT_THAT(answer.outputs(0).shape(), ElementsAre(2, 9));
  EXPECT_FALSE(answer.outputs(0).has_contents());
  EXPECT_THAT(answer.raw_output_contents(), ElementsAre("12345"));

  // Any number of responses, including large ones.
  const std::string large(3 << 20, 'x');
  conversation->Send(FakeGraph::Text(large));
  conversation->Send(FakeGraph::Text(""));
  EXPECT_TRUE(Output(*stream) == large);
  EXPECT_EQ(Output(*stream), "");
  // Requests in flight when the client half-closes are still answered.
  stream->WritesDone();
  ASSERT_TRUE(conversation->WaitForClose());
  conversation->Send(FakeGraph::Text("last"));
  conversation->End(OkStatus());
  EXPECT_EQ(Output(*stream), "last");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(Text(stream->Finish()), "0: ");
  EXPECT_FALSE(conversation->cancelled());
  EXPECT_EQ(graph_->gate().inside(), 0);
}

TEST_F(GraphStreamTest, FirstMessageDecides) {
  catalog_.SetState("coming", 1, VersionState::kLoading, "", StatusCode::kOk, ServableKind::kGraph);
  catalog_.SetState("failed", 1, VersionState::kUnavailable, "", StatusCode::kFailedPrecondition,
                    ServableKind::kGraph);
  catalog_.SetState("gone", 1, VersionState::kUnavailable, "", StatusCode::kOk, ServableKind::kGraph);
  ModelInferRequest message = Message("", "x");
  const auto end_for = [&](const std::string& name, const std::string& version = "") {
    message.set_model_name(name);
    message.set_model_version(version);
    return EndOf({message});
  };
  EXPECT_EQ(end_for("nobody"), "5: Mediapipe graph definition with requested name is not found");
  EXPECT_EQ(end_for("coming"), "14: Mediapipe is not loaded yet");
  EXPECT_EQ(end_for("failed"), "14: Mediapipe is not loaded yet");
  EXPECT_EQ(end_for("gone"), "5: Mediapipe is retired");
  EXPECT_EQ(end_for("graph", "abc"), "3: invalid model version format in request");
  EXPECT_EQ(EndOf({}), "2: Client disconnected during reading first streaming request");
  graph_->RefuseStreams(FaultError(Fault::kGraphStartError, "side packet"));
  EXPECT_EQ(end_for("graph"), "9: Failed to start mediapipe graph - side packet");
  EXPECT_EQ(graph_->gate().inside(), 0);
  EXPECT_EQ(graph_->api_counters().fail(kCall), 1u);
  EXPECT_EQ(graph_->api_counters().rejected(kCall), 1u);
}

TEST_F(GraphStreamTest, ModelsTakeEachMessageAsARequest) {
  ServableInfo info = FakeServable::EchoInfo("echo", DataType::kUint8);
  info.dialect = Dialect::kOvms;
  catalog_.Publish(std::make_shared<FakeServable>(info));
  ClientContext context;
  auto stream = Open(context);
  ModelInferRequest message = Message("1", "abc");
  message.set_model_name("echo");
  message.mutable_inputs(0)->set_name("INPUT0");
  ASSERT_TRUE(stream->Write(message));
  EXPECT_EQ(Output(*stream), "abc");
  message.set_model_name("nobody");
  ASSERT_TRUE(stream->Write(message));
  EXPECT_EQ(Fault(*stream), "Mediapipe graph definition with requested name is not found");
  // A message after the first may name a graph too; it is then a separate request.
  ASSERT_TRUE(stream->Write(Message("2", "def")));
  EXPECT_EQ(Output(*stream), "def");
  stream->WritesDone();
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GraphStreamTest, FaultsOfMessagesStayInTheStream) {
  ClientContext context;
  auto stream = Open(context);
  ModelInferRequest custom = Message("bad", "");
  custom.clear_raw_input_contents();
  custom.mutable_inputs(0)->set_datatype("mine");
  const std::string text =
      "Invalid input precision - Provided datatype is invalid, custom datatypes are allowed only when "
      "raw_input_contents is used.; partial deserialization of ";
  ASSERT_TRUE(stream->Write(custom));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), text + "first request");
  EXPECT_EQ(response.infer_response().id(), "bad");
  ASSERT_TRUE(stream->Write(custom));
  EXPECT_EQ(Fault(*stream), text + "subsequent requests");

  ModelInferRequest message = Message("", "x");
  message.set_model_name("other");
  ASSERT_TRUE(stream->Write(message));
  EXPECT_EQ(Fault(*stream), "Subsequent request with incorrect servable name; validate subsequent requests");
  for (const char* version : {"2", "abc"}) {
    message = Message("", "x");
    message.set_model_version(version);
    ASSERT_TRUE(stream->Write(message));
    EXPECT_EQ(Fault(*stream),
              "Subsequent request with incorrect servable version; validate subsequent requests");
  }
  for (const char* version : {"", "0", "1"}) {
    message.set_model_version(version);
    ASSERT_TRUE(stream->Write(message));
    EXPECT_EQ(Output(*stream), "x");
  }
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation);
  conversation->SetFault(InvalidArgumentError("Unexpected input - x is unexpected"));
  ASSERT_TRUE(stream->Write(Message("s", "x")));
  EXPECT_EQ(Fault(*stream),
            "Unexpected input - x is unexpected; partial deserialization of subsequent requests");
  conversation->SetFault(OkStatus());
  ASSERT_TRUE(stream->Write(Message("t", "fine")));
  EXPECT_EQ(Output(*stream), "fine");
  stream->WritesDone();
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(graph_->api_counters().accepted(kCall), 4u);
  EXPECT_EQ(graph_->api_counters().rejected(kCall), 6u);
  EXPECT_EQ(graph_->api_counters().responses(kCall), 4u);
  EXPECT_EQ(graph_->api_counters().success(kCall), 1u);
  EXPECT_EQ(graph_->api_counters().fail(kCall), 0u);
  EXPECT_THAT(graph_->statistics().Snapshot().ovms_us.graph_latency[1].counts, ElementsAre(1, 0));
}

TEST_F(GraphStreamTest, AnErrorEndsTheCallWhenTheClientAskedForThat) {
  graph_->Hold();
  ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation);
  ModelInferRequest wrong = Message("", "x");
  wrong.mutable_inputs(0)->set_shape(0, -1);
  ASSERT_TRUE(stream->Write(wrong));
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_EQ(
      Text(stream->Finish()),
      "3: Invalid input shape - Negative dimension size is not acceptable: (-1); input name: in; partial "
      "deserialization of subsequent requests");
  ASSERT_TRUE(conversation->WaitForCancel());
  conversation->End(OkStatus());
}

TEST_F(GraphStreamTest, EndsAtOnceWhenTheGraphFails) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForMessages(1));
  conversation->Send(FakeGraph::Text("before"));
  conversation->End(FaultError(Fault::kGraphExecutionError, "INTERNAL: node"));
  EXPECT_EQ(Output(*stream), "before");
  // The client has neither written nor closed.
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_EQ(Text(stream->Finish()), "3: Mediapipe execution failed. MP status - INTERNAL: node");
  EXPECT_FALSE(conversation->cancelled());
  EXPECT_EQ(graph_->api_counters().fail(kCall), 1u);
}

TEST_F(GraphStreamTest, PausesTheGraphWhileTheClientDoesNotRead) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForMessages(1));
  // The connection's windows bound the server's output; then the rest waits.
  constexpr size_t kBytes = size_t{256} << 10;
  size_t sent = 0;
  for (; sent < 1000 && !conversation->paused(); ++sent) {
    conversation->Send(FakeGraph::Text(std::string(kBytes, static_cast<char>('a' + sent % 26))));
  }
  ASSERT_LT(sent, 1000u);
  EXPECT_GE(sent * kBytes, GrpcGraphStream::kPauseBytes);
  for (size_t i = 0; i < sent; ++i) {
    ASSERT_EQ(Output(*stream), std::string(kBytes, static_cast<char>('a' + i % 26))) << i;
  }
  ASSERT_TRUE(conversation->WaitForPause(false));
  // For small messages the limit on their number applies.
  size_t small = 0;
  for (; small < 1'000'000 && !conversation->paused(); ++small) {
    conversation->Send(FakeGraph::Text(std::to_string(small)));
  }
  ASSERT_LT(small, 1'000'000u);
  for (size_t i = 0; i < small; ++i) ASSERT_EQ(Output(*stream), std::to_string(i));
  ASSERT_TRUE(conversation->WaitForPause(false));
  conversation->End(OkStatus());
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GraphStreamTest, ASlowClientSlowsItsOwnStreamOnly) {
  graph_->Hold();
  ClientContext context;
  auto slow = Open(context);
  ASSERT_TRUE(slow->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation);
  Fill(*conversation);

  auto other = GRPCInferenceService::NewStub(Connect());
  ClientContext other_context;
  auto quick = other->ModelStreamInfer(&other_context);
  ASSERT_TRUE(quick->Write(Message("", "x")));
  auto second = graph_->WaitForStream(1);
  ASSERT_TRUE(second);
  for (int i = 0; i < 1000; ++i) {
    second->Send(FakeGraph::Text(std::to_string(i)));
    ASSERT_EQ(Output(*quick), std::to_string(i));
  }
  EXPECT_FALSE(second->paused());
  EXPECT_TRUE(conversation->paused());
  second->End(OkStatus());
  EXPECT_EQ(Fault(*quick), "the stream has ended");
  EXPECT_TRUE(quick->Finish().ok());
  // A client that never reads, and disconnects.
  context.TryCancel();
  slow->Finish();
  ASSERT_TRUE(conversation->WaitForCancel());
  conversation->End(OkStatus());
}

TEST_F(GraphStreamTest, CutsOffAClientThatDoesNotReadWhateverTheGraphDoes) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation);
  // The same bytes each time, which are not copied.
  const Tensor large = FakeGraph::Text(std::string(16 << 20, 'x'));
  for (int i = 0; i < 100 && !conversation->cancelled(); ++i) conversation->Send(large);
  EXPECT_TRUE(conversation->cancelled());
  conversation->End(OkStatus());
  ModelStreamInferResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(Text(stream->Finish()), "14: the client does not read the responses of the stream");
}

TEST_F(GraphStreamTest, ReadsNoFurtherThanTheGraphWants) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("0", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForMessages(1));
  conversation->SetWantsInput(false);
  for (int i = 1; i <= 20; ++i) ASSERT_TRUE(stream->Write(Message(std::to_string(i), "x")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // One read may have been in flight.
  EXPECT_LE(conversation->pushed(), 2u);
  conversation->SetWantsInput(true);
  ASSERT_TRUE(conversation->WaitForMessages(21));
  const auto messages = conversation->messages();
  for (size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(messages[i].id, std::to_string(i));
  stream->WritesDone();
  ASSERT_TRUE(conversation->WaitForClose());
  conversation->End(OkStatus());
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GraphStreamTest, FaultsCountAgainstAClientThatDoesNotRead) {
  ClientContext context;
  auto stream = Open(context);
  ModelInferRequest wrong = Message("", std::string(1000, 'x'));
  wrong.mutable_inputs(0)->set_shape(0, -1);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  std::atomic<int> written{0};
  std::thread writer([&] {
    while (written < 1'000'000 && stream->Write(wrong)) ++written;
  });
  // The server no longer reads, which blocks the writer.
  int before = -1;
  for (int i = 0; i < 200 && before != written; ++i) {
    before = written;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(before, written);
  EXPECT_LT(written, 1'000'000);
  context.TryCancel();
  writer.join();
  stream->Finish();
  ASSERT_TRUE(graph_->WaitForStream(0)->WaitForEnd());
}

TEST_F(GraphStreamTest, ClientsMayVanishAtAnyTime) {
  graph_->Hold();
  enum class When { kOpened, kWritten, kAnswered, kHalfClosed, kPaused, kFailing, kRacing };
  size_t streams = 0;
  for (When when : {When::kOpened, When::kWritten, When::kAnswered, When::kHalfClosed, When::kPaused,
                    When::kFailing, When::kRacing}) {
    for (int round = 0; round < 5; ++round) {
      ClientContext context;
      auto stream = Open(context);
      std::shared_ptr<FakeGraph::Stream> conversation;
      if (when != When::kOpened) {
        ASSERT_TRUE(stream->Write(Message("", "x")));
        conversation = graph_->WaitForStream(streams++);
        ASSERT_TRUE(conversation);
      }
      std::thread racing;
      if (when == When::kAnswered) {
        conversation->Send(FakeGraph::Text("y"));
        ASSERT_EQ(Output(*stream), "y");
      } else if (when == When::kHalfClosed) {
        stream->WritesDone();
        ASSERT_TRUE(conversation->WaitForClose());
      } else if (when == When::kPaused) {
        Fill(*conversation);
      } else if (when == When::kFailing) {
        Fill(*conversation);
        conversation->End(InternalError("broken"));
      } else if (when == When::kRacing) {
        racing = std::thread([conversation] {
          for (int i = 0; i < 2000; ++i) conversation->Send(FakeGraph::Text("z"));
          conversation->End(OkStatus());
        });
      }
      context.TryCancel();
      stream->Finish();
      if (racing.joinable()) {
        racing.join();
      } else if (conversation && when != When::kFailing) {
        ASSERT_TRUE(conversation->WaitForCancel());
        // The client no longer receives this message.
        conversation->Send(FakeGraph::Text("late"));
        conversation->End(OkStatus());
      }
      if (conversation) {
        EXPECT_TRUE(conversation->WaitForEnd());
      }
    }
  }
  EXPECT_EQ(graph_->gate().inside(), 0);
}

TEST_F(GraphStreamTest, TheClientsDeadlineCancels) {
  graph_->Hold();
  ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForCancel());
  conversation->End(OkStatus());
}

TEST_F(GraphStreamTest, TwoHundredStreamsAtOnce) {
  constexpr int kStreams = 200;
  constexpr int kMessages = 10;
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (int s = 0; s < kStreams; ++s) {
    contexts.push_back(std::make_unique<ClientContext>());
    streams.push_back(Open(*contexts.back()));
    ASSERT_TRUE(streams.back()->Write(Message("0", std::to_string(s) + ":0")));
  }
  for (int m = 1; m < kMessages; ++m) {
    for (int s = 0; s < kStreams; ++s) {
      ASSERT_TRUE(streams[s]->Write(Message(std::to_string(m), std::to_string(s) + ":" + std::to_string(m))));
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    for (int m = 0; m < kMessages; ++m) {
      ASSERT_EQ(Output(*streams[s]), std::to_string(s) + ":" + std::to_string(m));
    }
    streams[s]->WritesDone();
    EXPECT_EQ(Fault(*streams[s]), "the stream has ended");
    EXPECT_TRUE(streams[s]->Finish().ok());
  }
  EXPECT_EQ(graph_->api_counters().responses(kCall), uint64_t{kStreams} * kMessages);
  EXPECT_EQ(graph_->gate().inside(), 0);
}

TEST_F(GraphStreamTest, ADrainEndsStreamsWhenTheyAreAnswered) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation && conversation->WaitForMessages(1));
  server_->Drain();
  ASSERT_TRUE(conversation->WaitForClose());
  EXPECT_FALSE(conversation->cancelled());
  conversation->Send(FakeGraph::Text("answer"));
  conversation->End(OkStatus());
  EXPECT_EQ(Output(*stream), "answer");
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_EQ(Text(stream->Finish()), "14: Server exiting");
}

TEST_F(GraphStreamTest, ShutdownCancelsAtTheDeadlineWhatDoesNotEnd) {
  graph_->Hold();
  ClientContext context;
  auto stream = Open(context);
  ASSERT_TRUE(stream->Write(Message("", "x")));
  auto conversation = graph_->WaitForStream(0);
  ASSERT_TRUE(conversation);
  server_->Shutdown(SteadyNowNs() + kSecond / 5);
  EXPECT_FALSE(stream->Finish().ok());
  ASSERT_TRUE(conversation->WaitForCancel());
  server_.reset();
  // The graph ends after the server is destroyed.
  conversation->Send(FakeGraph::Text("late"));
  conversation->End(OkStatus());
  EXPECT_EQ(graph_->gate().inside(), 0);
}

class TritonGraphStreamTest : public GraphStreamTest {
 protected:
  TritonGraphStreamTest() : GraphStreamTest(Dialect::kTriton) {}
};

TEST_F(TritonGraphStreamTest, FirstMessagesFailInTheStream) {
  EXPECT_EQ(EndOf({}), "0: ");
  ClientContext context;
  auto stream = Open(context);
  ModelInferRequest message = Message("", "x");
  message.set_model_name("nobody");
  ASSERT_TRUE(stream->Write(message));
  EXPECT_EQ(Fault(*stream), "Request for unknown model: 'nobody' is not found");
  stream->WritesDone();
  EXPECT_EQ(Fault(*stream), "the stream has ended");
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace braid
