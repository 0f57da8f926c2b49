// The engine of the worker page, in its own thread: opens storage and key, runs the BrowserWorker, and talks to the page by messages.
import { ENGINE, type TaskAnswer } from "../../tasks/index.ts";
import { type TaskThread, ThreadedTasks, type ThreadHooks } from "../session/threaded-tasks.ts";
import { BrowserWorker, IndexedShelf, watchSleep } from "./browser-worker.ts";
import { History } from "./history.ts";
import { isKeyOf, KEY_PLACE, openIdentity, verifyOwn } from "./identity.ts";
import { KeptStore, type StorageState } from "./kept-store.ts";
import { claimCode, PAIRINGS, readPairings } from "./pairing.ts";
import { type EngineMessage, eventText, type PageMessage } from "./report.ts";

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

async function start(): Promise<(message: PageMessage) => void> {
  let worker: BrowserWorker | null = null;
  let isOutdated = false;
  /** A newer version of this page is in use: this worker finishes its current job and takes no other. */
  function retire(): void {
    isOutdated = true;
    worker?.rest();
    tell({ type: "outdated" });
  }
  function storageIs(state: StorageState): void {
    tell({ type: "storage", state });
    if (state === "outdated") retire();
  }

  const store = await KeptStore.open(indexedDB, storageIs);
  storageIs(store.state);
  // This version cannot read the key. With another key it would be another worker.
  if (isOutdated) return () => {};
  // The store reports its state and writes later what it cannot write now.
  const onFailure = () => {};
  const { identity, signer } = await openIdentity(store);
  store.guard({ ...KEY_PLACE, isOurs: (stored) => isKeyOf(stored, signer.publicKey) });
  const history = await History.open({
    database: store,
    verify: verifyOwn,
    onRecord: (record, delivered) => tell({ type: "record", record, delivered }),
    onFailure,
  });
  const shelf = await IndexedShelf.open(store, {
    onFailure,
    onSave: (fresh) => {
      worker?.recount();
      void Promise.all(fresh.map((result) => history.signed(result)));
    },
  });
  history.reconcile(shelf.load());
  let pairings = await readPairings(store);
  const tasks = new ThreadedTasks((hooks) => taskThread(hooks, () => void findProgram()));
  /** An updated coordinator no longer has the files of this version, and then every further job would fail here. */
  async function findProgram(): Promise<void> {
    const response = await fetch(TASK_THREAD, { cache: "no-store" }).catch(() => null);
    if (response?.status === 404) retire();
  }
  const made = (worker = new BrowserWorker({
    url: new URL("/", self.location.href.replace(/^http/, "ws")).href,
    WebSocket,
    signer,
    shelf,
    history,
    task: tasks.run,
    version: VERSION,
    onReport: (report) => tell({ type: "report", report }),
    onNote: (note) => {
      const event = eventText(note);
      if (event !== null) tell({ type: "event", at: Date.now(), ...event });
    },
  }));
  watchSleep((from, to) => {
    warn(`The page was stopped for ${Math.round((to - from) / 1000)} s: this device slept, or the browser froze the page.`);
    made.nudge();
  });

  async function pair(code: string): Promise<void> {
    const claim = await claimCode(code, signer, fetch.bind(self));
    if (!claim.ok) return tell({ type: "pairing_failed", message: claim.message });
    pairings = [claim.pairing, ...pairings].slice(0, PAIRINGS);
    await store.change("pairings", [[`${claim.pairing.pairedAt} ${code}`, claim.pairing]]).catch(onFailure);
    tell({ type: "paired", pairings });
  }

  tell({ type: "ready", identity, pairings, records: history.records, delivered: history.delivered, version: VERSION, engine: ENGINE });
  tell({ type: "report", report: made.report });

  return (message) => {
    switch (message.type) {
      case "work":
        if (isOutdated) return;
        tasks.warmUp();
        return made.work();
      case "rest":
        return made.rest();
      case "stop":
        return made.stop();
      case "nudge":
        return made.nudge();
      case "pair":
        void pair(message.code);
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
  };
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

const starting = start();
starting.catch((cause: unknown) => tell({ type: "broken", message: cause instanceof Error ? cause.message : "unexpected error" }));
// Messages that arrive while the key is read wait for it, in order.
self.addEventListener("message", ({ data }: MessageEvent<PageMessage>) => {
  void starting.then(
    (handle) => handle(data),
    () => {},
  );
});
