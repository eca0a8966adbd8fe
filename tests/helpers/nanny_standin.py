#!/usr/bin/python3
"""
A stand-in for a dnsmasq that misbehaves. The argument --mode=... selects what it does:

  answer    answers every query with NOTIMP and never reads the servers file
  mute      never answers
  deaf      answers and ignores SIGTERM
  exit:N    exits with status N at once
  hup       answers and exits with status 7 at the first SIGHUP

It writes the names of the signals that it receives to the file of --signals=..., one per line. The first line is "start".
"""

import os
import signal
import socket
import sys

options = dict(a[2:].partition("=")[::2] for a in sys.argv[1:] if a.startswith("--"))
mode, log = options["mode"], options.get("signals")


def note(text):
    if log:
        with open(log, "a", encoding="ascii") as f:
            f.write(text + "\n")


def take(number, _frame):
    note(signal.Signals(number).name)
    if number == signal.SIGHUP and mode == "hup":
        os._exit(7)
    if number == signal.SIGTERM and mode != "deaf":
        os._exit(0)


sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", int(options["port"])))
ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
for s in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(s, take)
print("dnsmasq: stand-in says hello", file=sys.stderr, flush=True)
# Tests send signals, or kill the reader of stderr, as soon as they see this line. So the handlers and the output come first.
note(f"start ignored={ignored} blocked={len(blocked)}")
if mode.startswith("exit:"):
    sys.exit(int(mode[5:]))
while True:
    data, peer = sock.recvfrom(4096)
    if mode != "mute" and len(data) > 12:
        sock.sendto(data[:2] + bytes([data[2] | 0x80, 0x84]) + data[4:], peer)
