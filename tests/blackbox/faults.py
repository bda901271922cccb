"""What the black box can do to processes from outside: links, networks, disks and clocks, and which of them a machine has."""
import asyncio
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile

DISK_MB, INODES = 2, 256
PACES = (("netem", "delay", "4ms"), ("tbf", "rate", "2mbit", "burst", "3000", "latency", "400ms"))  # a step takes some time
SLOW = ("tbf", "rate", "100kbit", "burst", "3000", "latency", "400ms")
RULES = {"deaf": ("member", "DROP"), "mute": ("server", "DROP"), "reset": ("server", "REJECT", "--reject-with", "tcp-reset"),
         "lossy": ("member", "DROP", "-m", "statistic", "--mode", "random", "--probability", "0.2")}


class Relay:
    """A link with a delay, which can be cut, or hold what it carries. Runs in the loop of its case."""
    def __init__(self, to):
        self.to, self.cut, self.holds, self.writers = to, 0, 0, set()

    async def open(self):
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def accept(self, reader, writer):
        try:
            if self.cut:
                raise OSError
            there = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(self.carry(reader, there[1]), self.carry(there[0], writer), return_exceptions=True)
        except asyncio.CancelledError:
            pass  # the case is over

    async def carry(self, reader, writer):
        self.writers.add(writer)
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(0.004)
                while self.holds:
                    await asyncio.sleep(0.02)
                writer.write(data)
                await writer.drain()
        finally:
            self.writers.discard(writer)
            writer.close()

    def spoil(self, kind, on):
        if kind in ("cut", "reset"):
            self.cut += 1 if on else -1
            for w in list(self.writers) if on else ():
                w.transport.abort()
        else:
            self.holds += 1 if on else -1


class Net:
    """The server and each member in a network namespace of its own, with a cable between them."""
    def __init__(self, tag, members, means):
        self.server, self.members, self.means = f"bb{tag}s", [f"bb{tag}m{k}" for k in range(members)], means

    def open(self):
        for name in [self.server, *self.members]:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for k, name in enumerate(self.members):
            ip("-n", self.server, "link", "add", f"v{k}", "type", "veth", "peer", "name", "eth0", "netns", name)
            for at, link, last in ((self.server, f"v{k}", 1), (name, "eth0", 2)):
                ip("-n", at, "addr", "add", f"10.80.{k}.{last}/30", "dev", link)
                ip("-n", at, "link", "set", link, "up")
            self.pace(k, self.means.get("pace"))

    def pace(self, k, how):
        for at, link in ((self.server, f"v{k}"), (self.members[k], "eth0")) if how else ():
            call("tc", "-n", at, "qdisc", "replace", "dev", link, "root", *how)

    def spoil(self, kind, k, on):
        """A cable that is pulled, or carries little; packets that are lost, in one direction or now and then, or that are refused."""
        if kind == "slow" and self.means.get("slow"):
            self.pace(k, SLOW if on else self.means["pace"])
        elif kind in RULES and self.means.get("rules"):
            where, target, *more = RULES[kind]
            at, link = (self.members[k], "eth0") if where == "member" else (self.server, f"v{k}")
            call("nsenter", f"--net=/run/netns/{at}", "iptables", "-w", "-I" if on else "-D", "INPUT", "-i", link, "-p", "tcp", "-j", target, *more)
        else:
            ip("-n", self.server, "link", "set", f"v{k}", "down" if on else "up")

    def close(self):
        for name in [self.server, *self.members]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def call(*args):
    subprocess.run(args, check=True, capture_output=True)


def ip(*args):
    call("ip", *args)


def works(what, *args):
    try:
        what(*args)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


class Disk:
    """A folder, with means a small file system of its own."""
    def __init__(self, path, seed, own):
        self.path, self.seed, self.own = path, seed, own

    def open(self):
        self.path.mkdir(exist_ok=True)
        if self.own:
            call("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,nr_inodes={INODES}", "blackbox", self.path)

    def fill(self):
        """Leaves no room, or a bit less than that: the next write fails at its beginning or in its midst. Or leaves no inode."""
        r = random.Random(f"{self.seed} {self.path.name}")
        ballast = self.path / "ballast"
        ballast.mkdir(exist_ok=True)
        try:
            for n in range(INODES if r.random() < 0.25 else 0):
                (ballast / str(n)).touch()
            with open(ballast / "bytes", "ab", buffering=0) as f:
                try:
                    while f.write(bytes(4096)):
                        pass
                except OSError:
                    pass
                f.truncate(max(0, f.tell() - 4096 * r.randrange(4)))
        except OSError:
            pass  # no inode is left

    def clear(self):
        shutil.rmtree(self.path / "ballast", ignore_errors=True)

    def close(self, kept):
        if kept and self.own:
            shutil.copytree(self.path, kept, dirs_exist_ok=True)
        if self.own:
            subprocess.run(["umount", "-l", self.path], capture_output=True)


class Clock:
    """The clock of a site, which all processes there read, and which jumps while they run. Their stopwatches stay right."""
    def __init__(self, path, library):
        self.path, self.library = path, library

    def set(self, hours):
        new = self.path.with_suffix(".new")
        new.write_text(f"{hours:+d}h\n")
        new.replace(self.path)

    def env(self):
        return {"LD_PRELOAD": str(self.library), "FAKETIME_TIMESTAMP_FILE": str(self.path), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "NO_FAKE_STAT": "1", "FAKE_UTIME": "0"}


def find_clock(dir_):
    library = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library:
        clock = Clock(dir_ / "clock", library)
        clock.set(-1000)
        years = [subprocess.run(["date", "+%s"], capture_output=True, text=True, env=os.environ | more).stdout for more in ({}, clock.env())]
        library = library if all(years) and int(years[0]) - int(years[1]) > 3000000 else None
    return library


def find_means():
    """What this machine has, beside processes and a relay; and a line for each thing that it lacks."""
    means = {}
    with tempfile.TemporaryDirectory() as dir_:
        disk, means["clock"] = Disk(pathlib.Path(dir_) / "disk", 0, True), find_clock(pathlib.Path(dir_))
        means["disk"] = works(disk.open)
        if means["disk"]:
            disk.close(None)
    net = Net(f"{os.getpid()}t", 1, means)
    means["net"] = works(net.open) and works(call, "nsenter", f"--net=/run/netns/{net.server}", "true")
    if means["net"]:
        means["pace"] = next((p for p in PACES if works(net.pace, 0, p)), None)
        means["slow"] = means["pace"] and works(net.pace, 0, SLOW)
        means["rules"] = True
        means["rules"] = all(works(net.spoil, kind, 0, True) for kind in RULES)
    if shutil.which("ip"):
        net.close()
    lacks = {"clock": "clocks (package faketime)", "disk": "full disks (root, who may mount)", "net": "networks (root; packages iproute2 and util-linux)"}
    if means["net"]:
        lacks |= {"rules": "lost and refused packets (package iptables)", "pace": "slow networks (package iproute2, and netem or tbf in the kernel)"}
    return means, [f"left out: {what}" for name, what in lacks.items() if not means[name]]


def send(process, number):
    if process.returncode is None:
        process.send_signal(number)


async def stop_for(process, seconds):
    send(process, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        send(process, signal.SIGCONT)
