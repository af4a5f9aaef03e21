// Requests whose shapes a network does not accept: they fail with an error, and other requests are
// unaffected.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "backends/openvino/testing/triton_harness.h"

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// a = b x 4x3, where a row of ones gives 18, 22, 26.
std::shared_ptr<ov::Model> Product(const ov::PartialShape& shape = {-1, -1}) {
  auto b = models::Input("b", ov::element::f32, shape);
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>(i));
  auto weights = ov::opset13::Constant::create(ov::element::f32, {4, 3}, values);
  auto product = std::make_shared<ov::opset13::MatMul>(b, weights);
  return std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", product->output(0))},
                                     ov::ParameterVector{b}, "product");
}

// Rows and columns are computed separately, so that no other shape can repair leftovers of a bad one:
// a = b * sum over the rows of b + 4 constants.
std::shared_ptr<ov::Model> TwoWays() {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{-1, -1});
  auto sum = std::make_shared<ov::opset13::ReduceSum>(
      b, ov::opset13::Constant::create(ov::element::i64, {1}, {0}), true);
  auto relu = std::make_shared<ov::opset13::Relu>(sum);
  auto soft = std::make_shared<ov::opset13::Softmax>(relu, 1);
  auto constants = ov::opset13::Constant::create(ov::element::f32, {1, 4}, {1, 2, 3, 4});
  auto joined = std::make_shared<ov::opset13::Concat>(ov::OutputVector{soft, constants}, 0);
  auto a = std::make_shared<ov::opset13::MatMul>(b, joined, false, true);
  return std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", a->output(0))},
                                     ov::ParameterVector{b}, "two_ways");
}

Tensor Ones(int64_t rows, int64_t columns) {
  return Floats("b", {rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns), 1));
}

class BadShapes : public TritonHarness {
 protected:
  static void ExpectGood(const std::shared_ptr<Servable>& model, int64_t rows) {
    const auto response = Infer(model, {Ones(rows, 4)});
    ASSERT_TRUE(response.status.ok()) << response.status;
    ASSERT_EQ(Dims(response.outputs.at(0).shape), (std::vector<int64_t>{rows, 3}));
    std::vector<float> expected;
    for (int64_t i = 0; i < rows; ++i) expected.insert(expected.end(), {18, 22, 26});
    EXPECT_EQ(ValuesOf<float>(response.outputs[0]), expected);
  }
  static void ExpectBad(const std::shared_ptr<Servable>& model, int64_t rows, int64_t columns,
                        const std::string& shape) {
    const auto response = Infer(model, {Ones(rows, columns)});
    EXPECT_EQ(response.status.code(), StatusCode::kInvalidArgument) << response.status;
    EXPECT_THAT(response.status.message(),
                AllOf(HasSubstr("model 'm' cannot take inputs of these shapes: b " + shape + ": "),
                      Not(HasSubstr(".cpp")), Not(HasSubstr(".hpp")), Not(HasSubstr("src/"))));
  }
  // Alternates good and bad requests, on an idle and on a busy instance.
  static void ByTurns(const std::shared_ptr<Servable>& model, const std::string& open,
                      const std::string& close) {
    ASSERT_NE(model, nullptr);
    for (int i = 0; i < 3; ++i) {
      ExpectGood(model, 2);
      ExpectBad(model, 2, 5, open + "2,5" + close);
      ExpectGood(model, 2);
      ExpectBad(model, 3, 6, open + "3,6" + close);
      ExpectBad(model, 2, 1, open + "2,1" + close);
      ExpectGood(model, 2);
      ExpectGood(model, 3);
    }
  }
  // Sends 80 requests from 4 threads, one of them bad: all others are answered.
  static void OneOfEighty(const std::shared_ptr<Servable>& model) {
    ASSERT_NE(model, nullptr);
    std::atomic<int> refused{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> senders;
    for (int t = 0; t < 4; ++t) {
      senders.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          const bool bad = t == 1 && i == 7;
          const auto response = Infer(model, {Ones(2, bad ? 5 : 4)});
          if (response.status.code() == StatusCode::kInvalidArgument) {
            ++refused;
          } else if (!response.status.ok() ||
                     ValuesOf<float>(response.outputs.at(0)) != std::vector<float>{18, 22, 26, 18, 22, 26}) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(BadShapes, OfAModelOfAConfigJson) {
  Save(Product());
  for (const uint32_t requests : {1u, 2u, 4u}) {
    for (const int64_t streams : {1, 2}) {
      OvmsModelConfig config = Config();
      config.nireq = requests;
      config.plugin_config["NUM_STREAMS"] = streams;
      auto model = Start(config);
      ByTurns(model, "(", ")");
      OneOfEighty(model);
      Stop(model);
    }
  }
}

TEST_F(BadShapes, ThatComeFirst) {
  Save(Product());
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  ExpectBad(model, 2, 5, "(2,5)");
  ByTurns(model, "(", ")");
  Stop(model);
  model = Start(Config());
  OneOfEighty(model);
  Stop(model);
}

TEST_F(BadShapes, OfRangesAndAutomaticShapes) {
  Save(Product({1, 4}));
  OvmsModelConfig config = Config();
  config.shapes[""].automatic = true;
  auto model = Start(config);
  ByTurns(model, "(", ")");
  OneOfEighty(model);
  Stop(model);

  Save(Product(), "r");
  config = Config("r");
  config.name = "m";
  config.shapes[""].dimensions = {{1, 8}, {1, 8}};
  model = Start(config);
  ByTurns(model, "(", ")");
  OneOfEighty(model);
  Stop(model);
}

TEST_F(BadShapes, OfATritonRepositoryByBothNames) {
  Save(Product());
  // Both backend names run this file.
  for (const char* name :
       {"backend: 'openvino'", "backend: 'onnxruntime' default_model_filename: 'model.xml'"}) {
    for (const char* rest : {"", " instance_group { count: 3 kind: KIND_CPU }",
                             " max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 500 }"}) {
      SCOPED_TRACE(std::string(name) + rest);
      auto model = Serve(std::string(name) + rest);
      ASSERT_TRUE(model.ok()) << model.status();
      ByTurns(*model, "[", "]");
      OneOfEighty(*model);
      Stop(*model);
    }
  }
}

TEST_F(BadShapes, ThatNoGoodShapeWouldSetRight) {
  Save(TwoWays());
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  const auto good = Infer(model, {Ones(2, 4)});
  ASSERT_TRUE(good.status.ok()) << good.status;
  for (int i = 0; i < 3; ++i) {
    const auto bad = Infer(model, {Ones(2, 5)});
    EXPECT_EQ(bad.status.code(), StatusCode::kInvalidArgument) << bad.status;
    for (const int64_t rows : {2, 1, 5, 2}) {
      const auto again = Infer(model, {Ones(rows, 4)});
      ASSERT_TRUE(again.status.ok()) << again.status;
      if (rows != 2) continue;
      EXPECT_EQ(ValuesOf<float>(again.outputs[0]), ValuesOf<float>(good.outputs[0]));
    }
  }
  Stop(model);
}

// The shapes alone look valid: a pattern in the request decides.
TEST_F(BadShapes, ThatComeOfValues) {
  auto b = models::Input("b", ov::element::f32, ov::PartialShape{-1, -1});
  auto pattern = models::Input("pattern", ov::element::i64, ov::PartialShape{2});
  auto reshaped =
      std::make_shared<ov::opset13::Reshape>(std::make_shared<ov::opset13::Relu>(b), pattern, false);
  auto relu = std::make_shared<ov::opset13::Softmax>(reshaped, 1);
  auto constants = ov::opset13::Constant::create(ov::element::f32, {1, 4}, {1, 2, 3, 4});
  auto a = std::make_shared<ov::opset13::Concat>(ov::OutputVector{relu, constants}, 0);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("a", a->output(0))},
                                   ov::ParameterVector{b, pattern}, "by_value"));
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  const auto ask = [&](int64_t rows, int64_t columns) {
    return Infer(model, {Ones(2, 6), MakeTensor<int64_t>("pattern", DataType::kInt64, {2}, {rows, columns})});
  };
  for (int i = 0; i < 3; ++i) {
    const auto good = ask(3, 4);
    ASSERT_TRUE(good.status.ok()) << good.status;
    EXPECT_EQ(Dims(good.outputs.at(0).shape), (std::vector<int64_t>{4, 4}));
    for (const auto& [rows, columns] : {std::pair{4, 3}, std::pair{5, 5}}) {
      const auto bad = ask(rows, columns);
      EXPECT_EQ(bad.status.code(), StatusCode::kInternal) << bad.status;
      EXPECT_THAT(bad.status.message(),
                  AllOf(HasSubstr("Internal inference error - "), Not(HasSubstr("src/"))));
    }
  }
  Stop(model);
}

// Seeded: good and bad requests from several threads, over several infer requests; each answer is checked.
TEST_F(BadShapes, ManyFromManyThreads) {
  Save(Product());
  OvmsModelConfig config = Config();
  config.nireq = 3;
  config.plugin_config["NUM_STREAMS"] = int64_t{2};
  std::map<std::string, std::shared_ptr<Servable>> served;
  served["config"] = Start(config);
  auto triton = Serve(
      "backend: 'openvino' max_batch_size: 4 dynamic_batching {} instance_group { count: 2 kind: KIND_CPU }");
  ASSERT_TRUE(triton.ok()) << triton.status();
  served["triton"] = *triton;
  for (const auto& [name, model] : served) {
    ASSERT_NE(model, nullptr);
    std::atomic<int> wrong{0};
    std::vector<std::thread> senders;
    for (uint32_t t = 0; t < 4; ++t) {
      senders.emplace_back([&, t, model = model] {
        std::mt19937 random(t);
        for (int i = 0; i < 100; ++i) {
          const auto rows = static_cast<int64_t>(random() % 4 + 1);
          const auto columns = random() % 3 == 0 ? static_cast<int64_t>(random() % 8 + 1) : 4;
          const auto response = Infer(model, {Ones(rows, columns)});
          const bool right = columns == 4
                                 ? response.status.ok() &&
                                       response.outputs.at(0).data.size() == 12 * static_cast<size_t>(rows) &&
                                       ValuesOf<float>(response.outputs[0])[1] == 22
                                 : response.status.code() == StatusCode::kInvalidArgument;
          if (!right) ++wrong;
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    EXPECT_EQ(wrong, 0) << name;
    Stop(model);
  }
}

}  // namespace
}  // namespace braid
