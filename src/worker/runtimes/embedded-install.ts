import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { parseJson } from "./chat-answer.ts";
import { type Installed, npmCi } from "./npm-ci.ts";
import { packageRoot } from "./package-root.ts";

/** What a person types to install the embedded runtime. */
export const INSTALL_COMMAND = "npm ci --ignore-scripts --no-audit --no-fund --prefix runtimes/llama";

/** The folder of the embedded runtime's package. */
export function embeddedFolder(): string {
  return join(packageRoot(), "runtimes", "llama");
}

/** True when the embedded runtime is installed, complete, in the version this package wants. */
export function isEmbeddedInstalled(folder: string = embeddedFolder()): boolean {
  const modules = join(folder, "node_modules");
  // npm writes its hidden lockfile last: without it the install did not finish.
  if (!existsSync(join(modules, ".package-lock.json"))) return false;
  const wanted = readPackage(join(folder, "package.json"))?.dependencies?.["node-llama-cpp"];
  return wanted !== undefined && readPackage(join(modules, "node-llama-cpp", "package.json"))?.version === wanted;
}

/**
 * Installs the embedded runtime (about 100 MB); `onProgress` gets lines for a person. It is installed in a folder of its own and moved into place in
 * one step, so two processes may do it at once and one that dies leaves nothing half done.
 */
export async function installEmbedded(onProgress: (line: string) => void, options: { signal?: AbortSignal; folder?: string } = {}): Promise<Installed> {
  const folder = options.folder ?? embeddedFolder();
  if (isEmbeddedInstalled(folder)) return { ok: true };
  const stage = join(folder, `.install-${randomUUID()}`);
  try {
    await mkdir(stage);
    for (const file of ["package.json", "package-lock.json"]) await copyFile(join(folder, file), join(stage, file));
    onProgress("installing llama.cpp (about 100 MB)");
    const failure = await npmCi(stage, INSTALL_COMMAND, onProgress, options.signal);
    if (failure !== undefined) return failure;
    await moveIntoPlace(folder, stage);
    onProgress("llama.cpp is installed");
    return { ok: true };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (!["EACCES", "EPERM", "EROFS"].includes(code)) throw error;
    return { ok: false, reason: "not_writable", message: `cannot write to ${folder} (${code}); install it as the owner of that folder: ${INSTALL_COMMAND}` };
  } finally {
    await rm(stage, { recursive: true, force: true }).catch(() => {});
  }
}

async function moveIntoPlace(folder: string, stage: string): Promise<void> {
  const target = join(folder, "node_modules");
  const fresh = join(stage, "node_modules");
  try {
    await rename(fresh, target);
  } catch (error) {
    if (isEmbeddedInstalled(folder)) return;
    if (!existsSync(target)) throw error;
    // What is in the way is an old version or half an install; it leaves with the stage folder.
    await rename(target, join(stage, "replaced"));
    await rename(fresh, target).catch((again: unknown) => {
      if (!isEmbeddedInstalled(folder)) throw again;
    });
  }
}

const Package = z.object({ version: z.string().optional(), dependencies: z.record(z.string(), z.string()).optional() });

function readPackage(file: string): z.infer<typeof Package> | undefined {
  return existsSync(file) ? Package.safeParse(parseJson(readFileSync(file, "utf8"))).data : undefined;
}
