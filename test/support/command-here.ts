import { vi } from "vitest";
import { runCommand } from "../../scripts/one-coordinator.ts";

/**
 * Runs `npm run dev` or `npm run serve` with these arguments in this process, for what ends it before it starts anything: a process of its own costs half a
 * second of CPU. The code that it would exit with, and the lines that it writes to standard error.
 */
export async function commandHere(args: string[], mode: "dev" | "serve"): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = [];
  const written = vi.spyOn(console, "error").mockImplementation((text) => void lines.push(...String(text).split("\n")));
  try {
    return { code: await runCommand(args, mode), lines };
  } finally {
    written.mockRestore();
  }
}
