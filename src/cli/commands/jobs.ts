import { untrusted } from "../../worker/node/status-line.ts";
import { command } from "../command.ts";
import { print, printJson } from "../print.ts";
import { asking, readCount, sameUser, SEEKER_ARGS } from "../seeker.ts";

/** `compute-router jobs`. */
export const jobs = command({
  name: "jobs",
  description: "List your jobs, newest first: all of them for a user with a token, otherwise those of this machine",
  args: {
    limit: { type: "string", valueHint: "n", description: "Maximum number of jobs, 1 to 100; default 20" },
    before: { type: "string", valueHint: "place", description: "Only jobs before this: a time, or what the last list has printed" },
    ...SEEKER_ARGS,
  },
  run: async (args) => {
    const limit = readCount("limit", args.limit, 1, 100);
    const { before } = args;
    const page = await asking(args, (client) => client.jobs({ ...(limit !== undefined && { limit }), ...(before !== undefined && { before }) }));
    if (args.json === true) return printJson(page);
    for (const { id, job_type, status, created_at } of page.jobs) print(untrusted([id, job_type.padEnd(9), status.padEnd(9), created_at].join("  ")));
    if (page.jobs.length === 0) print(page.source === "router" ? "no jobs" : "no jobs of this machine", process.stderr);
    const more = page.next === null ? "" : ` --before ${page.next}`;
    const count = limit === undefined ? "" : ` --limit ${limit}`;
    if (page.next !== null) print(untrusted(`older ones: ${sameUser(`jobs${count}${more}`, args)}`), process.stderr);
  },
});
