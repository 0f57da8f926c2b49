import * as z from "zod";
import { ENGINE } from "../../tasks/engine.ts";
import { BrowserWorker } from "./browser-worker.ts";
import { Database } from "./database.ts";
import { eventText } from "./event-text.ts";
import { History } from "./history.ts";
import { openIdentity } from "./identity.ts";
import type { EngineMessage, PageMessage, Pairing } from "./messages.ts";
import { claimCode } from "./pairing.ts";
import { IndexedShelf } from "./result-shelf.ts";
import { watchSleep } from "./sleep-watch.ts";
import { ThreadedTasks } from "./threaded-tasks.ts";
import { verifyOwn } from "./verify.ts";

declare const self: DedicatedWorkerGlobalScope;
/** Put in by scripts/build-pages.ts. */
declare const VERSION: string;
declare const TASK_THREAD: string;

const StoredPairing = z.object({ code: z.string(), pairedAt: z.string(), network: z.string() });
/** The newest pairings that are remembered. */
const PAIRINGS = 100;

function tell(message: EngineMessage): void {
  self.postMessage(message);
}

function warn(text: string): void {
  tell({ type: "event", at: Date.now(), tone: "warning", text });
}

async function openDatabase(): Promise<Database | null> {
  try {
    return await Database.open(indexedDB);
  } catch {
    warn("This browser stores nothing here, perhaps because the window is private: key, history and finished results are gone with the tab.");
    return null;
  }
}

async function readPairings(database: Database | null): Promise<Pairing[]> {
  const stored = (await database?.all("pairings")) ?? [];
  const pairings = stored.flatMap((value) => {
    const pairing = StoredPairing.safeParse(value);
    return pairing.success ? [pairing.data] : [];
  });
  return pairings.sort((a, b) => (a.pairedAt < b.pairedAt ? 1 : -1)).slice(0, PAIRINGS);
}

async function start(): Promise<(message: PageMessage) => void> {
  const database = await openDatabase();
  const onFailure = () => warn("This browser could not store something: finished results and history may not outlive the tab.");
  const { identity, signer } = await openIdentity(database);
  const history = await History.open({
    database,
    verify: verifyOwn,
    onRecord: (record, delivered) => tell({ type: "record", record, delivered }),
    onFailure,
  });
  const shelf = await IndexedShelf.open(database, {
    onFailure,
    onSave: (fresh) => {
      worker.recount();
      void Promise.all(fresh.map((result) => history.signed(result)));
    },
  });
  history.reconcile(shelf.load());
  let pairings = await readPairings(database);
  const tasks = new ThreadedTasks(() => new Worker(TASK_THREAD, { name: "tasks" }));
  const worker = new BrowserWorker({
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
  });
  watchSleep((from, to) => {
    warn(`Stood still for ${Math.round((to - from) / 1000)} s: this device slept, or the browser froze the page.`);
    worker.nudge();
  });

  async function pair(code: string): Promise<void> {
    const claim = await claimCode(code, signer, fetch.bind(self));
    if (!claim.ok) return tell({ type: "pairing_failed", message: claim.message });
    pairings = [claim.pairing, ...pairings].slice(0, PAIRINGS);
    await database?.change("pairings", [[`${claim.pairing.pairedAt} ${code}`, claim.pairing]]).catch(onFailure);
    tell({ type: "paired", pairings });
  }

  tell({ type: "ready", identity, pairings, records: history.records, delivered: history.delivered, version: VERSION, engine: ENGINE });
  tell({ type: "report", report: worker.report });

  return (message) => {
    switch (message.type) {
      case "work":
        tasks.warmUp();
        return worker.work();
      case "rest":
        return worker.rest();
      case "stop":
        return worker.stop();
      case "nudge":
        return worker.nudge();
      case "pair":
        void pair(message.code);
        return;
      case "clear_history":
        void history.clear().then(() => tell({ type: "history_cleared" }), onFailure);
        return;
      default:
        return message satisfies never;
    }
  };
}

const starting = start();
starting.catch((cause: unknown) => tell({ type: "broken", message: cause instanceof Error ? cause.message : "unexpected error" }));
// Messages that come while the key is read wait for it, in their order.
self.addEventListener("message", ({ data }: MessageEvent<PageMessage>) => {
  void starting.then(
    (handle) => handle(data),
    () => {},
  );
});
