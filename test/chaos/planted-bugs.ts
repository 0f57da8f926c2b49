// Bugs that npm run test:chaos must find, each as one change of the coordinator's sources.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A change of one place of the coordinator's sources; `from` occurs exactly once in the file. */
type Bug = { file: string; from: string; to: string };

/** What the chaos must find: `npm run test:chaos -- --bug NAME` runs a coordinator that has it, and has to fail. */
export const PLANTED_BUGS: Record<string, Bug> = {
  "answers before the write": {
    file: "src/coordinator/hub/dispatcher.ts",
    from: "      this.#journal.transaction(() => (stored = this.#write(batch)));\n",
    to: "      setTimeout(() => this.#journal.transaction(() => (stored = this.#write(batch))), 300);\n",
  },
  "outbox forgets early": {
    file: "src/coordinator/hub/outbox.ts",
    from: "        const written = await writeD1(db, () => db.batch(statements));\n        for (const { meta } of written) this.#measured(meta.size_after);\n        this.#succeeded(batch);\n",
    to: "        this.#succeeded(batch);\n        await writeD1(db, () => db.batch(statements));\n",
  },
  "outbox forgets what D1 refused": {
    file: "src/coordinator/hub/outbox.ts",
    from: "        this.#failed(batch, error);\n",
    to: "        this.#failed(batch, error);\n        this.#succeeded(batch);\n",
  },
  "jobs are not read at boot": {
    file: "src/coordinator/hub/dispatcher.ts",
    from: "    restore(this.#state, saved, now);\n",
    to: "    restore(this.#state, saved.slice(1), now);\n",
  },
  "holders are forgotten": {
    file: "src/coordinator/dispatch/snapshot.ts",
    from: "      rev,\n      started,\n",
    to: "      rev,\n      holders: [],\n      started,\n",
  },
  "D1 takes every write": {
    file: "src/coordinator/store/record.ts",
    from: "  WHERE excluded.rev > jobs.rev AND jobs.status NOT IN ('completed', 'failed')`;",
    to: "`;",
  },
  "idempotency keys are kept in memory": {
    file: "src/coordinator/hub/dispatcher.ts",
    from: "    for (const { userId, key, fingerprint, jobId } of batch.idempotent.values()) this.#journal",
    to: "    for (const { userId, key, fingerprint, jobId } of [...batch.idempotent.values()].slice(1)) this.#journal",
  },
  "a code can be claimed again": {
    file: "src/coordinator/store/trust.ts",
    from: ".where(and(eq(pairings.id, sql`(${newest})`), eq(pairings.claimed, false), gt(pairings.expiresAt, now)))",
    to: ".where(and(eq(pairings.id, sql`(${newest})`), gt(pairings.expiresAt, now)))",
  },
  "a result is not stored as it was signed": {
    file: "src/coordinator/hub/completion-check.ts",
    from: "  const read = { result, receipt: receipt && { ...receipt, verified }, fault };",
    to: '  const read = { result: result.replace("run", "ran"), receipt: receipt && { ...receipt, verified }, fault };',
  },
  "a lost hub is a bug": { file: "src/coordinator/http/hub-client.ts", from: 'return fault === "thrown" ? error', to: 'return fault !== "overloaded" ? error' },
};

/** Plants a bug in a copy of the sources. @throws when there is no such bug, or its place is gone */
export function plant(folder: string, name: string): void {
  const bug = PLANTED_BUGS[name];
  if (bug === undefined) throw new Error(`no bug ${name}; there are: ${Object.keys(PLANTED_BUGS).join(", ")}`);
  const path = join(folder, bug.file);
  const text = readFileSync(path, "utf8");
  if (text.split(bug.from).length !== 2) throw new Error(`the place of the bug ${name} must be in ${bug.file} once`);
  writeFileSync(
    path,
    text.replace(bug.from, () => bug.to),
  );
}
