import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Instance, ROOT } from "./instance.ts";
import { startWrangler } from "./wrangler.ts";

/**
 * Applies the migrations to the local database of an instance. A state that has them all is known by a marker in its folder, which saves the 2 s that
 * wrangler takes to find out. Resolves to an error message, or null.
 */
export async function migrate(instance: Instance, stateDir: string, onApply: () => void = () => {}): Promise<string | null> {
  const marker = join(stateDir, "migrations.sha256");
  const wanted = migrationsHash(join(ROOT, "migrations"));
  const done = existsSync(marker) && readFileSync(marker, "utf8").trim() === wanted && existsSync(join(stateDir, "v3", "d1"));
  if (done) return null;
  onApply();
  const wrangler = startWrangler(["d1", "migrations", "apply", "DB", "-c", `wrangler.${instance}.toml`, "--local", "--persist-to", stateDir], stateDir);
  const exit = await wrangler.exited;
  if (exit !== 0) return `the migrations of ${instance} failed (${exit}):\n${wrangler.lines.join("\n")}`;
  writeFileSync(marker, `${wanted}\n`);
  return null;
}

function migrationsHash(folder: string): string {
  const hash = createHash("sha256");
  const files = readdirSync(folder).filter((file) => file.endsWith(".sql"));
  for (const file of files.toSorted())
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(folder, file)))
      .update("\0");
  return hash.digest("hex");
}
