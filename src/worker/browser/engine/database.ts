const NAME = "compute-router-worker";
const VERSION = 1;

/** What is kept: single values by name, finished results that were not acknowledged, jobs done, pairings made. */
export type StoreName = "values" | "results" | "history" | "pairings";

/** The worker's IndexedDB. Each method is one transaction and resolves when that is on disk. */
export class Database {
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
  }

  /** Rejects where the browser stores nothing (some private windows). */
  static async open(factory: IDBFactory): Promise<Database> {
    const opening = factory.open(NAME, VERSION);
    opening.addEventListener("upgradeneeded", () => {
      for (const name of ["values", "results", "history", "pairings"] satisfies StoreName[]) opening.result.createObjectStore(name);
    });
    const database = await outcome(opening);
    // A newer page in another tab wants to upgrade: do not stand in its way.
    database.addEventListener("versionchange", () => database.close());
    return new Database(database);
  }

  get(store: StoreName, key: string): Promise<unknown> {
    return outcome<unknown>(this.#database.transaction(store).objectStore(store).get(key));
  }

  /** All values of a store, by key. */
  all(store: StoreName): Promise<unknown[]> {
    return outcome<unknown[]>(this.#database.transaction(store).objectStore(store).getAll());
  }

  /** Puts and deletes in one transaction. */
  change(store: StoreName, puts: readonly (readonly [key: string, value: unknown])[], deletes: readonly string[] = []): Promise<void> {
    const transaction = this.#database.transaction(store, "readwrite", { durability: "strict" });
    const objects = transaction.objectStore(store);
    for (const key of deletes) objects.delete(key);
    for (const [key, value] of puts) objects.put(value, key);
    return new Promise((resolve, reject) => {
      transaction.addEventListener("complete", () => resolve());
      transaction.addEventListener("abort", () => reject(transaction.error ?? new Error("the browser did not store it")));
    });
  }

  clear(store: StoreName): Promise<unknown> {
    return outcome(this.#database.transaction(store, "readwrite").objectStore(store).clear());
  }
}

function outcome<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(request.error ?? new Error("the browser's storage failed")));
  });
}
