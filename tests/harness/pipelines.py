"""Entries of pipeline_config_list whose nodes are models with one input "x" and one output "y"."""


def node(name, model, origin, **more):
    """Returns a node x -> model -> y; `origin` is "node/item"."""
    source, item = origin.split("/")
    return {
        "name": name,
        "type": "DL model",
        "model_name": model,
        "inputs": [{"x": {"node_name": source, "data_item": item}}],
        "outputs": [{"data_item": "y", "alias": "y"}],
        **more,
    }


def pipeline(name, *nodes, source="in", result="out", **more):
    """Returns a pipeline. `source` is its input, `result` its output: the output of the last node."""
    last = {"node_name": nodes[-1]["name"], "data_item": "y"}
    return {"name": name, "inputs": [source], "outputs": [{result: last}], "nodes": list(nodes), **more}
