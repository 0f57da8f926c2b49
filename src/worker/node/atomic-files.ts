// Folders and files that only their owner can read, each file written in one step: what the worker and the command keep on a disk.
import { randomUUID } from "node:crypto";
import { existsSync, linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { codeOf } from "./error-code.ts";

/** Creates the folder and its parents, if they are missing, for their owner only. Throws the system's error. */
export function makeFolder(folder: string): void {
  // Not `recursive: true`: if the parent exists but mkdir fails with ENOENT, as in /proc, Node retries forever.
  const missing: string[] = [];
  for (let at = resolve(folder); !existsSync(at) && at !== dirname(at); at = dirname(at)) missing.unshift(at);
  for (const at of missing) {
    try {
      mkdirSync(at, { mode: 0o700 });
    } catch (error) {
      // Another process was faster.
      if (!existsSync(at)) throw error;
    }
  }
}

/** Deletes a file that nobody needs any more. If the disk fails it stays, and nothing depends on that. */
export function discard(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // `force` only ignores that it is not there.
  }
}

/** Creates a file that only its owner can read; false if it exists already. The file never exists with incomplete content. */
export function placeOnce(file: string, content: string): boolean {
  const draft = `${file}.${randomUUID()}`;
  try {
    writeFileSync(draft, content, { mode: 0o600, flag: "wx" });
    return linked(draft, file) ?? createExclusive(file, content);
  } finally {
    // Also after a failed write, because a full disk leaves an empty file.
    rmSync(draft, { force: true });
  }
}

/**
 * True if the link is made, false if the file exists already. Undefined if the file system has no links. Systems report
 * this with many codes: EPERM, EACCES (Android), EISDIR (exFAT on Windows).
 */
function linked(draft: string, file: string): boolean | undefined {
  try {
    // Unlike a rename, a link never replaces an existing file.
    linkSync(draft, file);
    return true;
  } catch (error) {
    return codeOf(error) === "EEXIST" ? false : undefined;
  }
}

/** All that a file system without links has. */
function createExclusive(file: string, content: string): boolean {
  try {
    writeFileSync(file, content, { mode: 0o600, flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/**
 * Replaces a file in one step: it has the old or the new content, and a failed write leaves no draft. Only its owner can read it. Two processes must not write
 * the same draft at once. Throws the system's error.
 */
export function replaceFile(file: string, content: string): void {
  const draft = `${file}.new`;
  try {
    writeFileSync(draft, content, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
