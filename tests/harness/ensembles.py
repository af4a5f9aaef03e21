"""Ensembles in a model repository."""

from harness.repository import config


def step(model, inputs, outputs):
    """Returns one step, with maps from the step's names to the ensemble's."""
    maps = "".join(
        f'{kind} {{ key: "{key}" value: "{value}" }} '
        for kind, pairs in (("input_map", inputs), ("output_map", outputs))
        for key, value in pairs.items()
    )
    return f'step [ {{ model_name: "{model}" model_version: -1 {maps} }} ]'


def ensemble(
    repository, name, steps, inputs=(("X", "FP32", [-1]),), outputs=(("Y", "FP32", [-1]),), more_fields="", **more
):
    extra = f'platform: "ensemble"\nensemble_scheduling {{ {" ".join(steps)} }}\n{more_fields}'
    return repository.add(name, None, config(name, inputs, outputs, backend=None, extra=extra, **more))
