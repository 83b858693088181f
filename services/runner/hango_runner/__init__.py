"""The runner: agents, runs, the queue, the tools."""
