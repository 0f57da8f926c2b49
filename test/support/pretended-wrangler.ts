import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../unit/worker/support/folder.ts";

/** What `npx --no-install wrangler d1 execute … --command SQL --json` does, on the database in the folder that `--persist-to` names. */
export const PRETENDED_WRANGLER = `#!${process.execPath}
const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
const [,, ...args] = process.argv;
const after = (name) => args[args.indexOf(name) + 1];
if (args.slice(0, 5).join(" ") !== "--no-install wrangler d1 execute DB" || after("-c") !== "wrangler.evm.toml" || !args.includes("--local")) process.exit(2);
const results = new DatabaseSync(after("--persist-to") + "/d1.sqlite").prepare(after("--command")).all();
console.log("a line of its own\\n" + JSON.stringify([{ results, success: true, meta: {} }]));
`;

/** A state folder in which a coordinator has been. */
export function usedState(): string {
  const state = temporaryFolder();
  mkdirSync(join(state, "v3", "d1"), { recursive: true });
  return state;
}
