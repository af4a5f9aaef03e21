#include "protocols/openai/embedding_run.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/detail/base64.hpp>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/guard.h"
#include "base/utf8.h"
#include "protocols/inference/unary_inference.h"
#include "protocols/json/values.h"
#include "protocols/openai/errors.h"
#include "protocols/openai/tensors.h"
#include "protocols/openai/text_inputs.h"

namespace braid {
namespace {

bool IsFinite(std::string_view bytes) {
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Appends the row's numbers as a list, or its bytes as base64.
void AppendRow(std::string& out, std::string_view row, bool base64) {
  if (base64) {
    namespace codec = boost::beast::detail::base64;
    std::string text(codec::encoded_size(row.size()), '\0');
    text.resize(codec::encode(text.data(), row.data(), row.size()));
    out.append("\"").append(text).append("\"");
    return;
  }
  out += "[";
  for (size_t at = 0; at + sizeof(float) <= row.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, row.data() + at, sizeof(value));
    if (at > 0) out += ",";
    AppendJsonNumber(out, value);
  }
  out += "]";
}

}  // namespace

// The sink of one request; deletes itself at its end.
class EmbeddingRun::Part final : public ResponseSink {
 public:
  Part(std::shared_ptr<EmbeddingRun> run, size_t number) : run_(std::move(run)), number_(number) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    if (response && status_.ok()) {
      status_ = response->status;
      if (status_.ok()) status_ = Guarded([&] { return run_->Take(number_, *response); });
      taken_ = true;
    }
    if (!final) return;
    if (!taken_) status_ = InternalError("the model ended the request without a response");
    const std::unique_ptr<Part> self(this);
    run_->OnPartEnd(status_);
  }

 private:
  const std::shared_ptr<EmbeddingRun> run_;  // shared by its parts
  const size_t number_;
  bool taken_ = false;
  Status status_;
};

FieldFault EmbeddingRun::Begin(const OpenAiRequest& from, std::unique_ptr<InferenceRequest> first,
                               std::shared_ptr<HttpExchange> exchange,
                               std::shared_ptr<Cancellation> cancellation) {
  auto run = std::make_shared<EmbeddingRun>(std::move(exchange), std::move(cancellation));
  run->identity_ = std::move(first);
  BRAID_RETURN_IF_FAULT(run->Read(from));
  run->cancellation_->SetListener([weak = std::weak_ptr(run)] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    std::vector<std::weak_ptr<Cancellation>> parts;
    {
      MutexLock lock(self->mutex_);
      parts = self->parts_;
    }
    for (const auto& part : parts)
      if (const auto running = part.lock()) running->Cancel();
  });
  run->Advance();
  return {};
}

FieldFault EmbeddingRun::Read(const OpenAiRequest& from) {
  const ServableInfo& info = identity_->servable->get().info();
  model_ = from.model;
  const Json* input = FieldOf(from.body, "input");
  if (input == nullptr)
    return InvalidField("'input' is missing; it must be a text or a list of texts", "input");
  const auto is_text = [](const Json& each) { return each.is_string(); };
  if (input->is_string()) {
    texts_ = {input->get<std::string>()};
  } else if (input->is_array() && !input->empty() && std::all_of(input->begin(), input->end(), is_text)) {
    texts_ = input->get<std::vector<std::string>>();
  } else {
    return InvalidField("'input' must be a text or a list of texts, but it is " +
                            Shortened(DumpJson(*input), 80) +
                            "; tokens are not supported (LangChain: check_embedding_ctx_length=False)",
                        "input");
  }
  const Json* format = FieldOf(from.body, "encoding_format");
  base64_ = format != nullptr && *format == "base64";
  BRAID_RETURN_IF_FAULT(ReadMore(from, info));
  const TensorSpec& spec = *info.FindInput(kPromptInput);
  part_size_ = texts_.size();
  if (info.max_batch_size > 0) {
    part_size_ = static_cast<size_t>(info.max_batch_size);
  } else if (Shape shape = spec.shape; !FitShape(shape, texts_.size(), false)) {
    part_size_ = 1;
  }
  MutexLock lock(mutex_);
  rows_.resize(texts_.size());
  return {};
}

FieldFault EmbeddingRun::ReadMore(const OpenAiRequest& from, const ServableInfo& info) {
  constexpr std::array kRead = {"model", "input", "encoding_format"};
  for (const auto& [name, value] : from.body.items()) {
    if (value.is_null() || std::find(kRead.begin(), kRead.end(), name) != kRead.end()) continue;
    const TensorSpec* spec = info.FindInput(name);
    if (name == "user" && spec == nullptr) continue;  // a note of the client
    if (name == kPromptInput || (name == "dimensions" && spec == nullptr)) {
      return InvalidField("'" + name + "' is not supported: model '" + info.name +
                              (spec == nullptr ? "' has no input '" + name + "'" : "' gets the texts there"),
                          name);
    }
    if (spec == nullptr) {
      BRAID_RETURN_IF_FAULT(AddParameter(name, value, identity_->parameters));
      continue;
    }
    auto tensor =
        InputOf(*spec, value, info.max_batch_size > 0, identity_->servable->get().input_allocator());
    if (!tensor.ok()) return {tensor.status(), name};
    more_.push_back(*std::move(tensor));
  }
  return {};
}

Result<std::unique_ptr<InferenceRequest>> EmbeddingRun::MakePart(size_t number) {
  Servable& servable = identity_->servable->get();
  const ServableInfo& info = servable.info();
  const size_t begin = number * part_size_;
  const size_t count = std::min(part_size_, texts_.size() - begin);
  auto request = std::make_unique<InferenceRequest>();
  request->id = identity_->id;
  request->model_name = identity_->model_name;
  request->start_ns = identity_->start_ns;
  request->parameters = identity_->parameters;
  if (identity_->trace != nullptr) request->trace = identity_->trace->StartChild(info.name, info.version);
  request->servable = identity_->servable->Another();
  const TensorSpec& spec = *info.FindInput(kPromptInput);
  Shape shape = spec.shape;
  const bool batching = info.max_batch_size > 0;
  if (batching) {
    // Each row has one text.
    for (int64_t& dim : shape) dim = dim < 0 ? 1 : dim;
    shape[0] = static_cast<int64_t>(count);
    if (ElementCount(shape) != static_cast<int64_t>(count)) {
      return InvalidArgumentError("the model's input 'text_input' has the shape " +
                                  ShapeToString(spec.shape) + "; embeddings need one text in each row");
    }
  } else if (!FitShape(shape, count, false)) {
    return InvalidArgumentError("'input' has " + std::to_string(count) +
                                " texts, which do not fit the shape " + ShapeToString(spec.shape) +
                                " of the model's input");
  }
  BRAID_ASSIGN_OR_RETURN(
      Tensor input,
      TextTensor(kPromptInput, shape, std::span(texts_).subspan(begin, count), servable.input_allocator()));
  request->inputs.push_back(std::move(input));
  for (const Tensor& given : more_) {
    Tensor& tensor = request->inputs.emplace_back(given);
    if (!batching || tensor.shape.empty()) continue;
    // The same values for each row.
    const size_t row = given.data.size();
    BRAID_ASSIGN_OR_RETURN(tensor.data, servable.input_allocator().Allocate(row * count));
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(given.data.data(), row, tensor.data.mutable_data() + i * row);
    }
    tensor.shape[0] = static_cast<int64_t>(count);
  }
  return request;
}

void EmbeddingRun::Advance() {
  const size_t parts = (texts_.size() + part_size_ - 1) / part_size_;
  const auto most = static_cast<size_t>(std::max(1, 2 * identity_->servable->get().info().instance_count));
  {
    MutexLock lock(mutex_);
    if (advancing_) return;  // the caller's caller goes on
    advancing_ = true;
  }
  for (;;) {
    size_t number = 0;
    {
      MutexLock lock(mutex_);
      if (!failed_.ok() || next_ == parts || running_ == most) {
        advancing_ = false;
        break;
      }
      number = next_++;
      ++running_;
    }
    std::unique_ptr<InferenceRequest> request;
    std::unique_ptr<Part> sink;
    const Status made = Guarded([&]() -> Status {
      BRAID_ASSIGN_OR_RETURN(request, MakePart(number));
      request->cancellation = std::make_shared<Cancellation>();
      sink = std::make_unique<Part>(shared_from_this(), number);
      MutexLock lock(mutex_);
      parts_.push_back(request->cancellation);
      return OkStatus();
    });
    if (!made.ok()) {
      OnPartEnd(made);
      continue;
    }
    if (cancellation_->cancelled()) request->cancellation->Cancel();
    BeginRequest(std::move(request), *sink.release());
  }
}

Status EmbeddingRun::Take(size_t number, const InferenceResponse& response) {
  const Tensor* output = OutputOf(response, kEmbeddingOutput);
  const size_t begin = number * part_size_;
  const size_t count = std::min(part_size_, texts_.size() - begin);
  if (output == nullptr || output->type != DataType::kFp32 || output->data.empty() ||
      output->data.size() % (count * sizeof(float)) != 0) {
    return InternalError(
        "the model's output 'embedding' must be FP32 with a row for each of " + std::to_string(count) +
        " texts, but " +
        (output == nullptr ? "there is none"
                           : "it is " + std::string(TypeName(*output)) + " " + ShapeToString(output->shape)));
  }
  BRAID_ASSIGN_OR_RETURN(const auto tokens, SumOfOutput(response, "num_input_tokens"));
  const size_t width = output->data.size() / count;
  if (!base64_ && !IsFinite(output->data.text())) {
    return InternalError(
        "the model's output 'embedding' has numbers that JSON cannot carry: NaN or Infinity");
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < count; ++i) rows_[begin + i] = output->data.text().substr(i * width, width);
  tokens_ += tokens.value_or(0);
  return OkStatus();
}

void EmbeddingRun::OnPartEnd(const Status& status) {
  const size_t parts = (texts_.size() + part_size_ - 1) / part_size_;
  bool answers = false;
  Status outcome;
  {
    MutexLock lock(mutex_);
    --running_;
    if (failed_.ok()) failed_ = status;
    outcome = failed_;
    const bool over = running_ == 0 && (next_ == parts || !failed_.ok());
    answers = over && !std::exchange(answered_, over);
  }
  if (answers) {
    Answer(outcome);
  } else {
    Advance();
  }
}

void EmbeddingRun::Answer(const Status& status) {
  exchange_->Respond(MakeResponse([&]() -> Result<HttpResponse> {
    HttpResponse response = status.ok() ? JsonResponse(Body()) : OpenAiError(status);
    response.headers.emplace_back(kRequestIdHeader, identity_->id);
    return response;
  }));
}

std::string EmbeddingRun::Body() const {
  std::string out = R"({"object":"list","data":[)";
  MutexLock lock(mutex_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    out.append(i > 0 ? "," : "").append(R"({"object":"embedding","index":)").append(std::to_string(i));
    out += ",\"embedding\":";
    AppendRow(out, rows_[i], base64_);
    out += "}";
  }
  out += "],\"model\":";
  AppendJsonString(out, model_);
  const std::string tokens = std::to_string(tokens_);
  out.append(",\"usage\":{\"prompt_tokens\":").append(tokens).append(",\"total_tokens\":").append(tokens);
  out += "}}";
  return out;
}

}  // namespace braid
