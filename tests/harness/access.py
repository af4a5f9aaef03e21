"""Users and rights of a server."""

import json


def access(folder, tokens, rules):
    """Options of a server that knows those of `tokens`, lines as of a token file, and allows what `rules` say. Writes both files to `folder`."""
    (folder / "tokens").write_text(tokens)
    (folder / "tokens").chmod(0o600)
    (folder / "policy").write_text(json.dumps({"rules": rules}))
    return [f"--token-file={folder / 'tokens'}", f"--policy-file={folder / 'policy'}"]
