// The storage of a browser worker on an IndexedDB in memory, which fails as it is told. test/browser/storage.test.ts has the one of a real browser.
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { KeptStore, type StorageState } from "../../../src/worker/browser/kept-store.ts";

type Data = Map<string, Map<string, unknown>>;

/** What a browser does for one site: all tabs have the same data. */
class Disk {
  /** Null: the database is deleted. */
  data: Data | null = null;
  version = 1;
  /** What each read, write and open fails with. */
  fault: Error | null = null;
  readonly connections: Connection[] = [];

  get factory(): IDBFactory {
    return { open: (_name: string, version: number) => this.#open(version) } as unknown as IDBFactory;
  }

  #open(version: number): object {
    const request = Object.assign(new EventTarget(), { result: {}, error: null as Error | null, transaction: null as object | null });
    const fail = (error: Error): void => void (Object.assign(request, { error }) && request.dispatchEvent(new Event("error")));
    queueMicrotask(() => {
      if (this.fault !== null) return fail(this.fault);
      if (this.version > version) return fail(new DOMException("", "VersionError"));
      const connection = new Connection(this);
      request.result = connection;
      if (this.data === null) {
        let isUndone = false;
        this.data = new Map();
        request.transaction = { abort: () => (isUndone = true) };
        request.dispatchEvent(new Event("upgradeneeded"));
        if (isUndone) this.data = null;
        if (isUndone) return fail(new DOMException("", "AbortError"));
      }
      this.connections.push(connection);
      request.dispatchEvent(new Event("success"));
    });
    return request;
  }

  /** Deletes the database, as another tab does. */
  delete(): void {
    this.data = null;
    for (const connection of this.connections.splice(0)) connection.dispatchEvent(Object.assign(new Event("versionchange"), { newVersion: null }));
  }
}

class Connection extends EventTarget {
  readonly #disk: Disk;

  constructor(disk: Disk) {
    super();
    this.#disk = disk;
  }

  close(): void {}

  createObjectStore(name: string): void {
    this.#disk.data?.set(name, new Map());
  }

  transaction(): object {
    const { data, fault } = this.#disk;
    const changes: (() => void)[] = [];
    const transaction = Object.assign(new EventTarget(), { error: fault, objectStore: (name: string) => store(data?.get(name) ?? new Map(), changes) });
    queueMicrotask(() => {
      if (fault === null) for (const change of changes) change();
      transaction.dispatchEvent(new Event(fault === null ? "complete" : "abort"));
    });
    return transaction;

    function store(values: Map<string, unknown>, later: (() => void)[]): object {
      const read = (result: unknown): object => {
        const request = Object.assign(new EventTarget(), { result, error: fault });
        queueMicrotask(() => request.dispatchEvent(new Event(fault === null ? "success" : "error")));
        return request;
      };
      return {
        get: (key: string) => read(values.get(key)),
        getAll: () => read([...values.values()]),
        getAllKeys: () => read([...values.keys()]),
        delete: (key: string) => later.push(() => values.delete(key)),
        clear: () => later.push(() => values.clear()),
        put: (value: unknown, key: string) => {
          const copy: unknown = structuredClone(value);
          later.push(() => values.set(key, copy));
        },
      };
    }
  }
}

const FULL = new DOMException("", "QuotaExceededError");

describe("the storage of a browser worker", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    return () => vi.useRealTimers();
  });

  /** A tab, and the states that it was told. */
  async function tab(disk: Disk): Promise<{ store: KeptStore; told: StorageState[] }> {
    const told: StorageState[] = [];
    const store = await KeptStore.open(disk.factory, (state) => told.push(state));
    onTestFinished(() => void vi.clearAllTimers());
    return { store, told };
  }

  /** A tab with a key, which it guards, and a disk that it has lost in this way. */
  async function withKey(disk: Disk): Promise<{ store: KeptStore; told: StorageState[] }> {
    const opened = await tab(disk);
    opened.store.guard({ store: "values", key: "key", isOurs: async (stored) => stored === "mine" });
    await opened.store.change("values", [["key", "mine"]]);
    return opened;
  }

  it("keeps what was put for the next visit, and reads what another tab has put since", async () => {
    const disk = new Disk();
    const [{ store }, { store: other }] = [await tab(disk), await tab(disk)];
    await store.change("results", [
      ["a", 1],
      ["b", 2],
    ]);
    await store.change("results", [], ["a"]);
    await other.change("values", [["key", "theirs"]]);
    expect(await store.get("values", "key")).toBe("theirs");
    expect([await store.all("results"), await (await tab(disk)).store.all("results")]).toEqual([[2], [2]]);
  });

  it("refuses a value that no browser stores, and keeps the others", async () => {
    const { store, told } = await tab(new Disk());
    await expect(
      store.change("values", [
        ["f", () => {}],
        ["g", () => {}],
      ]),
    ).rejects.toThrow("could not be cloned");
    await store.change("values", [["a", 1]]);
    expect([await store.all("values"), store.state, told]).toEqual([[1], "kept", []]);
  });

  it("tries more and more seldom on a full disk, and writes everything when there is room; the next time it begins again", async () => {
    const disk = new Disk();
    const { store, told } = await withKey(disk);
    await store.change("results", [["old", 0]]);
    for (const [round, value] of [1, 2].entries()) {
      disk.fault = FULL;
      await expect(store.change("results", [["a", value]])).rejects.toBe(FULL);
      // After 250 ms, then 500 ms and 1 s later.
      await vi.advanceTimersByTimeAsync(1_000);
      disk.fault = null;
      await vi.advanceTimersByTimeAsync(740);
      expect(store.state).toBe("full");
      await expect(store.change("results", [["b", value]], ["old"])).rejects.toThrow("not stored: full");
      await vi.advanceTimersByTimeAsync(20);
      expect([...(disk.data?.get("results") ?? [])]).toEqual([
        ["a", value],
        ["b", value],
      ]);
      expect(told).toEqual(Array.from({ length: round + 1 }, () => ["full", "kept"]).flat());
    }
  });

  it("says that it failed only if that lasts", async () => {
    const disk = new Disk();
    const { store, told } = await withKey(disk);
    const lose = async (): Promise<void> => {
      const fault = (disk.fault = new DOMException("", "UnknownError"));
      await expect(store.change("results", [["a", 1]])).rejects.toBe(fault);
      await vi.advanceTimersByTimeAsync(1_000);
    };
    await lose();
    disk.fault = null;
    await vi.advanceTimersByTimeAsync(2_000);
    expect([told, store.state]).toEqual([["kept"], "kept"]);
    await lose();
    await vi.advanceTimersByTimeAsync(2_100);
    expect(told).toEqual(["kept", "failed"]);
  });

  it("writes also what was put while everything is written again", async () => {
    const disk = new Disk();
    const { store } = await withKey(disk);
    disk.fault = FULL;
    await expect(store.change("results", [["a", 1]])).rejects.toBe(FULL);
    disk.fault = null;
    store.guard({
      store: "values",
      key: "key",
      isOurs: async () => {
        queueMicrotask(() => queueMicrotask(() => void store.change("results", [["b", 2]]).catch(() => {})));
        return true;
      },
    });
    await vi.advanceTimersByTimeAsync(300);
    expect([...(disk.data?.get("results")?.keys() ?? [])]).toEqual(["a", "b"]);
  });

  it("[WS3] stays deleted until a person asks for it, and never overwrites the key of another tab", async () => {
    const disk = new Disk();
    const { store, told } = await withKey(disk);
    disk.delete();
    await vi.advanceTimersByTimeAsync(120_000);
    expect([store.state, told, disk.data]).toEqual(["cleared", ["cleared"], null]);
    expect(await store.get("values", "key")).toBe("mine");
    const other = await tab(disk);
    await other.store.change("values", [["key", "theirs"]]);
    expect([await store.storeAgain(), disk.data?.get("values")?.get("key")]).toEqual([false, "theirs"]);
    disk.delete();
    expect([await store.storeAgain(), disk.data?.get("values")?.get("key"), store.state]).toEqual([true, "mine", "kept"]);
    expect(await store.storeAgain()).toBe(true);
    disk.fault = FULL;
    await expect(store.change("results", [["a", 1]])).rejects.toBe(FULL);
    expect(await store.storeAgain()).toBe(false);
  });

  it.each([
    ["not there", null],
    ["empty", new Map(["values", "results", "history", "pairings"].map((name) => [name, new Map()]))],
  ])("[WS3] that was lost and is %s now was deleted: its key is not put back by itself", async (_, left) => {
    const disk = new Disk();
    const { store, told } = await withKey(disk);
    disk.data = left;
    for (const connection of disk.connections) connection.dispatchEvent(new Event("close"));
    await vi.advanceTimersByTimeAsync(10_000);
    expect([store.state, told, disk.data?.get("values")?.size ?? null]).toEqual(["cleared", ["cleared"], left === null ? null : 0]);
  });

  it.each([
    ["outdated", (disk: Disk) => void (disk.version = 2)],
    ["blocked", (disk: Disk) => void (disk.fault = new DOMException("", "SecurityError"))],
  ])("is %s from the beginning, and the worker still works", async (state, spoil) => {
    const disk = new Disk();
    spoil(disk);
    const { store } = await tab(disk);
    await expect(store.change("values", [["a", 1]])).rejects.toThrow(`not stored: ${state}`);
    expect([store.state, await store.get("values", "a")]).toEqual([state, 1]);
  });
});
