import { readFileSync } from "node:fs";
import * as z from "zod";

/** The version of this package. Read, not imported: package.json lies outside of what the compiler may see. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}
