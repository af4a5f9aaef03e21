"""MLServer: `mlserver start FOLDER`, with MLSERVER_MODEL_IMPLEMENTATION=mlserver_app.CLASS."""

import functions
import numpy as np
from mlserver import MLModel
from mlserver.codecs import Base64Codec, NumpyCodec, StringCodec
from mlserver.types import InferenceResponse


def _response(model, *arrays):
    outputs = [NumpyCodec.encode_output(f"OUTPUT{index}", array) for index, array in enumerate(arrays)]
    return InferenceResponse(model_name=model.name, outputs=outputs)


class AddSub(MLModel):
    async def predict(self, payload):
        return _response(self, *functions.add_sub(*(NumpyCodec.decode_input(each) for each in payload.inputs)))


class Identity(MLModel):
    async def predict(self, payload):
        array = np.frombuffer(Base64Codec.decode_input(payload.inputs[0])[0], np.float32)
        return InferenceResponse(
            model_name=self.name, outputs=[Base64Codec.encode_output("OUTPUT0", [array.tobytes()])]
        )


class Tokens(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            for token in functions.tokens():
                yield InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("OUTPUT0", [token])])


class Mlp(MLModel):
    async def load(self):
        self._network = functions.Network()
        return True

    async def predict(self, payload):
        return _response(self, self._network(NumpyCodec.decode_input(payload.inputs[0])))
