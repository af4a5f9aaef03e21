"""pb_utils.ModelConfig: the configuration that auto_complete_config() completes."""

import json

import _braid_worker

_INPUT_KEYS = {
    "input": (("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'"),
    "output": (("name", "data_type", "dims"), "'name', 'data_type' and 'dims'"),
}


class ModelConfig:
    """A model's configuration. It can be completed, but values of config.pbtxt cannot be changed. All errors are
    ValueError."""

    def __init__(self, model_config: str):
        self._model_config = json.loads(model_config)

    def as_dict(self) -> dict:
        """Returns the configuration as a dict by field names."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Sets the largest batch size. Raises if config.pbtxt has a larger one."""
        configured = self._model_config.get("max_batch_size", 0)
        if configured > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but in auto-complete-config function "
                f"for model '{self._name}' specified max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Turns dynamic batching on. Raises if another scheduler is configured."""
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but auto-complete-config "
                    f"function for model '{self._name}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict) -> None:
        """Adds an input, or completes the configured one of that name."""
        self._add("input", input)

    def add_output(self, output: dict) -> None:
        """Adds an output, or completes the configured one of that name."""
        self._add("output", output)

    def set_model_transaction_policy(self, transaction_policy_dict: dict) -> None:
        """Sets {"decoupled": bool}. Raises if the configuration has another value."""
        for key in transaction_policy_dict:
            if key != "decoupled":
                raise ValueError(
                    "model transaction property in auto-complete-config function for model "
                    f"'{self._name}' contains property other than 'decoupled'."
                )
        configured = self._model_config.get("model_transaction_policy")
        if "decoupled" in transaction_policy_dict:
            wanted = transaction_policy_dict["decoupled"]
            if configured is None:
                self._model_config["model_transaction_policy"] = {"decoupled": wanted}
            elif configured.setdefault("decoupled", wanted) != wanted:
                raise ValueError(
                    f"trying to change decoupled property in auto-complete-config for model '{self._name}', "
                    f"which is already set to '{configured['decoupled']}'."
                )

    @property
    def _name(self) -> str:
        return self._model_config["name"]

    def _add(self, kind: str, given: dict) -> None:
        for key in ("name", "data_type"):
            if isinstance(given.get(key), bytes):
                where = f"'{key}' of an {kind} in auto-complete-config function for model '{self._name}'"
                given = {**given, key: _braid_worker.text_argument(given[key], where)}
        keys, keys_text = _INPUT_KEYS[kind]
        for key in given:
            if key not in keys:
                raise ValueError(
                    f"{kind} '{given['name']}' in auto-complete-config function for model '{self._name}' "
                    f"contains property other than {keys_text}."
                )
        if "name" not in given:
            raise ValueError(
                f"{kind} in auto-complete-config function for model '{self._name}' is missing 'name' property."
            )
        for key in ("data_type", "dims"):
            if key not in given:
                raise ValueError(
                    f"{kind} '{given['name']}' in auto-complete-config function for model '{self._name}' is "
                    f"missing '{key}' property."
                )
        entries = self._model_config.setdefault(kind, [])
        for configured in entries:
            if configured["name"] == given["name"]:
                self._complete(kind, configured, given)
                return
        entries.append({key: given[key] for key in keys if key in given})

    def _complete(self, kind: str, configured: dict, given: dict) -> None:
        name = given["name"]
        if configured.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
            configured["data_type"] = given["data_type"]
        elif configured["data_type"] != given["data_type"]:
            raise ValueError(
                f"unable to load model '{self._name}', configuration expects datatype "
                f"{configured['data_type']} for {kind} '{name}', model provides {given['data_type']}"
            )
        if not configured.get("dims"):
            configured["dims"] = given["dims"]
        elif list(configured["dims"]) != list(given["dims"]):
            raise ValueError(
                f"model '{self._name}', tensor '{name}': the model expects dims {given['dims']} but the model "
                f"configuration specifies dims {configured['dims']}"
            )
        if "optional" in given:
            if configured.get("optional", given["optional"]) != given["optional"]:
                raise ValueError(
                    f"model '{self._name}', tensor '{name}': the model expects optional {given['optional']} "
                    f"but the model configuration specifies optional {configured['optional']}"
                )
            configured["optional"] = given["optional"]
