/**
 * What a browser's worker keeps: in memory first, and behind that in IndexedDB, which may go away at any moment. The site's data is cleared, another
 * tab upgrades or deletes the database, the disk is full, the process behind it dies. A worker whose storage fails still answers its jobs.
 */
import * as z from "zod";
import { type ResultShelf, withinBounds } from "../session/delivery.ts";
import type { KeptResult } from "../session/state.ts";
import { Database, type Ending, STORES, type StoreName } from "./database.ts";

const RETRY_MS = 250;
const RETRY_MAX_MS = 60_000;

/** A storage that is back before this is not worth a notice. Right after the site's data was cleared a browser may not answer either. */
const LASTING_MS = 3_000;

/**
 * What has become of the browser's storage: all is on disk; it never was to be had; it was deleted while the worker ran; it takes nothing more; it
 * does not answer; a newer version of this page has it. In all but the last one the worker goes on in memory.
 */
export type StorageState = "kept" | "blocked" | "cleared" | "full" | "failed" | "outdated";

/** Whether the value under `key` is this worker's: another tab may have stored another one since. */
type Guard = { store: StoreName; key: string; isOurs: (stored: unknown) => Promise<boolean> };

/** The worker's storage. `change` rejects while something is not on disk, and what it was given is written later where that is possible. */
export class KeptStore {
  readonly #factory: IDBFactory;
  readonly #onState: (state: StorageState) => void;
  readonly #memory = new Map<StoreName, Map<string, unknown>>(STORES.map((name) => [name, new Map<string, unknown>()]));
  #database: Database | null = null;
  #state: StorageState = "kept";
  #guard: Guard | null = null;
  /** The memory has changed since it was last written as a whole. */
  #stale = false;
  #retryMs = RETRY_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notice: ReturnType<typeof setTimeout> | undefined;

  private constructor(factory: IDBFactory, onState: (state: StorageState) => void) {
    this.#factory = factory;
    this.#onState = onState;
  }

  /** Never rejects: where nothing can be stored the state says so. `onState` is called with each later change of it. */
  static async open(factory: IDBFactory, onState: (state: StorageState) => void): Promise<KeptStore> {
    const store = new KeptStore(factory, onState);
    try {
      store.#database = await store.#connect(true);
      for (const name of STORES) for (const [key, value] of (await store.#database?.entries(name)) ?? []) store.#objects(name).set(key, value);
    } catch (error) {
      store.#disconnect();
      store.#state = isNamed(error, "VersionError") ? "outdated" : "blocked";
    }
    return store;
  }

  get state(): StorageState {
    return this.#state;
  }

  /** From now on nothing is written over a value that is not this worker's. */
  guard(guard: Guard): void {
    this.#guard = guard;
  }

  /** The value on disk, where another tab may have changed it; else the one in memory. */
  async get(store: StoreName, key: string): Promise<unknown> {
    const objects = this.#objects(store);
    try {
      if (this.#state === "kept" && this.#database !== null) objects.set(key, await this.#database.get(store, key));
    } catch (error) {
      this.#failed(error);
    }
    return objects.get(key);
  }

  /** All values of a store. */
  async all(store: StoreName): Promise<unknown[]> {
    return [...this.#objects(store).values()];
  }

  /** Puts and deletes; resolves when they are on disk. */
  async change(store: StoreName, puts: readonly (readonly [key: string, value: unknown])[], deletes: readonly string[] = []): Promise<void> {
    const objects = this.#objects(store);
    for (const key of deletes) objects.delete(key);
    for (const [key, value] of puts) objects.set(key, value);
    this.#stale = true;
    if (this.#state !== "kept" || this.#database === null) throw new Error(`not stored: ${this.#state}`);
    try {
      await this.#database.change(store, puts, deletes);
    } catch (error) {
      // This browser will never store such a value: the others must not wait for it.
      if (isNamed(error, "DataCloneError")) for (const [key] of puts) objects.delete(key);
      else this.#failed(error);
      throw error;
    }
  }

  /** Stores everything again after it was cleared, because a person wants that. Says whether it is stored. */
  async storeAgain(): Promise<boolean> {
    if (this.#state !== "cleared") return this.#state === "kept";
    try {
      this.#database = await this.#connect(true);
      if (await this.#writeAll({ mayLack: true })) return true;
    } catch {
      // As it was before.
    }
    this.#disconnect();
    return false;
  }

  #objects(store: StoreName): Map<string, unknown> {
    const objects = this.#memory.get(store);
    if (objects === undefined) throw new TypeError(`there is no store ${store}`);
    return objects;
  }

  #connect(mayMake: boolean): Promise<Database | null> {
    return Database.open(this.#factory, { mayMake, onEnd: (ending) => this.#ended(ending) });
  }

  #disconnect(): void {
    this.#database?.close();
    this.#database = null;
  }

  #ended(ending: Ending): void {
    this.#disconnect();
    if (this.#state === "outdated") return;
    switch (ending) {
      case "deleted":
        return this.#become("cleared");
      case "newer":
        return this.#become("outdated");
      case "lost":
        if (this.#state === "cleared") return;
        // Cleared or failed? Only another look tells.
        this.#become("failed");
        return this.#retry(0);
      default:
        return ending satisfies never;
    }
  }

  #failed(error: unknown): void {
    if (this.#state !== "kept") return;
    const isFull = isNamed(error, "QuotaExceededError");
    this.#become(isFull ? "full" : "failed");
    if (!isFull) this.#disconnect();
    this.#retry(isFull ? this.#retryMs : 0);
  }

  #become(state: StorageState): void {
    clearTimeout(this.#timer);
    if (state === "kept") this.#retryMs = RETRY_MS;
    if (this.#state === state) return;
    this.#state = state;
    clearTimeout(this.#notice);
    if (state === "failed") this.#notice = setTimeout(() => this.#onState(state), LASTING_MS);
    else this.#onState(state);
  }

  #retry(delay: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#recover(), delay);
  }

  /** Looks whether the database is back. One that is gone is not made again: somebody has deleted it. */
  async #recover(): Promise<void> {
    const before = this.#state;
    try {
      this.#database ??= await this.#connect(false);
      // What an event said meanwhile is newer.
      if (this.#state !== before) return;
      // On a full disk it is the same database still; a new one without the key is what somebody has made after a deletion.
      if (await this.#writeAll({ mayLack: before === "full" })) return;
      this.#disconnect();
      this.#become("cleared");
    } catch (error) {
      if (this.#state !== before) return;
      if (isNamed(error, "VersionError")) return this.#become("outdated");
      const isFull = isNamed(error, "QuotaExceededError");
      if (!isFull) this.#disconnect();
      this.#become(isFull ? "full" : "failed");
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS);
      this.#retry(this.#retryMs);
    }
  }

  /** Writes all that is in memory, unless there is no database, or one with the key of another worker, or (but for `mayLack`) with none; says whether it did. */
  async #writeAll({ mayLack }: { mayLack: boolean }): Promise<boolean> {
    const { 0: database, 1: guard } = [this.#database, this.#guard] as const;
    if (database === null) return false;
    if (guard !== null) {
      const stored = await database.get(guard.store, guard.key);
      if (stored === undefined ? !mayLack : !(await guard.isOurs(stored))) return false;
    }
    do {
      this.#stale = false;
      await database.replace(this.#memory);
    } while (this.#stale);
    this.#become("kept");
    return true;
  }
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

const Kept = z.object({ jobId: z.string(), attempt: z.int(), frame: z.string(), completedAt: z.number() });

/**
 * Finished results that outlive the tab. The session wants them at once and storage answers later, so they are read before the first session and
 * written behind it: a tab that dies in the few milliseconds between keeps the result only if the coordinator has it already.
 */
export class IndexedShelf implements ResultShelf {
  readonly #database: Storage | null;
  readonly #onSave: (results: readonly KeptResult[]) => void;
  readonly #onFailure: (cause: unknown) => void;
  #results: readonly KeptResult[];

  private constructor(database: Storage | null, results: readonly KeptResult[], hooks: Hooks) {
    this.#database = database;
    this.#results = results;
    this.#onSave = hooks.onSave;
    this.#onFailure = hooks.onFailure;
  }

  static async open(database: Storage | null, hooks: Hooks): Promise<IndexedShelf> {
    const stored = (await database?.all("results")) ?? [];
    const results = stored.flatMap((value) => {
      const kept = Kept.safeParse(value);
      return kept.success ? [kept.data] : [];
    });
    return new IndexedShelf(database, withinBounds(results.sort((a, b) => a.completedAt - b.completedAt)), hooks);
  }

  load(): readonly KeptResult[] {
    return this.#results;
  }

  save(results: readonly KeptResult[]): void {
    const before = new Set(this.#results.map(keyOf));
    const now = new Set(results.map(keyOf));
    const fresh = results.filter((result) => !before.has(keyOf(result)));
    this.#results = results;
    const gone = [...before].filter((key) => !now.has(key));
    void this.#database
      ?.change(
        "results",
        fresh.map((result) => [keyOf(result), result]),
        gone,
      )
      .catch(this.#onFailure);
    this.#onSave(fresh);
  }
}

type Storage = Pick<KeptStore, "all" | "change">;

type Hooks = {
  /** Called with the results that were not there before. */
  onSave: (fresh: readonly KeptResult[]) => void;
  onFailure: (cause: unknown) => void;
};

function keyOf({ jobId, attempt }: KeptResult): string {
  return `${jobId} ${attempt}`;
}
