// The storage of a browser worker: in memory first, and then in IndexedDB, which may fail at any moment: the site's data is deleted, another tab upgrades or
// deletes the database, the disk is full, or its process dies. A worker whose storage fails still runs its jobs.

/** How many jobs of the history are kept, newest first. */
export const HISTORY_JOBS = 300;

const RETRY_MS = 250;
const RETRY_MAX_MS = 60_000;

/** A failure that ends earlier is not reported. Right after the site's data was deleted, a browser may not answer for a moment. */
const LASTING_MS = 3_000;

/**
 * The state of the browser's storage. `kept`: everything is on disk. `blocked`: it was never available. `cleared`: it was deleted while the worker ran. `full`:
 * it accepts nothing more. `failed`: it does not answer. `outdated`: a newer version of this page uses it. In all states but the last the worker continues.
 */
export type StorageState = "kept" | "blocked" | "cleared" | "full" | "failed" | "outdated";

/** Tells whether the value under `key` belongs to this worker: another tab may have stored another one. */
type Guard = { store: StoreName; key: string; isOurs: (stored: unknown) => Promise<boolean> };

/** The worker's storage. `change` rejects while something is not on disk; the change is written later if that is possible. */
export class KeptStore {
  readonly #factory: IDBFactory;
  readonly #onState: (state: StorageState) => void;
  readonly #memory = new Map<StoreName, Map<string, unknown>>(STORES.map((name) => [name, new Map<string, unknown>()]));
  #database: Database | null = null;
  #state: StorageState = "kept";
  #guard: Guard | null = null;
  /** True if the memory has changed since it was last written as a whole. */
  #stale = false;
  #retryMs = RETRY_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notice: ReturnType<typeof setTimeout> | undefined;

  private constructor(factory: IDBFactory, onState: (state: StorageState) => void) {
    this.#factory = factory;
    this.#onState = onState;
  }

  /** Opens the storage. Never rejects: if nothing can be stored, the state tells that. `onState` is called with each later change of the state. */
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

  /** From now on, never overwrites a value of another worker. */
  guard(guard: Guard): void {
    this.#guard = guard;
  }

  /** The value on disk, because another tab may have changed it; or the one in memory if the disk fails. */
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
      // This browser can never store such a value, and the other values must not wait for it.
      if (isNamed(error, "DataCloneError")) for (const [key] of puts) objects.delete(key);
      else this.#failed(error);
      throw error;
    }
  }

  /** Stores everything again after it was deleted, on a person's request. True if it is stored. */
  async storeAgain(): Promise<boolean> {
    if (this.#state !== "cleared") return this.#state === "kept";
    try {
      this.#database = await this.#connect(true);
      if (await this.#writeAll({ mayLack: true })) return true;
    } catch {
      // The state stays as it was.
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
        // It was deleted or it failed. The next try tells which.
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

  /** Checks whether the database is back. It does not create a missing one, because a person has deleted it. */
  async #recover(): Promise<void> {
    const before = this.#state;
    try {
      this.#database ??= await this.#connect(false);
      // An event has set a newer state in the meantime.
      if (this.#state !== before) return;
      // On a full disk it is still the same database. After a deletion, a database without the key was created by another tab.
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

  /** Writes everything in memory. False if there is no database, or if it has the key of another worker, or (without `mayLack`) no key. */
  async #writeAll({ mayLack }: { mayLack: boolean }): Promise<boolean> {
    const [database, guard] = [this.#database, this.#guard] as const;
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

const DATABASE_NAME = "compute-router-worker";
const DATABASE_VERSION = 1;

/** The object stores: single values by name, unacknowledged results, finished jobs, pairings. */
const STORES = ["values", "results", "history", "pairings"] as const;
type StoreName = (typeof STORES)[number];

/** Why a connection ended: the database was deleted, a newer version of this page needs it, or the browser has lost it. */
type Ending = "deleted" | "newer" | "lost";

/** The worker's IndexedDB. Each method is one transaction and resolves when it is on disk. If the browser fails, the method rejects; it never throws. */
class Database {
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
  }

  /**
   * Opens the database; null if it does not exist and `mayMake` is false. Rejects if the browser stores nothing (some private windows), and with a
   * `VersionError` if a newer version of this page has stored something.
   */
  static async open(factory: IDBFactory, hooks: { mayMake: boolean; onEnd: (ending: Ending) => void }): Promise<Database | null> {
    const opening = factory.open(DATABASE_NAME, DATABASE_VERSION);
    let isMissing = false;
    opening.addEventListener("upgradeneeded", () => {
      isMissing = !hooks.mayMake;
      // Undoes the creation of the database.
      if (isMissing) return opening.transaction?.abort();
      for (const name of STORES) opening.result.createObjectStore(name);
    });
    let database: IDBDatabase;
    try {
      database = await outcome(opening);
    } catch (error) {
      if (isMissing) return null;
      throw error;
    }
    // Another tab wants to delete or upgrade it, so this one must close it. Started transactions still finish.
    database.addEventListener("versionchange", ({ newVersion }) => {
      database.close();
      hooks.onEnd(newVersion === null ? "deleted" : "newer");
    });
    // The browser has closed it: the site's data was deleted, or the disk failed.
    database.addEventListener("close", () => hooks.onEnd("lost"));
    return new Database(database);
  }

  async get(store: StoreName, key: string): Promise<unknown> {
    return await outcome<unknown>(this.#database.transaction(store).objectStore(store).get(key));
  }

  /** All keys and values of a store, by key. */
  async entries(store: StoreName): Promise<[key: string, value: unknown][]> {
    const objects = this.#database.transaction(store).objectStore(store);
    const [keys, values] = await Promise.all([outcome(objects.getAllKeys()), outcome<unknown[]>(objects.getAll())]);
    // All keys of this database are strings.
    return keys.flatMap((key, i) => (typeof key === "string" ? [[key, values[i]]] : []));
  }

  /** Puts and deletes in one transaction. */
  async change(store: StoreName, puts: readonly (readonly [key: string, value: unknown])[], deletes: readonly string[] = []): Promise<void> {
    const transaction = this.#write([store]);
    const objects = transaction.objectStore(store);
    for (const key of deletes) objects.delete(key);
    for (const [key, value] of puts) objects.put(value, key);
    await completion(transaction);
  }

  /** Replaces the content of every store in one transaction. */
  async replace(content: ReadonlyMap<StoreName, ReadonlyMap<string, unknown>>): Promise<void> {
    const transaction = this.#write(STORES);
    for (const name of STORES) {
      const objects = transaction.objectStore(name);
      objects.clear();
      for (const [key, value] of content.get(name) ?? []) objects.put(value, key);
    }
    await completion(transaction);
  }

  close(): void {
    this.#database.close();
  }

  #write(stores: readonly StoreName[]): IDBTransaction {
    return this.#database.transaction(stores, "readwrite", { durability: "strict" });
  }
}

function outcome<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(request.error ?? new Error("the browser's storage failed")));
  });
}

function completion(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.addEventListener("complete", () => resolve());
    transaction.addEventListener("abort", () => reject(transaction.error ?? new Error("the browser did not store it")));
  });
}
