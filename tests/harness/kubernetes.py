"""Validates Braid's manifests by kubeconform, with the schemas of Kubernetes and of custom resources."""

import json
import re
import subprocess

import yaml

from harness.public_clients import environment, need

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
NUMBER = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
NUMBER_OR_TEXT = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
# The CRDs are long; the loader in C reads them in a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def strict(schema):
    """Returns the schema without extensions of JSON Schema, and with all unnamed fields forbidden."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return NUMBER_OR_TEXT
    made = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: strict(each) for name, each in value.items()}
        elif not key.startswith("x-kubernetes-") and key not in ("format", "default"):
            made[key] = strict(value)
    keeps_more = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in made and not keeps_more:
        made["additionalProperties"] = False
    return made


def file_name(group, version, kind):
    return f"{kind.lower()}-{group.split('.')[0]}-{version}.json".replace("--", "-")


def with_all_it_names(name, definitions):
    """Returns a self-contained schema: the definition, and those that it refers to."""
    found, left = {}, [name]
    while left:
        each = left.pop()
        if each not in found:
            # The document has a text, which is the wire format; people also write numbers.
            known = {QUANTITY: {"type": ["string", "number"]}, NUMBER: NUMBER_OR_TEXT}
            found[each] = known.get(each) or strict(definitions[each])
            left += re.findall(r'"#/definitions/([^"]+)"', json.dumps(found[each]))
    return {"$ref": f"#/definitions/{name}", "definitions": found}


class SchemaJudge:
    def __init__(self, folder):
        self._program = need("kubeconform") / "kubeconform"
        self._folder = folder
        folder.mkdir()
        self._template = f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
        source = need("kubernetes-schemas")
        self._definitions = json.loads((source / "swagger.json").read_text())["definitions"]
        # File names of kinds: {name: the schema's name in the definitions}.
        self._kinds = {}
        for name, each in self._definitions.items():
            kinds = each.get("x-kubernetes-group-version-kind", [])
            # Other definitions belong to many groups at once, such as the options of a deletion.
            if len(kinds) == 1:
                (kind,) = kinds
                self._kinds[file_name(kind["group"], kind["version"], kind["kind"])] = name
        for file in source.glob("*.yaml"):
            resource = yaml.load(file.read_text(), LOADER)["spec"]
            for version in resource["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                name = file_name(resource["group"], version["name"], resource["names"]["kind"])
                (folder / name).write_text(json.dumps(schema))

    def judge(self, manifests):
        """Returns (errors, number of valid objects); `manifests` is YAML."""
        for each in filter(None, yaml.load_all(manifests, LOADER)):
            group, _, version = each["apiVersion"].rpartition("/")
            file = file_name(group, version, each["kind"])
            if file in self._kinds and not (self._folder / file).exists():
                schema = with_all_it_names(self._kinds[file], self._definitions)
                (self._folder / file).write_text(json.dumps(schema))
        command = [self._program, "-strict", "-output", "json", "-summary", "-schema-location", self._template, "-"]
        done = subprocess.run(
            command, input=manifests, capture_output=True, text=True, timeout=120, env=environment(), check=False
        )
        told = json.loads(done.stdout)
        return [f"{each['kind']} {each['name']}: {each['msg']}" for each in told["resources"]], told["summary"]["valid"]


def helm(*arguments, check=True):
    done = subprocess.run(
        [need("helm") / "helm", *map(str, arguments)], capture_output=True, text=True, timeout=60, env=environment(),
        check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
