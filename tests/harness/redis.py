"""A Redis for one test, on a port of the loopback interface, with or without TLS; it stores nothing on disk."""

import socket
import ssl
import subprocess

from harness.ports import free_port
from harness.waiting import wait_until


class Redis:
    """A running Redis.

    `certificates` is a folder with root.pem, server.pem and server.key; it then speaks only TLS.
    `master` is the Redis that it replicates.
    `watches` is the Redis that it watches as a sentinel, under the name "main".
    `cluster`: it is a node of a RedisCluster.
    """

    def __init__(self, workdir, password=None, certificates=None, master=None, watches=None, cluster=False):
        self.workdir = workdir
        self.cluster_port = free_port() if cluster else None
        self.master, self.watches = master, watches
        self.password = password
        self.certificates = certificates
        self.port = free_port()
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.kill()

    @property
    def url(self):
        return f"{'rediss' if self.certificates else 'redis'}://localhost:{self.port}/3"

    def start(self):
        plain, secure = (0, self.port) if self.certificates else (self.port, 0)
        command = ["redis-server", "--bind", "127.0.0.1", "--port", plain, "--save", "", "--dir", self.workdir]
        if self.certificates:
            command += ["--tls-port", secure, "--tls-auth-clients", "no"]
            command += ["--tls-cert-file", self.certificates / "server.pem"]
            command += ["--tls-key-file", self.certificates / "server.key"]
            command += ["--tls-ca-cert-file", self.certificates / "root.pem"]
        if self.password:
            # As an option, other users could see it.
            (self.workdir / "redis.conf").write_text(f'requirepass "{self.password}"\n')
            command.insert(1, self.workdir / "redis.conf")
        if self.cluster_port:
            command += ["--cluster-enabled", "yes", "--cluster-port", self.cluster_port, "--cluster-node-timeout", 1000]
            command += ["--cluster-config-file", f"nodes-{self.port}.conf", "--cluster-require-full-coverage", "no"]
            command += ["--repl-diskless-sync-delay", 0, "--cluster-replica-validity-factor", 0]
            if self.password:
                command += ["--masterauth", self.password]
            if self.certificates:
                command += ["--tls-cluster", "yes"]
        if self.master:
            command += ["--replicaof", "127.0.0.1", self.master.port]
        if self.watches:
            file = self.workdir / f"sentinel-{self.port}.conf"
            file.write_text(
                f"sentinel monitor main 127.0.0.1 {self.watches.port} 1\n"
                "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 5000\n"
            )
            command = ["redis-server", file, "--sentinel", "--bind", "127.0.0.1", "--port", self.port]
            command += ["--dir", self.workdir]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, what="the Redis to answer")

    def _answers(self):
        assert self.process.poll() is None, f"redis-server has ended with {self.process.returncode}"
        try:
            return self.ask("PING") == b"PONG"
        except OSError:
            return False

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)

    def ask(self, *words):
        """Returns the answer to one command: bytes, a number, None, or a list of them."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as plain:
            connection = plain
            if self.certificates:
                context = ssl.create_default_context(cafile=self.certificates / "root.pem")
                connection = context.wrap_socket(plain, server_hostname="localhost")
            stream = connection.makefile("rwb")
            before = [("AUTH", self.password)] if self.password else []
            before += [] if self.watches or self.cluster_port else [("SELECT", 3)]
            for command in [*before, words]:
                pieces = [word if isinstance(word, bytes) else str(word).encode() for word in command]
                stream.write(b"*%d\r\n" % len(pieces))
                for piece in pieces:
                    stream.write(b"$%d\r\n%s\r\n" % (len(piece), piece))
                stream.flush()
                answer = self._read(stream)
            return answer

    def _read(self, stream):
        line = stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise AssertionError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._read(stream) for _ in range(int(rest))]
        return rest


class RedisCluster:
    """Three masters with a third of the slots each, and `replicas` of each. `more` is passed to each Redis. Use as a
    context manager."""

    def __init__(self, workdir, replicas=0, **more):
        self.masters, self.replicas = [], []
        try:
            for _ in range(3):
                self.masters.append(Redis(workdir, cluster=True, **more))
            for _ in range(3 * replicas):
                self.replicas.append(Redis(workdir, cluster=True, **more))
            self._join()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            node.kill()

    @property
    def nodes(self):
        return [*self.masters, *self.replicas]

    @property
    def url(self):
        scheme = "rediss" if self.masters[0].certificates else "redis"
        return f"{scheme}+cluster://{','.join(f'localhost:{node.port}' for node in self.masters)}"

    def _join(self):
        first, *others = self.nodes
        bounds = [0, 5461, 10923, 16384]
        for i, node in enumerate(self.masters):
            node.ask("CLUSTER", "ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
        for i, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in others:
            first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, node.cluster_port)
        self._wait_for(lambda node: node.ask("CLUSTER", "NODES").count(b" connected") == len(self.nodes))
        for i, node in enumerate(self.replicas):
            node.ask("CLUSTER", "REPLICATE", self.masters[i % 3].ask("CLUSTER", "MYID"))
        self._wait_for(lambda node: b"cluster_state:ok" in node.ask("CLUSTER", "INFO"))
        for node in self.replicas:
            wait_until(lambda node=node: b"master_link_status:up" in node.ask("INFO", "replication"), what="a replica")

    def _wait_for(self, condition):
        for node in self.nodes:
            wait_until(lambda node=node: condition(node), what="the nodes of the cluster to know each other")

    def owner(self, key):
        """Returns the master with a key's slot, and the slot."""
        slot = self.masters[0].ask("CLUSTER", "KEYSLOT", key)
        ranges = self.masters[0].ask("CLUSTER", "SLOTS")
        port = next(each[2][1] for each in ranges if each[0] <= slot <= each[1])
        return next(node for node in self.masters if node.port == port), slot
