// The worker's IndexedDB: keys, unacknowledged results, history and pairings, each change in one transaction.
const NAME = "compute-router-worker";
const VERSION = 1;

/** The object stores: single values by name, unacknowledged results, finished jobs, pairings. */
export const STORES = ["values", "results", "history", "pairings"] as const;
export type StoreName = (typeof STORES)[number];

/** Why a connection ended: the database was deleted, a newer version of this page needs it, or the browser has lost it. */
export type Ending = "deleted" | "newer" | "lost";

/** The worker's IndexedDB. Each method is one transaction and resolves when it is on disk. If the browser fails, the method rejects; it never throws. */
export class Database {
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
  }

  /**
   * Opens the database; null if it does not exist and `mayMake` is false. Rejects if the browser stores nothing (some private windows), and with a
   * `VersionError` if a newer version of this page has stored something.
   */
  static async open(factory: IDBFactory, hooks: { mayMake: boolean; onEnd: (ending: Ending) => void }): Promise<Database | null> {
    const opening = factory.open(NAME, VERSION);
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
