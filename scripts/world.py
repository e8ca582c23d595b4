"""A small network of namespaces with a line in it, for scripts: client - gateway - modem - server.

Principles: nothing outside the namespaces is touched, and they are gone when the world is closed; the line is two token
buckets with FIFOs in the modem, so that any kernel has it; the server is routed to, and answers pings at an address
behind the modem. Non-goals: exact framing and delay (evenkeel-lab has them).
"""
import os
import subprocess
import threading
import time

SERVER = "198.51.100.1"


def sh(command, check=True, **more):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True, **more)


class World:
    """Names end with this process's number, so that several may be there."""

    def __init__(self, down="20mbit", up="5mbit", buffer="300ms"):
        self.n = os.getpid()
        self.client, self.gateway, self.modem, self.server = (f"ek-{w}-{self.n}" for w in ("client", "gateway", "modem", "server"))
        self.down, self.up, self.buffer = down, up, buffer
        self.started = []
        self.build()

    def ns(self, where, command, check=True):
        return sh(f"ip netns exec {where} {command}", check)

    def link(self, a, name_a, b, name_b):
        sh(f"ip link add {name_a} netns {a} type veth peer name {name_b} netns {b}")
        self.ns(a, f"ip link set {name_a} up")
        self.ns(b, f"ip link set {name_b} up")

    def build(self):
        for name in (self.client, self.gateway, self.modem, self.server):
            sh(f"ip netns add {name}")
            self.ns(name, "ip link set lo up")
            self.ns(name, "sysctl -qw net.ipv4.ip_forward=1")
        self.link(self.client, "eth0", self.gateway, "lan")
        self.ns(self.client, "ip addr add 10.0.0.2/24 dev eth0")
        self.ns(self.gateway, "ip addr add 10.0.0.1/24 dev lan")
        self.ns(self.client, "ip route add default via 10.0.0.1")
        self.wan()
        self.link(self.modem, "isp", self.server, "eth0")
        self.ns(self.modem, "ip addr add 203.0.113.1/24 dev isp")
        self.ns(self.server, "ip addr add 203.0.113.2/24 dev eth0")
        self.ns(self.server, f"ip addr add {SERVER}/32 dev lo")
        self.ns(self.server, "ip route add default via 203.0.113.1")
        self.ns(self.modem, f"ip route add {SERVER}/32 via 203.0.113.2")
        self.ns(self.modem, f"tc qdisc add dev isp root tbf rate {self.up} burst 4kb latency {self.buffer}")

    def wan(self):
        """The link to the modem: made once, and again when a fault has removed it."""
        self.link(self.gateway, "wan", self.modem, "line")
        self.ns(self.gateway, "ip addr add 192.0.2.2/24 dev wan")
        self.ns(self.modem, "ip addr add 192.0.2.1/24 dev line")
        self.ns(self.gateway, "ip route add default via 192.0.2.1")
        self.ns(self.modem, "ip route replace 10.0.0.0/24 via 192.0.2.2")
        self.ns(self.modem, f"tc qdisc add dev line root tbf rate {self.down} burst 4kb latency {self.buffer}")

    def start(self, where, words, **more):
        process = subprocess.Popen(["ip", "netns", "exec", where, *words], **more)
        self.started.append(process)
        return process

    def load(self, up=1, down=1):
        """TCP connections that send as much as they can, until the world is closed."""
        send = "import socket,sys\nl=socket.create_server(('0.0.0.0',int(sys.argv[1])),backlog=16)\nimport threading\ndef go(c):\n  try:\n    while 1: c.sendall(bytes(65536))\n  except OSError: pass\nwhile 1: threading.Thread(target=go,args=(l.accept()[0],),daemon=True).start()"
        take = "import socket,sys,time\nwhile 1:\n  try:\n    s=socket.create_connection((sys.argv[1],int(sys.argv[2])),5); s.settimeout(5)\n    while s.recv(65536): pass\n  except OSError: time.sleep(.3)"
        push = "import socket,sys,time\nwhile 1:\n  try:\n    s=socket.create_connection((sys.argv[1],int(sys.argv[2])),5); s.settimeout(5)\n    while 1: s.sendall(bytes(65536))\n  except OSError: time.sleep(.3)"
        sink = "import socket,sys,threading\nl=socket.create_server(('0.0.0.0',int(sys.argv[1])),backlog=16)\ndef go(c):\n  try:\n    while c.recv(65536): pass\n  except OSError: pass\nwhile 1: threading.Thread(target=go,args=(l.accept()[0],),daemon=True).start()"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.start(self.server, ["python3", "-c", send, "8001"], **quiet)
        self.start(self.server, ["python3", "-c", sink, "8002"], **quiet)
        time.sleep(0.5)
        for _ in range(down):
            self.start(self.client, ["python3", "-c", take, SERVER, "8001"], **quiet)
        for _ in range(up):
            self.start(self.client, ["python3", "-c", push, SERVER, "8002"], **quiet)

    def pings(self, seconds=2.0):
        """Whether the client reaches the server now."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.ns(self.client, f"ping -c 1 -W 1 {SERVER}", check=False).returncode == 0:
                return True
        return False

    def close(self):
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()
        for name in (self.client, self.gateway, self.modem, self.server):
            sh(f"ip netns del {name}", check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
