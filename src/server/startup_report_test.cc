#include "server/startup_report.h"

#include <gtest/gtest.h>

#include <memory>

namespace braid {
namespace {

class ReadyServable final : public Servable {
 public:
  explicit ReadyServable(ServableInfo info) : Servable(std::move(info)) {}

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

 private:
  HeapAllocator allocator_;
};

TensorSpec Input(std::string name, DataType type, Shape shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.shape = std::move(shape);
  return spec;
}

// Returns the sample request for a server with one model of these inputs.
std::string RequestFor(std::vector<TensorSpec> inputs) {
  ServableInfo info;
  info.name = "m";
  info.inputs = std::move(inputs);
  Catalog catalog;
  catalog.Publish(std::make_shared<ReadyServable>(std::move(info)));
  ServerAddresses addresses;
  addresses.http = {"localhost:8000"};
  return SampleRequest(catalog, addresses);
}

TEST(EndpointHere, IsOneThatAClientCanConnectTo) {
  EXPECT_EQ(EndpointHere("0.0.0.0:8000"), "127.0.0.1:8000");
  EXPECT_EQ(EndpointHere("[::]:8000"), "[::1]:8000");
  for (const char* same : {"", "127.0.0.1:1", "10.0.0.0:1", "[::1]:1"}) EXPECT_EQ(EndpointHere(same), same);
}

TEST(SampleRequest, HasValuesOfEachType) {
  const std::string begin = "curl -s http://localhost:8000/v2/models/m/infer -d '";
  EXPECT_EQ(RequestFor({Input("IN", DataType::kInt32, {-1, 3})}),
            begin + R"({"inputs":[{"name":"IN","shape":[1,3],"datatype":"INT32","data":[1,2,3]}]}')");
  EXPECT_EQ(RequestFor({Input("A", DataType::kBool, {2}), Input("B", DataType::kBytes, {1})}),
            begin + R"({"inputs":[{"name":"A","shape":[2],"datatype":"BOOL","data":[true,true]},)"
                    R"({"name":"B","shape":[1],"datatype":"BYTES","data":["hello"]}]}')");
}

TEST(SampleRequest, IsNotMadeOfWhatJsonDoesNotCarry) {
  EXPECT_EQ(RequestFor({Input("IN", DataType::kFp16, {1})}), "");
  EXPECT_EQ(RequestFor({Input("IN", DataType::kInt32, {17})}), "");
}

TEST(SampleRequest, GoesToAUnixSocket) {
  ServableInfo info;
  info.name = "m";
  Catalog catalog;
  catalog.Publish(std::make_shared<ReadyServable>(std::move(info)));
  ServerAddresses addresses;
  addresses.http = {"unix:/run/it's.sock", "127.0.0.1:8000"};
  EXPECT_EQ(
      SampleRequest(catalog, addresses),
      R"(curl -s --unix-socket '/run/it'\''s.sock' http://localhost/v2/models/m/infer -d '{"inputs":[]}')");
}

TEST(Addresses, AreTheFirstOfEachPortAndTheOthers) {
  ServerAddresses addresses;
  EXPECT_EQ(AddressesJson(addresses), "{}");
  EXPECT_EQ(OtherAddresses(addresses), "");
  addresses.http = {"127.0.0.1:1", "[::1]:1", "unix:/h"};
  addresses.grpc = {"unix:/g"};
  addresses.metrics = {"127.0.0.1:2", "unix:/m"};
  EXPECT_EQ(AddressesJson(addresses), R"({"http":"127.0.0.1:1","grpc":"unix:/g","metrics":"127.0.0.1:2"})");
  EXPECT_EQ(OtherAddresses(addresses), "http [::1]:1, http unix:/h, metrics unix:/m");
}

}  // namespace
}  // namespace braid
