"""The Archipelago environment contract over HTTP, from both sides.

`server` offers our world to the original's agents (`/health`, `/data/populate`, `/data/snapshot`, `/apps`, `/mcp/`);
`client` and `remote` let our harness work in an environment that is known by its URL alone.
"""
