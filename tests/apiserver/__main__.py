"""
The stand-in as a program: python3 -m apiserver --control PATH [--options JSON] [population flags with --load]

Control: JSON lines on a Unix socket (a path) or a TCP port of 127.0.0.1 (a number). The answer to {"call": name, "args": [...], "kw":
{...}} is {"result": ...} or {"error": text, "type": exception}. The calls are the public methods of server.Server. One JSON line on
stdout gives the listening address.
"""

import argparse
import asyncio
import inspect
import json
import os
import signal
import sys

from . import population
from .server import Server

LINE = 1 << 28  # a control line can contain an object of many megabytes


async def control(server, reader, writer):
    while line := await reader.readline():
        asked = json.loads(line)
        try:
            name = asked["call"]
            method = None if name.startswith("_") else getattr(server, name)
            if not inspect.ismethod(method):
                raise AttributeError(name)
            result = method(*asked.get("args", ()), **asked.get("kw", {}))
            answer = {"result": await result if inspect.isawaitable(result) else result}
        except Exception as e:  # passes every error on to the test that made the call
            answer = {"error": f"{asked.get('call')}: {e!r}", "type": type(e).__name__}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
    writer.close()


async def run(arguments):
    server = Server(**json.loads(arguments.options))
    if arguments.load:
        server.load(**population.from_arguments(arguments))

    def accept(reader, writer):
        return control(server, reader, writer)

    if not arguments.no_listen:
        print(json.dumps(await server.start()), flush=True)
    if arguments.control.isdigit():
        await asyncio.start_server(accept, "127.0.0.1", int(arguments.control), limit=LINE)
    else:
        await asyncio.start_unix_server(accept, arguments.control, limit=LINE)
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    await done.wait()
    await server.stop("rst")


def main():
    parser = argparse.ArgumentParser(prog="apiserver", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--control", required=True, metavar="PATH|PORT", help="Unix socket, or TCP port of 127.0.0.1, for commands")
    parser.add_argument("--options", default="{}", help="arguments of Server as a JSON object: tls, host, port, http2, authentication, ...")
    parser.add_argument("--no-listen", action="store_true", help="start without the API's port; a command opens it")
    parser.add_argument("--load", action="store_true", help="create the objects of a population")
    population.add_arguments(parser)
    asyncio.run(run(parser.parse_args()))
    sys.stdout.flush()
    os._exit(0)  # ends at once: freeing the memory would take another second


if __name__ == "__main__":
    main()
