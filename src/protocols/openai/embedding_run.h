// EmbeddingRun: one request for embeddings, from its texts to the reply. A list with more texts than the model
// takes at once is split into several requests, a few of which run at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/field_fault.h"
#include "protocols/http/exchange.h"
#include "protocols/openai/request.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class EmbeddingRun final : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  // Begins the run. `first` has the identity of all its requests. The run answers the exchange. Errors:
  // INVALID_ARGUMENT with the field; nothing has begun then.
  static FieldFault Begin(const OpenAiRequest& from, std::unique_ptr<InferenceRequest> first,
                          std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Cancellation> cancellation);

  // For Begin() alone.
  EmbeddingRun(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Cancellation> cancellation)
      : exchange_(std::move(exchange)), cancellation_(std::move(cancellation)) {}

 private:
  class Part;

  FieldFault Read(const OpenAiRequest& from);
  // Reads the fields beside the texts: inputs of the model, and parameters.
  FieldFault ReadMore(const OpenAiRequest& from, const ServableInfo& info);
  // Begins requests until enough of them run.
  void Advance();
  Result<std::unique_ptr<InferenceRequest>> MakePart(size_t number);
  Status Take(size_t number, const InferenceResponse& response);
  void OnPartEnd(const Status& status);
  void Answer(const Status& status);
  std::string Body() const;

  const std::shared_ptr<HttpExchange> exchange_;
  const std::shared_ptr<Cancellation> cancellation_;  // shared with the exchange
  std::unique_ptr<InferenceRequest> identity_;        // what all requests have
  std::string model_;
  std::vector<std::string> texts_;
  size_t part_size_ = 1;      // texts of one request
  std::vector<Tensor> more_;  // further inputs, for one text or row
  bool base64_ = false;

  mutable Mutex mutex_;
  std::vector<std::string> rows_ BRAID_GUARDED_BY(mutex_);  // by text: its embedding's bytes
  int64_t tokens_ BRAID_GUARDED_BY(mutex_) = 0;
  size_t next_ BRAID_GUARDED_BY(mutex_) = 0;     // part to begin
  size_t running_ BRAID_GUARDED_BY(mutex_) = 0;  // parts
  bool advancing_ BRAID_GUARDED_BY(mutex_) = false;
  Status failed_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Cancellation>> parts_ BRAID_GUARDED_BY(mutex_);
  bool answered_ BRAID_GUARDED_BY(mutex_) = false;
};

}  // namespace braid
