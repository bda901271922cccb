"""Clients of splitc predict --listen, and a link with a delay.

load SOCKET LINES WANT CLIENTS N [AHEAD]: CLIENTS clients send N lines each, and up to AHEAD before they read. Every answer
    must be that of WANT to the client's line, or an error because the server is away. Prints JSON.
vanish SOCKET LINES CLIENTS: each sends lines and closes its connection at once.
greedy SOCKET LINES N: one sends N lines before it reads anything; then it must get N answers in order.
relay PORT MS: relays one port, which it prints, with a delay of MS each way."""
import asyncio
import json
import socket
import sys
import time

AWAY = {"PEER_LOST", "TIMEOUT", "UNAVAILABLE", "BUSY"}


def bare(answer):
    return {key: value for key, value in json.loads(answer).items() if key not in ("name", "label", "sample", "servers_word")}


async def load(path, lines, want, clients, n, ahead=1):
    lines = open(lines, "rb").read().splitlines(True)
    want = [bare(line) for line in open(want)]
    times, away, right = [], 0, 0

    async def client(number):
        nonlocal away, right
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 20)
        sent = []
        for k in range(n):
            while len(sent) < n and len(sent) < k + ahead:
                writer.write(lines[(7 * number + len(sent)) % len(lines)])
                sent.append(time.monotonic())
            text = await reader.readline()
            answer = json.loads(text)
            times.append(time.monotonic() - sent[k])
            assert answer["sample"] == k, (k, answer)
            if answer.get("error") in AWAY:
                away += 1
                await asyncio.sleep(0.01)
            else:
                assert bare(text) == want[(7 * number + k) % len(lines)], (number, k, answer)
                right += 1
        writer.close()

    await asyncio.gather(*(client(i) for i in range(clients)))
    times.sort()
    print(json.dumps({"right": right, "away": away, "p50_ms": 1000 * times[len(times) // 2],
                      "p99_ms": 1000 * times[len(times) * 99 // 100]}))


def vanish(path, lines, clients):
    lines = open(lines, "rb").read()
    for _ in range(clients):
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)
            one.sendall(lines[:2000])


def greedy(path, lines, n):
    lines = open(lines, "rb").read().splitlines(True)
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        one.setblocking(False)
        text, got, quiet = b"".join(lines[i % len(lines)] for i in range(n)), b"", 0
        while text and quiet < 20:  # until splitc takes no more for a second
            try:
                text, quiet = text[one.send(text[:65536]):], 0
            except BlockingIOError:
                quiet += 1
                time.sleep(0.05)
        assert text, "all lines were taken, though no answer was read"
        print("stuck", flush=True)
        sys.stdin.readline()
        one.settimeout(60)
        while got.count(b"\n") < n:
            try:
                one.setblocking(False)
                text = text[one.send(text[:65536]):] if text else text
            except BlockingIOError:
                pass
            one.settimeout(60)
            got += one.recv(1 << 20)
    assert [json.loads(line)["sample"] for line in got.splitlines()] == list(range(n))


async def relay(port, ms):
    async def one_way(reader, writer):
        queue = asyncio.Queue()

        async def write():
            while (item := await queue.get())[1]:
                await asyncio.sleep(max(0, item[0] - time.monotonic()))
                writer.write(item[1])
            writer.close()

        task = asyncio.create_task(write())
        try:
            while data := await reader.read(1 << 16):
                queue.put_nowait((time.monotonic() + ms / 1000, data))
        except ConnectionError:
            pass
        queue.put_nowait((0, b""))
        await task

    async def both(reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(one_way(reader, up_writer), one_way(up_reader, writer))

    server = await asyncio.start_server(both, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


what, *args = sys.argv[1:]
args = [int(a) if a.isdigit() else a for a in args]
run = {"load": load, "vanish": vanish, "greedy": greedy, "relay": relay}[what]
if asyncio.iscoroutinefunction(run):
    asyncio.run(run(*args))
else:
    run(*args)
