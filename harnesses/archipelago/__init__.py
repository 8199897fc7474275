"""The Archipelago harness: office work through MCP tools, with servers that run inside the sandbox."""
