// The engine of the worker page, in its own thread: opens storage and key, runs the BrowserWorker, and talks to the page by messages.
import { ENGINE, type TaskAnswer } from "../../tasks/index.ts";
import type { KeptResult } from "../session/state.ts";
import { type TaskThread, ThreadedTasks, type ThreadHooks } from "../session/executor.ts";
import { BrowserWorker, IndexedShelf, watchSleep } from "./browser-worker.ts";
import { History, type JobRecord } from "./history.ts";
import { type Identity, isKeyOf, KEY_PLACE, openIdentity, verifyOwn } from "./identity.ts";
import { KeptStore } from "./kept-store.ts";
import { claimCode, PAIRINGS, readPairings } from "./pairing.ts";
import { type EngineMessage, eventText, type PageMessage, type Pairing } from "./report.ts";

declare const self: DedicatedWorkerGlobalScope;
/** Set by scripts/build-pages.ts. */
declare const VERSION: string;
declare const TASK_THREAD: string;

function tell(message: EngineMessage): void {
  self.postMessage(message);
}

function warn(text: string): void {
  tell({ type: "event", at: Date.now(), tone: "warning", text });
}

/** The store reports its state, and writes later what it cannot write now. */
const onFailure = () => {};

/** What an engine opens before it can begin. */
type Opened = { store: KeptStore; own: Identity; history: History; shelf: IndexedShelf; pairings: readonly Pairing[] };

/** The worker of a page, as the messages of the page move it. */
class Engine {
  readonly #opened: Opened;
  readonly #worker: BrowserWorker;
  readonly #tasks = new ThreadedTasks((hooks) => taskThread(hooks, () => void this.#findProgram()));
  #pairings: readonly Pairing[];
  #isOutdated = false;

  constructor(opened: Opened) {
    const { own, history, shelf, pairings } = opened;
    this.#opened = opened;
    this.#pairings = pairings;
    this.#worker = new BrowserWorker({
      url: new URL("/", self.location.href.replace(/^http/, "ws")).href,
      WebSocket,
      signer: own.signer,
      shelf,
      history,
      task: this.#tasks.run,
      version: VERSION,
      onReport: (report) => tell({ type: "report", report }),
      onNote: (note) => {
        const event = eventText(note);
        if (event !== null) tell({ type: "event", at: Date.now(), ...event });
      },
    });
  }

  /** Opens storage and key; null if this version cannot read the key. With another key it would be another worker. */
  static async open(): Promise<Engine | null> {
    let engine: Engine | null = null;
    const store = await KeptStore.open(indexedDB, (state) => {
      tell({ type: "storage", state });
      if (state === "outdated") engine?.retire();
    });
    tell({ type: "storage", state: store.state });
    if (store.state === "outdated") {
      tell({ type: "outdated" });
      return null;
    }
    const own = await openIdentity(store);
    store.guard({ ...KEY_PLACE, isOurs: (stored) => isKeyOf(stored, own.signer.publicKey) });
    const onRecord = (record: JobRecord, delivered: number) => tell({ type: "record", record, delivered });
    const history = await History.open({ database: store, verify: verifyOwn, onRecord, onFailure });
    const shelf = await IndexedShelf.open(store, { onFailure, onSave: (fresh) => engine?.saved(fresh) });
    history.reconcile(shelf.load());
    engine = new Engine({ store, own, history, shelf, pairings: await readPairings(store) });
    engine.#begin();
    return engine;
  }

  #begin(): void {
    const { store, own, history } = this.#opened;
    watchSleep((from, to) => {
      warn(`The page was stopped for ${Math.round((to - from) / 1000)} s: this device slept, or the browser froze the page.`);
      this.#worker.nudge();
    });
    const { records, delivered } = history;
    tell({ type: "ready", identity: own.identity, pairings: this.#pairings, records, delivered, version: VERSION, engine: ENGINE });
    tell({ type: "report", report: this.#worker.report });
    // The newer version may have come while key and jobs were read.
    if (store.state === "outdated") this.retire();
  }

  /** The kept results have changed; `fresh` are the new ones. */
  saved(fresh: readonly KeptResult[]): void {
    this.#worker.recount();
    for (const result of fresh) void this.#opened.history.signed(result);
  }

  /** A newer version of this page is in use: this worker finishes its current job and takes no other. */
  retire(): void {
    this.#isOutdated = true;
    this.#worker.rest();
    tell({ type: "outdated" });
  }

  /** Handles a message of the page. */
  handle(message: PageMessage): void {
    const { store, history } = this.#opened;
    switch (message.type) {
      case "work":
        if (this.#isOutdated) return;
        this.#tasks.warmUp();
        return this.#worker.work();
      case "rest":
        return this.#worker.rest();
      case "stop":
        return this.#worker.stop();
      case "nudge":
        return this.#worker.nudge();
      case "pair":
        void this.#pair(message.code);
        return;
      case "clear_history":
        void history
          .clear()
          .catch(onFailure)
          .then(() => tell({ type: "history_cleared" }));
        return;
      case "store_again":
        void store.storeAgain().then((isStored) => {
          if (!isStored) warn("The worker could not be stored again: the browser does not allow it, or another tab has created a new worker since.");
        });
        return;
      default:
        return message satisfies never;
    }
  }

  async #pair(code: string): Promise<void> {
    const { store, own } = this.#opened;
    const claim = await claimCode(code, { signer: own.signer, host: self.location.host, ask: fetch.bind(self) });
    if (!claim.ok) return tell({ type: "pairing_failed", message: claim.reason });
    const pairing = claim.value;
    this.#pairings = [pairing, ...this.#pairings].slice(0, PAIRINGS);
    await store.change("pairings", [[`${pairing.pairedAt} ${code}`, pairing]]).catch(onFailure);
    tell({ type: "paired", pairings: this.#pairings });
  }

  /** An updated coordinator no longer has the files of this version, and then every further job would fail here. */
  async #findProgram(): Promise<void> {
    const response = await fetch(TASK_THREAD, { cache: "no-store" }).catch(() => null);
    if (response?.status === 404) this.retire();
  }
}

/** Starts a thread for tasks. `onUnloadable` is called if it ends before its first answer, because its program may no longer exist on the server. */
function taskThread({ onAnswer, onLost }: ThreadHooks, onUnloadable: () => void): TaskThread {
  const thread = new Worker(TASK_THREAD, { name: "tasks" });
  let answered = false;
  thread.addEventListener("message", ({ data }: MessageEvent<TaskAnswer>) => {
    answered = true;
    onAnswer(data);
  });
  thread.addEventListener("error", (event) => {
    // Otherwise the browser reports the error to the page too, as one of this thread.
    event.preventDefault();
    onLost();
    if (!answered) onUnloadable();
  });
  return { post: (call) => thread.postMessage(call), end: () => thread.terminate() };
}

const starting = Engine.open();
starting.catch((cause: unknown) => tell({ type: "broken", message: cause instanceof Error ? cause.message : "unexpected error" }));
// Messages that arrive while the key is read wait for it, in order.
self.addEventListener("message", ({ data }: MessageEvent<PageMessage>) => {
  void starting.then(
    (engine) => engine?.handle(data),
    () => {},
  );
});
