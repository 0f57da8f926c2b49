// The variables of a coordinator: its wrangler file, `.dev.vars`, and what its start was given. The later ones win.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { parse } from "smol-toml";
import * as z from "zod";
import { describeIssues } from "../src/protocol/issues.ts";
import { type Instance, ROOT, StartFailure } from "./coordinator-process.ts";

/** What is used of a wrangler file. */
const WranglerFile = z.object({
  main: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  vars: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()], "must be a text, a number, true or false").transform(String)),
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  d1_databases: z.array(z.object({ binding: z.string() })),
  assets: z.object({ directory: z.string(), binding: z.string() }),
});

const nameOf = (instance: string): string => `wrangler.${instance}.toml`;

/** What `main` is and what it is bound to, as its wrangler file says. @throws {StartFailure} */
export function wranglerFile(instance: string): z.infer<typeof WranglerFile> {
  const name = nameOf(instance);
  const file = parse(readFileSync(join(ROOT, name), "utf8"));
  const parsed = WranglerFile.safeParse(file);
  if (parsed.success) return parsed.data;
  throw new StartFailure(`${name}: ${describeIssues(parsed.error, file)}`);
}

const DEV_VARS = ".dev.vars";

/** The settings that `wrangler dev` would read too: secrets that are in no file of the repository. */
function devVars(): Record<string, string> {
  const path = join(ROOT, DEV_VARS);
  return existsSync(path) ? z.record(z.string(), z.string()).parse(parseEnv(readFileSync(path, "utf8"))) : {};
}

/** What an instance and its settings say of its variables. */
export type Asked = { instance: Instance; settings: Readonly<Record<string, string>> };

/** Variables of files, by the names of these. */
export type FileVariables = Record<string, Record<string, string>>;

/** The variables that files set for an instance. @throws {StartFailure} */
export function fileVariables(instance: Instance): FileVariables {
  return { [nameOf(instance)]: wranglerFile(instance).vars, [DEV_VARS]: devVars() };
}

/** The variables of a coordinator, as its program gets them. @throws {StartFailure} */
export function variables({ instance, settings }: Asked, files: FileVariables = fileVariables(instance)): Record<string, string> {
  return Object.assign({}, ...Object.values(files), settings);
}
