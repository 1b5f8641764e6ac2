"""Drives `reedclaw mcp serve` with the protocol's Python library, which checks each message itself.

Arguments: the program, the workspace.
"""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    program, workspace = sys.argv[1:]
    server = StdioServerParameters(
        command=program, args=["mcp", "serve", "--offer", "tools", "--workspace", workspace], env=dict(os.environ))
    out = {}
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        begun = await session.initialize()
        info = begun.serverInfo if hasattr(begun, "serverInfo") else begun.server_info
        out["server"] = info.name
        names = [tool.name for tool in (await session.list_tools()).tools]
        verdict = await session.call_tool("policy_explain", {"command": "rm -rf /"})
        out["observed"] = json.loads(verdict.content[0].text)["risk"]
        seen = await session.call_tool("file_read", {"path": "a.txt"})
        out["read"] = "one" in seen.content[0].text and "file_read" in names
        try:
            unknown = await session.call_tool("nothing_like_it", {})
            out["unknown"] = bool(getattr(unknown, "isError", None) or getattr(unknown, "is_error", None))
        except Exception:
            out["unknown"] = True
    print(json.dumps(out))


asyncio.run(main())
