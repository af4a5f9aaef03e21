// Fixture for tests of pipelines: models that are functions of their inputs, and definitions as short texts.
//
//   AddModel("double", {Spec("IN", kInt32, {-1, 2})}, {...}, function);
//   auto p = Serve(Entry({"x"}, {"out=a/y"}, {Dl("a", "double", {"IN=request/x"}, {"OUT=y"})}));
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/pipeline.h"
#include "pipeline/testing/ensemble_fixture.h"

namespace braid {

// Makes an INT32 tensor; without values it counts up from `first`.
inline Tensor Ints(std::string name, Shape shape, std::vector<int32_t> values) {
  Tensor tensor = Int32Tensor(std::move(name), values);
  tensor.shape = std::move(shape);
  return tensor;
}

inline std::pair<std::string, std::string> SplitAt(const std::string& text, char mark) {
  const size_t at = text.find(mark);
  return {text.substr(0, at), at == std::string::npos ? "" : text.substr(at + 1)};
}

// Parses "IN=node/item".
inline OvmsConnection Connection(const std::string& text) {
  auto [name, source] = SplitAt(text, '=');
  auto [node, item] = SplitAt(source, '/');
  return {name, {node, item}};
}

// Makes a model node: inputs as "IN=node/item", outputs as "OUT=alias".
inline OvmsNodeConfig Dl(const std::string& name, const std::string& model,
                         const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  OvmsNodeConfig node;
  node.name = name;
  node.model_name = model;
  for (const auto& input : inputs) node.inputs.push_back(Connection(input));
  for (const auto& output : outputs) {
    auto [item, alias] = SplitAt(output, '=');
    node.outputs.push_back({item, alias});
  }
  return node;
}
inline OvmsNodeConfig Cutting(OvmsNodeConfig node, int32_t count) {
  node.demultiply_count = count;
  return node;
}
inline OvmsNodeConfig Gathering(OvmsNodeConfig node, const std::string& from) {
  node.gather_from_node = from;
  return node;
}

// Makes a pipeline "p": outputs as "name=node/item".
inline OvmsPipelineConfig Entry(std::vector<std::string> inputs, const std::vector<std::string>& outputs,
                                std::vector<OvmsNodeConfig> nodes) {
  OvmsPipelineConfig entry;
  entry.name = "p";
  entry.inputs = std::move(inputs);
  for (const auto& output : outputs) entry.outputs.push_back(Connection(output));
  entry.nodes = std::move(nodes);
  return entry;
}

class PipelineFixture : public EnsembleFixture {
 protected:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  // Adds a model that answers at once with the function's result; without a function it keeps its requests.
  std::shared_ptr<FakeStep> AddModel(const std::string& name, std::vector<TensorSpec> inputs,
                                     std::vector<TensorSpec> outputs, Function function = {}) {
    auto model = std::make_shared<FakeStep>(name, std::move(inputs), std::move(outputs));
    if (function) {
      model->set_behaviour([function = std::move(function)](std::unique_ptr<InferenceRequest> request) {
        auto outputs = function(request->inputs);
        request->inputs.clear();
        request->Respond(FakeStep::Response(std::move(outputs)), true);
      });
    }
    catalog_.Publish(model);
    return model;
  }
  // IN -> OUT of the same shape, each value plus `number`.
  std::shared_ptr<FakeStep> AddPlus(const std::string& name, const Shape& shape, int32_t number) {
    return AddModel(name, {Spec("IN", DataType::kInt32, shape)}, {Spec("OUT", DataType::kInt32, shape)},
                    [number](const std::vector<Tensor>& inputs) {
                      std::vector<int32_t> values = Int32Values(inputs[0]);
                      for (int32_t& value : values) value += number;
                      return std::vector{Ints("OUT", inputs[0].shape, values)};
                    });
  }
  // IN -> OUT, the same buffer; with `rank` dimensions of any size.
  std::shared_ptr<FakeStep> AddSame(const std::string& name, size_t rank, DataType type = DataType::kInt32) {
    const Shape shape(rank, -1);
    return AddModel(name, {Spec("IN", type, shape)}, {Spec("OUT", type, shape)},
                    [](const std::vector<Tensor>& inputs) {
                      std::vector<Tensor> outputs{inputs[0]};
                      outputs[0].name = "OUT";
                      return outputs;
                    });
  }

  Result<std::shared_ptr<Servable>> Make(const OvmsPipelineConfig& entry) {
    return MakePipeline(entry, libraries_, threads_, deps_);
  }
  std::shared_ptr<Servable> Serve(const OvmsPipelineConfig& entry) {
    auto made = Make(entry);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return nullptr;
    catalog_.Publish(*made);
    return *made;
  }
  // Returns the text of an entry's faults, one per line.
  std::string Fault(const OvmsPipelineConfig& entry) { return Make(entry).status().message(); }

  void Send(const std::shared_ptr<Servable>& pipeline, ResponseSink& sink, std::vector<Tensor> inputs) {
    pipeline->Infer(Request(pipeline, sink, std::move(inputs)));
  }
  // Sends and waits; returns the outputs, or none after a failure.
  std::vector<Tensor> Run(const std::shared_ptr<Servable>& pipeline, std::vector<Tensor> inputs) {
    KeepingSink sink;
    Send(pipeline, sink, std::move(inputs));
    sink.Wait();
    EXPECT_EQ(sink.responses().size(), 1u);
    EXPECT_TRUE(sink.status().ok()) << sink.status();
    return sink.responses().empty() ? std::vector<Tensor>() : std::move(sink.responses()[0].outputs);
  }
  Status Failure(const std::shared_ptr<Servable>& pipeline, std::vector<Tensor> inputs) {
    KeepingSink sink;
    Send(pipeline, sink, std::move(inputs));
    sink.Wait();
    return sink.status();
  }

  CustomNodeLibraries libraries_;
  CustomNodeThreads threads_;
};

inline const Tensor& Named(const std::vector<Tensor>& tensors, const std::string& name) {
  for (const Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  static const Tensor none;
  return none;
}

}  // namespace braid
