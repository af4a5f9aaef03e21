"""What the run loop does seldom: load a model, run a coroutine, finalize. The loop itself is native."""

import asyncio
import inspect
import json
import os
import sys

import _braid_worker

from braid_worker import errors, metrics, model_file

_OK = 0
_INTERNAL = 2
_LOG_INFO = 0


class Host:
    """Called by _braid_worker.run(), on the main thread."""

    def __init__(self):
        self._model = None
        self._model_file = ""
        self._loop = None

    def load(self, message: dict) -> tuple[int, str, str]:
        """Imports, constructs and initializes a model. Returns a status code with its text, and no
        configuration."""
        _braid_worker.set_process_name(message["instance_name"])
        metrics.instance_name = message["instance_name"]
        try:
            model_class = self._import(message)
            config = json.loads(message["model_config"])
            outputs = frozenset(output["name"] for output in config.get("output", ()))
            decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
            self._model = model_class()
            _braid_worker.set_model(self._model, self._model_file, message["instance_name"], outputs, decoupled)
            self._provide_model_dir(message)
            if hasattr(self._model, "initialize"):
                initialized = self._model.initialize(
                    {
                        "model_config": message["model_config"],
                        "model_instance_kind": message["instance_kind"],
                        "model_instance_name": message["instance_name"],
                        "model_instance_device_id": message["instance_device_id"],
                        "model_repository": message["model_path"],
                        "model_version": message["model_version"],
                        "model_name": message["model_name"],
                    }
                )
                if inspect.iscoroutine(initialized):
                    self.run_coroutine(initialized)
        except FileNotFoundError as error:
            return _INTERNAL, self._missing_file(error), ""
        except BaseException as error:
            return _INTERNAL, errors.describe(error), ""
        return _OK, "", ""

    def auto_complete(self, message: dict) -> tuple[int, str, str]:
        """Lets a model complete its own configuration. Returns a status code with its text, and the
        configuration as JSON; nothing when the model has no such function."""
        from braid_worker.model_config import ModelConfig

        try:
            model_class = self._import(message)
            if not hasattr(model_class, "auto_complete_config"):
                return _OK, "", ""
            self._provide_model_dir(message)
            config = model_class.auto_complete_config(ModelConfig(message["model_config"]))
            if not isinstance(config, ModelConfig):
                return (
                    _INTERNAL,
                    f"auto_complete_config function in model '{message['model_name']}' must return a valid "
                    "pb.ModelConfig object.",
                    "",
                )
            return _OK, "", json.dumps(config.as_dict())
        except FileNotFoundError as error:
            return _INTERNAL, self._missing_file(error), ""
        except BaseException as error:
            return _INTERNAL, errors.describe(error), ""

    def run_coroutine(self, coroutine):
        """Runs a coroutine of the model to its end, on the model's event loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(coroutine)

    def describe(self, exception: BaseException) -> str:
        return errors.describe(exception)

    def finalize(self) -> None:
        """Ends the model. What it raises is logged and has no further effect."""
        try:
            if hasattr(self._model, "finalize"):
                result = self._model.finalize()
                if inspect.iscoroutine(result):
                    self.run_coroutine(result)
        except BaseException as error:
            _braid_worker.log(_LOG_INFO, self._model_file, 0, errors.describe(error))
        if self._loop is not None:
            self._loop.close()
        self._model = None

    def _import(self, message: dict):
        self._model_file = message["model_file"]
        if not os.path.isfile(self._model_file):
            raise FileNotFoundError(self._model_file)
        model_file.extend_path(self._model_file)
        module = model_file.load(self._model_file, message["module_name"])
        return module.TritonPythonModel

    def _missing_file(self, error: FileNotFoundError) -> str:
        # The model's own code may miss files too, which is another matter.
        if error.args == (self._model_file,):
            return f"Python model file not found in '{self._model_file}'"
        return errors.describe(error)

    def _provide_model_dir(self, message: dict) -> None:
        """From here on, and not before, models can ask for their folder."""
        module = sys.modules.get("triton_python_backend_utils")
        if module is None:
            import triton_python_backend_utils as module
        version_path = message["version_path"]
        module.get_model_dir = lambda: version_path
