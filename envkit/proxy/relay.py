"""A relay that runs inside a sandbox: agents speak HTTP over TCP, and the proxy listens on a unix socket.

`SOURCE` is a program for `python3 -c`, standard library only: it listens on a port of the loopback interface (its
second argument; 0 for a free one), prints that port and carries bytes between each connection and the socket that its
first argument names.
"""

from __future__ import annotations

__all__ = ["SOURCE"]

SOURCE = r"""
import asyncio, sys

async def carry(source, sink):
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        try:
            sink.close()
        except ConnectionError:
            pass

async def serve(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(sys.argv[1])
    except OSError:
        writer.close()
        return
    # A client that goes away must be seen by the proxy at once: the end of either direction ends both.
    ways = [asyncio.create_task(carry(reader, far_writer)), asyncio.create_task(carry(far_reader, writer))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[2]))
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()

asyncio.run(main())
"""
