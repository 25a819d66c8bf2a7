"""What a sandbox starts instead of the agent: it opens the ways out and then becomes the agent.

    python entrance.py DESCRIPTOR PORT,PORT,… UNSET -- ARGV…

Inside there is no network but a loopback of the sandbox's own. Sockets that listen there are handed, through an
inherited Unix socket, to the runner outside, who answers on them: so no process stays between the agent and its runner,
and nothing that could be reached lies in the sandbox. This file is mounted there alone: it needs the standard library
and nothing else.
"""

import os
import socket
import sys


def main(arguments: list[str]) -> None:
    """Hand out the listening sockets, forget what only the entrance needs, and become the agent."""
    descriptor, ports, unset, _, *command = arguments
    doors = [socket.create_server(("127.0.0.1", int(port)), backlog=64) for port in ports.split(",")]
    with socket.socket(fileno=int(descriptor)) as runner:
        socket.send_fds(runner, [b"."], [door.fileno() for door in doors])
    for door in doors:
        door.close()
    for name in unset.split(","):
        os.environ.pop(name, None)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"the agent could not be started in the sandbox: {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
