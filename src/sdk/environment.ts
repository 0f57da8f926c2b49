import { isJsonObject } from "../protocol/text.ts";

/** Variable `name` of the process, if there is a process and it lets us look (Deno asks for permission). Empty counts as unset. */
export function environmentVariable(name: string): string | undefined {
  try {
    const process: unknown = Reflect.get(globalThis, "process");
    const value = isJsonObject(process) && isJsonObject(process.env) ? process.env[name] : undefined;
    return typeof value === "string" && value !== "" ? value : undefined;
  } catch {
    return undefined;
  }
}
