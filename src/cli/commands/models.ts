import { untrusted } from "../../worker/node/status-line.ts";
import { command } from "../command.ts";
import { print, printJson } from "../print.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";

/** `compute-router models`. */
export const models = command({
  name: "models",
  description: "List the models that connected workers offer, for `run --model`",
  args: { url: SEEKER_ARGS.url, json: SEEKER_ARGS.json },
  run: async (args) => {
    // The list has no user.
    const list = await asking({ url: args.url, user: "models" }, (client) => client.models());
    if (args.json === true) return printJson(list);
    const width = Math.max(0, ...list.data.map(({ id }) => id.length));
    for (const { id, workers } of list.data) print(untrusted(`${id.padEnd(width)}  ${inWorkers(workers)}`));
    if (list.data.length > 0) return;
    const online = list.workers_online;
    print(online === 0 ? "no worker takes LLM jobs now" : `${inWorkers(online)} for LLM jobs, without the name of a model`, process.stderr);
  },
});

function inWorkers(count: number): string {
  return count === 1 ? "1 worker" : `${count} workers`;
}
