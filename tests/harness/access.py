"""Users and rights of a server."""

import json


def access(folder, tokens, rules):
    """Returns server options for the users in `tokens`, lines as in a token file, with the rights in `rules`. Writes
    both files to `folder`."""
    (folder / "tokens").write_text(tokens)
    (folder / "tokens").chmod(0o600)
    (folder / "policy").write_text(json.dumps({"rules": rules}))
    return [f"--token-file={folder / 'tokens'}", f"--policy-file={folder / 'policy'}"]
