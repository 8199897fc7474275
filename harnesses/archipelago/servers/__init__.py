"""The office MCP servers: one process inside the sandbox hosts every app behind a namespace; each also runs alone."""
