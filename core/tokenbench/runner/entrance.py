"""What a sandbox starts instead of the agent: it opens the one way out and then becomes the agent.

    python entrance.py DESCRIPTOR PORT UNSET -- ARGV…

Inside there is no network but a loopback of the sandbox's own. A socket that listens there is handed, through an
inherited Unix socket, to the runner outside, who answers on it: so no process stays between the agent and its runner,
and nothing that could be reached lies in the sandbox. This file is mounted there alone: it needs the standard library
and nothing else.
"""

import os
import socket
import sys


def main(arguments: list[str]) -> None:
    """Hand out the listening socket, forget what only the entrance needs, and become the agent."""
    descriptor, port, unset, _, *command = arguments
    with socket.socket(fileno=int(descriptor)) as runner, socket.socket() as door:
        door.bind(("127.0.0.1", int(port)))
        door.listen(64)
        socket.send_fds(runner, [b"."], [door.fileno()])
    for name in unset.split(","):
        os.environ.pop(name, None)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"the agent could not be started in the sandbox: {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
