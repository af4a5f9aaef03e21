// Text decoder: converts a network's choice at each step of a line to text, for networks trained with CTC.
// Repeated choices count once, and index 0 means no character.
//
// Inputs   characters  I32 [1, T]
// Outputs  text        U8 [1, size]  UTF-8, padded with zeros; a longer text is cut between two characters
// Params   characters  the path of a file with one character per line, beginning with index 0; required
//          size        default 256
#include <fstream>

#include "node.h"

namespace {

struct Settings {
  std::vector<std::string> characters;
  uint64_t size;

  explicit Settings(const node::Params& params) : size(static_cast<uint64_t>(params.Number("size", 256))) {
    if (size < 1 || size > 1 << 20) throw std::invalid_argument("param 'size' is not from 1 to 1048576");
    const std::string path = params.Text("characters", "");
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) characters.push_back(line);
    if (characters.empty())
      throw std::invalid_argument("param 'characters': no characters in '" + path + "'");
  }
};

}  // namespace

int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("text_decoder", [&] { *manager = new Settings(node::Params(params, params_count)); });
}

int deinitialize(void* manager) {
  delete static_cast<Settings*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("text_decoder", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    const CustomNodeTensor& chosen = node::Input(inputs, inputs_count, "characters", I32, {1, 0});
    const auto* indices = reinterpret_cast<const int32_t*>(chosen.data);
    std::string text;
    for (uint64_t step = 0; step < chosen.dims[1]; ++step) {
      const int32_t index = indices[step];
      if (index == 0 || (step > 0 && index == indices[step - 1])) continue;
      if (index < 0 || static_cast<size_t>(index) >= settings.characters.size()) {
        throw std::invalid_argument("input 'characters' has an index without a character: " +
                                    std::to_string(index));
      }
      const std::string& character = settings.characters[static_cast<size_t>(index)];
      if (text.size() + character.size() > settings.size) break;
      text += character;
    }
    node::Outputs made(1);
    std::copy(text.begin(), text.end(), made.Add<uint8_t>(0, "text", U8, {1, settings.size}));
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("text_decoder", [&] {
    node::Infos made(1);
    made.Set(0, "characters", I32, {1, 0});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void* manager) {
  return node::Guarded("text_decoder", [&] {
    const auto& settings = *static_cast<Settings*>(manager);
    node::Infos made(1);
    made.Set(0, "text", U8, {1, settings.size});
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
