// Drives `reedclaw acp` with the protocol's own TypeScript library, which checks each message itself.
// Arguments: the directory of the library, the program, the working directory.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [library, program, cwd] = process.argv.slice(2);
const found = createRequire(`${library}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(found));
const agent = spawn(program, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const updates = [];
let asked = 0;
const app = acp
  .client({ name: "test" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked += 1;
    const option = params.options.find((it) => it.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    updates.push(params.update);
  });

const out = {};
await app.connectWith(stream, async (ctx) => {
  const { session } = acp.methods.agent;
  const begun = await ctx.request(acp.methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  out.version = begun.protocolVersion;
  const { sessionId } = await ctx.request(session.new, { cwd, mcpServers: [] });
  const ask = (text) => ctx.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  out.hello = (await ask("hello")).stopReason;
  out.make = (await ask("make it")).stopReason;
  const slow = ask("slow");
  while (!updates.some((it) => it.content?.text === "begun")) await new Promise((done) => setImmediate(done));
  await ctx.notify(session.cancel, { sessionId });
  out.slow = (await slow).stopReason;
  await ctx.request(session.close, { sessionId });
  const before = updates.length;
  await ctx.request(session.load, { sessionId, cwd, mcpServers: [] });
  out.replayed = updates.slice(before).filter((it) => it.sessionUpdate === "user_message_chunk").length;
});
out.asked = asked;
out.text = updates.filter((it) => it.sessionUpdate === "agent_message_chunk").map((it) => it.content.text).join("|");
agent.stdin.end();
out.exit = await new Promise((done) => agent.on("exit", done));
console.log(JSON.stringify(out));
