"""Mean and standard deviation. There is no config.pbtxt: the model describes itself in auto_complete_config."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(0)
        config.add_input({"name": "VALUES", "data_type": "TYPE_FP64", "dims": [-1]})
        config.add_output({"name": "MEAN", "data_type": "TYPE_FP64", "dims": [1]})
        config.add_output({"name": "DEVIATION", "data_type": "TYPE_FP64", "dims": [1]})
        return config

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy()
            mean = np.array([values.mean()])
            deviation = np.array([values.std()])
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("MEAN", mean), pb_utils.Tensor("DEVIATION", deviation)])
            )
        return responses
