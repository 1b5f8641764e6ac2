"""Drives `reedclaw acp` with the protocol's Python library, which checks each message itself.

Arguments: the program, the working directory.
"""
import asyncio
import json
import os
import sys

import acp
from acp import schema


class Editor(acp.Client):
    def __init__(self):
        self.updates, self.asked = [], 0
        self.begun = asyncio.Event()

    def on_connect(self, conn):
        pass

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        option = next(it for it in options if it.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        if getattr(getattr(update, "content", None), "text", None) == "begun":
            self.begun.set()


async def main():
    program, cwd = sys.argv[1:]
    editor, out = Editor(), {}
    async with acp.spawn_agent_process(editor, program, "acp", env=dict(os.environ)) as (agent, process):
        out["version"] = (await agent.initialize(protocol_version=1)).protocol_version
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id

        async def ask(text):
            return (await agent.prompt(session_id=session, prompt=[acp.text_block(text)])).stop_reason

        out["hello"] = await ask("hello")
        out["make"] = await ask("make it")
        slow = asyncio.create_task(ask("slow"))
        await editor.begun.wait()
        await agent.cancel(session_id=session)
        out["slow"] = await slow
        await agent.close_session(session_id=session)
        before = len(editor.updates)
        await agent.load_session(session_id=session, cwd=cwd, mcp_servers=[])
        kinds = [it.session_update for it in editor.updates[before:]]
        out["replayed"] = kinds.count("user_message_chunk")
    out["exit"] = process.returncode
    out["asked"] = editor.asked
    chunks = [it for it in editor.updates if it.session_update == "agent_message_chunk"]
    out["text"] = "|".join(it.content.text for it in chunks)
    print(json.dumps(out))


asyncio.run(main())
