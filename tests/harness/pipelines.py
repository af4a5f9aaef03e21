"""Entries of pipeline_config_list over models x -> y."""


def node(name, model, origin, **more):
    """x -> model -> y; `origin` is "node/item"."""
    source, item = origin.split("/")
    return {
        "name": name,
        "type": "DL model",
        "model_name": model,
        "inputs": [{"x": {"node_name": source, "data_item": item}}],
        "outputs": [{"data_item": "y", "alias": "y"}],
        **more,
    }


def pipeline(name, *nodes, **more):
    """Its output is that of the last node."""
    last = {"node_name": nodes[-1]["name"], "data_item": "y"}
    return {"name": name, "inputs": ["in"], "outputs": [{"out": last}], "nodes": list(nodes), **more}
