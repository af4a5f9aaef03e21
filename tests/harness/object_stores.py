"""Object stores that serve in a test: emulators of S3, of Google's and of Azure's, and a network that breaks."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import urllib.request

import boto3
import botocore.config

from harness import public_clients
from harness.programs import Program

KEY, SECRET = "test-key-id", "test+secret/key"
# Variables of this machine that would reach the server's rclone.
CLOUD = re.compile(r"(AWS|AZURE|GOOGLE|RCLONE|S3|STORAGE|TRITON)_.*|(?i:(https?|all|no)_proxy)")


def environment(**variables):
    """Returns the variables of a server: those of the test, and none of the machine's that concern object stores."""
    return {**{name: "" for name in os.environ if CLOUD.fullmatch(name)}, **variables}


class S3(Program):
    """moto: an emulator of S3 that compares no credentials until `demand_credentials()`."""

    def __init__(self, folder):
        super().__init__([pathlib.Path(sys.executable), "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], folder)

    def __enter__(self):
        super().__enter__()
        self.env = environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1")
        self._client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            verify=False,
            config=botocore.config.Config(proxies={}, s3={"addressing_style": "path"}),
        )
        return self

    def bucket(self, name, access="private"):
        """Makes a bucket; with `access` public-read, requests without credentials can read it."""
        self._client.create_bucket(Bucket=name, ACL=access)
        return Bucket(self, self._client, name, access)

    def demand_credentials(self, on):
        """Makes it refuse keys that it does not know, or accept all of them again."""
        url = f"http://127.0.0.1:{self.port}/moto-api/reset-auth"
        count = b"0" if on else b"Infinity"
        request = urllib.request.Request(url, count, {"Content-Type": "text/plain"}, method="POST")
        urllib.request.urlopen(request, timeout=20).close()


class Bucket:
    """A bucket of S3. `url` is its URL with the store's address, `plain` the one without."""

    def __init__(self, store, client, name, access):
        self._client = client
        self._access = access
        self.name = name
        self.env = store.env
        self.port = store.port
        self.plain = f"s3://{name}"

    @property
    def url(self):
        return self.at(self.port)

    def at(self, port):
        """Returns the URL by way of another port, such as that of a BadNetwork."""
        return f"s3://127.0.0.1:{port}/{self.name}"

    def put(self, key, content):
        body = content.encode() if isinstance(content, str) else content
        self._client.put_object(Bucket=self.name, Key=key, Body=body, ACL=self._access)

    def put_folder(self, folder, prefix):
        """Uploads a folder's files."""
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def delete(self, prefix):
        listed = self._client.list_objects_v2(Bucket=self.name, Prefix=prefix)
        for each in listed["Contents"]:
            self._client.delete_object(Bucket=self.name, Key=each["Key"])


class Google(Program):
    """An emulator of Google's store with a bucket `models`."""

    def __init__(self, folder):
        program = pathlib.Path(sys.executable).parent / "gcp-storage-emulator"
        super().__init__(
            [program, "start", "--host", "127.0.0.1", "--port", "0", "--in-memory", "--default-bucket", "models"],
            folder,
        )

    def __enter__(self):
        super().__enter__()
        self.env = environment(STORAGE_EMULATOR_HOST=f"http://127.0.0.1:{self.port}")
        self.url = "gs://models"
        return self

    def put(self, key, content):
        url = (
            f"http://127.0.0.1:{self.port}/upload/storage/v1/b/models/o?uploadType=media&name={key.replace('/', '%2F')}"
        )
        urllib.request.urlopen(urllib.request.Request(url, content.encode(), method="POST"), timeout=20).close()


class Azure(Program):
    """Azurite: Azure's emulator of blobs, with a container `models`."""

    def __init__(self, folder):
        node = public_clients.need("azurite", "node")
        program = node / "node_modules" / ".bin" / "azurite-blob"
        options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        super().__init__([program, "--blobHost", "127.0.0.1", "--blobPort", "0", *options], folder)

    def __enter__(self):
        super().__enter__()
        endpoint = f"http://127.0.0.1:{self.port}/devstoreaccount1"
        self.env = environment(AZURE_STORAGE_CONNECTION_STRING=f"UseDevelopmentStorage=true;BlobEndpoint={endpoint}")
        self.url = "az://models"
        self._rclone = {
            "RCLONE_CONFIG_A_TYPE": "azureblob",
            "RCLONE_CONFIG_A_USE_EMULATOR": "true",
            "RCLONE_CONFIG_A_ENDPOINT": endpoint,
            "PATH": os.environ["PATH"],
        }
        self._run("mkdir", "A:models")
        return self

    def put(self, key, content):
        self._run("rcat", f"A:models/{key}", content=content.encode())

    def _run(self, *words, content=b""):
        subprocess.run(["rclone", "--config=", *words], env=self._rclone, input=content, check=True, timeout=30)


class BadNetwork:
    """Forwards connections from `port` of the loopback interface to port `target`. Use as a context manager.

    `fault` decides about answers above 64 KiB: None forwards them, "cut" closes the connection in their middle,
    "change" flips a bit, and "stall" forwards nothing more.
    """

    FREE = 1 << 16

    def __init__(self, target):
        self.fault = None
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open = []
        self._closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def close(self):
        """Ends all connections, and refuses new ones."""
        self._closed.set()
        for each in [self._listening, *self._open]:
            self._close(each)

    @staticmethod
    def _close(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._open += [client, server]
            state = {"answered": 0}
            threading.Thread(target=self._forward, args=(client, server, state, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, state, True), daemon=True).start()

    def _forward(self, source, sink, state, answers):
        try:
            while piece := source.recv(1 << 14):
                if not answers:
                    state["answered"] = 0  # a new request
                elif state["answered"] + len(piece) > self.FREE and self.fault is not None:
                    if self.fault == "stall":
                        self._closed.wait()
                    if self.fault == "cut":
                        break
                    piece = bytes([piece[0] ^ 1]) + piece[1:]
                state["answered"] += len(piece)
                sink.sendall(piece)
        except OSError:
            pass
        self._close(sink)
        self._close(source)


def credential_file(path, content):
    """Writes a file for TRITON_CLOUD_CREDENTIAL_PATH; returns its path."""
    path.write_text(json.dumps(content))
    return str(path)
