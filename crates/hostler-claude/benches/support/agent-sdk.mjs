// Runs the official SDK on the same directory: `node agent-sdk.mjs HOME ORDER`.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [home, json] = process.argv.slice(2);
const { what, rounds, id } = JSON.parse(json);
const find = createRequire(join(home, "node_modules/"));
const sdk = await import(pathToFileURL(find.resolve("@anthropic-ai/claude-agent-sdk")));
const times = [];
let count = 0;
for (let round = 0; round < rounds; round++) {
  const begun = performance.now();
  const all = what === "list" ? await sdk.listSessions() : await sdk.getSessionMessages(id);
  times.push(performance.now() - begun);
  count = all.length;
}
times.sort((a, b) => a - b);
// The system reports it in kB.
const peak = process.resourceUsage().maxRSS / 1024;
console.log(JSON.stringify({ ms: times[Math.floor(times.length / 2)], count, peak }));
