// OpenAiCall: one POST to OpenAI's API, from its headers to the end of its reply.
//
// The body names the model, so the call looks the model up, checks the sender's rights to it, and may have it
// loaded, once the body has arrived. Errors from before the first event have their HTTP status; later ones are
// events. A client that disconnects, or reads too slowly, has its request cancelled.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/memory_use.h"
#include "base/mutex.h"
#include "protocols/http/protocol.h"
#include "protocols/inference/context.h"
#include "protocols/openai/reply.h"
#include "protocols/openai/request.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/servable_stream.h"

namespace braid {

// Owned by the connection until it has responded, and by itself while its request runs.
class OpenAiCall final : public HttpCall,
                         public ResponseSink,
                         public StreamSink,
                         public std::enable_shared_from_this<OpenAiCall> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    OpenAiRoute route;
    // Used only on the exchange's io thread. The logger outlives all requests.
    HttpProtocolHost* host;
    ProtocolContext* context;
    CatalogReader* reader;  // of that thread
  };
  explicit OpenAiCall(Setup setup) : setup_(std::move(setup)), log_(setup_.context->log) {}

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override;
  void OnBody() override;

  // Of a model.
  void Respond(std::optional<InferenceResponse> response, bool final) override;
  // Of a graph.
  void Respond(InferenceResponse response, const std::string& request_id) override;
  void OnWantsInput() override {}
  void End(Status status) override;

 private:
  // Looks the model up and begins the request, or answers with the error. Runs on the io thread.
  void Start();
  FieldFault Find();
  void StartAfterLoad();
  FieldFault Begin(std::unique_ptr<ServableHandle> handle);
  FieldFault BeginText(std::unique_ptr<InferenceRequest> request);
  FieldFault BeginRaw(std::unique_ptr<InferenceRequest> request);
  FieldFault BeginEmbedding(std::unique_ptr<InferenceRequest> request);
  FieldFault BeginGraph(std::unique_ptr<InferenceRequest> request);
  void Run(std::unique_ptr<InferenceRequest> request);
  void Trace(InferenceRequest& request);
  // Frees what the inputs were made of; a stream may take long.
  void FreeBody();
  FieldFault RunGraph(std::unique_ptr<InferenceRequest> request);

  OpenAiReplyFacts Facts() const;
  // The request's JSON with path and headers.
  std::string Document(std::string_view path_name, std::string_view head) const;

  void Take(InferenceResponse response);
  void Finish();
  void Fail(const Status& status, std::string_view param = {}, std::string_view code = {});
  void SendEvents(std::string_view events);
  // Returns the response with the id of the request.
  HttpResponse Named(HttpResponse response) const;
  void CancelRun();
  void RecordTime();

  Setup setup_;
  Logger& log_;
  std::string body_;  // until the request begins
  MemoryCharge charge_;
  OpenAiRequest request_;
  std::string id_;          // of the reply
  std::string request_id_;  // the client's, else that of the reply
  int64_t received_ns_ = 0;
  int64_t load_since_ns_ = 0;  // when the model's load was first asked for; 0: it was not

  std::shared_ptr<Servable> servable_;  // for its statistics; set when the request begins
  std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::shared_ptr<RequestTrace> trace_;
  bool begun_ = false;  // a request runs, and answers; used on the io thread

  Mutex mutex_;
  // Of a graph: its run, whether that has ended, and the error of its only message.
  std::shared_ptr<ServableStream> stream_ BRAID_GUARDED_BY(mutex_);
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;
  Status refused_ BRAID_GUARDED_BY(mutex_);

  // Keeps this object alive while the request runs.
  std::shared_ptr<OpenAiCall> self_;

  // Used by the request's owner while the request runs.
  std::unique_ptr<OpenAiReply> reply_;
  bool streaming_ = false;     // the head was sent
  bool done_ = false;          // no more output
  int64_t last_event_ns_ = 0;  // of the last response with output; 0: none
};

}  // namespace braid
